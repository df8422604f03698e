"""Run one case and decide whether it ended well.

A case ends well if it finishes without an exception (it checks its result with `assert`), or if it
raises a `UserError` whose message has at most MOST_LINES printable lines (a message about a
configuration has one line for each mistake). A program may also exit with a status other than 0 and
such a message. Findings are a failed `assert`, another exception, a longer or unprintable message,
a status other than 0 without a message, and more than 5 seconds of processor time. Wall time does
not count, because the machine may be busy.
"""

import contextlib
import importlib.util
import io
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

from command_line import format_options
from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError

SECONDS = 5.0
# If the handler of SIGPROF cannot end a case, SIGXCPU ends this process after the case has used
# this number of seconds of processor time.
STUCK = 60
MEMORY_BYTES = 6 << 30
SCRIPTS = Path(__file__).parents[2] / "scripts"
LONGEST_LINE = 1500  # characters of a line of a message
MOST_LINES = 21


class TooLongError(BaseException):
    """Ends a case that takes too long. This error is not a subclass of Exception, because
    some readers of files catch Exception and report a mistake in the file."""


def _too_long(*_):
    raise TooLongError


def limit_this_process() -> None:
    """Limit the memory of this process, so that a case that asks for all memory gets a MemoryError.
    Let a case that exceeds its processor time end with a TooLongError."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _too_long)


def judge_case(case: Callable[[], None]) -> tuple[str, str]:
    """The outcome of a case (refused, right, traceback, hang, wrong or message) and its details."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(
        resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + STUCK, resource.RLIM_INFINITY)
    )
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        case()
        outcome = "right", ""
    except UserError as error:
        outcome = _message(str(error))
    except AssertionError as error:
        outcome = "wrong", _last_lines(error)
    except TooLongError as error:
        outcome = "hang", _last_lines(error)
    except BaseException as error:
        outcome = "traceback", _last_lines(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if outcome[0] in ("right", "refused") and time.process_time() - started > SECONDS:
        return "hang", f"{time.process_time() - started:.1f} s of processor time"
    return outcome


def _message(text: str) -> tuple[str, str]:
    """The outcome of a case with an error message: `refused` if the message has at most MOST_LINES
    lines, each printable, not empty and not longer than LONGEST_LINE, else `message`."""
    lines = text.splitlines()
    good = (
        lines
        and len(lines) <= MOST_LINES
        and all(line.strip() and line.isprintable() and len(line) <= LONGEST_LINE for line in lines)
    )
    return ("refused", text) if good else ("message", repr(text[:300]))


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    project_frames = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in frames
        if "hardgrpo" in frame.filename or "scripts" in frame.filename
    ]
    return f"{type(error).__name__}: {str(error)[:300]!r} at {' < '.join(reversed(project_frames[-3:])) or frames[-1].filename + str(frames[-1].lineno)}"


@cache
def program(name: str):
    """A program of scripts/ as a module."""
    (path,) = SCRIPTS.glob(f"*/{name}.py")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"program_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_program(name: str, /, *arguments: object, **options: object) -> str:
    """Run a program's `main` as its process would. `command_line.format_options` formats `options`.
    Return the program's output, or raise a `UserError` with the error message that the program
    ended with."""
    output, error_output = io.StringIO(), io.StringIO()
    sys.argv = [f"{name}.py", *map(str, arguments), *format_options(**options)]
    status: object = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error_output):
        try:
            errors.run(program(name).main)
        except SystemExit as end:
            status = end.code
    lines = output.getvalue().split("\n")
    assert all(line.isprintable() for line in lines), (
        f"unprintable output: {next(line for line in lines if not line.isprintable())[:200]!r}"
    )
    if status in (0, None):
        return output.getvalue()
    if isinstance(status, str):
        raise UserError(status)
    usage, mark, reason = error_output.getvalue().rpartition(f"{name}.py: error: ")
    assert status == 2 and mark and usage.startswith("usage: "), (
        f"status {status} without an error message: {error_output.getvalue()[-300:]!r}"
    )
    raise UserError(reason.removesuffix("\n"))
