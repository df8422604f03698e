"""Run a program of scripts/ in the test's process, for tests with many cases, in which forks would
take most of the time."""

import contextlib
import functools
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

from command_line import assert_refused as check_refusal  # noqa: F401 (tests import it from here)
from command_line import format_options, path_of
from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError


@functools.cache
def program(name: str):
    """A program of scripts/ as a module."""
    path = Path(path_of(name))
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"program_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_program(name: str, /, *arguments: object, **options: object) -> str:
    """Run a program's `main` as its process would. `command_line.format_options` formats `options`.
    Return the program's output, or raise a `UserError` with the error message that the program
    ended with."""
    output, error_output = io.StringIO(), io.StringIO()
    sys.argv = [f"{name}.py", *map(str, arguments), *format_options(**options)]
    status: object = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error_output):
        try:
            errors.run(program(name).main)
        except SystemExit as end:
            status = end.code
    lines = output.getvalue().split("\n")
    assert all(map(str.isprintable, lines)), f"unprintable output: {lines!r}"
    if status in (0, None):
        return output.getvalue()
    if isinstance(status, str):
        error = UserError(status)
        error.output = output.getvalue()
        raise error
    usage, mark, reason = error_output.getvalue().rpartition(f"{name}.py: error: ")
    assert status == 2 and mark and usage.startswith("usage: "), error_output.getvalue()[-300:]
    raise UserError(reason.removesuffix("\n"))


def run(
    folder: Path, name: str, /, *arguments: object, **options: object
) -> subprocess.CompletedProcess:
    """Run the program of this name in a folder. `command_line.format_options` formats `options`.

    The status is 0, or 1 for any error that the program reports, which is then in `stderr`.
    """
    with contextlib.chdir(folder):
        try:
            return subprocess.CompletedProcess(
                [name, *arguments], 0, run_program(name, *arguments, **options), ""
            )
        except UserError as error:
            output = getattr(error, "output", "")
            return subprocess.CompletedProcess([name, *arguments], 1, output, f"{error}\n")


def prepare_task(
    folder: Path, *names: str, source: dict | None = None, split: str = "train", **options: object
) -> subprocess.CompletedProcess:
    """Prepare a split of task `mine` from files: write P.jsonl. `source` adds keys to its source, or
    is a complete source."""
    source = {"kind": "files", split: list(names) if len(names) > 1 else names[0]} | (source or {})
    return run(
        folder, "prepare_task", task="mine", split=split, source=json.dumps(source), files=[*names],
        output="P.jsonl", **options,
    )  # fmt: skip
