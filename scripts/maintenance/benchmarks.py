"""Shared functions of the benchmarks: measure two implementations of the same work in alternating
pairs, and return rows of a table.

Both implementations are measured in one run on one machine. On a slower or busier machine both take
longer, so their ratio changes less than their times.
"""

import repository_files
from hardgrpo.runtime.errors import UserError

import contextlib
import glob
import operator
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
COLUMNS = ["benchmark", "what", "ours", "baseline", "unit", "ratio", "target", "met"]
SIGNS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


class Skipped(Exception):
    """The machine lacks something that a benchmark needs."""


def row(
    what: str,
    unit: str,
    project_value: float,
    baseline: float | None,
    ratio: float | None = None,
    target: str = "",
) -> dict:
    """A row of the table. The default of `ratio` is `project_value` / `baseline`; if these values
    are medians over pairs, pass the median of the pairs' ratios. `target` is a condition such as
    'ratio <= 1.3' or 'ours >= 20000'. The column `met` says whether the condition holds; None
    without a target."""
    if ratio is None and baseline:
        ratio = project_value / baseline
    quantities = {
        "what": what,
        "ours": project_value,
        "baseline": baseline,
        "unit": unit,
        "ratio": ratio,
    }
    met = None
    if target:
        quantity, sign, limit = target.split()
        met = SIGNS[sign](quantities[quantity], float(limit))
    return quantities | {"target": target, "met": met}


def measure_pairs(
    project: Callable[[], float], baseline: Callable[[], float], repeats: int
) -> tuple[float, float, float]:
    """(median of the project's values, median of the baseline's values, median of the ratios of the
    pairs). Each call of `project` or `baseline` returns one measurement. Every second pair starts
    with the baseline, so that the order (a cold cache, a processor that slows down) favours
    neither implementation."""
    pairs = []
    for number in range(repeats):
        calls = (project, baseline) if number % 2 == 0 else (baseline, project)
        first_value, second_value = (call() for call in calls)
        pairs.append(
            (first_value, second_value) if number % 2 == 0 else (second_value, first_value)
        )
    return *map(statistics.median, zip(*pairs)), statistics.median(
        project_value / baseline_value for project_value, baseline_value in pairs
    )


def compare(
    what: str, unit: str, project: Callable, baseline: Callable, repeats: int, target: str = ""
) -> dict:
    """The row of two implementations of the same work, measured in `repeats` pairs."""
    return row(what, unit, *measure_pairs(project, baseline, repeats), target)


def run(
    command: list[str], folder: Path | None = None, **environment: str
) -> tuple[float, float, str]:
    """(wall seconds, processor seconds including child processes, output) of a command in `folder`
    (default: this clone). Raise a `UserError` if the command fails."""
    folder = folder or ROOT
    earlier_usage, start_time = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    process = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wall, usage = time.perf_counter() - start_time, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        last_line = (process.stdout.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{' '.join(command)}: failed in {folder}: {last_line}")
    return (
        wall,
        usage.ru_utime + usage.ru_stime - earlier_usage.ru_utime - earlier_usage.ru_stime,
        process.stdout,
    )


def snakemake(*arguments: str) -> list[str]:
    """The command that calls Snakemake with the profile laptop."""
    return [sys.executable, "-m", "snakemake", "--profile", "laptop", *arguments]


def program(name: str, *arguments) -> list[str]:
    """The command that calls a program of scripts/."""
    (path,) = (ROOT / "scripts").glob(f"*/{name}.py")
    return [sys.executable, str(path), *map(str, arguments)]


def write_spec(source: Path, path: Path, updates: int, training: dict, **fields) -> Path:
    """Copy the specification of a run from `source` to `path`, and return `path`. The copy has a
    single checkpoint, after the last of `updates` updates, and the values in `training` and
    `fields`."""
    content = yaml.safe_load(source.read_text(encoding="utf-8")) | fields
    content["training"] |= {"updates": updates, "checkpoint_every": updates} | training
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def scratch() -> tempfile.TemporaryDirectory:
    """A temporary folder."""
    return tempfile.TemporaryDirectory(prefix="hardgrpo-bench-")


def from_demo(*patterns: str) -> list[Path]:
    """For each pattern, the alphabetically first file of this clone that matches the pattern. Raise
    `Skipped` if a pattern matches no file."""
    first_paths = [min(glob.glob(str(ROOT / pattern)), default=None) for pattern in patterns]
    if None in first_paths:
        raise Skipped(f"{patterns[first_paths.index(None)]} is missing; run `make demo` first")
    return list(map(Path, first_paths))


@contextlib.contextmanager
def clone_copy() -> Iterator[Path]:
    """A copy of the repository's files, with the committed results alone, in which a benchmark may
    make and delete files. Raise `Skipped` if git does not list these files."""
    with scratch() as temporary:
        try:
            repository_files.copy_to(Path(temporary))
        except UserError as error:
            raise Skipped(str(error)) from None
        yield Path(temporary)
