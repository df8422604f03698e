"""Compare the gains of a local study after the last step with the gains of the study's committed
reference, by cell.

    python scripts/summaries/compare_with_reference.py \\
        --tables results/summaries/mini/decomposition_runs.csv \\
        --reference results/reference/mini/decomposition_runs.csv \\
        --output results/agreement/mini.csv

With --run-files, a list of checksums, the column `files` says whether the files of the runs equal
those of the reference byte for byte (compressed files: their content), or names the first file that
differs or is missing.

Differences are paired by seed. Their 95 % intervals are for new seeds and the same problems
(src/hardgrpo/analysis/agreement.py).
"""

from hardgrpo.analysis import agreement, summaries
from hardgrpo.runtime import checksums, errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    files.add_tables(parser)
    parser.add_argument(
        "--reference", required=True, nargs="+", help="the corresponding tables of the reference"
    )
    parser.add_argument("--run-files", help="checksums of the files of the reference's runs")
    args = parser.parse_args()

    local, reference = (
        summaries.read_tables(tables, ["decomposition_runs"], "")["decomposition_runs"]
        for tables in (args.tables, files.Tables(args.reference))
    )
    compared_files = checksums.compare(args.run_files) if args.run_files else ""
    rows = [row | {"files": compared_files} for row in agreement.compare(local, reference)]
    files.write_rows(args.output, agreement.COLUMNS, files.round_floats(rows))
    cells = sum(row["seeds"] > 0 for row in rows)
    nonzero = sum(row["leaves_zero_out"] for row in rows)
    print(
        f"{args.output}: {cells} cells compared, {nonzero} intervals exclude 0; {len(rows) - cells} cells not compared"
        + (f"; files of the runs: {compared_files}" if compared_files else "")
    )


if __name__ == "__main__":
    errors.run(main)
