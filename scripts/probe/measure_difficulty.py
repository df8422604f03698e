r"""Grade probed or recorded completions, and write the base model's pass rate for every problem
whose reference answer the grader can read.

    python scripts/probe/measure_difficulty.py --problems P.jsonl --completions C.jsonl \
        --grader choice_letter --output D.csv

P.jsonl has one problem per line (id, question, answer; optionally tier), C.jsonl one completion per
line (id, completion; sample, tokens and finish_reason if known).
"""

from hardgrpo.data import completions, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import prompt_difficulty

import argparse
import functools


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--output")
    completions.add_probe_arguments(parser)
    parser.add_argument("--stopped", action="store_true", help="the probe stopped early")
    args = parser.parse_args()

    problems = tasks.read_problems(args.problems)
    by_problem = completions.read(args.completions, problems)
    problems = tasks.readable_problems(problems, args.grader, args.problems)
    total = sum(len(by_problem[problem["id"]]) for problem in problems)
    rows, undecided = [], 0
    for problem in problems:
        row, undecided_of_problem = measure_problem(problem, by_problem[problem["id"]], args)
        rows.append(row)
        # here, because an undecided completion takes as long as the grader's time limit
        undecided += undecided_of_problem
        graders.check_decided(undecided, total, ", ".join(args.completions))
    columns = prompt_difficulty.COLUMNS
    if args.stopped:
        # a problem that lacks planned samples has no pass rate
        columns = [*columns, "planned"]
        for row in rows:
            row["planned"] = args.samples
            if row["samples"] < args.samples:
                row["pass_rate"] = None
    files.write_rows(args.output, columns, rows)

    rated = [row for row in rows if row["pass_rate"] is not None]
    unsolved = sum(row["correct"] == 0 for row in rated)
    print(
        f"{args.output}: {total} completions of {len(rows)} problems; {len(rated)} problems have a pass rate, which is 0 for {unsolved}"
    )


def measure_problem(
    problem: dict, samples: list[dict], args: argparse.Namespace
) -> tuple[dict, int]:
    """(row of a problem, number of its undecided completions, held-out ones included). With
    --held-out, only `held_out` and `held_out_correct` count completions after the first
    `args.samples`."""
    measure_samples = functools.partial(prompt_difficulty.measure, problem, grader=args.grader)
    if not args.held_out:
        row = measure_samples(samples)
        return row, row["undecided"]
    samples = sorted(samples, key=lambda sample: sample["sample"])
    row, held_out_row = map(measure_samples, (samples[: args.samples], samples[args.samples :]))
    undecided = row["undecided"] + held_out_row["undecided"]
    facts = {"held_out": args.held_out, "held_out_correct": held_out_row["correct"]}
    return row | facts, undecided


if __name__ == "__main__":
    errors.run(main)
