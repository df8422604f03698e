"""`hardgrpo choose`: choose which prompts of a file to annotate (if all prompts have answers: to
train on), by the completions of a model behind a server. The command writes the configuration
itself."""

import argparse
from pathlib import Path

from hardgrpo.data import sources
from hardgrpo.grading import graders
from hardgrpo.planning import server_costs
from hardgrpo.planning.durations import Job, ResolvedJob
from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings
from hardgrpo.workflow import own_files
from hardgrpo.workflow.own_files import as_name, find_column

DEFAULT_GRADER = "number_lenient"  # if a prompt has no answer


def add_command(commands) -> None:
    choose = commands.add_parser(
        "choose",
        help="choose which prompts to annotate or train on, by the completions of a model behind a server",
    )
    choose.set_defaults(run=run)
    choose.add_argument("prompts", help="file with one prompt in each row: JSON Lines, CSV or TSV")
    choose.add_argument(
        "--url", required=True, help="address of the server, usually with /v1 at its end"
    )
    choose.add_argument("--model", required=True, help="the model's name on the server")
    choose.add_argument("--budget", required=True, type=int, help="number of prompts to choose")
    choose.add_argument(
        "--key", metavar="VARIABLE", help="environment variable that holds the server's key"
    )
    choose.add_argument(
        "--price",
        nargs=2,
        type=float,
        metavar=("INPUT", "OUTPUT"),
        help="prices of a million input tokens and of a million output tokens",
    )
    choose.add_argument(
        "--most-money",
        type=float,
        help="stop before the requests cost more than this; needs --price",
    )
    choose.add_argument(
        "--samples", type=int, default=5, help="completions per prompt (default: %(default)s)"
    )
    choose.add_argument(
        "--completion-tokens",
        type=int,
        default=512,
        help="largest number of tokens of a completion (default: %(default)s)",
    )
    choose.add_argument(
        "--question",
        metavar="COLUMN",
        help="column of prompts (default: a column with a usual name, or the only column)",
    )
    choose.add_argument(
        "--answer",
        metavar="COLUMN",
        help="column of answers (default: a column with a usual name, if there is one)",
    )
    choose.add_argument(
        "--grader",
        choices=list(graders.GRADERS),
        help="default: the first grader that reads almost all answers, or number_lenient if a prompt has no answer",
    )
    choose.add_argument(
        "--format",
        choices=[*settings.TRAINER_FILES, "csv"],
        default="csv",
        help="also write the chosen prompts in this trainer's format, for which every prompt needs an answer; csv (default): write only the chosen rows, in the format of the file of prompts",
    )
    choose.add_argument(
        "--dry-run",
        action="store_true",
        help="write the configuration, print the largest numbers of requests (if none is repeated) and of sampled tokens, and estimates of the prompts' tokens and of the money; send no request",
    )


def run(args: argparse.Namespace) -> None:
    config = describe_choice(args)
    task = config["subset"]["task"]
    path, complete = own_files.write_configuration(config, task)
    if args.dry_run:
        job = Job("probe", model=config["subset"]["model"], task=task)
        print(server_costs.describe(ResolvedJob.of(complete, job)))
        return
    own_files.run_workflow(path, "subset")
    subset, models = complete["subset"], complete["models"]
    rows = paths.chosen_rows(subset, models, complete["tasks"])
    for file in [rows, *paths.trainer_rows(subset, models)]:
        print(f"chosen  {own_files.ROOT / file}")


def describe_choice(args: argparse.Namespace) -> dict:
    path = Path(args.prompts).absolute()
    if not path.is_file():
        raise UserError(f"{args.prompts}: no such file; expected JSON Lines, CSV or TSV")
    rows = sources.read(path).rows
    columns = own_files.columns_of(rows)
    question = find_column(args.prompts, columns, args.question, own_files.QUESTION_COLUMNS)
    if question is None:
        question = columns[0] if len(columns) == 1 else None
    if question is None:
        raise UserError(
            f"{args.prompts}: which column holds the prompts? name it with --question; the columns are {', '.join(map(str, columns))}"
        )
    answer = find_column(
        args.prompts,
        columns,
        args.answer,
        tuple(name for name in own_files.ANSWER_COLUMNS if name != question),
    )
    cells = [row.get(answer) for row in rows] if answer else []
    answers = ["" if cell is None else str(cell).strip() for cell in cells]
    is_labelled = bool(answers) and all(answers)
    grader = args.grader or (
        own_files.find_grader(args.prompts, answers) if is_labelled else DEFAULT_GRADER
    )
    policy = {"rule": "hard"} if is_labelled else {"rule": "lowest", "by": "agreement"}
    task = "own-" + as_name(path.name.partition(".")[0])
    optional = {
        "key": args.key,
        "price": args.price and dict(zip(("input", "output"), args.price)),
        "most_money": args.most_money,
    }
    served = {"kind": "server", "url": args.url, "model": args.model} | {
        key: value for key, value in optional.items() if value is not None
    }
    print(
        f"{len(rows)} prompts in column '{errors.printable(question)}', "
        + (
            f"answers in column '{errors.printable(answer)}'"
            if is_labelled
            else "answers missing in some or all rows"
        )
        + f", grader {grader}",
        flush=True,
    )
    return {
        "data": str(path.parent),
        "tasks": {
            task: {
                "source": {
                    "kind": "files",
                    "train": path.name,
                    "columns": {"question": question} | ({"answer": answer} if answer else {}),
                },
                "prompt": f"{{question}}\nEnd with your final answer in the form {graders.GRADERS[grader].form % 'ANSWER'}",
                "grader": grader,
                "completion_tokens": args.completion_tokens,
                "probe": {"samples": args.samples, "shards": 1, "seed": 1},
            }
            | ({} if is_labelled else {"labelled": False})
        },
        "models": {f"served-{as_name(args.model)}": {"source": served}},
        "policies": {"own-choice": policy | {"budget": {"prompts": args.budget}}},
        "subset": {"model": f"served-{as_name(args.model)}", "task": task, "policy": "own-choice"}
        | ({} if args.format == "csv" else {"format": args.format}),
    }
