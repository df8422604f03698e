r"""Write a split of a task: generate its problems, or read them from files; check them, and give an
id to each problem that has none.

    python scripts/inputs/prepare_task.py --task swaps --split test \
        --output results/tasks/swaps/test.jsonl \
        --source '{"kind": "generated", "family": "swaps", "objects": [3], "length": [2], "seed": 1, "train": 10, "test": 5}'

Of questions that are equal up to case, spaces and punctuation, a train split keeps only the first,
a test split all; with different answers, they are an error. Recordings keep all questions.
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
    parser.add_argument(
        "--grader",
        help="grader of the task; fail if more than 1 %% of the answers are unreadable for it",
    )
    parser.add_argument("--unlabelled", action="store_true", help="the problems need no answers")
    parser.add_argument(
        "--policies",
        type=files.as_object,
        default={},
        help="policies that choose from these problems, by name, as JSON; fail if the problems are too few",
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
    """The problems that are kept. A train split keeps only the first of equal questions. A test
    split keeps all, so that its accuracy is comparable with published accuracies. A recording keeps
    all, even with different answers (task `kegg`), because each has its own completions.

    Print a warning about repeated questions. Raise a `UserError` for equal questions with different
    answers, except in a recording.
    """
    is_recorded = args.source["kind"] == "recorded"
    same_answer = functools.partial(tasks.is_same_answer, None if args.unlabelled else args.grader)
    if is_recorded:
        same_answer = lambda *answers: True
    unique, repeated = contamination.drop_repetitions(problems, places, same_answer)
    if not repeated:
        return problems
    names = errors.first_entries(
        [f"'{problem_id}' (equal to '{first}')" for problem_id, first in repeated]
    )
    keeps = is_recorded or args.split == "test"
    verdict = "the repetitions are left out"
    if is_recorded:
        verdict = "the repetitions are kept, because each has its own completions"
    elif keeps:
        verdict = (
            "the repetitions are kept, so that the split stays comparable with published results"
        )
    print(
        f"warning: task {args.task}, {args.split}: {len(repeated)} questions are repeated: {errors.printable(names)}; {verdict}"
    )
    return problems if keeps else unique


if __name__ == "__main__":
    errors.run(main)
