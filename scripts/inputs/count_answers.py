"""Convert published pass rates to numbers of right answers: one row for each prompt of each file,
without the prompt's text.

--kind names the format of the files: READERS in src/hardgrpo/data/published_counts.py.
"""

from hardgrpo.data import inputs, published_counts
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--kind", required=True, choices=published_counts.READERS)
    parser.add_argument("--files", required=True, nargs="+")
    parser.add_argument("--samples", required=True, type=int, help="behind each pass rate")
    inputs.add_repository_arguments(parser)
    args = parser.parse_args()

    inputs.check_originals(args, args.files)
    counts = published_counts.convert(args.kind, args.files, args.samples)
    files.write_rows(args.output, list(counts[0]), counts)
    unsolved = sum(row["correct"] == 0 for row in counts)
    print(
        f"{args.output}: {len(counts)} prompts with {args.samples} samples each, {unsolved} never solved by the base model (a prompt of several files counts once for each file)"
    )


if __name__ == "__main__":
    errors.run(main)
