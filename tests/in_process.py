"""Run a program of scripts/ in the test's process, for tests with many cases, in which forks would
take most of the time."""

import contextlib
import subprocess
from pathlib import Path

from fuzzing.judge import run_program
from hardgrpo.runtime.errors import UserError


def run(
    folder: Path, name: str, /, *arguments: object, **options: object
) -> subprocess.CompletedProcess:
    """Run the program of this name in a folder. `command_line.format_options` formats `options`.

    The status is 0, or 1 for any error that the program reports. After an error, `stdout` is empty
    and `stderr` is the error message; otherwise `stderr` is empty.
    """
    with contextlib.chdir(folder):
        try:
            return subprocess.CompletedProcess(
                [name, *arguments], 0, run_program(name, *arguments, **options), ""
            )
        except UserError as error:
            return subprocess.CompletedProcess([name, *arguments], 1, "", f"{error}\n")
