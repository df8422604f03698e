"""Draw a figure of a study from its summary tables, as PDF and PNG, and write the drawn rows as
CSV.

    python scripts/figures/draw_figure.py --figure accuracy --tables results/reference/mini/*.csv \\
        --output accuracy.pdf accuracy.png accuracy.csv

A figure is a function in src/hardgrpo/report/figures.py; its arguments are summary tables. --design
is a JSON object: its further arguments. The workflow passes the return value of `design` in the
figure's entry in registry.py.
"""

from hardgrpo.runtime import errors, files, warm

import inspect


def main() -> None:
    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import arms, summaries
    from hardgrpo.report import figures, plotting

    parser = errors.parser(__doc__)
    parser.add_argument("--figure", required=True, choices=figures.ALL)
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

    draw = figures.ALL[args.figure]
    names = [name for name in inspect.signature(draw).parameters if name not in args.design]
    tables = summaries.read_all(args.tables, names, args.first_recipe)
    first = next(iter(inspect.signature(draw).parameters))
    if first in tables and tables[first].empty:
        raise errors.UserError(
            f"{args.tables.get(first, first)}: no rows to draw; run the study that this table summarises"
        )
    plotting.use_policies(args.policies)
    figure, rows = draw(**tables, **args.design)
    plotting.save(figure, arms.drop_labels(rows), args.output)


if __name__ == "__main__":
    warm.run(main)
