# Draw the figures of a study, and write its supplement, its page of gains and costs, and the explorer
# of its completions. A figure or table without rows is not drawn, or not in the report.


localrules:
    draw_figures,
    write_supplement,
    write_worth,
    compile_supplement,
    write_explorer,


rule draw_figures:
    input:
        drawing.summaries,
    output:
        report(
            directory("paper/{study}/figures"),
            patterns=["{figure}.png"],
            caption="report/figure.rst",
            category="Figures",
            labels=lambda w: {"study": w.study, "figure": w.figure.replace("_", " ")},
        ),
    log:
        "results/logs/draw_figures/{study}.log",
    container:
        IMAGE["figures"]
    params:
        about={name: tables.plain_text(text) for name, text in registry.FIGURES.items()},
        config=arguments.study,
        only="",
        code=arguments.code("paper/draw_figures.py"),
    message:
        "Draw the figures ({wildcards.study})"
    shell:
        "python scripts/paper/draw_figures.py --study {wildcards.study} --config {params.config:q} --tables {input} {params.only} --output {output}"
        " > {log} 2>&1"


rule write_supplement:
    input:
        tables=drawing.summaries,
        judged=[f"paper/{{study}}/{table}.csv" for table in registry.JUDGED],
        deviations="results/published/deviations.csv",
        text="paper/supplement.tex.j2",
    output:
        report(
            directory("paper/{study}/tables"),
            patterns=["{table}.html"],
            caption="report/table.rst",
            category="Tables",
            labels=lambda w: {"table": w.table.replace("_", " ")},
        ),
        "paper/{study}/captions.tex",
        "paper/{study}/supplement.tex",
        "paper/{study}/numbers.csv",
    log:
        "results/logs/write_supplement/{study}.log",
    container:
        IMAGE["figures"]
    params:
        design=arguments.design,
        code=arguments.code("paper/write_supplement.py"),
    message:
        "Write the tables and the text of the supplement ({wildcards.study})"
    shell:
        "python scripts/paper/write_supplement.py --text {input.text} --design {params.design:q} --tables {input.tables} {input.judged}"
        " {input.deviations} --output paper/{wildcards.study} > {log} 2>&1"


rule write_worth:
    input:
        drawing.summaries,
        "paper/{study}/against_random.csv",
    output:
        report(
            "paper/{study}/worth.html",
            caption="report/worth.rst",
            category="Results",
            labels={"file": "was it worth it?"},
        ),
    log:
        "results/logs/write_worth/{study}.log",
    container:
        IMAGE["figures"]
    params:
        study=arguments.design,
        prices=arguments.prices,
        code=arguments.code("paper/write_worth.py"),
    message:
        "Write the gains and costs of each arm ({wildcards.study})"
    shell:
        "python scripts/paper/write_worth.py --tables {input} --study {params.study:q} --prices {params.prices:q} --output {output}"
        " > {log} 2>&1"


rule compile_supplement:
    input:
        "paper/{study}/figures",
        "paper/{study}/tables",
        "paper/{study}/captions.tex",
        text="paper/{study}/supplement.tex",
        citation="CITATION.cff",
        references="paper/references.bib",
    output:
        report(
            "paper/{study}/supplement.pdf",
            caption="report/supplement.rst",
            category="Paper",
            labels={"file": "the supplement"},
        ),
    log:
        "results/logs/compile_supplement/{study}.log",
    container:
        IMAGE["figures"]
    params:
        material="{study}",
        code=arguments.code("paper/compile_paper.py"),
    message:
        "Compile {output}"
    shell:
        "python scripts/paper/compile_paper.py --text {input.text} --material {params.material} --citation {input.citation} --output {output} > {log} 2>&1"


# One HTML file that shows the completions of a study's base models and last checkpoints side by side.
# Completions that only measure the reach of a base model are left out.
rule write_explorer:
    input:
        inputs.texts,
    output:
        report(
            "paper/{study}/explorer.html",
            caption="report/explorer.rst",
            category="Completions",
            labels={"file": "explorer of completions"},
        ),
    log:
        "results/logs/write_explorer/{study}.log",
    container:
        IMAGE["figures"]
    params:
        config=arguments.study,
        code=arguments.code("paper/write_explorer.py"),
    message:
        "Write the explorer of completions ({wildcards.study})"
    shell:
        "python scripts/paper/write_explorer.py --study {wildcards.study} --config {params.config:q}"
        " --output {output} > {log} 2>&1"
