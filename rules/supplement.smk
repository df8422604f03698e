# Write the LaTeX tables, the text and the supplement of a study from its summary tables.


localrules:
    write_tables,
    write_supplement,
    write_worth,
    compile_supplement,


rule write_tables:
    input:
        drawing.tables([*registry.SUMMARIES, *registry.JUDGED, "deviations"]),
    output:
        [
            f"paper/{{study}}/tables/{name}.{kind}"
            for name in tables.TABLES
            for kind in ("tex", "csv")
        ],
        [
            (
                report(
                    f"paper/{{study}}/tables/{name}.html",
                    caption="report/table.rst",
                    category="Tables",
                    labels={"table": name.replace("_", " ")},
                )
                if drawing.in_report(f"paper/{{study}}/tables/{name}.html")
                else f"paper/{{study}}/tables/{name}.html"
            )
            for name in tables.TABLES
        ],
        captions="paper/{study}/captions.tex",
    log:
        "results/logs/write_tables/{study}.log",
    container:
        IMAGE["figures"]
    params:
        study=arguments.design,
        folder="paper/{study}/tables",
        code=arguments.code("paper/write_tables.py"),
    message:
        "Write the tables ({wildcards.study})"
    shell:
        "python scripts/paper/write_tables.py --tables {input} --study {params.study:q}"
        " --output {params.folder} --captions {output.captions} > {log} 2>&1"


rule write_supplement:
    input:
        tables=drawing.tables(drawing.tables_of_text("paper/supplement.tex.j2")),
        text="paper/supplement.tex.j2",
    output:
        text="paper/{study}/supplement.tex",
        origins="paper/{study}/numbers.csv",
    log:
        "results/logs/write_supplement/{study}.log",
    container:
        IMAGE["figures"]
    params:
        design=arguments.design,
        code=arguments.code("paper/write_text.py"),
    message:
        "Write the text of the supplement ({wildcards.study})"
    shell:
        "python scripts/paper/write_text.py --text {input.text} --design {params.design:q} --tables {input.tables}"
        " --output {output.text} --origins {output.origins} > {log} 2>&1"


rule write_worth:
    input:
        drawing.tables(registry.WORTH),
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
        drawing.typeset,
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
        code=arguments.code("paper/compile_paper.py"),
    message:
        "Compile the supplement ({wildcards.study})"
    shell:
        "python scripts/paper/compile_paper.py --text {input.text} --material {wildcards.study} --citation {input.citation} --output {output} > {log} 2>&1"
