"""Handle SIGTERM, and the broken pipes that follow SIGTERM. Slurm sends SIGTERM at a job's time
limit, on preemption and for scancel.

Between `save_first()` and `stop_at_once()` the handler records the signal without ending the
program, and the program checks `stop_requested()` wherever it can save its state and stop. Before
`save_first()` and after `stop_at_once()` no state has to be saved, and the handler ends the program
at once.
"""

import contextlib
import os
import signal
import stat
import sys

_stop_requested = _save_first = False


def watch(quiet: bool = False) -> None:
    """Handle SIGTERM from now on, including a signal that arrived while SIGTERM was blocked."""
    signal.signal(signal.SIGTERM, lambda *_: _record(quiet))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def save_first() -> None:
    global _save_first
    _save_first = True


def stop_at_once() -> None:
    global _save_first
    _save_first = False


def stop_requested() -> bool:
    return _stop_requested


def _record(quiet: bool) -> None:
    global _stop_requested
    first, _stop_requested = not _stop_requested, True
    with contextlib.suppress(OSError):
        # Slurm also signals `tee`, which reads this pipe, so write to stderr (the log) from now on.
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            os.dup2(2, 1)
    # `os.write`, because the signal may have interrupted a `print`.
    if not _save_first:
        os.write(
            2,
            b"error: stopped by SIGTERM; start the same command again to resume from the saved state\n",
        )
        # Not an exception: Python drops exceptions in some places (imports, __del__), and the
        # program would continue.
        os._exit(1)
    if first and not quiet:
        os.write(2, b"SIGTERM: training stops after this update and saves its state\n")


def say(*words: str) -> None:
    """Print a line; if the reader of the pipe is gone (see `_record`), to stderr from then on."""
    try:
        print(*words, flush=True)
    except BrokenPipeError:
        os.dup2(2, 1)
        sys.stdout.flush()
