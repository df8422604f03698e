"""Read the answers in an annotated to_annotate.csv, and write the problems of the pool that now
have answers.

Rows are matched by their column `prompt_id`. Rows without an answer, or of a prompt that is not in
the pool, are reported and left out. An answer that the grader cannot read is an error.
"""

from hardgrpo.data import annotations, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--grader", "--problems", "--annotated", "--column", "--output")
    args = parser.parse_args()

    graders.check_grader(args.grader)
    pool = tasks.read_problems(args.problems, needs_answer=False)
    annotated = annotations.read(args.annotated, args.column, pool, args.grader, args.problems)
    by_id = {problem["id"]: problem for problem in pool}
    answers = annotated.answers.items()
    files.write_jsonl(args.output, (by_id[name] | {"answer": answer} for name, answer in answers))
    if annotated.left_out:
        print(
            f"warning: {args.annotated}: {', '.join(annotated.left_out)}: the prompt is no longer in the pool, so its answer is left out; restore column prompt_id or the prompt"
        )
    if annotated.unanswered:
        ids = errors.printable(", ".join(annotated.unanswered))
        print(
            f"warning: {args.annotated}: {len(annotated.unanswered)} rows have no answer and are left out: {ids}"
        )
    print(f"{args.output}: {len(annotated.answers)} problems have answers")


if __name__ == "__main__":
    errors.run(main)
