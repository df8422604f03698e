"""The library. A program that is interrupted while it still loads modules, or has no memory for them, ends at once, without a traceback;
`errors.run` then takes over."""

import signal
import sys
from pathlib import Path

from hardgrpo.runtime import user_settings

NO_MEMORY = ("Cannot allocate memory", "failed to map segment")  # the system's words, in errors of many kinds


def _said(kind, error, traceback) -> None:
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        print("error: there is no memory to load the program's libraries; free some, or take a larger machine", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


if Path(sys.argv[0]).absolute().parent.parent.name == "scripts":
    user_settings.ignore()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.excepthook = _said
