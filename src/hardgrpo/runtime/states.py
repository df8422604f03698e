"""The state of an unfinished training: a folder of checkpoints, locked by one process at a time.

A checkpoint is complete once its manifest is written; incomplete ones are ignored. Checkpoints on the schedule
(`checkpoint_every`) are exported in the end; the others only serve to resume. The newest two checkpoints hold everything that
training needs (the second is a fallback); of older ones only the model is kept.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TextIO

import psutil

from hardgrpo.runtime import files, provenance, seals
from hardgrpo.runtime.errors import Unreadable, UserError
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.lock_files import is_current, open_lock

MODEL_FILES = (  # the files of a checkpoint that an evaluation needs
    "adapter_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "chat_template.jinja",
)
TRAINING_FILE = "trainer_state.json"  # a checkpoint with this file can be resumed from
KEPT_WHOLE = 2
LONGEST_PAUSE = 10.0  # seconds between two attempts to lock


# --- checkpoints ---------------------------------------------------------------------------------------------------


def checkpoint(state: Path, step: int) -> Path:
    return state / f"checkpoint-{step}"


def newest(state: Path) -> int:
    return max(_steps(state), default=0)


def _steps(state: Path) -> list[int]:
    return sorted(int(folder.name.removeprefix("checkpoint-")) for folder in state.glob("checkpoint-*"))


def resume_point(state: Path, every: int, arithmetic: str | None = None) -> int:
    """The number of updates in the checkpoint to resume from (0: start anew).

    It is the newest complete checkpoint that can be resumed from and before which no scheduled checkpoint is missing. Incomplete
    checkpoints are removed, and so are later ones, which training will write again. Raise a `UserError` if a checkpoint was computed
    otherwise than by `arithmetic` (`recipes.arithmetic`): half a run by each is neither.
    """
    scheduled = point = 0
    for step in _steps(state):
        try:
            manifest = provenance.check_manifest(checkpoint(state, step))
        except Unreadable:  # it may be intact; removing it would lose all later training
            raise
        except UserError as error:
            if (checkpoint(state, step) / "manifest.json").exists():
                say(f"{error}: not resumed from")
            shutil.rmtree(checkpoint(state, step))
            continue
        if manifest.get("arithmetic") != arithmetic:
            raise UserError(
                f"{checkpoint(state, step)}: another version of this program saved this state, and it computes this recipe differently"
                f" (here: {arithmetic or 'as the first version'}; there: {manifest.get('arithmetic') or 'as the first version'}); delete"
                f" {state} to train the run anew, or continue it with that version"
            )
        if step > scheduled + every:
            break
        if step == scheduled + every:
            scheduled = step
        if TRAINING_FILE in manifest["files"]:
            point = step
    for step in _steps(state):
        if step > point:
            shutil.rmtree(checkpoint(state, step))
    return point


def thin(state: Path, every: int) -> None:
    """Remove everything that resuming and the output do not need. Call it when a new checkpoint is complete."""
    whole = [step for step in _steps(state) if (checkpoint(state, step) / "manifest.json").exists()]
    for step in whole[:-KEPT_WHOLE]:
        if step % every:
            shutil.rmtree(checkpoint(state, step))
        else:
            _keep_model(checkpoint(state, step))


def _keep_model(folder: Path, *others: str) -> None:
    facts, patterns = files.read_json(folder / "manifest.json"), (*MODEL_FILES, *others)
    listed = facts.pop("files")
    kept = {name: entry for name, entry in listed.items() if any(fnmatch(name, pattern) for pattern in patterns)}
    # Write the manifest first: it is then true at every moment. Files that a kill leaves behind are removed by the next call.
    if kept != listed:
        provenance.write_listing(folder, kept, **facts)
    for path in folder.rglob("*"):
        of = path.parent.parent / path.name if seals.is_seal(path) else path
        if path.is_file() and of.relative_to(folder).as_posix() not in [*kept, "manifest.json"]:
            path.unlink()


def finish(state: Path, updates: int, every: int, keep: bool) -> None:
    """Remove the state of a run whose output is written, or `keep` the scheduled checkpoints as `*.finished`.

    If Snakemake is killed before it sees that a job has ended, it later removes the job's output and runs the job again; `restore` then
    makes training it again unnecessary. The kept files are hard links to the output and take no space.
    """
    finished = state.with_suffix(".finished")
    if keep:
        for step in _steps(state):
            if step % every:
                shutil.rmtree(checkpoint(state, step))
            else:
                _keep_model(checkpoint(state, step), *[TRAINING_FILE] * (step == updates))
    shutil.rmtree(finished, ignore_errors=True)  # what an earlier attempt could not remove
    state.rename(finished)  # atomic: a kill during the removal leaves no folder that looks like a state
    if not keep:
        shutil.rmtree(finished, ignore_errors=True)


def forget(written: Iterable[str | Path], folder: Path) -> None:
    """Remove what `finish` kept in the folder of states for runs that Snakemake has seen end. `written`: their `provenance.json`."""
    kept = {path.stem: path for path in folder.glob("*.finished")}
    for path in written if kept else ():
        with contextlib.suppress(UserError):  # programs that read the run report the damage
            state = files.read_json(path).get("state")
            shutil.rmtree(kept.get(state, "") if isinstance(state, str) else "", ignore_errors=True)


def restore(state: Path) -> None:
    """Move the checkpoints that `finish` kept back into the state folder."""
    finished = state.with_suffix(".finished")
    for folder in finished.glob("checkpoint-*"):
        if not (state / folder.name).exists():
            folder.rename(state / folder.name)
    shutil.rmtree(finished, ignore_errors=True)


# --- the lock ------------------------------------------------------------------------------------------------------

ALIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")  # states of a job that may have processes
HOLDER = re.compile(r"process (?P<process>[1-9]\d*) on (?P<node>\S+?)(?:, Slurm job (?P<job>[1-9]\d*))?", re.ASCII)
CLONE = Path(__file__).parents[3]


@contextlib.contextmanager
def locked(state: Path, minutes: float | None = None, doing: str = "is training this run") -> Iterator[None]:
    """Create a state folder if needed and hold its lock. Raise a `UserError` if another process holds it; the message says `doing`.

    With `minutes`, ask that process to stop (SIGTERM) and wait at most that long for it to save its state.
    """
    stream = _take(state, minutes, doing)
    try:
        yield
    finally:
        stream.truncate(0)  # tells nodes that flock does not reach: nobody holds the lock
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
                f"{state}: {holder} is training this run, but Snakemake waits for this job: asked it to stop (SIGTERM); this job resumes"
                f" from the state that it saves and waits {minutes:g} minutes at most"
            )
        if time.monotonic() > end:
            raise UserError(
                f"{state}: {holder or 'another process'} did not let go of this run within {minutes:g} minutes; stop it by hand, or"
                " wait longer with --take-over-minutes"
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _try(state: Path) -> tuple[TextIO | None, str]:
    """(open file that holds the lock or None, the other holder or ""). The system releases the lock when this process ends."""
    while True:
        state.mkdir(parents=True, exist_ok=True)
        try:
            stream = open_lock(state / "lock")
        except FileNotFoundError:
            continue  # the holder has just removed the folder
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None, _read(stream)
        except OSError as error:
            raise UserError(
                f"{state}: this file system has no locks ({error.strerror}), so a second process on the run would go unnoticed; name a"
                " folder on another file system with --state (a cluster's scratch or home folder)"
            ) from None
        if is_current(stream, state / "lock"):
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


def _is_running(job: str) -> bool:
    """Whether a Slurm job may still write. Some file systems keep locks local to a node, so flock misses holders on other nodes. A
    job that Slurm does not know has ended long ago. If Slurm does not answer, the job counts as running."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:  # no Slurm here
        return False
    except (OSError, subprocess.TimeoutExpired):
        return True
    if done.returncode:
        return "Invalid job id" not in done.stderr
    return done.stdout.strip() in ALIVE


