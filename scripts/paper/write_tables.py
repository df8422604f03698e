"""Write the tables of a study's supplement from its summaries, as LaTeX and HTML (in
percentage points, with intervals) and as CSV (shares, all digits), and the captions of tables and
figures.

    python scripts/paper/write_tables.py \\
        --tables results/reference/mini/*.csv paper/mini/*.csv results/published/deviations.csv \\
        --study '{...}' --output paper/mini/tables --captions paper/mini/captions.tex

--study is the study's design (designs.design) as JSON. src/hardgrpo/report/registry.py lists
the tables.
"""

from hardgrpo.report import registry
from hardgrpo.runtime import files, warm

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    files.add_tables(parser)
    parser.add_argument(
        "--study", required=True, type=files.as_object, help="the design, from the configuration"
    )
    parser.add_argument("--output", required=True, type=Path, help="folder for the tables")
    parser.add_argument(
        "--captions", required=True, help="LaTeX file for the captions of tables and figures"
    )
    args = parser.parse_args()

    from hardgrpo.analysis import arms, summaries  # imported late: see hardgrpo.runtime.warm
    from hardgrpo.report import latex, web

    table_names = dict.fromkeys(name for table in registry.TABLES.values() for name in table.of)
    tables = summaries.read_all(args.tables, table_names, args.study["first_recipe"])
    for name, table in registry.TABLES.items():
        frame, columns = registry.make_table(name, tables, args.study)
        files.write_text(args.output / f"{name}.csv", arms.drop_labels(frame).to_csv(index=False))
        files.write_text(args.output / f"{name}.tex", latex.table(columns))
        files.write_text(
            args.output / f"{name}.html",
            web.page(f"{args.study['study']}: {name.replace('_', ' ')}", columns, table.caption),
        )
    summary_folder = next(iter(args.tables.values())).parent
    path_of = lambda name: str(args.tables.get(name, summary_folder / f"{name}.csv"))
    modules = {
        "table": {name: f"tables/{entry.module}" for name, entry in registry.TABLES.items()},
        "figure": {name: f"figures/{name}" for name in registry.FIGURES},
    }
    texts = [
        latex.captions(
            kind,
            {name: entry.caption for name, entry in entries.items()},
            {
                name: latex.source(
                    f"src/hardgrpo/report/{modules[kind][name]}.py", list(map(path_of, entry.of))
                )
                for name, entry in entries.items()
            },
        )
        for kind, entries in {"table": registry.TABLES, "figure": registry.FIGURES}.items()
    ]
    files.write_text(args.captions, "".join(texts))
    print(f"{args.output}: {len(registry.TABLES)} tables")


if __name__ == "__main__":
    warm.run(main)
