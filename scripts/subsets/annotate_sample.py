"""Draw the prompts of a pool whose answers are bought to fit predicted pass rates, and copy their pass rates.

    python scripts/subsets/annotate_sample.py --questions results/tasks/swaps/questions.jsonl --share 0.02 --seed 0 \\
        --difficulty results/difficulty/tiny-seed0/swaps.csv --output results/subsets/tiny-seed0/swaps/predicted_half/seed0.sample.csv

The sample is drawn before a pass rate is read, and no pass rate of another prompt is written.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import predicted

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", required=True)
    parser.add_argument("--share", type=float, required=True, help="of the pool")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--difficulty", required=True, help="pass rates")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    if not 0 < args.share <= 1:
        raise errors.UserError(f"--share {args.share}: expected a share of the pool in (0, 1]")
    ids = [row["id"] for row in files.read_jsonl(args.questions, {"id": str})]
    chosen = predicted.sample(ids, args.share, args.seed)
    known = {row["id"]: row["pass_rate"] for row in files.read_rows(args.difficulty, {"id": str, "pass_rate": float})}
    for name in chosen:
        if known.get(name) is None:
            raise errors.UserError(f"{args.difficulty}: '{name}' has no pass rate; it is needed for the fit: measure it")
    files.write_rows(args.output, ["id", "pass_rate"], [{"id": name, "pass_rate": known[name]} for name in chosen])
    print(f"{args.output}: {len(chosen)} of {len(ids)} prompts annotated for the fit")


if __name__ == "__main__":
    errors.run(main)
