"""Write every number of the supplement's text as a LaTeX macro, and list the origin of each number.

    python scripts/paper/write_numbers.py \\
        --tables results/reference/mini/*.csv paper/mini/claims.csv --study '{...}' \\
        --output paper/mini/numbers.tex

For example, `\\result{gain.steady.arithmetic.arithmetic.hard.sampled}` prints a gain with its
interval, such as '+3.1 [1.2, 5.0]'. Further macros hold paragraphs of the text. numbers.csv lists
the summary table, the line, the columns and the format (column `written`) of each number. Numbers
of the design, such as updates and seeds, come from the configuration and have no table.
"""

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
    parser.add_argument(
        "--output",
        required=True,
        help="file for the macros; the CSV file beside it has the same name",
    )
    args = parser.parse_args()

    from hardgrpo.report import latex, numbers  # imported late: see hardgrpo.runtime.warm

    macros = numbers.Numbers(args.tables, args.study["first_recipe"])
    for key, text in numbers.design(args.study).items():
        macros.define(key, text)
    numbers.define(macros)
    texts = numbers.texts(macros, args.study)
    files.write_text(args.output, latex.macros(macros.values | texts))
    files.write_rows(Path(args.output).with_suffix(".csv"), numbers.ORIGIN, macros.origins)
    print(
        f"{args.output}: {len(macros.values)} numbers, {sum(map(bool, texts.values()))} paragraphs"
    )


if __name__ == "__main__":
    warm.run(main)
