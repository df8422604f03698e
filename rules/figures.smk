# Figures, each with the rows drawn in it beside it, from summaries alone. One rule a figure: plot_<name>, of scripts/plot_<name>.py.

for figure, (tables, section, called) in FIGURES.items():

    rule:
        name:
            f"plot_{figure}"
        input:
            drawn(*(name for name in tables if name not in JUDGED)),
            [judged(name) for name in tables if name in JUDGED],
        output:
            f"paper/{{study}}/figures/{figure}.pdf",
            report(
                f"paper/{{study}}/figures/{figure}.png",
                caption=f"report/{figure}.rst",
                category="Figures",
                subcategory=section,
                labels={"study": "{study}", "figure": called},
            ),
            f"paper/{{study}}/figures/{figure}.csv",
        log:
            f"results/logs/plot_{figure}/{{study}}.log",
        localrule: True
        conda:
            CONDA["figures"]
        container:
            IMAGE["figures"]
        params:
            program=f"scripts/figures/plot_{figure}.py",
            design=figure_design(figure),
            code=code(f"figures/plot_{figure}.py"),
        message:
            f"Draw {figure} ({{wildcards.study}})"
        shell:
            "python {params.program} --tables {input} {params.design} --output {output} > {log} 2>&1"
