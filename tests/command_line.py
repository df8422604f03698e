"""Run a program of scripts/ in a process of its own, with options from keyword arguments."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "scripts"


def format_options(**values: object) -> list[str]:
    """Each keyword as an option: `held_out=2` is --held-out 2, a list gives the option several
    values, and True gives an option without a value."""
    words = []
    for name, value in values.items():
        option_values = [] if value is True else value if isinstance(value, list) else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, option_values)]
    return words


def path_of(name: str) -> str:
    """The path of a program, by its name alone."""
    (path,) = SCRIPTS.glob(f"*/{name.removesuffix('.py')}.py")
    return str(path)


def command(name: str, /, *arguments: object, **options: object) -> list[str]:
    """The command that runs a program."""
    return [sys.executable, path_of(name), *map(str, arguments), *format_options(**options)]


def run(
    folder: Path, name: str, /, *arguments: object, env: dict | None = None, **options: object
) -> subprocess.CompletedProcess:
    """Run a program in a folder. `env` is added to the environment of the tests."""
    return subprocess.run(
        command(name, *arguments, **options),
        cwd=folder, env=os.environ | (env or {}), capture_output=True, text=True, check=False,
    )  # fmt: skip


def run_python(
    *arguments: object, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess:
    """Run `python ARGUMENTS` with this clone's package. `variables` are added to the environment of
    the tests."""
    environment = os.environ | {"PYTHONPATH": str(SCRIPTS.parent / "src")} | variables
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def run_well(folder: Path, name: str, /, *arguments: object, **options: object) -> str:
    """Run a program that must succeed. Return its output."""
    done = run(folder, name, *arguments, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def assert_refused(done: subprocess.CompletedProcess, *words: str) -> str:
    """Assert that a program ended with status 1 and one line of an error with these words. Return
    the line."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    return done.stderr
