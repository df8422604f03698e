"""Random faults for a small study, determined by a seed. A fault hits the running workflow, or
files of the workflow before the workflow starts."""

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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import World

# Stages in the order of the workflow. `begin` removes the results of a random stage and of all
# later stages.
STAGES = (
    "tasks", "models", "probe", "difficulty", "subsets", "training", "evaluation", "summaries",
    "../paper/mini",
)  # fmt: skip
DAY = 24 * 3600


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
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if _session(pid) == self.process.pid
        ]

    def wait(self, seconds: float = 900) -> int:
        return self.process.wait(seconds)

    def wait_for_jobs(self, count: int) -> None:
        """Wait until `count` jobs have ended, or until the workflow has ended."""
        while self.running() and self.output.count("Finished jobid") < count:
            time.sleep(0.05)

    def end(self) -> None:
        """Kill all processes of the workflow that are left."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def traceback_in(output: str) -> bool:
    """Whether a traceback contains a file of this project. Tracebacks of Snakemake alone, such as
    for Ctrl-C during its clean-up, do not count, nor do Python's own tracebacks for Ctrl-C or a lack
    of memory before a program's `main` begins."""
    return any(
        re.match(r'(\s.*\n)*?\s+File "[^"]*/world/', part)
        and not (
            "run(main" not in part
            and re.search("^(KeyboardInterrupt|MemoryError)", part, re.MULTILINE)
        )
        for part in output.split("Traceback (most recent call last):\n")[1:]
    )


# --- faults of a running workflow; each function returns whether the workflow was still running


def draw_process(workflow: Workflow, rng: random.Random) -> int | None:
    """A process of the workflow; None if the workflow has ended."""
    members = sorted(workflow.members())
    return rng.choice(members) if members else None


def _send(number: signal.Signals, next_signal: signal.Signals | None = None) -> Callable:
    def fault(workflow: Workflow, rng: random.Random) -> bool:
        pid = draw_process(workflow, rng)
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(pid, number)
            if next_signal:
                time.sleep(rng.uniform(0.1, 2))
                os.kill(pid, next_signal)
            return True
        return False

    return fault


def kill_all(workflow: Workflow, rng: random.Random) -> bool:
    """Kill all processes, as if the machine lost power, but without losing data on the disk."""
    running = workflow.running()
    for pid in workflow.members():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return running


def interrupt(workflow: Workflow, rng: random.Random) -> bool:
    """Send Ctrl-C to the whole process group, once or twice."""
    running = workflow.running()
    for _ in range(rng.choice((1, 2))):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(workflow.process.pid, signal.SIGINT)
        time.sleep(rng.uniform(0, 1))
    return running


def disk_full(workflow: Workflow, rng: random.Random) -> bool:
    """Simulate a full disk: no process of the workflow can write a file beyond `size` bytes
    (RLIMIT_FSIZE)."""
    running, size = workflow.running(), rng.choice((0, 100, 10_000, 100_000))
    for pid in workflow.members():
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
    return running


