"""`make bench` runs to its end. What it measures depends on the machine and is not tested."""

import subprocess
from pathlib import Path

import pytest

from command_line import run_python
from conftest import ROOT


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    program, source = "scripts/maintenance/bench.py", str(folder / "src")
    return run_python(program, "--repeats", 1, *arguments, folder=folder, PYTHONPATH=source)


def measured(done: subprocess.CompletedProcess) -> dict[str, float]:
    assert done.returncode == 0, done.stderr
    words = [line.split() for line in done.stdout.splitlines()]
    return {name: float(value.replace(",", "")) for name, value, *_ in words}


def test_the_speed_of_grading_is_measured():
    assert measured(bench(ROOT, "--only", "grading"))["grading"] > 0


@pytest.mark.slow
def test_all_speeds_are_measured_after_the_demo(finished_world):
    speeds = measured(bench(finished_world.folder))
    assert list(speeds) == ["planning", "grading", "sampling", "training"]
    assert min(speeds.values()) > 0


def test_without_the_demo_the_program_says_what_to_do(world):
    world.clear()
    done = bench(world.folder, "--only", "training")
    assert done.returncode == 1 and "run `make demo` first" in done.stderr
