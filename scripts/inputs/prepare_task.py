r"""Write a split of a task: generate its problems, or read them from files; check them, and give an
id to each problem that has none.

    python scripts/inputs/prepare_task.py --task swaps --split test \
        --output results/tasks/swaps/test.jsonl \
        --source '{"kind": "generated", "family": "swaps", "objects": [3], "length": [2], "seed": 1, "train": 10, "test": 5}'

Of questions that are equal up to case, spaces and punctuation, a train split keeps only the first.
With different answers, they are an error, except in recordings.
"""

from hardgrpo.data import contamination, inputs, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import policies

import argparse
import functools


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    inputs.add_source_arguments(parser)
    parser.add_argument("--split", required=True, choices=tasks.SPLITS)
    parser.add_argument("--grader", help="grader that must read at least 99 %% of the answers")
    parser.add_argument("--unlabelled", action="store_true", help="the problems need no answers")
    parser.add_argument(
        "--policies",
        type=files.as_object,
        default={},
        help="policies, by name, as JSON; fail if a policy cannot choose from so few problems",
    )
    inputs.add_lock_arguments(parser)
    args = parser.parse_args()

    if args.grader:
        graders.check_grader(args.grader)
    problems, places = tasks.prepare(
        args.task, args.source, args.split, args.files, not args.unlabelled
    )
    if args.source["kind"] == "hub":
        inputs.check_problems(args.lock, f"{args.task}/{args.split}", problems, args.update_inputs)
    problems = drop_repetitions(problems, places, args)
    usable = len(problems)
    if args.grader and not args.unlabelled:
        usable = len(
            tasks.readable_problems(problems, args.grader, f"task {args.task}, {args.split}")
        )
    for name, policy in args.policies.items():
        policies.check_pool(f"policy '{name}'", policy, args.task, usable)
    files.write_jsonl(args.output, problems)
    print(
        f"{args.output}: {len(problems)} problems"
        + "".join(f", from {path}" for path in args.files)
    )


def drop_repetitions(
    problems: list[dict], places: dict[str, str], args: argparse.Namespace
) -> list[dict]:
    """The problems that are kept. Repeated questions are reported, and left out of a train split.
    Their answers must be the same, except in a recording (task `kegg`)."""
    same_answer = functools.partial(tasks.is_same_answer, None if args.unlabelled else args.grader)
    is_recorded = args.source["kind"] == "recorded"
    outcome = "the repetitions are left out"
    if is_recorded:
        same_answer = lambda *answers: True
        outcome = "the repetitions are kept: each has its own completions"
    elif args.split == "test":
        outcome = "the repetitions are kept, as in published results"
    unique, repeated = contamination.drop_repetitions(problems, places, same_answer)
    if repeated:
        names = [f"'{problem_id}' (equal to '{first}')" for problem_id, first in repeated]
        print(
            f"warning: task {args.task}, {args.split}: {len(repeated)} questions are repeated: {errors.printable(errors.first_entries(names))}; {outcome}"
        )
    return problems if is_recorded or args.split == "test" else unique


if __name__ == "__main__":
    errors.run(main)
