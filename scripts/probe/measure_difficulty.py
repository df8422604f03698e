"""Grade probed or recorded completions, and write the base model's pass rate for every problem whose
reference answer the grader can read.

    python scripts/probe/measure_difficulty.py --problems P.jsonl --completions C.jsonl \\
        --grader choice_letter --output D.csv

P.jsonl has one problem per line (id, question, answer; optionally tier). C.jsonl or C.jsonl.gz has
one completion per line (id, completion; sample, tokens and finish_reason if known). --held-out and
--stopped need `sample`, the completion's number from 0.

With --grade-prompt-too the grader receives the prompt and the completion together, as in HE's
released code, and the program lists the problems whose pass rate changes. Each line of C.jsonl must
then have a `prompt`. With --recorded, lines may lack the prompt; their problems then have no pass
rate.
"""

from hardgrpo.data import completions, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import prompt_difficulty

import argparse
import functools


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", required=True)
    parser.add_argument(
        "--completions", required=True, nargs="+", help="one file, or the shards of a probe"
    )
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument(
        "--samples",
        type=int,
        help="completions per problem, without held-out ones (default: any number; the same for all problems, except with --recorded)",
    )
    parser.add_argument(
        "--held-out",
        type=int,
        default=0,
        help="further completions per problem, after the first SAMPLES, that are counted separately (requires --samples)",
    )
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="completions from elsewhere: counts may differ by problem, lines may lack prompts",
    )
    parser.add_argument(
        "--stopped",
        action="store_true",
        help="the probe stopped early; problems may have fewer samples",
    )
    parser.add_argument(
        "--grade-prompt-too",
        action="store_true",
        help="grade prompt and completion together, as HE's released code does",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    graders.check_grader(args.grader, *args.completions)
    if args.samples is not None and args.samples < 1:
        raise errors.UserError(
            f"--samples is {args.samples}, expected at least 1; correct the command"
        )
    if args.held_out < 0 or (args.held_out and args.samples is None):
        raise errors.UserError(
            "--held-out: expected a number of at least 0, together with --samples; correct the command"
        )
    problems = tasks.read_problems(args.problems)
    by_problem = completions.read(
        args.completions,
        problems,
        args.samples and args.samples + args.held_out,
        args.recorded,
        args.grade_prompt_too and not args.recorded,
        args.stopped,
    )
    problems = tasks.readable_problems(problems, args.grader, args.problems)
    total = sum(len(by_problem[problem["id"]]) for problem in problems)
    rows, undecided = [], 0
    for problem in problems:
        row, undecided_of_problem = measure_problem(problem, by_problem[problem["id"]], args)
        rows.append(row)
        # Grading an undecided completion takes most of a minute, until the time limit ends it. The
        # check after each problem ends the program as soon as too many completions are undecided.
        undecided += undecided_of_problem
        graders.check_decided(undecided, total, ", ".join(args.completions))
    plain_rows = rows
    if args.grade_prompt_too:
        rows = [
            measure_problem(problem, by_problem[problem["id"]], args, with_prompt=True)[0]
            for problem in problems
        ]
    columns = prompt_difficulty.COLUMNS
    if args.stopped:
        columns = columns + prompt_difficulty.BOUND_COLUMNS
        rows = [prompt_difficulty.add_bounds(row, args.samples) for row in rows]
    files.write_rows(args.output, columns, rows)

    if args.stopped:
        complete = sum(row["samples"] == args.samples for row in rows)
        sampled = sum(row["samples"] for row in rows)
        print(
            f"{args.output}: {len(rows)} problems, {sampled} of {len(rows) * args.samples} completions; {complete} problems have all"
            f" {args.samples} completions, the other problems have bounds instead of a pass rate"
        )
        return
    # pairs of the same problem; a problem has no grades if one of its completions has no prompt
    graded = [
        (row, plain_row) for row, plain_row in zip(rows, plain_rows) if row["correct"] is not None
    ]
    if len(graded) < len(rows):
        print(
            f"{args.output}: {len(rows) - len(graded)} of {len(rows)} problems have a completion without its prompt, so prompt and completion cannot be graded together"
        )
    if not graded:
        return
    total = sum(row["samples"] for row, _ in graded)
    correct = sum(row["correct"] for row, _ in graded)
    unsolved = sum(row["correct"] == 0 for row, _ in graded)
    print(
        f"{args.output}: {len(graded)} problems, {total} completions, {correct / total:.3f} of them right, {unsolved} problems never solved"
    )
    if args.grade_prompt_too:
        changed_rows = [
            (row, plain_row) for row, plain_row in graded if row["correct"] != plain_row["correct"]
        ]
        print(f"the prompt changes the pass rate of {len(changed_rows)} problems:")
        for row, plain_row in changed_rows:
            print(
                f"  {row['id']}: {row['pass_rate']:.6g} with the prompt, {plain_row['pass_rate']:.6g} alone"
            )


def measure_problem(
    problem: dict, samples: list[dict], args: argparse.Namespace, with_prompt: bool = False
) -> tuple[dict, int]:
    """(row of a problem, number of its undecided completions, held-out ones included). With
    --held-out, the `args.samples` completions with the lowest numbers are not held out: `held_out`
    and `held_out_correct` count the later ones, and all other columns leave these out."""
    measure_samples = functools.partial(
        prompt_difficulty.measure, problem, grader=args.grader, with_prompt=with_prompt
    )
    if not args.held_out:
        row = measure_samples(samples)
        return row, row["undecided"] or 0
    samples = sorted(samples, key=lambda sample: sample["sample"])
    row, held_out_row = (
        measure_samples(samples[: args.samples]),
        measure_samples(samples[args.samples :]),
    )
    undecided = (row["undecided"] or 0) + (held_out_row["undecided"] or 0)
    return row | {
        "held_out": args.held_out,
        "held_out_correct": held_out_row["correct"],
    }, undecided


if __name__ == "__main__":
    errors.run(main)
