# Draw each figure of src/hardgrpo/report/figures.py from summary tables, and write the rows that
# the figure shows.

FIGURES = registry.all_figures()


rule plot:
    input:
        drawing.all_tables,
    output:
        "paper/{study}/figures/{figure}.pdf",
        report(
            "paper/{study}/figures/{figure}.png",
            caption="report/figure.rst",
            category="Figures",
            subcategory=lambda w: FIGURES[w.figure].section,
            labels=lambda w: {"study": w.study, "figure": FIGURES[w.figure].title},
        ),
        "paper/{study}/figures/{figure}.csv",
    log:
        "results/logs/plot/{study}/{figure}.log",
    wildcard_constraints:
        figure=any_of(FIGURES),
    localrule: True
    container:
        IMAGE["figures"]
    params:
        about=lambda w: tables.plain_text(FIGURES[w.figure].caption),
        first_recipe=arguments.first_recipe,
        policies=arguments.policies,
        design=arguments.figure_design,
        code=arguments.code("figures/draw_figure.py"),
    message:
        "Draw {wildcards.figure} ({wildcards.study})"
    shell:
        "python scripts/figures/draw_figure.py --figure {wildcards.figure} --tables {input} --first-recipe {params.first_recipe:q}"
        " --policies {params.policies:q} --design {params.design:q} --output {output} > {log} 2>&1"
