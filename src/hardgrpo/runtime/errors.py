"""Report errors that a user can cause: the program ends with a short message (usually one line),
without a traceback, and with exit status 1, and leaves no half-written files."""

import argparse
import contextlib
import errno
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence


class UserError(Exception):
    """An error that a user can cause: place, problem, expectation and remedy, which `run` prints
    without a traceback. `lines` are further lines. Passwords are removed, and control characters
    escaped, because a message may quote a model's output."""

    def __init__(self, message: object, *lines: object):
        super().__init__("\n".join(map(printable, (message, *lines))))


class Unreadable(UserError):
    """A file that cannot be read at present, may be intact, and must not be removed."""


class RowError(UserError):
    """An error in one row of a file. `row` is its place, such as "row 7"."""

    def __init__(self, path: object, row: str, problem: str, remedy: str = ""):
        super().__init__(f"{path}: {row}: {problem}" + (f"; {remedy}" if remedy else ""))
        self.path, self.row, self.problem = str(path), row, problem


FIRST_ROWS = 5  # number of rows listed in a message about many rows


def refuse_rows(row_errors: list[RowError]) -> None:
    """Raise one error for all of `row_errors`, if any: the first in full, the places of the first
    ones, and their number."""
    if len(row_errors) < 2:
        for error in row_errors:
            raise error
        return
    first, places = row_errors[0], []
    for error in row_errors[:FIRST_ROWS]:
        place = error.row if error.path == first.path else f"{error.path}: {error.row}"
        places.append(
            place if error.problem == first.problem else f"{place} ({error.problem[:100]})"
        )
    ellipsis = ", ..." if len(row_errors) > FIRST_ROWS else ""
    raise UserError(
        f"{first}. {len(row_errors):,} rows are wrong: {', '.join(places)}{ellipsis}"
    ) from None


SHORTEST_SECRET = (
    6  # characters; shorter values are not hidden, because ordinary words contain them
)
LONGEST_MESSAGE = 1500  # characters; the middle of a longer message is left out
LONGEST_REASON = 500  # characters of a library's message about a model


def printable(text: object) -> str:
    """One line of at most about LONGEST_MESSAGE characters, without passwords, with unprintable
    characters (control characters, bidirectional marks, surrogates) escaped."""
    line = without_passwords(str(text))
    # repr also escapes backslashes and quotes, so it is applied only to unprintable characters
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
    if len(line) <= LONGEST_MESSAGE:
        return line
    return f"{line[: LONGEST_MESSAGE // 2]} ... {line[-LONGEST_MESSAGE // 3 :]}"


# Endings of the names of variables whose values are secrets
SECRET_NAMES = (
    "TOKEN",
    "API_KEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
    "SECRET_KEY",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "_PASS",
)
_hidden_names: set[str] = set()  # further variables whose values are secrets
IN_ADDRESS = re.compile(r"(?<=//)[^/\s'\"]*@")  # account and password
IN_QUERY = re.compile(  # secrets in the query of a signed address
    r"(?<=[?&])([\w-]*(?:signature|token|credential|password|secret|key)|sig)=[^&\s'\"<>()]+",
    re.IGNORECASE,
)


def without_passwords(text: str) -> str:
    """The text without accounts and passwords of addresses and secrets of the environment."""
    for secret in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(secret, "...")
    return IN_QUERY.sub(r"\1=...", IN_ADDRESS.sub("", text))


def hide(variable: str) -> None:
    """Treat the value of an environment variable as a secret, whatever its name."""
    _hidden_names.add(variable)


def _secrets() -> set[str]:
    secrets = set()
    for name, value in os.environ.items():
        if name in _hidden_names or name.upper().endswith(SECRET_NAMES):
            secrets |= {value, value.strip()}
        # addresses with an account; a proxy may be ACCOUNT:PASSWORD@HOST without https://
        is_address = "//" in value or name.upper().endswith("_PROXY")
        for address in value.split() if is_address and "@" in value else ():
            _, slashes, place = address.partition("//")
            account = (place if slashes else address).rpartition("@")[0]
            secrets |= {account, account.partition(":")[2]}
    return {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}


def first_entries(entries: Sequence[str], number: int = 5) -> str:
    return ", ".join(entries[:number]) + (", ..." if len(entries) > number else "")


