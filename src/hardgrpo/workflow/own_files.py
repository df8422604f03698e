"""Functions that several commands of `hardgrpo` call: find columns by their names, find a grader
that reads the answers, write a configuration and run the workflow with it."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from hardgrpo.grading import graders
from hardgrpo.runtime import files
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
# in the order in which they are tried
GRADERS = ("choice_letter", "number_lenient", "final_word", "math")
READABLE_SHARE = 0.99
NO_GRADER = "no grader fits the answers (tried: choice_letter, number_lenient, final_word for single words, math if installed)"


def check_clone() -> None:
    """Raise a `UserError` if the package is not in a clone with a workflow."""
    if not (ROOT / "Snakefile").is_file():
        raise UserError(
            f"{ROOT}: no Snakefile, so the package is not in its clone; install the package in the clone with `make light`"
        )


def write_configuration(changes: dict, name: str) -> tuple[Path, dict]:
    """(path of the written file below the clone, the whole configuration). `changes` are laid over
    config.yaml. Raise a `UserError` and write nothing if the result is invalid. The clone becomes
    the current folder."""
    os.chdir(ROOT)
    complete = load.complete(load.lay_over(files.read_yaml("config.yaml"), changes))
    checks.check(complete, "the command")
    path = Path(paths.CHOICES) / f"{name}.yaml"
    files.write_text(path, yaml.safe_dump(changes, sort_keys=False, allow_unicode=True))
    print(f"configuration  {path}", flush=True)
    return path, complete


def run_workflow(configuration: Path, *targets: str) -> None:
    """Make the targets. Exit with Snakemake's status if Snakemake fails."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.getenv("PYTHONPATH")]))
    }
    snakemake = [sys.executable, "-m", "snakemake", "--profile", "laptop"]
    command = [*snakemake, *targets, "--configfile", str(configuration)]
    status = subprocess.run(command, env=environment, check=False).returncode
    if status:
        sys.exit(status)


def find_column(
    path: str, columns: list[str], name: str | None, usual_names: tuple[str, ...]
) -> str | None:
    """The column `name` (a `UserError` if it is missing). If `name` is None, the column with the
    first of `usual_names` that is in the file, or None."""
    if name is not None:
        if name not in columns:
            raise UserError(
                f"{path}: no column '{name}'; the columns are {', '.join(map(str, columns))}"
            )
        return name
    by_name = {str(column).strip().lower(): column for column in reversed(columns)}
    return next((by_name[usual] for usual in usual_names if usual in by_name), None)


def columns_of(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def readers(answers: list[str]) -> Iterator[str]:
    """The graders that read almost all answers, in the order of GRADERS. `math` is left out if
    Math-Verify is not installed."""
    for name in GRADERS:
        # `final_word` would read the formula x^2 as a word
        if name == "final_word" and not all(map(str.isalpha, answers)):
            continue
        if name == "math" and importlib.util.find_spec("math_verify") is None:
            continue
        if sum(
            graders.accepts_reference(name, answer) for answer in answers
        ) >= READABLE_SHARE * len(answers):
            yield name


def find_grader(path: str, answers: list[str]) -> str:
    """The first of GRADERS that reads almost all answers. Raise a `UserError` if there is none."""
    name = next(readers(answers), None)
    if name is None:
        raise UserError(
            f"{path}: {NO_GRADER}; the first answer is {answers[0][:60]!r}; name a grader with --grader, or leave the answers out"
        )
    return name


def as_name(text: str) -> str:
    return (
        re.sub(r"[^A-Za-z0-9_.-]+", "-", text.rpartition("/")[2] or text).strip("-.") or "prompts"
    )
