"""Write the paragraphs of a supplement's text as LaTeX macros, and list the origin of each number.

    python scripts/paper/write_numbers.py \\
        --tables results/reference/mini/*.csv paper/mini/claims.csv --study '{...}' \\
        --output paper/mini/numbers.tex

Further macros hold the study's design. numbers.csv lists
the summary table, the line, the columns and the format (column `written`) of each number. Numbers
of the design, such as updates and seeds, come from the configuration and have no table.
"""

from hardgrpo.runtime import errors, files, warm

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__)
    files.add_tables(parser)
    parser.add_argument(
        "--study", required=True, type=files.as_object, help="the design, from the configuration"
    )
    parser.add_argument(
        "--output",
        required=True,
        help="file for the macros; the CSV file beside it has the same name",
    )
    args = parser.parse_args()

    from hardgrpo.report import latex, numbers  # imported late: see hardgrpo.runtime.warm

    macros = numbers.Numbers(args.tables, args.study["first_recipe"])
    texts = numbers.texts(macros, args.study)
    files.write_text(args.output, latex.macros(numbers.design(args.study) | texts))
    origins = list(macros.origins.values())
    files.write_rows(Path(args.output).with_suffix(".csv"), numbers.ORIGIN, origins)
    print(f"{args.output}: {len(origins)} numbers, {sum(map(bool, texts.values()))} paragraphs")


if __name__ == "__main__":
    warm.run(main)
