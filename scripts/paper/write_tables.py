"""Write the tables of a study's supplement from its summaries, as LaTeX and HTML (in
percentage points, with intervals) and as CSV (shares, all digits), and the captions of tables and
figures.

    python scripts/paper/write_tables.py \\
        --tables results/reference/mini/*.csv paper/mini/*.csv results/published/deviations.csv \\
        --study '{...}' --output paper/mini/tables --captions paper/mini/captions.tex

--study is the study's design (designs.design) as JSON. src/hardgrpo/report/tables.py lists the
tables.
"""

from hardgrpo.runtime import errors, files, warm

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__)
    files.add_tables(parser)
    parser.add_argument(
        "--study", required=True, type=files.as_object, help="the design, from the configuration"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the tables")
    parser.add_argument(
        "--captions", required=True, help="LaTeX file for the captions of tables and figures"
    )
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import arms, summaries
    from hardgrpo.report import figures, latex, registry, tables

    frames = summaries.read_all(
        args.tables,
        [*registry.SUMMARIES, *registry.JUDGED, "deviations"],
        args.study["first_recipe"],
    )
    for name, table in tables.TABLES.items():
        rows, columns = tables.make(name, frames, args.study)
        title = f"{args.study['study']}: {name.replace('_', ' ')}"
        files.write_text(args.output / f"{name}.csv", arms.drop_labels(rows).to_csv(index=False))
        files.write_text(args.output / f"{name}.tex", tables.to_latex(columns))
        files.write_text(
            args.output / f"{name}.html", tables.to_html(title, columns, table.caption)
        )
    folder = next(iter(args.tables.values())).parent
    path_of = lambda name: str(args.tables.get(name, folder / f"{name}.csv"))
    captions = [
        ("table", name, table.caption, "tables", [table.source])
        for name, table in tables.TABLES.items()
    ] + [
        ("figure", name, figure.caption, "figures", figures.sources(name))
        for name, figure in registry.FIGURES.items()
    ]
    files.write_text(
        args.captions,
        "".join(
            latex.caption(
                kind,
                name,
                text,
                latex.source(f"src/hardgrpo/report/{module}.py", list(map(path_of, sources))),
            )
            for kind, name, text, module, sources in captions
        ),
    )
    print(f"{args.output}: {len(tables.TABLES)} tables")


if __name__ == "__main__":
    warm.run(main)
