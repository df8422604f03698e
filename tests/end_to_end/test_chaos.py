"""A study whose processes are disturbed at random moments. After each fault, a plain rerun ends with
the files of an undisturbed run; after a kill, Snakemake may first ask for --unlock. `make chaos`
draws 200 faults, `make nightly` eight."""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import LONG_LIMIT, World, assert_same, results
from hardgrpo.runtime import warm

pytestmark = pytest.mark.nightly
FAULTS = int(os.environ.get("HARDGRPO_FAULTS", 8))
# Stages in the order of the workflow. A test removes the results of a random stage and of all later
# stages.
STAGES = ("tasks", "models", "probe", "difficulty", "subsets", "training", "evaluation", "summaries", "../paper/mini")  # fmt: skip
# Files that hold wall times, or the checksum of a file with wall times.
TIMED = re.compile(
    r".*/(supplement\.pdf|spent\.html|spent\.tex|worth\.html)|results/models/.*/manifest\.json"
)


class Workflow:
    """A process `snakemake --profile laptop`, started in the folder of a `World` and as a process
    session. `output` is what Snakemake and its jobs have printed so far."""

    def __init__(self, world: World, name: str):
        self.folder, self.out = world.folder, world.folder / f"{name}.out"
        command = [sys.executable, "-m", "snakemake", "--profile", "laptop", "--cores", "2"]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(
                command, cwd=self.folder, stdout=out, stderr=out, start_new_session=True
            )

    @property
    def output(self) -> str:
        return self.out.read_text(errors="replace")

    def running(self) -> bool:
        return self.process.poll() is None

    def members(self) -> list[int]:
        """Processes of the session: Snakemake, shells, programs, and the server that forks
        programs (`hardgrpo.runtime.warm`)."""
        numbers = map(int, filter(str.isdigit, os.listdir("/proc")))
        return sorted(number for number in numbers if session(number) == self.process.pid)

    def wait_for_jobs(self, count: int) -> None:
        """Wait until `count` jobs have ended, or until the workflow has ended."""
        while self.running() and self.output.count("Finished jobid") < count:
            time.sleep(0.05)

    def finish(self) -> int:
        """Wait for the end, kill all processes that are left, and return the status. Refuse a
        traceback with a file of this project, except Python's own before a program's `main`."""
        try:
            status = self.process.wait(900)
        finally:
            kill_all(self)
            self.process.wait()
        for part in self.output.split("Traceback (most recent call last):\n")[1:]:
            is_of_python = "run(main" not in part and re.search(
                "^(KeyboardInterrupt|MemoryError)", part, re.MULTILINE
            )
            is_of_project = re.match(r'(\s.*\n)*?\s+File "[^"]*/world/', part)
            assert is_of_python or not is_of_project, self.output
        return status


def session(number: int) -> int:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(number)
    return -1


# --- faults


def kill_all(workflow: Workflow) -> None:
    """Kill all processes, as if the machine lost power, but without losing data on the disk."""
    for number in workflow.members():
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def send(first: signal.Signals, second: signal.Signals | None = None) -> Callable:
    """A fault that sends one process a signal, and a second one up to two seconds later."""

    def fault(workflow: Workflow, rng: random.Random) -> None:
        if members := workflow.members():
            number = rng.choice(members)
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, first)
                if second:
                    time.sleep(rng.uniform(0.1, 2))
                    os.kill(number, second)

    return fault


def interrupt(workflow: Workflow, rng: random.Random) -> None:
    """Send Ctrl-C to the whole process group, once or twice."""
    for _ in range(rng.choice((1, 2))):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(workflow.process.pid, signal.SIGINT)
        time.sleep(rng.uniform(0, 1))


def disk_full(workflow: Workflow, rng: random.Random) -> None:
    """Simulate a full disk: no process of the workflow can write a file beyond `size` bytes
    (RLIMIT_FSIZE)."""
    size = rng.choice((0, 100, 10_000, 100_000))
    for number in workflow.members():
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(number, resource.RLIMIT_FSIZE, (size, size))


