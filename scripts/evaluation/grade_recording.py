"""Grade recorded completions of test problems, one recording per checkpoint, and write an
evaluation file and a file of the completions' texts.
"""

from hardgrpo.data import completions, evaluations, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--grader", "--completions", "--output")
    parser.add_argument("--recordings", required=True, nargs="+")
    parser.add_argument("--steps", required=True, nargs="+", type=int, help="0: the base model")
    args = parser.parse_args()

    graders.check_grader(args.grader)
    problems = tasks.read_problems(args.problems)
    gradable_problems = tasks.readable_problems(problems, args.grader, args.problems)
    rows, texts = [], []
    for step, path in sorted(zip(args.steps, args.recordings, strict=True)):
        recording = completions.read_recording(path, problems)
        for problem in gradable_problems:
            for completion in recording[problem["id"]]:
                sample, text = completion["sample"], completion["completion"]
                length = (completion["tokens"], completion["finish_reason"])
                rows.append(
                    evaluations.grade(args.grader, problem, step, "sampled", sample, text, *length)
                )
                texts.append(evaluations.text(rows[-1], text))
    files.write_jsonl(args.completions, texts)
    evaluations.write(args.output, rows)


if __name__ == "__main__":
    errors.run(main)
