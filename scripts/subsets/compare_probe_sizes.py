"""Compare probe sizes: the properties of the prompts that each rule chooses by pass rate after K
completions of every prompt.

    python scripts/subsets/compare_probe_sizes.py --difficulty D.csv --output probe_sizes.csv

A difficulty file (measure_difficulty.py) has the columns id, samples and correct, and one row per
prompt. Prompts are chosen by K of their completions. The share of mixed groups is measured on a
group of the remaining completions, the pass rate on all remaining ones. A prompt counts as never
solved if all its completions are wrong. The numbers are expectations over all choices of the K
completions, approximate in pools of a few dozen prompts.

The program prints the table and, for each rule except random, the smallest sufficient K: no larger
K raises the share of mixed groups by more than one percentage point.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import probe_sizes

import numpy as np


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--difficulty", required=True, help="CSV with id, samples and correct")
    parser.add_argument(
        "--budget",
        type=float,
        default=0.1,
        help="share of the pool to choose (default: %(default)s)",
    )
    parser.add_argument(
        "--group", type=int, default=8, help="completions in a group of GRPO (default: %(default)s)"
    )
    parser.add_argument(
        "--samples",
        type=int,
        nargs="+",
        help="probe sizes K (default: 1, 2, 4, ... as far as the file allows)",
    )
    parser.add_argument("--output", required=True, help="CSV file")
    args = parser.parse_args()

    rows = files.read_rows(args.difficulty, {"id": str, "samples": int, "correct": int})
    correct = np.array([row["correct"] for row in rows])
    totals = np.array([row["samples"] for row in rows])
    largest = int(totals.min()) - args.group
    sizes = args.samples or [2**power for power in range(max(largest, 0).bit_length())]
    if not sizes or max(sizes) > largest:
        raise errors.UserError(
            f"{args.difficulty}: a prompt has only {totals.min()} completions, and probes of {max(sizes, default=1)} and a group of"
            f" {args.group} need {max(sizes, default=1) + args.group}; lower --samples or --group, or sample more completions"
        )
    if args.budget * len(correct) < 1:
        raise errors.UserError(
            f"{args.difficulty}: {args.budget} x {len(correct)} prompts are less than one prompt; raise --budget"
        )
    rows = probe_sizes.compare(correct, totals, args.budget, sorted(set(sizes)), args.group)
    files.write_rows(args.output, probe_sizes.COLUMNS, files.round_floats(rows))
    print(
        f"{args.difficulty}: {len(correct)} prompts; {rows[0]['prompts']} are chosen; groups of {args.group}\n"
    )
    print(
        f"{'rule':<15}{'K':>4}{'mixed %':>9}{'pass rate %':>13}{'never solved %':>16}{'labels':>9}{'unmixed prompts':>17}"
    )
    for row in rows:
        shares = "".join(
            f"{100 * row[name]:>{width}.1f}"
            for name, width in (("mixed", 9), ("pass_rate", 13), ("never_solved", 16))
        )
        print(
            f"{row['rule']:<15}{row['samples']:>4}{shares}{row['labels']:>9}{row['unmixed_prompts']:>17.0f}"
        )
    smallest = ", ".join(
        f"{rule} {size}" for rule, size in probe_sizes.sufficient_sizes(rows).items()
    )
    print(
        f"\nSmallest K such that no larger K of the table raises the share of mixed groups by more than one point: {smallest}."
    )
    print(
        "These numbers describe the prompts of this file. If the prompts were selected by difficulty, the numbers of other pools may differ."
    )


if __name__ == "__main__":
    errors.run(main)
