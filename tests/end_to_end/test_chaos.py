"""A study under faults: after each, a plain rerun ends with the files of an undisturbed run, or stops with one line that names the
damaged file. `make chaos` draws 200 faults, a plain `make test` two."""

import os
import random
import re
import time
from pathlib import Path

import pytest

import chaos
from conftest import World, assert_same, results
from hardgrpo.runtime import warm

FAULTS = int(os.environ.get("HARDGRPO_FAULTS", "2"))
ONCE_FAILED: list[int] = []  # seeds whose fault was once not survived
SEEDS = [*range(FAULTS), *(seed for seed in ONCE_FAILED if seed >= FAULTS)]
KINDS = [*chaos.WHILE_RUNNING, *chaos.DAMAGE, "read-only"]
FINAL = (("results", "summaries"), ("paper", "mini"))  # whose numbers and figures are shown
# What says how long a run took, or lists the checksum of a file that does.
TIMED = re.compile(r".*/(paper\.pdf|spent\.html|spent\.tex|verdict\.html)|results/models/.*/manifest\.json")
PARTS = ("tasks", "models", "probe", "difficulty", "subsets", "training", "evaluation", "summaries", "../paper/mini")


def kind_of(seed: int) -> str:
    """All kinds in turn, in an order that is drawn anew for every turn."""
    turn, place = divmod(seed, len(KINDS))
    return random.Random(turn).sample(KINDS, len(KINDS))[place]


@pytest.fixture
def world(finished, monkeypatch) -> World:
    """A copy of the finished study. Each of its Snakemakes has a server of its own: a fault must not reach the rest of this test run."""
    monkeypatch.delenv(warm.SOCKET)
    return finished


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed} {kind_of(seed)}")
def test_after_a_fault_a_plain_rerun_ends_as_if_undisturbed(world, finished_world, seed):
    rng, kind = random.Random(seed), kind_of(seed)
    chaos.begin(world, rng)
    damaged = None
    if kind in chaos.DAMAGE:
        damaged = chaos.damage(world, kind, rng)
    elif kind == "read-only":
        with chaos.read_only(world, rng):
            disturbed = chaos.Workflow(world, "disturbed")
            disturbed.wait()
            disturbed.end()
            assert "Traceback" not in disturbed.said, disturbed.said
    else:
        disturbed = chaos.Workflow(world, "disturbed")
        time.sleep(rng.uniform(0.5, 15))
        try:
            chaos.WHILE_RUNNING[kind](disturbed, rng)
            disturbed.wait()
        finally:
            disturbed.end()
    finish(world, damaged)
    ours, theirs = results(world.folder, *PARTS), results(finished_world.folder, *PARTS)
    for found in (ours, theirs):
        for path in filter(TIMED.fullmatch, list(found)):
            del found[path]
    if damaged is not None and damaged.relative_to(world.folder).parts[:2] not in FINAL:
        for found in (ours, theirs):  # no job had to read it; had one, it would have been named
            found.pop(str(damaged.relative_to(world.folder)), None)
    assert_same(ours, theirs)


def finish(world: World, damaged: Path | None) -> str:
    """Run it to its end: again after each line that says what to do, and that is done."""
    for attempt in range(4):
        rerun = chaos.Workflow(world, f"rerun{attempt}")
        status, said = rerun.wait(), rerun.said
        rerun.end()
        assert "Traceback" not in said, said
        if status == 0:
            return said
        if "--unlock" in said:
            assert world.snakemake("--unlock").returncode == 0
            continue
        assert damaged is not None, said
        name = str(damaged.relative_to(world.folder))
        told = [line for line in said.splitlines() if re.match(r"\s*(error: )?.*" + re.escape(name), line)]
        assert told, f"{name} is damaged, and nothing says so:\n{said}"
        remove(damaged)
    raise AssertionError("four reruns do not end it")


def remove(path: Path) -> None:
    """Delete what was damaged; Snakemake may have done it already, as the output of a job that failed."""
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
