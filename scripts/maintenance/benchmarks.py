"""What the benchmarks share: measure two ways of doing the same work in alternating pairs, and give one row of a table.

Both are measured in one run on one machine. On a slower or busier machine both are slower, and their ratio stays.
"""

from hardgrpo.runtime.errors import UserError

import contextlib
import glob
import operator
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLUMNS = ["benchmark", "what", "ours", "baseline", "unit", "ratio", "target", "met"]
SIGNS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


class Skipped(Exception):
    """The machine lacks something that a benchmark needs."""


def row(what: str, unit: str, ours: float, baseline: float | None, ratio: float | None = None, target: str = "") -> dict:
    """A row of the table. `ratio` is ours / baseline unless it is given (the median of pairs is not the ratio of medians).

    `target` is a condition such as 'ratio <= 1.3' or 'ours >= 20000'. `met` says whether it holds; None without a target.
    """
    if ratio is None and baseline:
        ratio = ours / baseline
    found = {"what": what, "ours": ours, "baseline": baseline, "unit": unit, "ratio": ratio}
    met = None
    if target:
        quantity, sign, limit = target.split()
        met = SIGNS[sign](found[quantity], float(limit))
    return found | {"target": target, "met": met}


def paired(ours: Callable[[], float], baseline: Callable[[], float], repeats: int) -> tuple[float, float, float]:
    """(median of ours, median of the baseline, median of their ratio by pair); each call measures once.

    Every second pair starts with the baseline, so that coming first (a cold cache, a processor that slows down) favours neither.
    """
    pairs = []
    for number in range(repeats):
        calls = (ours, baseline) if number % 2 == 0 else (baseline, ours)
        first, second = (call() for call in calls)
        pairs.append((first, second) if number % 2 == 0 else (second, first))
    return *map(statistics.median, zip(*pairs)), statistics.median(one / other for one, other in pairs)


def compared(what: str, unit: str, ours: Callable, baseline: Callable, repeats: int, target: str = "") -> dict:
    """The row of two ways of doing the same work, measured in `repeats` pairs."""
    return row(what, unit, *paired(ours, baseline, repeats), target)


def run(command: list[str], folder: Path | None = None, **environment: str) -> tuple[float, float, str]:
    """(wall seconds, processor seconds with those of its children, output) of a command, by default in this clone; a failure is a
    `UserError`."""
    folder = folder or ROOT
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise UserError(f"{' '.join(command)}: failed in {folder}: {last}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def snakemake(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--profile", "laptop", *arguments]


def program(name: str, *arguments) -> list[str]:
    """The command that calls a program of scripts/."""
    (path,) = (ROOT / "scripts").glob(f"*/{name}.py")
    return [sys.executable, str(path), *map(str, arguments)]


def scratch() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="hardgrpo-bench-")


def from_demo(*patterns: str) -> list[Path]:
    """The first file that each pattern finds in this clone."""
    found = [min(glob.glob(str(ROOT / pattern)), default=None) for pattern in patterns]
    if None in found:
        raise Skipped(f"{patterns[found.index(None)]} is not there; run `make demo` first")
    return list(map(Path, found))


@contextlib.contextmanager
def copy() -> Iterator[Path]:
    """A copy of the repository's files without results, in which a benchmark may make and delete files."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        raise Skipped("git does not list the repository's files here; clone it with git") from None
    with scratch() as temporary:
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (Path(temporary) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, Path(temporary) / name)
        yield Path(temporary)
