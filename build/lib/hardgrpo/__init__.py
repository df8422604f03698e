"""The library. While a program still loads modules, an interruption or a lack of memory ends the
program at once, without a traceback. Once the modules are loaded, `errors.run` handles both."""

import _signal  # `signal` itself takes a while to load, during which Ctrl-C would print a traceback
import os
import sys

IS_PROGRAM = (
    os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))) == "scripts"
)
IS_COMMAND = os.path.basename(sys.argv[0]) == "hardgrpo"
if (IS_PROGRAM or IS_COMMAND) and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import resource  # noqa: E402

from hardgrpo.runtime import user_settings  # noqa: E402

# messages of the system, of C++ and of Python about a lack of memory, in errors of many kinds
NO_MEMORY = (
    "Cannot allocate memory",
    "failed to map segment",
    "bad_alloc",
    "can't allocate memory",
    "can't start new thread",
)
# Python's messages if a C library fails without an exception. If the process has a limit of memory,
# the cause is taken to be a failed allocation.
NO_REASON = ("error return without exception set", "without setting an exception")


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, SystemError) and any(words in str(error) for words in NO_REASON):
        return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


def show_failed_import(kind: type, error: BaseException, traceback) -> None:
    """A `sys.excepthook` that reports a lack of memory in one line, and other errors as usual."""
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    if any(map(is_out_of_memory, causes)):
        # Exit handlers of libraries then fail as well; their errors are not shown.
        sys.unraisablehook = lambda _: None
        print(
            "error: there is no memory to load the program's libraries; free some memory, or use a machine with more memory",
            file=sys.stderr,
        )
    else:
        sys.__excepthook__(kind, error, traceback)


if IS_PROGRAM:
    user_settings.ignore()
    sys.excepthook = show_failed_import


def __getattr__(name: str):
    """`hardgrpo.choose`, which is loaded at its first use."""
    if name != "choose":
        raise AttributeError(name)
    import importlib

    return importlib.import_module(".choice.api", __name__).choose
