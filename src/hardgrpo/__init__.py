"""The library. A program that is interrupted while it still loads modules ends at once, without a traceback; `errors.run` then takes over."""

import signal
import sys
from pathlib import Path

if Path(sys.argv[0]).absolute().parent.parent.name == "scripts" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
