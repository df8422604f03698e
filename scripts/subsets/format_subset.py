"""Write the chosen prompts, sorted by rank, in the format that a trainer reads: TRL, verl, or
prime-rl with verifiers (docs/own-prompts.md). A row has the reference answer and the user's
message.
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors
from hardgrpo.selection import trainer_rows


def main() -> None:
    parser = errors.parser(__doc__, "--subset", "--problems", "--prompt", "--task", "--output")
    parser.add_argument("--format", required=True, choices=list(trainer_rows.FILES))
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
