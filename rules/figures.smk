# Figures, each with the rows drawn in it beside it, from summaries alone. One rule a figure: plot_<name>, of scripts/plot_<name>.py.

# Summary tables that a figure is drawn from, the section of the report that it stands in, and what it is called there.
FIGURES = {
    "pipeline": (["subsets", "parity", "accuracy"], "Design", "From the pool to the results"),
    "difficulty": (["difficulty"], "Design", "Difficulty of the pool and of the subsets"),
    "accuracy": (["accuracy"], "Results", "Accuracy by checkpoint"),
    "parts": (["parts"], "What the gains are made of", "Finishing and correctness"),
    "truncation": (["parts"], "What the gains are made of", "Tight limit and room"),
    "lengths": (["curves"], "What the gains are made of", "Completion length over training"),
    "learnable": (
        ["gains", "learnable", "accuracy", "regressions"],
        "What explains the gains",
        "Learnable share and completion length",
    ),
    "tiers": (["tiers"], "Results", "Gain by difficulty tier"),
    "transfer": (["gains"], "Results", "Trained on one task, tested on another"),
    "budget": (["gains", "subsets"], "Results", "Gain by share of the pool"),
    "compared": (["compared"], "Published numbers", "Published against measured here"),
}

for figure, (tables, section, called) in FIGURES.items():

    rule:
        name:
            f"plot_{figure}"
        input:
            [table(name) for name in tables],
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
            program=f"scripts/plot_{figure}.py",
            design=figure_design(figure),
            code=code(f"plot_{figure}.py", *(["plot_parts.py"] if figure == "truncation" else []), *DRAWING),
        message:
            f"Draw {figure} ({{wildcards.study}})"
        shell:
            "python {params.program} --summaries results/summaries/{wildcards.study} {params.design} --output {output} > {log} 2>&1"
