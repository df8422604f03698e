"""The state of an unfinished training: a folder of checkpoints, locked by one process at a time.

A checkpoint is complete once its manifest is written; incomplete checkpoints are removed when
training resumes. Scheduled checkpoints (every `checkpoint_every` updates) are exported at the end
of training; all others exist only to resume training. The newest two complete checkpoints,
scheduled or not, keep all files that resuming needs (the older of the two is a fallback). Scheduled
checkpoints before them keep only the model.
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

from hardgrpo.runtime import files, provenance
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
TRAINING_FILE = "trainer_state.json"  # training can resume from a checkpoint with this file
RESUMABLE_CHECKPOINTS = 2
LONGEST_PAUSE = 10.0  # seconds between two attempts to lock


# --- checkpoints


def checkpoint(state: Path, step: int) -> Path:
    """The folder of a checkpoint; `step` is its number of updates."""
    return state / f"checkpoint-{step}"


def newest(state: Path) -> int:
    """The number of updates in the newest checkpoint; 0 without checkpoints."""
    return max(_steps(state), default=0)


def _steps(state: Path) -> list[int]:
    numbers = (folder.name.removeprefix("checkpoint-") for folder in state.glob("checkpoint-*"))
    # a user's copy, such as checkpoint-20.old, is no checkpoint
    return sorted(int(number) for number in numbers if number.isdecimal())


def resume_point(state: Path, checkpoint_every: int, arithmetic: str | None = None) -> int:
    """The number of updates in the checkpoint to resume from (0: start from the base model).

    Training resumes from the newest complete checkpoint that has a training state and before which
    no scheduled checkpoint is missing. Incomplete, damaged and later checkpoints are removed;
    training will write the later checkpoints again. Raise a `UserError` if a checkpoint was
    computed with another `arithmetic` (see `recipes.arithmetic`), because the run would mix two
    arithmetics.
    """
    scheduled = point = 0
    for step in _steps(state):
        try:
            manifest = provenance.check_manifest(checkpoint(state, step))
        # The checkpoint may be intact, and removing it would lose all later training.
        except Unreadable:
            raise
        except UserError as error:
            if (checkpoint(state, step) / "manifest.json").exists():
                say(f"{error}; training does not resume from this checkpoint")
            shutil.rmtree(checkpoint(state, step))
            continue
        if manifest.get("arithmetic") != arithmetic:
            first_version = "the first version's"
            raise UserError(
                f"{checkpoint(state, step)}: another version of this program, which computes this recipe differently, saved this state"
                f" (arithmetic of the state: {manifest.get('arithmetic') or first_version}; of this version: {arithmetic or first_version}); delete"
                f" {state} to train the run from the beginning, or continue the run with that version"
            )
        if step > scheduled + checkpoint_every:
            break
        if step == scheduled + checkpoint_every:
            scheduled = step
        if TRAINING_FILE in manifest["files"]:
            point = step
    for step in _steps(state):
        if step > point:
            shutil.rmtree(checkpoint(state, step))
    return point


def thin(state: Path, checkpoint_every: int) -> None:
    """Remove all files that neither resuming nor the output needs. Call this function when a new
    checkpoint is complete."""
    complete_steps = [
        step for step in _steps(state) if (checkpoint(state, step) / "manifest.json").exists()
    ]
    for step in complete_steps[:-RESUMABLE_CHECKPOINTS]:
        if step % checkpoint_every:
            shutil.rmtree(checkpoint(state, step))
        else:
            _keep_model(checkpoint(state, step))


def _keep_model(folder: Path, *further_patterns: str) -> None:
    """Remove all files of a checkpoint except its model files and the files that match
    `further_patterns`."""
    manifest = files.read_json(folder / "manifest.json")
    entries, patterns = manifest.pop("files"), (*MODEL_FILES, *further_patterns)
    model_entries = {
        name: entry
        for name, entry in entries.items()
        if any(fnmatch(name, pattern) for pattern in patterns)
    }
    # The manifest is written first, so that it is valid at every moment. The next call removes
    # files that a kill leaves behind.
    if model_entries != entries:
        provenance.write_listing(folder, model_entries, **manifest)
    names = {*model_entries, "manifest.json"}
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in names:
            path.unlink()


def finish(state: Path, updates: int, checkpoint_every: int, keep: bool) -> None:
    """Remove the state of a run whose output is written; with `keep`, keep the scheduled
    checkpoints as `*.finished`.

    If Snakemake is killed before it notices the end of a job, the next Snakemake removes the job's
    output and reruns the job. The rerun then calls `restore` and does not train again. The kept
    weights take no space while they are hard links to the output's weights (see
    `files.link_or_copy`).
    """
    finished = state.with_suffix(".finished")
    if keep:
        for step in _steps(state):
            if step % checkpoint_every:
                shutil.rmtree(checkpoint(state, step))
            else:
                _keep_model(checkpoint(state, step), *[TRAINING_FILE] * (step == updates))
    shutil.rmtree(finished, ignore_errors=True)  # leftovers of an earlier attempt
    # atomic: a kill during the removal leaves no folder that looks like a state
    state.rename(finished)
    if not keep:
        shutil.rmtree(finished, ignore_errors=True)


def forget(provenance_files: Iterable[str | Path], folder: Path) -> None:
    """Remove the checkpoints that `finish` kept for runs whose end Snakemake has noticed.

    `provenance_files`: the `provenance.json` of these runs; `folder`: the folder of states.
    """
    finished_states = {path.stem: path for path in folder.glob("*.finished")}
    for path in provenance_files if finished_states else ():
        with contextlib.suppress(
            UserError
        ):  # the programs that read this run later report the error
            state = files.read_json(path).get("state")
            if isinstance(state, str) and state in finished_states:
                shutil.rmtree(finished_states[state], ignore_errors=True)


def restore(state: Path) -> None:
    """Move the checkpoints that `finish` kept back into the state folder."""
    finished = state.with_suffix(".finished")
    for folder in finished.glob("checkpoint-*"):
        if not (state / folder.name).exists():
            folder.rename(state / folder.name)
    shutil.rmtree(finished, ignore_errors=True)


# --- lock

# Slurm's states of a job that may still have processes
ALIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")
HOLDER = re.compile(
    r"process (?P<process>[1-9]\d*) on (?P<node>\S+?)(?:, Slurm job (?P<job>[1-9]\d*))?", re.ASCII
)
CLONE = Path(__file__).parents[3]


@contextlib.contextmanager
def hold_lock(
    state: Path, minutes: float | None = None, activity: str = "is training this run"
) -> Iterator[None]:
    """Create a state folder if needed and hold its lock. Raise a `UserError` if another process
    holds the lock.

    `activity`: what the holder is doing, for the message. With `minutes`, ask the holder to stop
    (SIGTERM) and wait at most `minutes` until the holder has saved its state.
    """
    stream = _acquire(state, minutes, activity)
    try:
        yield
    finally:
        # Another node may not see this node's locks. An empty file tells that node that the lock is
        # free.
        stream.truncate(0)
        stream.close()


def _acquire(state: Path, minutes: float | None, activity: str) -> TextIO:
    stopped_holder, pause, deadline = "", 0.1, time.monotonic() + 60 * (minutes or 0)
    while True:
        stream, holder = _try_lock(state)
        if stream is not None:
            return stream
        if minutes is None or (stopped_holder and holder and holder != stopped_holder):
            raise UserError(
                f"{state}: {holder or 'another process'} {activity}; wait for it, or stop it"
            )
        if holder and not stopped_holder:
            stopped_holder = holder
            _ask_to_stop(state, holder)
            say(
                f"{state}: {holder} still trains this run, which is now the work of this job. {holder} received SIGTERM; this job waits at"
                f" most {minutes:g} minutes for {holder} to end and resumes from the saved state"
            )
        if time.monotonic() > deadline:
            raise UserError(
                f"{state}: {holder or 'another process'} did not release this run within {minutes:g} minutes; stop it by hand, or"
                " wait longer with --take-over-minutes"
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _try_lock(state: Path) -> tuple[TextIO | None, str]:
    """(open file that holds the lock, ""), or (None, the other process that holds the lock). The
    system releases the lock when this process ends."""
    while True:
        state.mkdir(parents=True, exist_ok=True)
        try:
            stream = open_lock(state / "lock")
        except FileNotFoundError:
            continue  # the previous holder has just removed the folder
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None, _read_holder(stream)
        except OSError as error:
            raise UserError(
                f"{state}: this file system has no locks ({error.strerror}), so a second process on the run would go unnoticed; name a"
                " folder on another file system with --state (a cluster's scratch or home folder)"
            ) from None
        if is_current(stream, state / "lock"):
            break
        stream.close()
    recorded_holder = HOLDER.fullmatch(holder := _read_holder(stream, close=False))
    if (
        recorded_holder
        and recorded_holder["node"] != os.uname().nodename
        and recorded_holder["job"]
        and _is_running(recorded_holder["job"])
    ):
        stream.close()
        return None, holder
    stream.truncate(0)
    job = os.environ.get("SLURM_JOB_ID")
    stream.write(
        f"process {os.getpid()} on {os.uname().nodename}" + (f", Slurm job {job}" if job else "")
    )
    stream.flush()
    return stream, ""


def _read_holder(stream: TextIO, close: bool = True) -> str:
    stream.seek(0)
    text = stream.read().strip()
    if close:
        stream.close()
    return text


def _is_running(job: str) -> bool:
    """Whether a Slurm job may still write to its state folder. On some file systems, flock does not
    see locks that another node holds.

    A job that Slurm does not know has ended long ago. If Slurm does not answer, the job counts as
    running.
    """
    try:
        process = subprocess.run(
            ["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, timeout=60
        )
    except FileNotFoundError:  # this machine has no Slurm
        return False
    except (OSError, subprocess.TimeoutExpired):
        return True
    if process.returncode:
        return "Invalid job id" not in process.stderr
    return process.stdout.strip() in ALIVE


def _ask_to_stop(state: Path, holder: str) -> None:
    """Send SIGTERM to the holder of a lock: directly on this node, through Slurm on another
    node."""
    holder_fields = HOLDER.fullmatch(holder)
    remedy = "stop it by hand and run again"
    if holder_fields is None:
        raise UserError(
            f"{state}: the lock is held, but its text '{holder}' names no process; find the process that has the lock open"
            f" (fuser -v {state / 'lock'}), {remedy}"
        )
    if holder_fields["node"] == os.uname().nodename:
        try:
            process = psutil.Process(int(holder_fields["process"]))
            if int(holder_fields["process"]) == 1 or not _has_open(process, state / "lock"):
                raise UserError(
                    f"{state}: the lock names {holder}, but another process holds the lock (the process number may have been reused after the"
                    f" holder's end, or may belong to another container); nothing was stopped: find the process (fuser -v {state / 'lock'}), {remedy}"
                )
            process.send_signal(signal.SIGTERM)  # psutil refuses if the process id has been reused
        except psutil.NoSuchProcess:
            pass  # the holder has just ended
        except (psutil.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or "it belongs to another account"
            raise UserError(
                f"{state}: {holder} is training this run and cannot be asked to stop: {reason}; {remedy}"
            ) from None
        return
    if not holder_fields["job"]:
        raise UserError(
            f"{state}: {holder} is training this run and cannot be stopped from {os.uname().nodename}; {remedy}"
        )
    if problem := _is_foreign(holder_fields["job"]):
        raise UserError(
            f"{state}: the lock names {holder}, but {problem}; nothing was stopped: find the process that trains this run, {remedy}"
        )
    command = ["scancel", "--signal=TERM", holder_fields["job"]]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        problem = (
            " ".join(completed.stderr.split()) or f"exit status {completed.returncode}"
            if completed.returncode
            else None
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        raise UserError(
            f"{state}: {holder} is training this run and cannot be asked to stop: {' '.join(command)}: {problem}; {remedy}"
        )


def _has_open(process: psutil.Process, lock: Path) -> bool:
    """Whether a process has the lock file open, as the holder of the lock does. Raise
    `psutil.AccessDenied` for a process of another account."""
    if process.uids().real != os.getuid():
        raise psutil.AccessDenied(process.pid)
    for entry in process.open_files():
        with contextlib.suppress(OSError):
            if os.path.samefile(entry.path, lock):
                return True
    return False


def _is_foreign(job: str) -> str | None:
    """The reason why a Slurm job is not known to belong to this account and this clone; None if the
    job belongs to them."""
    try:
        process = subprocess.run(
            ["squeue", "-h", "-j", job, "-o", "%U %Z"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"squeue does not say whose job {job} is ({error})"
    account, _, folder = next(iter(process.stdout.splitlines()), "").strip().partition(" ")
    if process.returncode or not account:
        return f"squeue does not say whose job {job} is"
    if account != str(os.getuid()):
        return f"job {job} belongs to another account"
    if os.path.realpath(folder) not in (os.path.realpath("."), os.path.realpath(CLONE)):
        return f"job {job} was started in another folder ({folder})"
    return None
