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
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import Unreadable, UserError
from hardgrpo.runtime.interruption import say

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


# --- checkpoints


def checkpoint(state: Path, step: int) -> Path:
    return state / f"checkpoint-{step}"


def newest(state: Path) -> int:
    return max(_steps(state), default=0)


def _steps(state: Path) -> list[int]:
    numbers = (folder.name.removeprefix("checkpoint-") for folder in state.glob("checkpoint-*"))
    # a user's copy, such as checkpoint-20.old, is no checkpoint
    return sorted(int(number) for number in numbers if number.isdecimal())


def resume_point(state: Path, checkpoint_every: int) -> int:
    """The number of updates in the checkpoint to resume from (0: the base model): the newest
    complete one with a training state before which no scheduled checkpoint is missing. Incomplete,
    damaged and later checkpoints are removed."""
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
    """Remove all files that neither resuming nor the output needs, after each new checkpoint."""
    complete_steps = [
        step for step in _steps(state) if (checkpoint(state, step) / "manifest.json").exists()
    ]
    for step in complete_steps[:-RESUMABLE_CHECKPOINTS]:
        if step % checkpoint_every:
            shutil.rmtree(checkpoint(state, step))
        else:
            _keep_model(checkpoint(state, step))


def _keep_model(folder: Path, *further_patterns: str) -> None:
    """Remove a checkpoint's files except the model and files that match `further_patterns`."""
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
    checkpoints as `*.finished`. If Snakemake is killed before it notices the end of a job, the next
    Snakemake removes the output and reruns the job, which then calls `restore` and does not train
    again. Kept weights are hard links to the output's and take no space."""
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
    """Remove what `finish` kept for the runs of `provenance_files`, whose end Snakemake has
    noticed."""
    finished_states = {path.stem: path for path in folder.glob("*.finished")}
    for path in provenance_files if finished_states else ():
        with contextlib.suppress(
            UserError
        ):  # the programs that read this run later report the error
            state = files.read_json(path).get("state")
            if isinstance(state, str) and state in finished_states:
                shutil.rmtree(finished_states[state], ignore_errors=True)


def restore(state: Path) -> None:
    finished = state.with_suffix(".finished")
    for folder in finished.glob("checkpoint-*"):
        if not (state / folder.name).exists():
            folder.rename(state / folder.name)
    shutil.rmtree(finished, ignore_errors=True)


# --- lock


@contextlib.contextmanager
def hold_lock(state: Path) -> Iterator[None]:
    """Create a state folder and hold its lock, which the system releases when this process ends."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "lock", "a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "another process"
            raise UserError(
                f"{state}: {holder} is training this run; wait for it, or stop it"
            ) from None
        except OSError as error:
            raise UserError(
                f"{state}: this file system has no locks ({error.strerror}), so a second process on the run would go unnoticed; name a"
                " folder on another file system with --state (a cluster's scratch or home folder)"
            ) from None
        job = os.environ.get("SLURM_JOB_ID")
        stream.truncate(0)
        stream.write(
            f"process {os.getpid()} on {os.uname().nodename}"
            + (f", Slurm job {job}" if job else "")
        )
        stream.flush()
        yield