def no_memory(workflow: Workflow, rng: random.Random) -> bool:
    """Limit one process to little more memory than it has (RLIMIT_AS). Kill the process after 15 s,
    as a system without memory would do, because a process that loads OpenBLAS repeats a failed
    allocation forever."""
    pid = draw_process(workflow, rng)
    with contextlib.suppress(ProcessLookupError, FileNotFoundError, TypeError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        limit_bytes = pages * resource.getpagesize() + rng.choice((0, 1 << 20, 1 << 24))
        resource.prlimit(pid, resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        end = time.monotonic() + 15
        while workflow.running() and pid in workflow.members():
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.2)
        return True
    return False


def changed_configuration(workflow: Workflow, rng: random.Random) -> bool:
    """Edit the configuration while the workflow runs, and undo the edit after the workflow has
    ended."""
    running, path = workflow.running(), workflow.folder / "config.yaml"
    content = path.read_text()
    path.write_text(content.replace("updates: ", "updates: 1"))
    assert path.read_text() != content
    workflow.wait()
    path.write_text(content)
    return running


def second_snakemake(workflow: Workflow, rng: random.Random) -> bool:
    """Start the same command a second time while the first Snakemake holds its locks."""
    while workflow.running() and not list((workflow.folder / ".snakemake/locks").glob("*")):
        time.sleep(0.05)
    second = Workflow(World.at(workflow.folder), "second")
    try:
        status = second.wait()
    finally:
        second.end()
    assert not traceback_in(second.output), second.output
    refused = bool(status) and any(
        words in second.output for words in ("lock", "a concurrent process has deleted it")
    )
    assert refused or not workflow.running(), second.output
    return refused


WHILE_RUNNING: dict[str, Callable[[Workflow, random.Random], bool]] = {
    "kill one": _send(signal.SIGKILL),
    "kill all": kill_all,
    "end one": _send(signal.SIGTERM),
    "stop one": _send(signal.SIGSTOP, signal.SIGCONT),
    "Ctrl-C": interrupt,
    "disk full": disk_full,
    "no memory": no_memory,
    "two at once": second_snakemake,
    "changed configuration": changed_configuration,
}


# --- faults of files, before the workflow is started


def replaced_by_a_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def of_another_day(path: Path, rng: random.Random) -> None:
    """Set a modification time in the past or the future, as if the clock had jumped."""
    modification_time = time.time() + rng.choice((-400, -1, 1, 400)) * DAY
    os.utime(path, (modification_time, modification_time))


def of_another_run(path: Path, rng: random.Random) -> None:
    """Replace a run's checkpoints by those of another run, with valid checksums."""
    checkpoints = sorted(path.parents[2].glob("*/seed*/checkpoints"))
    source = rng.choice([folder for folder in checkpoints if folder != path])
    shutil.rmtree(path)
    shutil.copytree(source, path)


DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "of another run": of_another_run,
    "replaced by a folder": replaced_by_a_folder,
    "of another day": of_another_day,
}


def damage(world: World, kind: str, rng: random.Random) -> Path:
    """Damage one file that the workflow has written, or the checkpoints of a run. In half of the
    cases, restore the modification time (never for the kind "of another day"). Return the path."""
    kinds: dict[str, list[Path]] = {}
    for path in list_results(world):
        kinds.setdefault(path.name, []).append(path)
    path = rng.choice(kinds[rng.choice(sorted(kinds))])
    if kind == "of another run":
        path = rng.choice(sorted(world.folder.glob("results/training/*/*/*/*/seed*/checkpoints")))
    before = path.stat()
    DAMAGE[kind](path, rng)
    if kind != "of another day" and rng.random() < 0.5:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return path


def list_results(world: World) -> list[Path]:
    """Files that the workflow has written and that are not empty, except logs, because no program
    reads logs."""
    paths = [
        path
        for place in ("results", "paper/mini")
        for path in sorted((world.folder / place).rglob("*"))
    ]
    excluded = ("results/reference", "results/published", "results/logs")
    return [
        path
        for path in paths
        if path.is_file() and path.stat().st_size
        if not str(path.relative_to(world.folder)).startswith(excluded)
    ]


@contextlib.contextmanager
def read_only(world: World, rng: random.Random) -> Iterator[None]:
    """Make a folder of results read-only. For root, whom permissions do not stop, set the flag
    `immutable` (chattr +i)."""
    stage = rng.choice([stage for stage in STAGES if not stage.startswith("..")])
    folder = world.folder / "results" / stage
    folder.mkdir(exist_ok=True)
    command = ("chattr", "-R", "+i", "-i") if os.geteuid() == 0 else ("chmod", "-R", "a-w", "u+w")
    done = subprocess.run([*command[:3], folder], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no folder can be made read-only here: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run([*command[:2], command[3], folder], check=True)


def begin(world: World, rng: random.Random, kept_stage: str | None = None) -> str:
    """Remove the results of a random stage after `kept_stage` and of all later stages, or five
    files of the last stage. Return what was removed, in words."""
    first = STAGES.index(kept_stage) + 1 if kept_stage else 0
    place = rng.randrange(first, len(STAGES) + 1)
    if place == len(STAGES):
        written_files = sorted(
            path for path in (world.folder / "paper/mini").rglob("*") if path.is_file()
        )
        for path in rng.sample(written_files, 5):
            path.unlink()
        return "five files of the paper"
    for stage in STAGES[place:]:
        shutil.rmtree(world.folder / "results" / stage, ignore_errors=True)
    return f"{STAGES[place].split('/')[-1]} and later stages"
