"""Write the questions of a pool, but not the answers, for policies that must not read labels."""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--output")
    args = parser.parse_args()
    problems = tasks.read_problems(args.problems, needs_answer=False)
    files.write_jsonl(
        args.output,
        [{"id": problem["id"], "question": problem["question"]} for problem in problems],
    )
    print(f"{args.output}: {len(problems)} questions")


if __name__ == "__main__":
    errors.run(main)
