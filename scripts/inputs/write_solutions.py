"""Write the worked solutions of a task's train problems, for recipes with objective: sft.

Solutions that the task's grader rejects, at most 1 %, are reported and left out.
"""

from hardgrpo.data import inputs, solutions
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--grader", "--output")
    inputs.add_source_arguments(parser)
    args = parser.parse_args()

    graders.check_grader(args.grader)

    pairs = solutions.worked_solutions(args.task, args.source, args.files, args.grader)
    rows = solutions.correct_solutions(pairs, args.grader, f"task {args.task}, train")
    files.write_jsonl(args.output, rows)
    print(f"{args.output}: {len(rows)} worked solutions")


if __name__ == "__main__":
    errors.run(main)
