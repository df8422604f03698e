"""A study under faults. After each fault, a plain rerun either ends with the files of an
undisturbed run, or stops with one line that names the damaged file or a folder that contains the
file. After a kill, Snakemake may first ask for --unlock. A damaged file that no job reads may stay,
if a program that reads it would stop with an error. `make chaos` draws 200 faults, and
repeats one fault of each kind that once made a study fail; `make nightly` draws eight."""

import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest

import chaos
from conftest import LONG_LIMIT, World, assert_same, results
from hardgrpo.runtime import provenance, warm
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.spec import check_run_of_checkpoints

pytestmark = pytest.mark.nightly
FAULTS = int(os.environ.get("HARDGRPO_FAULTS", 8))
KINDS = [*chaos.WHILE_RUNNING, *chaos.DAMAGE, "read-only"]
# (seed, kind) of faults that once made a study fail, one of each kind; seeds 49, 57 and 106 (Ctrl-C)
# and 194 (two at once) failed, too
ONCE_FAILED = [
    (4, "Ctrl-C"),
    (108, "two at once"),
    (158, "of another day"),
    (189, "no memory"),
]
# Files that hold wall times, or the checksum of a file with wall times.
TIMED = re.compile(
    r".*/(supplement\.pdf|spent\.html|spent\.tex|worth\.html)|results/models/.*/manifest\.json"
)
PARTS = (*chaos.STAGES, "signals")
ERROR_LINE = re.compile(
    r"\s*(error: |Error: |Outputs of incorrect type|.*is a directory|.*Is a directory)"
)


def kind_of(seed: int) -> str:
    """The kind of fault for a seed. Each block of len(KINDS) successive seeds covers all kinds
    once, in random order."""
    turn, place = divmod(seed, len(KINDS))
    return random.Random(turn).sample(KINDS, len(KINDS))[place]


FAULTS_OF_THIS_RUN = list(
    dict.fromkeys([*((seed, kind_of(seed)) for seed in range(FAULTS)), *ONCE_FAILED])
)


@pytest.fixture
def world(finished, monkeypatch) -> World:
    """A copy of the finished study. Each Snakemake that runs in the copy has its own server
    (hardgrpo.runtime.warm), so that a fault does not affect other tests."""
    monkeypatch.delenv(warm.SOCKET)
    return finished


@pytest.mark.timeout(LONG_LIMIT)
@pytest.mark.parametrize(
    ("seed", "kind"),
    FAULTS_OF_THIS_RUN,
    ids=[f"{seed} {kind}" for seed, kind in FAULTS_OF_THIS_RUN],
)
def test_after_a_fault_a_plain_rerun_ends_as_if_undisturbed(
    world, finished_world, record_property, seed, kind
):
    rng, struck = random.Random(seed), True
    removed_results = chaos.begin(world, rng, "training" if kind == "of another run" else None)
    damaged = None
    if kind in chaos.DAMAGE:
        damaged = chaos.damage(world, kind, rng)
    elif kind == "read-only":
        with chaos.read_only(world, rng):
            disturb(world, lambda workflow: None)
    else:
        jobs = sum(world.plan().values())
        jobs_before_fault = rng.randrange(max(1, jobs - 1))

        def fault(workflow: chaos.Workflow) -> None:
            nonlocal struck
            workflow.wait_for_jobs(jobs_before_fault)
            time.sleep(rng.uniform(0, 2))
            struck = chaos.WHILE_RUNNING[kind](workflow, rng)

        disturb(world, fault)
    # tests/conftest.py counts the faults
    record_property("fault", f"{kind}{'' if struck else ', too late'}")
    print(
        f"seed {seed}: {kind}, after removal of {removed_results}{f', in {damaged.relative_to(world.folder)}' if damaged else ''}"
    )
    is_reported = finish(world, damaged)
    world_files, expected_files = (
        {os.path.normpath(path): content for path, content in results(folder, *PARTS).items()}
        for folder in (world.folder, finished_world.folder)
    )
    for contents in (world_files, expected_files):
        for path in filter(TIMED.fullmatch, list(contents)):
            del contents[path]
    if damaged is not None and not is_reported:  # no job had to read the file
        name = str(damaged.relative_to(world.folder))
        world_part, expected_part = (
            {
                path: contents.pop(path)
                for path in list(contents)
                if path == name or path.startswith(f"{name}/")
            }
            for contents in (world_files, expected_files)
        )
        if world_part != expected_part:
            assert is_detected(damaged), f"{name} is damaged, and no program would notice"
    # `finish` deleted the file because an error message said so. No job needs the file any more, so
    # no job has made it again.
    if is_reported and not damaged.exists():
        expected_files.pop(str(damaged.relative_to(world.folder)), None)
    assert_same(world_files, expected_files)


def disturb(world: World, fault) -> None:
    disturbed = chaos.Workflow(world, "disturbed")
    try:
        fault(disturbed)
        disturbed.wait()
    finally:
        disturbed.end()
    assert not chaos.traceback_in(disturbed.output), disturbed.output


def is_detected(path: Path) -> bool:
    """Whether a program that reads the damaged file stops with an error."""
    try:
        if path.name == "checkpoints":
            check_run_of_checkpoints(path)
        elif path.is_dir():  # every program refuses a folder in place of a file
            return True
        for folder in path.parents:
            if (folder / "manifest.json").is_file() and "files" in (
                folder / "manifest.json"
            ).read_text(errors="replace"):
                provenance.check_manifest(folder)
    except (UserError, OSError):
        return True
    return False


def finish(world: World, damaged: Path | None) -> bool:
    """Rerun the workflow until it succeeds, at most four times. After each rerun that fails, do
    what its error message says. Return whether a message named the damaged file or a folder that
    contains the file."""
    is_reported = False
    for attempt in range(4):
        rerun = chaos.Workflow(world, f"rerun{attempt}")
        try:
            status = rerun.wait()
        finally:
            rerun.end()
        output = rerun.output
        assert not chaos.traceback_in(output), output
        if status == 0:
            return is_reported
        if "--unlock" in output:
            assert world.snakemake("--unlock").returncode == 0
            continue
        assert damaged is not None, output
        is_reported = True
        follow(world, damaged, output)
    raise AssertionError("the study is not finished after four reruns")


def follow(world: World, damaged: Path, output: str) -> None:
    """Follow a message that names the damaged file or a folder that contains the file: delete the
    file or the folder, or correct the file's modification time."""
    name = str(damaged.relative_to(world.folder))
    if re.search(
        rf"^Output .* has older modification time .* than input {re.escape(name)} .*clock skew",
        output,
        re.MULTILINE,
    ):
        os.utime(damaged)  # Snakemake's message about a file with a time in the future
        return
    lines = output.splitlines()
    error_lines = [
        line
        for line, previous in zip(lines, ["", *lines])
        if ERROR_LINE.match(line) or previous.startswith("WorkflowError")
    ]
    messages = [line for line in error_lines if name in line] or [
        line for line in error_lines if any(f"delete {folder} " in line for folder in parents(name))
    ]
    assert messages, f"{name} is damaged, and no message names it:\n{output}"
    remedy = re.search(r"delete (\S+) and run again", messages[0])
    path = damaged if remedy is None or remedy[1] == "it" else world.folder / remedy[1]
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)  # Snakemake may have removed the output of a failed job


def parents(name: str) -> list[str]:
    return [str(folder) for folder in Path(name).parents]
