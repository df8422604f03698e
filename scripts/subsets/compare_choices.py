"""Compare choices of prompts on completions that you have: which would give GRPO learnable groups, and how many labels does each buy?

    python scripts/subsets/compare_choices.py --recording train.jsonl --grader choice_letter --output choices.csv

A recording has one line per prompt: question, answer, and completions (a list of two or more, equally many for all prompts). Half
of a prompt's completions, drawn at random, choose; the other half measures the chosen prompts. The table is printed, too. Several
recordings are compared one by one. For each, --probed-by names a recording of another model on the same questions: further rows
hold the choices by that model's completions, measured for this one.
"""

from hardgrpo.data import completions
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import choices, signals

import argparse

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording", required=True, nargs="+", help="JSON Lines")
    parser.add_argument("--probed-by", nargs="+", help="for each recording, that of another model, whose completions choose, too")
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument("--budget", type=float, default=0.1, help="share of the pool that each choice takes (default: %(default)s)")
    parser.add_argument(
        "--draws", type=int, default=400, help="random splits, and bootstrap samples for the intervals (default: %(default)s)"
    )
    parser.add_argument("--output", required=True, help="CSV file")
    args = parser.parse_args()

    graders.check_grader(args.grader, *args.recording)
    if not 0 < args.budget <= 1 or args.draws < 1:
        raise errors.UserError(f"--budget {args.budget}, --draws {args.draws}: expected a share in (0, 1] and at least 1")
    others = args.probed_by or [None] * len(args.recording)
    if len(others) != len(args.recording):
        raise errors.UserError(
            f"--probed-by names {len(others)} recordings and --recording {len(args.recording)}; give one for each"
        )
    rows = []
    for path, other in zip(args.recording, others):
        problems = problems_of(path)
        right, codes = graded(path, args.grader, problems)
        if args.budget * len(right) < 1:
            raise errors.UserError(f"{path}: a share of {args.budget} of {len(right)} prompts is less than one; raise --budget")
        found = choices.compare(
            right, codes, args.budget, args.draws, other=graded(other, args.grader, problems) if other else None
        )
        rows += [{"recording": path, "pool": len(right), "samples": right.shape[1]} | row for row in found]
        confident = (choices.agreements(codes) >= choices.CONFIDENT) & (right.mean(axis=1) <= choices.WRONG)
        print(f"{path}: {len(right)} prompts, {right.shape[1]} completions each, {confident.mean():.0%} confidently wrong")
        width = max(len(row["choice"]) for row in found)
        for row in found:
            ends = f"[{row['mixed_low']:.2f}, {row['mixed_high']:.2f}]"
            ranks = f", rank correlation {row['rank_correlation']:.2f}" if row["rank_correlation"] is not None else ""
            print(
                f"  {row['choice']:{width}} {row['labels']:5} labels, {row['mixed']:.2f} {ends} mixed, {row['all_wrong']:.2f} all wrong,"
                f" mean pass rate {row['pass_rate']:.2f}, {row['overlap']:.2f} among the hardest{ranks}"
            )
    files.write_rows(args.output, ["recording", "pool", "samples", *choices.COLUMNS], rows)


def problems_of(path: str) -> list[dict]:
    """The problems of a recording, in its order."""
    rows = completions.recorded_rows(path, {"question": str, "answer": (str, int, float), "completions": list})
    return [{"id": f"line {line}", "question": row["question"], "answer": str(row["answer"])} for line, row in rows]


def graded(path: str, grader: str, problems: list[dict]) -> tuple[np.ndarray, np.ndarray]:
    """(right, codes), each (prompts, completions), of the recorded completions of these problems."""
    by_problem = completions.read_recording(path, problems)
    texts = [[sample["completion"] for sample in by_problem[problem["id"]]] for problem in problems]
    lines = {row["question"]: line for line, row in completions.recorded_rows(path, {"question": str})}
    rows = [lines[problem["question"]] for problem in problems]
    expected = f"expected at least 2, and as many as in row {rows[0]} ({len(texts[0])})"
    errors.refuse_rows(
        [
            errors.RowError(path, f"row {line}", f"{len(samples)} completions", expected)
            for line, samples in zip(rows, texts)
            if len(samples) != len(texts[0]) or len(samples) < 2
        ]
    )
    right = [[graders.grade(grader, text, problem["answer"]).correct for text in found] for problem, found in zip(problems, texts)]
    return np.array(right, dtype=float), np.array([signals.answer_codes(found, grader) for found in texts])


if __name__ == "__main__":
    errors.run(main)
