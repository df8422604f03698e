r"""Draw the prompts of a pool that are annotated first, and copy only their pass rates from the
file of difficulties. The model that predicts the pass rates of all prompts is fitted on this
sample.

    python scripts/subsets/annotate_sample.py --questions results/tasks/swaps/questions.jsonl \
        --share 0.02 --seed 0 --difficulty results/difficulty/tiny-seed0/swaps.csv \
        --output results/subsets/tiny-seed0/swaps/predicted_half/seed0.sample.csv
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import predicted


def main() -> None:
    parser = errors.parser(__doc__, "--questions", "--output")
    parser.add_argument("--share", type=float, required=True, help="share of the pool to annotate")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--difficulty", required=True, help="CSV file with pass rates")
    args = parser.parse_args()

    ids = [row["id"] for row in files.read_jsonl(args.questions, {"id": str})]
    sample = predicted.draw_sample(ids, args.share, args.seed)
    pass_rates = {
        row["id"]: row["pass_rate"]
        for row in files.read_rows(args.difficulty, {"id": str, "pass_rate": float})
    }
    files.write_rows(
        args.output,
        ["id", "pass_rate"],
        [{"id": prompt, "pass_rate": pass_rates[prompt]} for prompt in sample],
    )
    print(f"{args.output}: {len(sample)} of {len(ids)} prompts annotated for the fit")


if __name__ == "__main__":
    errors.run(main)
