# Draw each figure of src/hardgrpo/report/figures.py from summary tables, and write the rows that
# the figure shows: one rule for each figure.

for figure, entry in registry.all_figures().items():

    rule:
        name:
            f"plot_{figure}"
        input:
            drawing.tables(registry.inputs_of_figure(figure)),
        output:
            f"paper/{{study}}/figures/{figure}.pdf",
            report(
                f"paper/{{study}}/figures/{figure}.png",
                caption="report/figure.rst",
                category="Figures",
                subcategory=entry.section,
                labels={"study": "{study}", "figure": entry.title},
            ),
            f"paper/{{study}}/figures/{figure}.csv",
        log:
            f"results/logs/plot_{figure}/{{study}}.log",
        localrule: True
        container:
            IMAGE["figures"]
        params:
            figure=figure,
            about=tables.plain_text(entry.caption),
            first_recipe=arguments.first_recipe,
            policies=arguments.policies,
            design=arguments.figure_design(entry),
            code=arguments.code("figures/draw_figure.py"),
        message:
            f"Draw {figure} ({{wildcards.study}})"
        shell:
            "python scripts/figures/draw_figure.py --figure {params.figure} --tables {input} --first-recipe {params.first_recipe:q}"
            " --policies {params.policies:q} --design {params.design:q} --output {output}"
            " > {log} 2>&1"
