"""Grade recorded completions of test problems, one recording per checkpoint, and write an
evaluation file and a file of the completions' texts.

    python scripts/evaluation/grade_recording.py --problems results/tasks/T/test.jsonl \\
        --recordings checkpoint-100.jsonl checkpoint-200.jsonl --steps 100 200 \\
        --grader choice_letter --output results/evaluation/M/T/recorded/all/seed0/T.csv.gz \\
        --completions results/evaluation/M/T/recorded/all/seed0/T.jsonl.gz
"""

from hardgrpo.data import completions, evaluations, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--grader")
    parser.add_argument("--recordings", required=True, nargs="+")
    parser.add_argument(
        "--steps",
        required=True,
        nargs="+",
        type=int,
        help="number of updates before each recording; 0 is the base model",
    )
    parser.add_argument("--output", required=True, help="graded completions, CSV")
    parser.add_argument("--completions", required=True, help="texts of the completions, JSON Lines")
    args = parser.parse_args()

    graders.check_grader(args.grader)
    problems = tasks.read_problems(args.problems)
    gradable_problems = tasks.readable_problems(problems, args.grader, args.problems)
    if len(args.steps) != len(args.recordings):
        raise errors.UserError(
            f"{len(args.recordings)} recordings but {len(args.steps)} steps; give one step for each recording"
        )
    rows, texts = [], []
    for step, path in sorted(zip(args.steps, args.recordings)):
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
