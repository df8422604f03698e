r"""Write the chosen prompts, sorted by rank, in the format that a trainer reads: TRL, verl, or
prime-rl with verifiers (docs/own-prompts.md). A row has the reference answer and the user's
message.

    python scripts/subsets/format_subset.py --subset results/subsets/M/T/hard/seed0.csv \
        --problems results/tasks/T/train.jsonl --prompt '{question}' --task T --format trl \
        --output results/subsets/M/T/hard/seed0.trl.jsonl
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors
from hardgrpo.selection import trainer_rows


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--subset", required=True, help="CSV file written by select_subset.py")
    parser.add_argument("--problems", required=True, help="the pool, with answers")
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--task", required=True, help="name of the task")
    parser.add_argument("--format", required=True, choices=list(trainer_rows.FILES))
    parser.add_argument(
        "--output",
        required=True,
        help=", ".join(f"{name}: *.{kind}" for name, kind in trainer_rows.FILES.items()),
    )
    args = parser.parse_args()

    rows = [
        trainer_rows.trainer_row(
            args.format,
            args.task,
            index,
            problem,
            tasks.messages(args.prompt, problem["question"]),
            measures={},
        )
        for index, problem in enumerate(tasks.read_subset(args.subset, args.problems))
    ]
    trainer_rows.write_trainer_rows(args.output, rows)
    print(f"  for {args.format}  {args.output}")


if __name__ == "__main__":
    errors.run(main)
