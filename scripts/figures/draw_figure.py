"""Draw a figure of a study from its summary tables, as PDF and PNG, and write the drawn rows as
CSV.

    python scripts/figures/draw_figure.py --figure accuracy --tables results/reference/mini/*.csv \\
        --output accuracy.pdf accuracy.png accuracy.csv

src/hardgrpo/report/registry.py lists the figures. --design is a JSON object: the further keyword
arguments of the figure's `draw`. The workflow passes the return value of the function `design` in
the figure's entry in registry.py.
"""

from hardgrpo.report import registry
from hardgrpo.runtime import errors, files, warm

import argparse
import importlib


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", required=True, choices=registry.all_figures())
    files.add_tables(parser)
    parser.add_argument(
        "--first-recipe", default="", help="the study's first recipe; labels of arms omit its name"
    )
    parser.add_argument(
        "--policies",
        default={},
        type=files.as_object,
        help="JSON object: the configuration of the study's policies, which determines their colours and markers",
    )
    parser.add_argument("--design", default={}, type=files.as_object)
    parser.add_argument(
        "--output",
        required=True,
        nargs="+",
        help="files to write: the figure as PDF and PNG, the drawn rows as CSV",
    )
    args = parser.parse_args()

    from hardgrpo.analysis import arms, summaries  # imported late: see hardgrpo.runtime.warm
    from hardgrpo.report import plotting

    entry = registry.all_figures()[args.figure]
    tables = summaries.read_all(args.tables, entry.of, args.first_recipe)
    for name, frame in tables.items():
        if frame.empty and name not in entry.may_be_empty:
            raise errors.UserError(
                f"{args.tables.get(name, name)}: no rows to draw; run the study that this table summarises"
            )
    plotting.use_policies(args.policies)
    draw = importlib.import_module(f"hardgrpo.report.figures.{args.figure}").draw
    figure, rows = draw(**tables, **args.design)
    plotting.save(figure, arms.drop_labels(rows), args.output)


if __name__ == "__main__":
    warm.run(main)