# Libraries that write files in native code raise their own exceptions for a full disk, with the
# system's words in the message.
DISK_FULL_WORDS = (
    "No space left on device",
    "File too large",
    "Disk quota exceeded",
    "os error 28",
    "os error 27",
)


def parser(description: str, *required: str) -> argparse.ArgumentParser:
    """A parser of a program's arguments; `description` is the program's docstring. Each of
    `required` is an option that must be given."""
    program_parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in required:
        program_parser.add_argument(option, required=True)
    return program_parser


def run(main: Callable[[], None]) -> None:
    """Call a program's `main`. A `UserError` or a failure that `explain` knows becomes a message on
    stderr and exit status 1."""
    sys.excepthook = show_traceback
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        # a second Ctrl-C ends Python at once, also during its exit
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.exit("error: interrupted; start the same command again to resume")
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        # the libraries' exit handlers may fail for the same reason
        sys.unraisablehook = lambda _: None
        sys.exit(f"error: {message}")


def show_traceback(kind: type, error: BaseException, trace) -> None:
    """A `sys.excepthook` that makes each line `printable`."""
    for line in "".join(traceback.format_exception(kind, error, trace)).splitlines():
        print(printable(line), file=sys.stderr)


UNUSABLE, CHOOSE_ANOTHER = (
    "the model, its tokenizer or chat template cannot be used",
    "fetch the model again, or choose another model",
)


@contextlib.contextmanager
def while_loading(
    path: object, problem: str = UNUSABLE, remedy: str = CHOOSE_ANOTHER
) -> Iterator[None]:
    """Turn the many errors of libraries about damaged files of a model into a `UserError`."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A panic of tokenizers, a Rust library, is not a subclass of `Exception`.
        is_of_library = isinstance(error, Exception) or type(error).__name__ == "PanicException"
        if not is_of_library or explain(error) is not None:
            raise
        raise unusable(path, type(error).__name__, str(error), problem, remedy) from None


def unusable(
    path: object, kind: str, reason: str, problem: str = UNUSABLE, remedy: str = CHOOSE_ANOTHER
) -> UserError:
    """The error about a model whose files raise a library's exception `kind`."""
    reason = " ".join(f"{kind}: {reason}".split())[:LONGEST_REASON].removesuffix(":")
    return UserError(f"{path}: {problem} ({reason}); {remedy}")


# Words with which torch and vLLM report that a GPU's memory is full.
GPU_FULL_WORDS = (
    "CUDA out of memory",
    "No available memory for the cache blocks",
    "Free memory on device",
    "to serve at least one request",
)
# messages of the system, of C++ and of Python about a lack of memory, in errors of many kinds
NO_MEMORY = (
    "Cannot allocate memory",
    "failed to map segment",
    "bad_alloc",
    "can't allocate memory",
    "can't start new thread",
)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


def explain(error: BaseException) -> str | None:
    """One line about a failure of the machine (disk, permissions, memory, GPU), or about a model
    that vLLM's CPU build cannot run; None for other errors."""
    if type(error).__name__ == "OutOfMemoryError" or any(
        words.lower() in str(error).lower() for words in GPU_FULL_WORDS
    ):
        return (
            f"the GPU's memory is full ({str(error).splitlines()[0]}); lower the task's completion_tokens, or"
            " micro_batch or vllm_memory of the model, or give it more `gpus`; finished results are untouched"
        )
    if is_out_of_memory(error):
        return f"the program needs more memory than is available ({printable(error) or 'amount unknown'}); request fewer or shorter completions, or use a machine with more memory"
    if "Unsupported CPU attention configuration" in str(error):
        return f"vLLM's CPU build cannot run this model ({error}); set the model's engine to transformers"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        place = f" while writing {error.filename}" if error.filename else ""
    elif any(words in str(error) for words in DISK_FULL_WORDS):
        place = f" ({str(error).splitlines()[0]})"
    elif (
        isinstance(error, OSError)
        and error.errno is not None  # an error of a server has none
        and error.filename
        and not isinstance(error, (FileNotFoundError, FileExistsError))
    ):
        return f"cannot read or write {error.filename}: {error.strerror}; no result was removed: correct this, or choose another folder, and run again"
    else:
        # torch.save hides the reason of a failed write in the chain of exceptions.
        chained = error.__cause__ or error.__context__
        return explain(chained) if chained is not None else None
    return f"the disk is full{place}; finished results are untouched: free some space and run the same command again"
