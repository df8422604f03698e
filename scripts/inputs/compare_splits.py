"""Compare the questions of a pool with those of the tests that follow training on it, and each split with itself.

    python scripts/inputs/compare_splits.py --task swaps --train results/tasks/swaps/train.jsonl \\
        --tests swaps=results/tasks/swaps/test.jsonl --output results/tasks/swaps/contamination.csv

Writes a CSV file with one row for each question that has a match, and beside it a JSON file of counts. A test question that the pool
has, too, is an error, unless --contamination report is given. A test of which the pool has every question is always one.
What `equal` and `near` mean: src/hardgrpo/data/contamination.py.
"""

from hardgrpo.data import contamination, tasks
from hardgrpo.runtime import errors, files

import argparse
from pathlib import Path

COLUMNS = ["test", "split", "id", "other_split", "other_id", "match", "shared_ngrams"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True, help="name of the task")
    parser.add_argument("--train", help="the pool; without it, tests are compared with themselves alone")
    parser.add_argument("--tests", nargs="*", default=[], metavar="TASK=FILE", help="test splits")
    parser.add_argument("--contamination", choices=["refuse", "report"], default="refuse", help="what to do with equal questions")
    parser.add_argument("--output", required=True, help="CSV file; the JSON file is written beside it")
    args = parser.parse_args()

    files.named(args.output)
    pool = tasks.read_problems(args.train, needs_answer=False) if args.train else []
    rows, counts = of_pool(pool)
    contaminated = []
    for test, path in map(named_file, args.tests):
        problems = tasks.read_problems(path)
        of_this_test, counts_of_test = of_test(test, problems, pool)
        rows += of_this_test
        counts["tests"][test] = counts_of_test
        equal = [f"'{row['id']}' ('{row['other_id']}')" for row in of_this_test if is_equal_to_pool(row)]
        print(describe(args.task, test, counts_of_test), flush=True)
        if len(equal) == len(problems) or equal and args.contamination == "refuse":
            print("\n".join(equal), flush=True)
            contaminated.append((test, equal, len(problems)))
    if contaminated:
        raise errors.UserError(*(refusal(args.task, *entry) for entry in contaminated))
    files.write_json(Path(args.output).with_suffix(".json"), counts)
    files.write_rows(args.output, COLUMNS, rows)
    print(
        f"{args.output}: {len(rows)} questions with a match; pool: {counts['repeated']} repeated questions left out, {counts['near']} near another"
    )


def named_file(argument: str) -> tuple[str, str]:
    name, mark, path = argument.partition("=")
    if not mark:
        raise errors.UserError(f"--tests: '{argument}': expected TASK=FILE")
    return name, path


def of_pool(pool: list[dict]) -> tuple[list[dict], dict]:
    """(rows of repeated and near questions of the pool, counts)."""
    rows = [
        row("", "train", repeated, "train", problem["id"], "repeated", 1.0)
        for problem in pool
        for repeated in problem.get("repeated_as", [])
    ]
    repeated = len(rows)
    rows += matched("", "train", pool, "train", pool, contamination.matches([problem["question"] for problem in pool]))
    return rows, {"problems": len(pool), "repeated": repeated, "near": count(rows, "near"), "tests": {}}


def of_test(test: str, problems: list[dict], pool: list[dict]) -> tuple[list[dict], dict]:
    """(rows of a test's questions that the pool has, or the test has twice; counts)."""
    questions, others = ([problem["question"] for problem in split] for split in (problems, pool))
    in_pool = matched(test, "test", problems, "train", pool, contamination.matches(questions, others)) if pool else []
    in_test = matched(test, "test", problems, "test", problems, contamination.matches(questions))
    return in_pool + in_test, {
        "problems": len(problems),
        "equal": count(in_pool, "equal"),
        "near": count(in_pool, "near"),
        "sharing": len(in_pool) - count(in_pool, "equal"),
        "repeated": count(in_test, "equal"),
        "near_in_test": count(in_test, "near"),
    }


def matched(test: str, split: str, problems: list[dict], other_split: str, others: list[dict], matches: list) -> list[dict]:
    return [
        row(test, split, problems[match.index]["id"], other_split, others[match.other]["id"], kind(match), match.share)
        for match in matches
    ]


def kind(match: contamination.Match) -> str:
    return "equal" if match.equal else "near" if match.near else "shares"


def row(*cells) -> dict:
    return dict(zip(COLUMNS, cells))


def count(rows: list[dict], match: str) -> int:
    return sum(entry["match"] == match for entry in rows)


def is_equal_to_pool(entry: dict) -> bool:
    return entry["match"] == "equal" and entry["other_split"] == "train"


def describe(task: str, test: str, counts: dict) -> str:
    return (
        f"task {task}, test {test}: of {counts['problems']} questions {counts['equal']} are in the pool, {counts['near']} are near one of the"
        f" pool, {counts['sharing']} share an n-gram with one; {counts['repeated']} stand in the test twice"
    )


def refusal(task: str, test: str, equal: list[str], problems: int) -> str:
    what = f"task {task}: {len(equal)} of {problems} test questions of '{test}' are also in its train split: "
    remedy = (
        "give the test questions of its own"
        if len(equal) == problems
        else f"take them out of one split, or set tasks.{task}.contamination to report"
    )
    return f"{what}{errors.first_entries(equal)}; {remedy}"


if __name__ == "__main__":
    errors.run(main)
