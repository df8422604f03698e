"""The state of an unfinished training: a folder that one process at a time holds, and the checkpoints in it.

A checkpoint counts once its manifest is written. Those of the schedule are exported in the end, others are only for going on.
The newest two hold all that training needs (two, so that there is one to fall back on), of older ones only the model is kept.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TextIO

from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.interruption import say

MODEL_FILES = (  # of a checkpoint, what an evaluation needs
    "adapter_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "chat_template.jinja",
)
TRAINING_FILE = "trainer_state.json"  # a checkpoint that has it has all that training needs to go on
KEPT_WHOLE = 2
LONGEST_PAUSE = 10.0  # seconds between two looks at a lock


# --- checkpoints ---------------------------------------------------------------------------------------------------


def checkpoint(state: Path, step: int) -> Path:
    return state / f"checkpoint-{step}"


def newest(state: Path) -> int:
    return max(_steps(state), default=0)


def _steps(state: Path) -> list[int]:
    return sorted(int(folder.name.removeprefix("checkpoint-")) for folder in state.glob("checkpoint-*"))


def resume_point(state: Path, every: int) -> int:
    """Updates done in the checkpoint to go on from (0: none).

    That is the newest whole one with all that training needs, up to which no scheduled one is missing. Checkpoints that are not
    whole are removed, and so are those that come after this one: they will be made again.
    """
    scheduled = point = 0
    for step in _steps(state):
        try:
            listed = provenance.check_manifest(checkpoint(state, step))["files"]
        except UserError:
            shutil.rmtree(checkpoint(state, step))
            continue
        if step > scheduled + every:
            break
        if step == scheduled + every:
            scheduled = step
        if TRAINING_FILE in listed:
            point = step
    for step in _steps(state):
        if step > point:
            shutil.rmtree(checkpoint(state, step))
    return point


def thin(state: Path, every: int) -> None:
    """Give back the space of what is not needed to go on; to be called when a new checkpoint is whole."""
    whole = [step for step in _steps(state) if (checkpoint(state, step) / "manifest.json").exists()]
    for step in whole[:-KEPT_WHOLE]:
        if step % every:
            shutil.rmtree(checkpoint(state, step))
        else:
            _keep_model(checkpoint(state, step))


def _keep_model(folder: Path, *others: str) -> None:
    manifest, patterns = files.read_json(folder / "manifest.json"), (*MODEL_FILES, *others)
    kept = {name: entry for name, entry in manifest["files"].items() if any(fnmatch(name, pattern) for pattern in patterns)}
    # The manifest first: it holds at every moment, and what a kill leaves of the other files goes with the next call.
    if kept != manifest["files"]:
        provenance.write_listing(folder, kept)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in [*kept, "manifest.json"]:
            path.unlink()


def finish(state: Path, updates: int, every: int, keep: bool) -> None:
    """Give up the state of a run whose output is written, or keep what its output can be written from again.

    Snakemake removes the output of a job that ended unseen (it was killed meanwhile) and starts the job again: `restore` then saves the
    training. The files are links to those of the output, so that they take no room.
    """
    finished = state.with_suffix(".finished")
    if keep:
        for step in _steps(state):
            if step % every:
                shutil.rmtree(checkpoint(state, step))
            else:
                _keep_model(checkpoint(state, step), *[TRAINING_FILE] * (step == updates))
    state.rename(finished)  # at once, so that a kill while it is removed leaves nothing that looks like a state
    if not keep:
        shutil.rmtree(finished, ignore_errors=True)


def restore(state: Path) -> None:
    """Take back the checkpoints that `finish` kept."""
    finished = state.with_suffix(".finished")
    for folder in finished.glob("checkpoint-*"):
        if not (state / folder.name).exists():
            folder.rename(state / folder.name)
    shutil.rmtree(finished, ignore_errors=True)


# --- the lock ------------------------------------------------------------------------------------------------------

HOLDER = re.compile(r"process (?P<process>\d+) on (?P<node>\S+?)(?:, Slurm job (?P<job>\d+))?")


@contextlib.contextmanager
def locked(state: Path, minutes: float | None = None, doing: str = "is training this run") -> Iterator[None]:
    """Hold the lock on a state folder, which is made if need be; a `UserError` where another process holds it, `doing` something there.

    With `minutes` that process is asked to stop (SIGTERM), and gets so long to save its state.
    """
    stream = _take(state, minutes, doing)
    try:
        yield
    finally:
        stream.truncate(0)  # for nodes that flock does not reach: nobody holds it
        stream.close()


def _take(state: Path, minutes: float | None, doing: str) -> TextIO:
    asked, pause, end = "", 0.1, time.monotonic() + 60 * (minutes or 0)
    while True:
        stream, holder = _try(state)
        if stream is not None:
            return stream
        if minutes is None or (asked and holder and holder != asked):
            raise UserError(f"{state}: {holder or 'another process'} {doing}; wait for it, or stop it")
        if holder and not asked:
            asked = holder
            _ask_to_stop(state, holder)
            say(
                f"{state}: {holder} is training this run, but this job is the one that is waited for: asked it to stop (SIGTERM),"
                f" and goes on from the state that it saves; waits {minutes:g} minutes at most"
            )
        if time.monotonic() > end:
            raise UserError(
                f"{state}: {holder or 'another process'} did not let go of this run within {minutes:g} minutes; stop it by hand, or"
                " give it longer with --take-over-minutes"
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _try(state: Path) -> tuple[TextIO | None, str]:
    """(an open file that holds the lock or None, who else holds it); the system lets go of it when the process ends, however."""
    while True:
        state.mkdir(parents=True, exist_ok=True)
        try:
            stream = open(state / "lock", "a+")
        except FileNotFoundError:
            continue  # the holder has just finished and removed the folder
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None, _read(stream)
        except OSError as error:
            raise UserError(
                f"{state}: this file system has no locks ({error.strerror}), so a second process on the run would not be noticed; name a"
                " folder on another one with --state (a cluster's scratch or home folder)"
            ) from None
        if _is_current(stream, state / "lock"):
            break
        stream.close()
    written = HOLDER.fullmatch(holder := _read(stream, close=False))
    if written and written["node"] != os.uname().nodename and written["job"] and _is_running(written["job"]):
        stream.close()
        return None, holder
    stream.truncate(0)
    job = os.environ.get("SLURM_JOB_ID")
    stream.write(f"process {os.getpid()} on {os.uname().nodename}" + (f", Slurm job {job}" if job else ""))
    stream.flush()
    return stream, ""


def _read(stream: TextIO, close: bool = True) -> str:
    stream.seek(0)
    text = stream.read().strip()
    if close:
        stream.close()
    return text


def _is_current(stream: TextIO, path: Path) -> bool:
    """Whether an open file is still the one at a path: a run that finishes takes its lock file away."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _is_running(job: str) -> bool:
    """Whether Slurm says so. Some file systems keep a lock to one node, so that a process elsewhere could hold it unseen."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == "RUNNING"


def _ask_to_stop(state: Path, holder: str) -> None:
    """SIGTERM to the process that holds a lock, by its node or by Slurm."""
    found = HOLDER.fullmatch(holder)
    remedy = "stop it by hand and run again"
    if found is None:
        raise UserError(f"{state}: '{holder}' is training this run, which names no process that could be asked to stop; {remedy}")
    if found["node"] == os.uname().nodename:
        try:
            os.kill(int(found["process"]), signal.SIGTERM)
        except ProcessLookupError:
            pass  # it has just ended
        except OSError as error:
            raise UserError(
                f"{state}: {holder} is training this run and cannot be asked to stop: {error.strerror}; {remedy}"
            ) from None
        return
    if not found["job"]:
        raise UserError(
            f"{state}: {holder} is training this run, which cannot be asked to stop from {os.uname().nodename}; {remedy}"
        )
    command = ["scancel", "--signal=TERM", found["job"]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        problem = " ".join(done.stderr.split()) or f"exit status {done.returncode}" if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise UserError(
            f"{state}: {holder} is training this run and cannot be asked to stop: {' '.join(command)}: {problem}; {remedy}"
        )
