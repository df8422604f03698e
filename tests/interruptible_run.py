"""A training of 24 updates, which is started, stopped and killed by tests. Tests compare its files
with those of an uninterrupted run."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from conftest import NIGHTLY, RUN, path_of
from hardgrpo.data import generated
from hardgrpo.runtime import files, warm
from hardgrpo.study.recipe import GRPO_KEYS

# A program with this environment runs in the process that the test starts, not in a fork of the
# server of hardgrpo.runtime.warm.
WITHOUT_SERVER = os.environ | {warm.SOCKET: warm.OFF}
KILLS = 4 if NIGHTLY else 1  # kills of most kinds of run
# EVERY: updates between the scheduled checkpoints of sparse.yaml
UPDATES, EVERY = 24, 8


@pytest.fixture(scope="module")
def run(finished_world, tmp_path_factory):
    """A folder with two specifications of a run of 24 updates: spec.yaml with a checkpoint after
    every update, and sparse.yaml with a checkpoint after every eighth update. The subfolder `clean`
    holds the files of an uninterrupted run of spec.yaml."""
    folder = tmp_path_factory.mktemp("interruption")
    (folder / "results").symlink_to(finished_world.folder / "results")
    spec = yaml.safe_load((folder / f"results/training/{RUN}/spec.yaml").read_text())
    # Less than the limit of the task (56), because sampling takes most of the time. Some
    # completions still end within 32 tokens.
    spec["completion_tokens"] = 32
    spec["training"] |= {"updates": UPDATES, "checkpoint_every": 1}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    spec["training"] |= {"checkpoint_every": EVERY}
    (folder / "sparse.yaml").write_text(yaml.safe_dump(spec))
    done = start(folder, "clean").wait()
    assert done == 0, (folder / "clean.log").read_text()
    return folder


def supervised(folder: Path, spec: dict) -> dict:
    """The specification of a run on worked solutions, which are written to the folder."""
    problems = files.read_jsonl(folder / spec["problems"], {"id": str, "question": str})
    shortest = lambda question: min(generated.solutions("swaps", question), key=len)
    rows = [{"id": row["id"], "solution": shortest(row["question"])} for row in problems]
    files.write_jsonl(folder / "solutions.jsonl", rows)
    training = {key: value for key, value in spec["training"].items() if key not in GRPO_KEYS}
    return spec | {"solutions": "solutions.jsonl", "training": training | {"objective": "sft"}}


def command(name: str, *arguments: str, spec: str = "spec.yaml") -> list[str]:
    program = [sys.executable, path_of("train_grpo")]
    return [*program, "--spec", spec, "--output", name, "--state", f"{name}.state", *arguments]


def start(
    folder: Path, name: str, *arguments: str, spec: str = "spec.yaml", **kwargs
) -> subprocess.Popen:
    with open(folder / f"{name}.log", "a") as log:
        # The run has the lowest priority, because on a busy machine the test must not be slower
        # than the training that it stops.
        low_priority = ["nice", "-n", "19", *command(name, *arguments, spec=spec)]
        return subprocess.Popen(low_priority, cwd=folder, stderr=log, **{"stdout": log, **kwargs})


def contents(folder: Path) -> dict[str, str]:
    """{path: checksum} of all files of a run except files that contain times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("provenance.json", "timing.csv")
    }


def scheduled_contents(run: Path) -> dict[str, str]:
    """The part of `contents` that a run with a checkpoint after every eighth update also has. The
    checkpoints' manifests are left out, because they name the run's specification."""
    shared_names = {"updates.csv", *(f"step-{step}" for step in range(EVERY, UPDATES + 1, EVERY))}
    return {
        name: checksum
        for name, checksum in contents(run).items()
        if shared_names & set(name.split("/")) and Path(name).name != "manifest.json"
    }


def states(folder: Path, name: str) -> list[Path]:
    return list((folder / f"{name}.state").glob("*/checkpoint-*"))


def wait_for(condition, process, seconds=600):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def kill(process: subprocess.Popen, condition, delay: float = 0.0) -> None:
    """Kill a training `delay` seconds after `condition` is true."""
    wait_for(condition, process)
    time.sleep(delay)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"


def complete_checkpoints(folder: Path, name: str) -> list[Path]:
    """The complete checkpoints in the state of a run, oldest first."""
    checkpoints = [path for path in states(folder, name) if (path / "manifest.json").exists()]
    return sorted(checkpoints, key=lambda path: int(path.name.split("-")[1]))


def latest(folder: Path, name: str) -> int:
    return max(
        (int(path.name.split("-")[1]) for path in complete_checkpoints(folder, name)), default=0
    )
