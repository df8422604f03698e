# Make the paper over all committed studies, from committed tables (results/reference) and the
# configuration. Results that were computed in this clone are not read.


localrules:
    write_paper,
    draw_for_paper,
    compile_paper,


rule write_paper:
    input:
        drawing.committed_tables,
        text="paper/main.tex.j2",
    output:
        text="paper/main.tex",
        origins="paper/findings/numbers.csv",
        figure="paper/findings/which_prompts.pdf",
    log:
        "results/logs/write_paper/paper.log",
    container:
        IMAGE["figures"]
    params:
        design=arguments.committed_design,
        code=arguments.code("paper/write_paper.py"),
    message:
        "Check the sentences of the paper and write its text"
    shell:
        "python scripts/paper/write_paper.py --text {input.text} --design {params.design:q} --output {output.text} --origins {output.origins}"
        " --figure {output.figure} > {log} 2>&1"


use rule draw_figures as draw_for_paper with:
    input:
        drawing.committed_inputs,
    output:
        directory("paper/findings/{study}"),
    log:
        "results/logs/draw_for_paper/{study}.log",
    wildcard_constraints:
        study=r"\w+",
    params:
        config=arguments.study,
        only=drawing.figures_of_paper,
        code=arguments.code("paper/draw_figures.py"),
    message:
        "Draw figures for the paper ({wildcards.study})"


use rule compile_supplement as compile_paper with:
    input:
        drawing.paper_inputs(),
        text="paper/main.tex",
        citation="CITATION.cff",
        references="paper/references.bib",
    output:
        report(
            "paper/paper.pdf",
            caption="report/paper.rst",
            category="Paper",
            labels={"file": "the paper over all studies"},
        ),
    log:
        "results/logs/compile_paper/paper.log",
    params:
        material="findings",
        code=arguments.code("paper/compile_paper.py"),