def _ask_to_stop(state: Path, holder: str) -> None:
    """Send SIGTERM to the process that holds a lock: directly on this node, through Slurm on another."""
    found = HOLDER.fullmatch(holder)
    remedy = "stop it by hand and run again"
    if found is None:
        raise UserError(f"{state}: '{holder}' is training this run, but names no process to stop; {remedy}")
    if found["node"] == os.uname().nodename:
        try:
            process = psutil.Process(int(found["process"]))
            if int(found["process"]) == 1 or not _has_open(process, state / "lock"):
                raise UserError(
                    f"{state}: {holder} is in the lock, but it does not hold the lock, and another process does (the number may be used again,"
                    f" or be of another container); nothing was stopped: find the process (fuser -v {state / 'lock'}), {remedy}"
                )
            process.send_signal(signal.SIGTERM)  # psutil refuses where the number is used again
        except psutil.NoSuchProcess:
            pass  # it has just ended
        except (psutil.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or "it belongs to another account"
            raise UserError(f"{state}: {holder} is training this run and cannot be asked to stop: {reason}; {remedy}") from None
        return
    if not found["job"]:
        raise UserError(f"{state}: {holder} is training this run and cannot be stopped from {os.uname().nodename}; {remedy}")
    if problem := _is_foreign(found["job"]):
        raise UserError(f"{state}: {holder} is in the lock, but {problem}; nothing was stopped: {remedy}")
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


def _has_open(process: psutil.Process, lock: Path) -> bool:
    """Whether a process of this account has the lock file open, as the process that holds its lock has."""
    if process.uids().real != os.getuid():
        raise psutil.AccessDenied(process.pid)
    for entry in process.open_files():
        with contextlib.suppress(OSError):
            if os.path.samefile(entry.path, lock):
                return True
    return False


def _is_foreign(job: str) -> str | None:
    """Why a Slurm job is not one of this account that was started in this clone; None if it is."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%U %Z"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"squeue does not say whose job {job} is ({error})"
    account, _, folder = next(iter(done.stdout.splitlines()), "").strip().partition(" ")
    if done.returncode or not account:
        return f"squeue does not say whose job {job} is"
    if account != str(os.getuid()):
        return f"job {job} belongs to another account"
    if os.path.realpath(folder) not in (os.path.realpath("."), os.path.realpath(CLONE)):
        return f"job {job} was started in another folder ({folder})"
    return None
