"""Write the page of answers of an analysis of published numbers, and the verdicts on the claims
that the analysis tests.

    python scripts/paper/write_answers.py --tables results/reference/probing/probe_sizes.csv \\
        --analysis '{"kind": "probe_sizes", ...}' --output paper/probing
"""

from hardgrpo.analysis import claims
from hardgrpo.report import answers
from hardgrpo.runtime import errors, files

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__)
    files.add_tables(parser)
    parser.add_argument("--analysis", required=True, type=files.as_object)
    parser.add_argument(
        "--output", required=True, type=Path, help="folder for answers.md and claims.csv"
    )
    args = parser.parse_args()

    tables = answers.read_tables(args.analysis, args.tables)
    verdicts = answers.judge(args.analysis, tables)
    files.write_rows(args.output / "claims.csv", claims.COLUMNS, files.round_floats(verdicts))
    files.write_text(
        args.output / "answers.md",
        f"# {args.analysis['title']}\n\n{answers.text(args.analysis, tables)}\n",
    )
    print(f"{args.output}/answers.md: {args.analysis['title']}")


if __name__ == "__main__":
    errors.run(main)
