"""`hardgrpo choose`: choose the prompts to annotate from one file and a model behind a server,
without writing a configuration."""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from hardgrpo.data import sources
from hardgrpo.grading import graders
from hardgrpo.planning import server_costs
from hardgrpo.planning.durations import Job
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, load, paths

ROOT = Path(__file__).parents[3]
QUESTION_COLUMNS = ("question", "prompt", "problem", "text", "instruction", "query", "input")
ANSWER_COLUMNS = (
    "answer",
    "solution",
    "gold",
    "reference",
    "label",
    "target",
    "output",
    "response",
)
# The first grader that reads almost all answers is used. Without answers: DEFAULT_GRADER.
GRADERS = ("choice_letter", "number_lenient", "final_word", "math")
DEFAULT_GRADER, READABLE_SHARE = "number_lenient", 0.99


def main() -> None:
    errors.run(run)


def run() -> None:
    args = build_parser().parse_args()
    if not (ROOT / "Snakefile").is_file():
        raise UserError(
            f"{ROOT}: no Snakefile, so the package is not in its clone; install it there with `make light`"
        )
    config = describe_choice(args)
    name = config["subset"]["task"]
    path = ROOT / paths.CHOICES / f"{name}.yaml"
    os.chdir(ROOT)
    complete = load.complete(load.lay_over(files.read_yaml("config.yaml"), config))
    checks.check(complete, "the command")
    files.write_text(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    print(f"configuration  {paths.CHOICES}/{path.name}", flush=True)
    if args.dry_run:
        print(
            server_costs.describe(
                complete, Job("probe", model=config["subset"]["model"], task=name)
            )
        )
        return
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.getenv("PYTHONPATH")]))
    }
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--profile",
        "laptop",
        "subset",
        "--configfile",
        str(path.relative_to(ROOT)),
    ]
    status = subprocess.run(command, env=environment, check=False).returncode
    if status:
        sys.exit(status)
    print(f"chosen  {ROOT / paths.chosen_rows(complete)}")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hardgrpo", description=__doc__)
    choose = parser.add_subparsers(required=True, metavar="choose").add_parser(
        "choose", help="choose the prompts to annotate"
    )
    choose.add_argument("prompts", help="JSON Lines, CSV or TSV, a prompt in each row")
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
        help="prices of a million tokens",
    )
    choose.add_argument("--most-money", type=float, help="stop before more is spent")
    choose.add_argument(
        "--samples", type=int, default=5, help="completions per prompt (default: %(default)s)"
    )
    choose.add_argument(
        "--completion-tokens",
        type=int,
        default=512,
        help="limit of a completion (default: %(default)s)",
    )
    choose.add_argument(
        "--question", metavar="COLUMN", help="column of prompts (default: by its name)"
    )
    choose.add_argument(
        "--answer",
        metavar="COLUMN",
        help="column of answers (default: by its name, if there is one)",
    )
    choose.add_argument(
        "--grader", choices=list(graders.GRADERS), help="default: the first that reads the answers"
    )
    choose.add_argument(
        "--dry-run",
        action="store_true",
        help="only write the configuration, and say requests, tokens and money",
    )
    return parser


def describe_choice(args: argparse.Namespace) -> dict:
    """The configuration of a choice: the task of the prompts, the model, the policy and the
    subset."""
    path = Path(args.prompts).absolute()
    if not path.is_file():
        raise UserError(f"{args.prompts}: no such file; expected JSON Lines, CSV or TSV")
    rows = sources.read(path).rows
    columns = list(dict.fromkeys(name for row in rows for name in row))
    question = find_column(args.prompts, columns, args.question, QUESTION_COLUMNS)
    if question is None:
        question = columns[0] if len(columns) == 1 else None
    if question is None:
        raise UserError(
            f"{args.prompts}: which column holds the prompts? name it with --question: {', '.join(map(str, columns))}"
        )
    answer = find_column(
        args.prompts,
        columns,
        args.answer,
        tuple(name for name in ANSWER_COLUMNS if name != question),
    )
    answers = [str(row.get(answer) or "").strip() for row in rows] if answer else []
    is_labelled = bool(answers) and all(answers)
    grader = args.grader or (find_grader(args.prompts, answers) if is_labelled else DEFAULT_GRADER)
    policy = {"rule": "hard"} if is_labelled else {"rule": "lowest", "by": "agreement"}
    task = "own-" + as_name(path.name.partition(".")[0])
    optional = {
        "key": args.key,
        "price": args.price and dict(zip(("input", "output"), args.price)),
        "most_money": args.most_money,
    }
    served = {"kind": "server", "url": args.url, "model": args.model} | {
        key: value for key, value in optional.items() if value
    }
    print(
        f"{len(rows)} prompts in column '{errors.printable(question)}', "
        + (f"answers in column '{errors.printable(answer)}'" if is_labelled else "without answers")
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
        "subset": {"model": f"served-{as_name(args.model)}", "task": task, "policy": "own-choice"},
    }


def find_column(
    path: str, columns: list[str], name: str | None, usual_names: tuple[str, ...]
) -> str | None:
    """The column `name`, or without a name the first column with a usual name; None if there is
    none."""
    if name is not None:
        if name not in columns:
            raise UserError(
                f"{path}: no column '{name}'; the columns are {', '.join(map(str, columns))}"
            )
        return name
    by_name = {str(column).strip().lower(): column for column in reversed(columns)}
    return next((by_name[usual] for usual in usual_names if usual in by_name), None)


def find_grader(path: str, answers: list[str]) -> str:
    """The first of GRADERS that reads almost all answers. Raise a `UserError` if there is none."""
    for name in GRADERS:
        # it would read the formula x^2 as a word
        if name == "final_word" and not all(map(str.isalpha, answers)):
            continue
        if name == "math" and importlib.util.find_spec("math_verify") is None:
            continue
        if sum(
            graders.accepts_reference(name, answer) for answer in answers
        ) >= READABLE_SHARE * len(answers):
            return name
    raise UserError(
        f"{path}: no grader reads the answers, such as {answers[0][:60]!r}; name one with --grader, or leave the answers out"
    )


def as_name(text: str) -> str:
    """A text as a name in the configuration."""
    return (
        re.sub(r"[^A-Za-z0-9_.-]+", "-", text.rpartition("/")[2] or text).strip("-.") or "prompts"
    )


if __name__ == "__main__":
    main()
