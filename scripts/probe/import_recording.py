"""Turn a recording (JSON Lines: question, completions) into a probe file of a task. Lines and
problems are matched by question, and by id if a question occurs in several lines.

The model's input (`prompt`) and the authors' pass rate (`published_pass_rate`) are kept.
"""

from hardgrpo.data import completions, tasks
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--recording", "--problems", "--output")
    args = parser.parse_args()

    problems = tasks.read_problems(args.problems, needs_answer=False)
    by_problem = completions.read_recording(args.recording, problems)
    rows = [row for problem in problems for row in by_problem[problem["id"]]]
    files.write_jsonl(args.output, rows)
    print(f"{args.output}: {len(rows)} completions of {len(problems)} problems")


if __name__ == "__main__":
    errors.run(main)