def no_memory(workflow: Workflow, rng: random.Random) -> None:
    """Limit one process to little more memory than it has (RLIMIT_AS). Kill the process after 15 s,
    as a system without memory would do, because a process that loads OpenBLAS repeats a failed
    allocation forever."""
    if not (members := workflow.members()):
        return
    number = rng.choice(members)
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        pages = int(Path(f"/proc/{number}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + rng.choice((0, 1 << 20, 1 << 24))
        resource.prlimit(number, resource.RLIMIT_AS, (limit, limit))
        end = time.monotonic() + 15
        while workflow.running() and number in workflow.members():
            if time.monotonic() > end:
                os.kill(number, signal.SIGKILL)
            time.sleep(0.2)


def changed_configuration(workflow: Workflow, rng: random.Random) -> None:
    """Edit the configuration while the workflow runs, and undo the edit after the workflow has
    ended."""
    path = workflow.folder / "config.yaml"
    content = path.read_text()
    path.write_text(content.replace("updates: ", "updates: 1"))
    assert path.read_text() != content
    workflow.process.wait()
    path.write_text(content)


def second_snakemake(workflow: Workflow, rng: random.Random) -> None:
    """Start the same command a second time while the first Snakemake holds its locks."""
    while workflow.running() and not list((workflow.folder / ".snakemake/locks").glob("*")):
        time.sleep(0.05)
    second = Workflow(World.at(workflow.folder), "second")
    status = second.finish()
    words = ("lock", "a concurrent process has deleted it")
    is_refused = status and any(word in second.output for word in words)
    assert is_refused or not workflow.running(), second.output


KINDS: dict[str, Callable[[Workflow, random.Random], None]] = {
    "kill one": send(signal.SIGKILL),
    "kill all": lambda workflow, rng: kill_all(workflow),
    "end one": send(signal.SIGTERM),
    "stop one": send(signal.SIGSTOP, signal.SIGCONT),
    "Ctrl-C": interrupt,
    "disk full": disk_full,
    "no memory": no_memory,
    "two at once": second_snakemake,
    "changed configuration": changed_configuration,
}
DRAWN = [(seed, list(KINDS)[seed % len(KINDS)]) for seed in range(FAULTS)]


def end_state(world: World) -> dict[str, bytes]:
    contents = results(world.folder, *STAGES, "signals").items()
    files = {os.path.normpath(path): content for path, content in contents}
    return {path: content for path, content in files.items() if not TIMED.fullmatch(path)}


@pytest.mark.timeout(LONG_LIMIT)
@pytest.mark.parametrize(("seed", "kind"), DRAWN)
def test_after_a_fault_a_plain_rerun_ends_as_if_undisturbed(
    finished, finished_world, monkeypatch, seed, kind
):
    # each Snakemake has its own server, so that a fault does not affect other tests
    monkeypatch.delenv(warm.SOCKET)
    rng = random.Random(seed)
    for stage in STAGES[rng.randrange(len(STAGES)) :]:
        shutil.rmtree(finished.folder / "results" / stage, ignore_errors=True)
    jobs_before_fault = rng.randrange(max(1, sum(finished.plan().values()) - 1))
    disturbed = Workflow(finished, "disturbed")
    try:
        disturbed.wait_for_jobs(jobs_before_fault)
        time.sleep(rng.uniform(0, 2))
        KINDS[kind](disturbed, rng)
    finally:
        disturbed.finish()
    rerun = Workflow(finished, "rerun")
    if rerun.finish() and "--unlock" in rerun.output:
        assert finished.snakemake("--unlock").returncode == 0
        rerun = Workflow(finished, "rerun")
        rerun.finish()
    assert rerun.process.returncode == 0, rerun.output
    assert_same(end_state(finished), end_state(finished_world))
