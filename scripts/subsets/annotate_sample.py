"""Draw the prompts of a pool that are annotated first, and copy only their pass rates from the
file of difficulties. The model that predicts the pass rates of all prompts is fitted on this
sample.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import predicted


def main() -> None:
    parser = errors.parser(__doc__, "--questions", "--difficulty", "--output")
    parser.add_argument("--share", type=float, required=True, help="share of the pool to annotate")
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()

    ids = [row["id"] for row in files.read_jsonl(args.questions, {"id": str})]
    sample = predicted.draw_sample(ids, args.share, args.seed)
    difficulty = files.read_rows(args.difficulty, {"id": str, "pass_rate": float})
    rows = {row["id"]: row for row in difficulty}
    files.write_rows(args.output, ["id", "pass_rate"], [rows[prompt] for prompt in sample])
    print(f"{args.output}: {len(sample)} of {len(ids)} prompts annotated for the fit")


if __name__ == "__main__":
    errors.run(main)
