"""Read the answers that somebody filled into to_annotate.csv, and write the problems of the pool that have one now.

    python scripts/inputs/read_annotated.py --problems results/tasks/T/train.jsonl --annotated annotated.csv --column answer \\
        --grader number_lenient --output results/tasks/T/annotated.jsonl

Rows are matched to problems by id. Rows without an answer are reported and left out. Other columns are not read.
"""

from hardgrpo.data import sources, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", required=True, help="the pool")
    parser.add_argument("--annotated", required=True, help="CSV or JSON Lines, as export_subset.py wrote it, filled in")
    parser.add_argument("--column", required=True, help="the column of the answers")
    parser.add_argument("--grader", required=True)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    graders.check_grader(args.grader)

    pool = {problem["id"]: problem for problem in tasks.read_problems(args.problems, needs_answer=False)}
    found, empty = {}, []
    for number, row in enumerate(sources.read_rows(args.annotated), start=sources.first_row(args.annotated)):
        where = f"{args.annotated}: row {number}"
        for column in ("id", args.column):
            if column not in row:
                raise errors.UserError(
                    f"{where}: no column '{column}'; found {', '.join(row)}. Keep the columns of the rows to annotate"
                )
        cells = ("" if row[name] is None else str(row[name]) for name in ("id", args.column))
        identity, answer = map(sources.original, cells) if args.annotated.endswith(".csv") else cells
        answer = answer.strip()
        if identity not in pool:
            raise errors.UserError(
                f"{where}: id '{identity}' is not in the pool ({args.problems}); keep the ids of the rows to annotate"
            )
        if identity in found or identity in empty:
            raise errors.UserError(f"{where}: id '{identity}' stands there twice; keep one of its rows")
        if not answer:
            empty.append(identity)
        elif not graders.readable(args.grader, answer):
            raise errors.UserError(
                f"{where}: grader '{args.grader}' cannot read the answer '{answer[:30]}'; correct it, or leave it empty to leave the row out"
            )
        else:
            found[identity] = pool[identity] | {"answer": answer}
    if not found:
        raise errors.UserError(f"{args.annotated}: no row has an answer in column '{args.column}'; fill some in")
    files.write_jsonl(args.output, found.values())
    if empty:
        left_out = errors.shown(", ".join(empty))
        print(f"warning: {args.annotated}: {len(empty)} rows have no answer and are left out: {left_out}")
    print(f"{args.output}: {len(found)} problems have answers")


if __name__ == "__main__":
    errors.run(main)
