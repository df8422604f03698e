"""Split the trajectory of a training run: subsets are chosen by the pass rates in the first
epochs, and judged by the later epochs.

The trajectory is a CSV file (id, epoch, correct, rollouts). A prompt's pass rate is the share of
correct rollouts in its first epochs.
"""

from hardgrpo.data import trajectory_files
from hardgrpo.runtime import errors, files
from hardgrpo.selection import prompt_difficulty


def main() -> None:
    parser = errors.parser(__doc__, "--trajectory", "--difficulty", "--later")
    parser.add_argument("--chosen-from", required=True, type=int, help="number of first epochs")
    args = parser.parse_args()

    first, later = trajectory_files.split(
        trajectory_files.read(args.trajectory), args.chosen_from, args.trajectory
    )
    rows = []
    for prompt, epochs in first.items():
        samples = sum(row["rollouts"] for row in epochs)
        correct = sum(row["correct"] for row in epochs)
        counts = {"samples": samples, "correct": correct, "pass_rate": correct / samples}
        rows.append(dict.fromkeys(prompt_difficulty.COLUMNS) | {"id": prompt} | counts)
    files.write_rows(args.difficulty, prompt_difficulty.COLUMNS, rows)
    later_rows = [row for epochs in later.values() for row in epochs]
    files.write_rows(args.later, list(trajectory_files.COLUMNS), later_rows)
    mean = sum(row["pass_rate"] for row in rows) / len(rows)
    unsolved = sum(row["correct"] == 0 for row in rows)
    print(
        f"{args.difficulty}: {len(rows)} prompts; in the first {args.chosen_from} epochs, mean pass rate {mean:.3f}, {unsolved} never solved"
    )
    print(f"{args.later}: {len(later_rows)} rows of later epochs")


if __name__ == "__main__":
    errors.run(main)
