"""Compute nodes have no internet: after `snakemake inputs`, a study runs without a network."""

import os
import subprocess
import sys

import pytest

from conftest import TABLES, World, shrink
from fakes import record_connections, without_network
from hardgrpo.runtime import warm

REACHES_OUT = ("train_grpo.py", "evaluate.py", "probe.py", "pretrain_model.py", "warm.py")


def run(world: World, env: dict, *arguments: str) -> subprocess.CompletedProcess:
    command = [*without_network(), sys.executable, "-m", "snakemake", "--profile", "laptop"]
    command += ["--cores", "2", *arguments]
    # Without this variable, programs are not forked from the tests' server, which has a network.
    environment = {name: value for name, value in os.environ.items() if name != warm.SOCKET} | env
    return subprocess.run(
        command, cwd=world.folder, env=environment, capture_output=True, text=True, check=False
    )


def network_calls(calls) -> list[str]:
    """The network calls that the programs in REACHES_OUT attempted. Calls of other programs and of
    Snakemake are left out."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    return [line for line in lines if line.startswith(REACHES_OUT)]


@pytest.fixture
def with_inputs(world) -> World:
    world.configure(shrink)
    world.run("inputs")
    tasks = {path.name for path in (world.folder / "results/tasks").iterdir()}
    assert tasks == {"swaps", "swaps_hard", "arithmetic", "arithmetic_hard"}
    assert not (world.folder / "results/models").exists(), "inputs must not pretrain a model"
    return world


def test_a_study_runs_without_a_network_and_opens_no_connection(with_inputs, tmp_path):
    env, calls = record_connections(tmp_path / "recorder")
    arms = [{"policy": "hard", "recipe": "mini"}]
    with_inputs.configure(lambda config: config["studies"]["mini"].update(arms=arms))
    done = run(with_inputs, env, *TABLES)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert network_calls(calls) == []
