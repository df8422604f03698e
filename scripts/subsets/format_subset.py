"""Write the chosen prompts in the format that a trainer reads: TRL, verl, or prime-rl with verifiers.

    python scripts/subsets/format_subset.py --subset results/subsets/M/T/hard/seed0.csv \\
        --problems results/tasks/T/train.jsonl --prompt '{question}' --task T --format trl \\
        --output results/subsets/M/T/hard/seed0.trl.jsonl

Rows are sorted by rank in the subset. Each row has the reference answer and the user's message,
which is the task's prompt with the question. docs/own-prompts.md describes the formats.
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files
from hardgrpo.study import settings

import argparse
from collections.abc import Callable


def trl_row(task: str, index: int, problem: dict, messages: list[dict]) -> dict:
    """A row of TRL: a conversational prompt. TRL passes all other columns to the reward
    function."""
    return {"prompt": messages, "answer": problem["answer"], "id": problem["id"]}


def verl_row(task: str, index: int, problem: dict, messages: list[dict]) -> dict:
    """A row of verl. verl chooses the reward function by data_source, or passes data_source to a
    custom reward function."""
    return {
        "data_source": task,
        "prompt": messages,
        "ability": "reasoning",
        "reward_model": {"style": "rule", "ground_truth": problem["answer"]},
        "extra_info": {
            "split": "train",
            "index": index,
            "id": problem["id"],
            "question": problem["question"],
        },
    }


def verifiers_row(task: str, index: int, problem: dict, messages: list[dict]) -> dict:
    """A row in the format of the library verifiers, on whose environments prime-rl trains."""
    return {
        "prompt": messages,
        "answer": problem["answer"],
        "task": task,
        "info": {"id": problem["id"]},
    }


ROWS: dict[str, Callable] = {"trl": trl_row, "verl": verl_row, "prime-rl": verifiers_row}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subset", required=True, help="CSV file written by select_subset.py")
    parser.add_argument("--problems", required=True, help="the pool, with answers")
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--task", required=True, help="name of the task")
    parser.add_argument("--format", required=True, choices=list(ROWS))
    parser.add_argument(
        "--output",
        required=True,
        help=", ".join(f"{name}: *.{kind}" for name, kind in settings.TRAINER_FILES.items()),
    )
    args = parser.parse_args()

    kind = settings.TRAINER_FILES[args.format]
    if not args.output.endswith(f".{kind}"):
        raise errors.UserError(
            f"--output is {args.output}, expected a name that ends in .{kind} for --format {args.format}"
        )
    if "{question}" not in args.prompt:
        raise errors.UserError(
            f"--prompt is {args.prompt!r}, expected a text with {{question}}, where the question is put"
        )
    problems = {
        problem["id"]: without_surrogates(problem) for problem in tasks.read_problems(args.problems)
    }
    chosen = [
        problems[problem_id]
        for problem_id in tasks.read_subset(args.subset, problems, args.problems)
    ]
    rows = [
        ROWS[args.format](
            args.task, index, problem, tasks.messages(args.prompt, problem["question"])
        )
        for index, problem in enumerate(chosen)
    ]
    if kind == "parquet":
        write_parquet(args.output, rows)
    else:
        files.write_jsonl(args.output, rows)
    print(f"  for {args.format}  {args.output}")


def without_surrogates(problem: dict) -> dict:
    """The problem with "?" in place of each half of a surrogate pair, as in `files.write_text`.
    Parquet cannot store such characters."""
    return {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in problem.items()
    }


def write_parquet(path: str, rows: list[dict]) -> None:
    """Write rows as a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    with files.atomic(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)


if __name__ == "__main__":
    errors.run(main)
