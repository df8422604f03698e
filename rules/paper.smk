# LaTeX tables, numbers and the paper, from summaries alone.


localrules:
    write_tables,
    write_numbers,
    compile_paper,


rule write_tables:
    input:
        **{name: table(name) for name in ["gains", "learnable", "pass_at_k", "subsets", "parts", "differences", "claims"]},
    output:
        [f"paper/{{study}}/tables/{name}.{kind}" for name in TABLES for kind in ("tex", "csv")],
    log:
        "results/logs/write_tables/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        weaker=lambda w: config["studies"][w.study].get("weaker_signal", []),
        folder="paper/{study}/tables",
        code=code("write_tables.py", *WRITING),
    message:
        "Write the tables ({wildcards.study})"
    shell:
        "python scripts/write_tables.py --summaries results/summaries/{wildcards.study} --weaker-signal {params.weaker}"
        " --output {params.folder} > {log} 2>&1"


rule write_numbers:
    input:
        **{name: table(name) for name in ["gains", "learnable", "parts", "subsets", "fit", "claims"]},
    output:
        "paper/{study}/numbers.tex",
    log:
        "results/logs/write_numbers/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        study=lambda w: as_json(settings.described(config, w.study)),
        code=code("write_numbers.py", *WRITING),
    message:
        "Write the numbers of the text ({wildcards.study})"
    shell:
        "python scripts/write_numbers.py --summaries results/summaries/{wildcards.study} --study {params.study:q}"
        " --output {output} > {log} 2>&1"


rule compile_paper:
    input:
        lambda w: study_figures(w.study) + study_tables(w.study),
        text="paper/main.tex",
        references="paper/references.bib",
    output:
        "paper/{study}/paper.pdf",
    log:
        "results/logs/compile_paper/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    message:
        "Compile the paper ({wildcards.study})"
    shell:
        "python scripts/compile_paper.py --study {wildcards.study} --output {output} > {log} 2>&1"
