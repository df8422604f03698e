"""Compute the summary tables of an analysis of published numbers of right answers.

    python scripts/summaries/summarize_counts.py --counts results/counts/probing.csv \\
        --analysis '{"kind": "probe_sizes", ...}' --output results/summaries/probing

--analysis is the analysis's entry in the configuration as JSON. The tables are the decorated
functions of src/hardgrpo/analysis/count_tables.py.
"""

from hardgrpo.analysis import summary_tables
from hardgrpo.data import published_counts
from hardgrpo.runtime import errors, files

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__, "--counts")
    parser.add_argument("--analysis", required=True, type=files.as_object)
    parser.add_argument("--output", required=True, type=Path, help="folder of the tables")
    args = parser.parse_args()

    counts = published_counts.read(args.counts)
    for name, table in summary_tables.all_tables().items():
        if table.kind == args.analysis["kind"]:
            rows = table.make(counts, args.analysis)
            files.write_rows(args.output / f"{name}.csv", table.columns, rounded(rows))
            print(f"{args.output}/{name}.csv: {len(rows)} rows")


def rounded(rows: list[dict]) -> list[dict]:
    """The rows with floats rounded to ten significant digits and nine decimals. The difference of
    two nearly equal numbers has fewer than ten exact digits, and its other digits may differ
    between machines. Rounding to nine decimals removes these digits."""
    return [
        {
            # + 0.0 turns -0.0 into 0.0
            key: round(value, 9) + 0.0 if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in files.round_floats(rows)
    ]


if __name__ == "__main__":
    errors.run(main)
