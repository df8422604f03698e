# Make the paper over all committed studies, from committed tables (results/reference) and the
# configuration. Results that were computed in this clone are not read.


localrules:
    write_paper,
    draw_for_paper,
    draw_ways,
    compile_paper,


rule write_paper:
    input:
        tables=drawing.committed_tables,
        text="paper/main.tex.j2",
    output:
        text="paper/main.tex",
        origins="paper/findings/numbers.csv",
    log:
        "results/logs/write_paper/paper.log",
    container:
        IMAGE["figures"]
    params:
        design=arguments.committed_design,
        code=arguments.code("paper/write_text.py"),
    message:
        "Check the sentences of the paper and write its text"
    shell:
        "python scripts/paper/write_text.py --text {input.text} --design {params.design:q} --output {output.text} --origins {output.origins} > {log} 2>&1"


use rule plot as draw_for_paper with:
    input:
        drawing.committed_inputs,
    output:
        "paper/findings/{study}/{figure}.pdf",
        "paper/findings/{study}/{figure}.png",
        "paper/findings/{study}/{figure}.csv",
    log:
        "results/logs/draw_for_paper/{study}/{figure}.log",
    message:
        "Draw {wildcards.figure} for the paper ({wildcards.study})"


rule draw_ways:
    input:
        cases=registry.COMPARISONS,
        classes="results/reference/before_after/difficulty_classes.csv",
    output:
        "paper/findings/which_prompts.pdf",
    log:
        "results/logs/draw_ways/paper.log",
    container:
        IMAGE["figures"]
    params:
        code=arguments.code("figures/draw_ways.py"),
    message:
        "Draw the leads over a random choice, for the paper"
    shell:
        "python scripts/figures/draw_ways.py --cases {input.cases} --classes {input.classes} --output {output} > {log} 2>&1"


rule compile_paper:
    input:
        drawing.paper_inputs(),
        text="paper/main.tex",
        references="paper/references.bib",
        citation="CITATION.cff",
    output:
        report(
            "paper/paper.pdf",
            caption="report/paper.rst",
            category="Paper",
            labels={"file": "the paper over all studies"},
        ),
    log:
        "results/logs/compile_paper/paper.log",
    container:
        IMAGE["figures"]
    params:
        code=arguments.code("paper/compile_paper.py"),
    message:
        "Compile the paper over all studies"
    shell:
        "python scripts/paper/compile_paper.py --text {input.text} --material findings --citation {input.citation} --output {output} > {log} 2>&1"
