"""Draw the figures of a study from its summary tables, as PDF and PNG, and write the drawn rows as
CSV. A figure for which the study has no rows is not drawn.

    python scripts/paper/draw_figures.py --study mini --config '{...}' \\
        --tables results/reference/mini/*.csv --output paper/mini/figures

--config is the part of the configuration that the study names (paths.study_part), as JSON. A figure
is a function in src/hardgrpo/report/figures.py.
"""

from hardgrpo.report import registry
from hardgrpo.runtime import errors, files, warm
from hardgrpo.study.resolved import resolve_study


def main() -> None:
    parser = errors.parser(__doc__, "--study", "--output")
    parser.add_argument("--config", required=True, type=files.as_object)
    files.add_tables(parser)
    parser.add_argument("--figures", nargs="+", help="draw only these figures")
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import arms, summaries
    from hardgrpo.report import figures, plotting

    study = resolve_study(args.config, args.study)
    tables = summaries.read_all(args.tables, registry.summary_tables(study), study.first_recipe)
    drawn = []
    for name in args.figures or registry.FIGURES:
        if (figure_and_rows := figures.draw(name, tables, study)) is not None:
            figure, rows = figure_and_rows
            paths = [f"{args.output}/{name}.{kind}" for kind in ("pdf", "png", "csv")]
            plotting.save(figure, arms.drop_labels(rows), paths)
            drawn.append(name)
    print(f"{args.output}: {', '.join(drawn) or 'no figure'}")


if __name__ == "__main__":
    warm.run(main)
