"""SIGTERM, with which Slurm ends a job at its time limit, for another job (preemption) or by scancel, and what it does to pipes.

Between `save_first()` and `stop_at_once()` the signal is only noted, and the program looks at `asked()` where it can stop without
losing anything. At any other time there is nothing to save beyond what is on the disk, and the program ends at once.
"""

import contextlib
import os
import signal
import stat
import sys

_asked = _save_first = False


def watch(quiet: bool = False) -> None:
    """Take SIGTERM from now on; also one that came while this program was started with it blocked."""
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
        # Slurm signals every process of a job step, also the one that reads this pipe: what is still to be said goes to the log.
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            os.dup2(2, 1)
    if not _save_first:
        _leave()
    if first and not quiet:
        # Not print: the signal may have come in the middle of one.
        os.write(2, b"SIGTERM: training stops after this update and saves its state\n")


def _leave() -> None:
    # Not an exception: while libraries are imported or objects deleted it could be lost, and the program would go on.
    os.write(2, b"error: stopped by SIGTERM; start the same command again to go on from what is saved\n")
    os._exit(1)


def say(*words: str) -> None:
    """Print; a reader that is gone (see `_note`) is no reason to lose the work."""
    try:
        print(*words, flush=True)
    except BrokenPipeError:
        os.dup2(2, 1)
        sys.stdout.flush()
