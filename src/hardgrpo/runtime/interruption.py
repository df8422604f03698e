"""Handle SIGTERM, which Slurm sends at a job's time limit, on preemption and for scancel, and survive the broken pipes that follow.

Between `save_first()` and `stop_at_once()` the handler only records the signal; the program checks `asked()` at points where it can
save its state and stop. At all other times the state is on disk already, and the handler ends the program at once.
"""

import contextlib
import os
import signal
import stat
import sys

_asked = _save_first = False


def watch(quiet: bool = False) -> None:
    """Handle SIGTERM from now on, also a signal that came while it was still blocked."""
    signal.signal(signal.SIGTERM, lambda *_: _note(quiet))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def save_first() -> None:
    global _save_first
    _save_first = True


def stop_at_once() -> None:
    global _save_first
    _save_first = False


def asked() -> bool:
    return _asked


def _note(quiet: bool) -> None:
    global _asked
    first, _asked = not _asked, True
    with contextlib.suppress(OSError):
        # Slurm also signals `tee`, which reads this pipe. Write to stderr, the log, from now on.
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            os.dup2(2, 1)
    if not _save_first:
        _leave()
    if first and not quiet:
        # Not print: the signal may have interrupted one.
        os.write(2, b"SIGTERM: training stops after this update and saves its state\n")


def _leave() -> None:
    # Not an exception: Python drops exceptions in some places (imports, __del__), and the program would continue.
    os.write(2, b"error: stopped by SIGTERM; start the same command again to resume from the saved state\n")
    os._exit(1)


def say(*words: str) -> None:
    """Print. If the reader of the pipe is gone (see `_note`), print to stderr from then on instead of failing."""
    try:
        print(*words, flush=True)
    except BrokenPipeError:
        os.dup2(2, 1)
        sys.stdout.flush()
