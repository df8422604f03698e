"""Compare the questions of a test with those of a training pool, or the questions of a pool with
each other.

The program writes a CSV file of matches (src/hardgrpo/data/contamination.py), and a JSON file of
counts beside it. A test question has at most two rows: its best match in the pool, and among the
earlier questions of the test. `repeated` is a question that prepare_task.py left out of the pool.

A test question that is also in the pool is an error, unless --contamination is report; a test that
lies completely in the pool always is. After an error, no file is written.
"""

from hardgrpo.data import contamination, tasks
from hardgrpo.runtime import errors, files

import argparse
from collections import Counter
from pathlib import Path

COLUMNS = ["split", "id", "other_split", "other_id", "match", "shared_ngrams"]


def main() -> None:
    parser = errors.parser(__doc__, "--task", "--pool", "--output")
    parser.add_argument("--test", help="name of the task that is tested")
    parser.add_argument("--problems", help="test split of the tested task")
    parser.add_argument(
        "--contamination",
        choices=["refuse", "report"],
        default="refuse",
        help="what to do if test questions equal questions of the pool (default: %(default)s)",
    )
    args = parser.parse_args()
    files.output_path(args.output)
    pool = tasks.read_problems(args.pool, needs_answer=False)
    rows, counts = (
        compare_test(args, pool, tasks.read_problems(args.problems))
        if args.test
        else compare_pool(args.task, pool)
    )
    files.write_json(Path(args.output).with_suffix(".json"), counts)
    files.write_rows(args.output, COLUMNS, rows)


def compare_pool(task: str, pool: list[dict]) -> tuple[list[dict], dict]:
    """(rows of repeated questions, and of questions that match an earlier one; counts)."""
    rows = [
        dict(zip(COLUMNS, ("train", repeated, "train", problem["id"], "repeated", 1.0)))
        for problem in pool
        for repeated in problem.get("repeated_as", [])
    ]
    rows += match_rows("train", pool)
    matches = Counter(row["match"] for row in rows)
    counts = {"problems": len(pool)} | {kind: matches[kind] for kind in ("repeated", "near")}
    print(
        f"pool of {task}: {counts['problems']} questions, {counts['repeated']} repeated questions left out, {counts['near']} near an earlier question"
    )
    return rows, counts


def compare_test(
    args: argparse.Namespace, pool: list[dict], problems: list[dict]
) -> tuple[list[dict], dict]:
    """(rows of the test questions that match a question of the pool or an earlier question of the
    test; counts)."""
    in_pool, in_test = match_rows("test", problems, pool), match_rows("test", problems)
    pool_matches, test_matches = (
        Counter(row["match"] for row in rows) for rows in (in_pool, in_test)
    )
    counts = {
        "problems": len(problems),
        "equal": pool_matches["equal"],
        "near": pool_matches["near"],
        "sharing": len(in_pool) - pool_matches["equal"],
        "repeated": test_matches["equal"],
        "near_in_test": test_matches["near"],
    }
    print(
        f"test of {args.test} after training on {args.task}: of {counts['problems']} questions {counts['equal']} are in the pool,"
        f" {counts['near']} are near a question of the pool, and {counts['sharing']} (equal questions left out, near questions included) share an n-gram with a question of the pool; {counts['repeated']} repeat an earlier question of the test",
        flush=True,
    )
    equal = [f"'{row['id']}' ('{row['other_id']}')" for row in in_pool if row["match"] == "equal"]
    is_complete = len(equal) == len(problems)
    if is_complete or equal and args.contamination == "refuse":
        print("\n".join(equal), flush=True)
        remedy = f"take them out of one split, or set tasks.{args.task}.contamination to report"
        raise errors.UserError(
            f"task {args.task}: {len(equal)} of {len(problems)} test questions of '{args.test}' are also in the train split of '{args.task}':"
            f" {errors.first_entries(equal)}; {'give the test other questions' if is_complete else remedy}"
        )
    return in_pool + in_test, counts


def match_rows(split: str, problems: list[dict], pool: list[dict] | None = None) -> list[dict]:
    """Rows of the best matches of `problems` in the pool; without a pool, among themselves."""
    others, other_split = (problems, split) if pool is None else (pool, "train")
    questions, references = (
        [problem["question"] for problem in side] for side in (problems, others)
    )
    matches = contamination.find_matches(questions, None if pool is None else references)
    return [
        {
            "split": split,
            "id": problems[match.index]["id"],
            "other_split": other_split,
            "other_id": others[match.reference_index]["id"],
            "match": match.kind,
            "shared_ngrams": match.share,
        }
        for match in matches
    ]


if __name__ == "__main__":
    errors.run(main)
