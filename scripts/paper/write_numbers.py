"""Write every number of the paper's text as a LaTeX macro, and a list of where each number comes from.

    python scripts/paper/write_numbers.py --tables results/reference/mini/*.csv paper/mini/claims.csv --study '{...}' --output paper/mini/numbers.tex

`\\result{gain.tiny.swaps.swaps.hard.sampled}` is '+3.1 [1.2, 5.0]'. numbers.csv lists for each macro the summary table, the line, the
columns and the format (`written`). Sentences are made of these macros. Numbers of the design (updates, seeds, K) come from the
configuration and are listed without a table.
"""

from hardgrpo.runtime import files, warm

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files.add_tables(parser)
    parser.add_argument("--study", required=True, type=files.as_object, help="the design, from the configuration")
    parser.add_argument("--output", required=True, help="the macros; numbers.csv is put beside them")
    args = parser.parse_args()

    from hardgrpo.report import latex, numbers  # here: see hardgrpo.runtime.warm

    found = numbers.Numbers(args.tables, args.study["first_recipe"])
    for key, text in numbers.design(args.study).items():
        found.define(key, text)
    numbers.define(found)
    texts = numbers.texts(found, args.study)
    files.write_text(args.output, latex.macros(found.values | texts))
    files.write_rows(Path(args.output).with_suffix(".csv"), numbers.ORIGIN, found.origins)
    print(f"{args.output}: {len(found.values)} numbers in {sum(map(bool, texts.values()))} paragraphs")


if __name__ == "__main__":
    warm.run(main, starts=False)
