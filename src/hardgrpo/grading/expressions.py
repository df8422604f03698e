r"""Compare expressions: this module compares numbers and words, and Math-Verify compares all other
expressions.

Math-Verify may compute forever on a model's text ('9^{9^{9^9}}'). It therefore runs in a helper
process with limits of processor time and memory (equivalence.py), one for each thread that asks. A
comparison that ends its helper is undecided.
"""

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from subprocess import DEVNULL, PIPE

from hardgrpo.grading import equivalence
from hardgrpo.grading.quantities import (
    TEXT,
    Quantity,
    read_number,
    read_quantity,
    remove_marks,
    to_latex_with_accents,
)
from hardgrpo.runtime.errors import UserError

LONGEST_EXPRESSION = 1000  # characters; longer texts are equal only if `same_text` holds
# Limit of a question's processor time: with a limit of wall time, grades would depend on the load.
SECONDS = 10.0
# Environment variables that the helper inherits. It must not have access tokens, because it processes
# texts of a model.
HELPER_VARIABLES = re.compile(r"PATH|HOME|USER|LOGNAME|LANG|TZ|TMPDIR|PYTHON\w*|(LC|LD|DYLD)_\w+")


# --- comparisons ---

# The base of a number: '_8' in '52_8'. Math-Verify would ignore the base of an answer.
BASE = re.compile(r"(?<=\d)_\{?([^{}]+)\}?$")
EMPTY_SETS = {r"\emptyset", r"\varnothing", r"\O", r"\{\}", "emptyset"}


def check_installed() -> None:
    if importlib.util.find_spec("math_verify") is None:
        raise UserError(
            "math expressions are graded by Math-Verify, which is not installed; `make setup` installs it"
        )


def same_text(left: str, right: str) -> bool:
    r"""Whether texts are equal except for spaces, including LaTeX's: true for '(3,\,4)' and
    '(3, 4)', false for '1 1/2' and '11/2'."""
    return _remove_spaces(left) == _remove_spaces(right)


def _remove_spaces(text: str) -> str:
    text = re.sub(r"(?:\\[,;:! ]|~|\\q?quad(?![A-Za-z])|\s)+", " ", text).strip()
    return re.sub(r"(?<!\d) | (?!\d)", "", text)


@functools.lru_cache(maxsize=2**16)
def equal(reference: str, answer: str) -> bool | None:
    """Whether an answer is equivalent to a reference; None if undecided. As in Math-Verify, an
    inequality as reference accepts a set as answer, but a set does not accept an inequality."""
    if same_text(reference, answer):
        return True
    if max(len(reference), len(answer)) > LONGEST_EXPRESSION:
        return False
    reference, answer = to_latex_with_accents(reference), to_latex_with_accents(answer)
    verdict = _compare_without_helper(reference, answer)
    return _ask({"compare": [reference, answer]}) if verdict is None else verdict


def _compare_without_helper(reference: str, answer: str) -> bool | None:
    """Whether words, empty sets or quantities are equal; None for other
    expressions, which Math-Verify compares."""
    words = [_normalise_words(text) for text in (reference, answer)]
    if words[0] == words[1] or set(words) <= EMPTY_SETS:
        return True
    if any(map(BASE.search, words)):
        number, answer_number = (BASE.sub(r"_\1", text) for text in words)
        return answer_number == number or words[1] == BASE.sub("", words[0])
    left, right = read_quantity(reference), read_quantity(answer)
    if not left or not right or left.bare:  # bare: in 5m, m may be a variable
        return None
    if "=" in reference and "=" in answer and left.value == right.value:
        return None  # left to Math-Verify: x = 5 does not equal y = 5
    return _same_quantity(left, right)


def _same_quantity(left: Quantity, right: Quantity) -> bool:
    """Whether two quantities are equal; if only one is a ratio, after rounding. '50%' equals both 50
    and 1/2."""
    pairs = [(left.value, right.value)]
    if left.percent != right.percent:
        shares = [side.value / (100 if side.percent else 1) for side in (left, right)]
        pairs.append(tuple(shares))
    return any(a == b or (left.ratio != right.ratio and _is_rounding(a, b)) for a, b in pairs)


def _is_rounding(left: Fraction, right: Fraction) -> bool:
    return round(left, 6) == round(right, 6) and abs(left - right) <= Fraction(
        equivalence.ROUNDING_TOLERANCE
    ) * max(abs(left), abs(right))


def _normalise_words(text: str) -> str:
    r"""'**Evelyn**.' -> 'evelyn': no marks, no spaces except between digits, lower case. Texts with
    a LaTeX command ('\Delta') and texts without two adjacent letters ('A') keep their case."""
    text = _remove_spaces(TEXT.sub(r"\1", remove_marks(text))).rstrip(".")
    return text if "\\" in text or not re.search("[A-Za-z]{2}", text) else text.casefold()


@functools.lru_cache(maxsize=2**16)
def parses(text: str) -> bool:
    """Whether an answer is a number, or an expression that Math-Verify parses."""
    if len(text) > LONGEST_EXPRESSION or not text.strip():
        return False
    return read_number(text) is not None or bool(_ask({"parse": to_latex_with_accents(text)}))


# --- the helper process ---


_idle_helpers: list[subprocess.Popen] = []


def _ask(question: dict) -> bool | None:
    """A helper's reply; None if the question ends the helper."""
    helper = _take_helper()
    try:
        helper.stdin.write(json.dumps(question | {"seconds": SECONDS}).encode() + b"\n")
        line = helper.stdout.readline()
    except BrokenPipeError:
        line = b""
    except BaseException:
        # after an interrupt, the next question would read the reply to this question
        _stop(helper)
        raise
    if line:
        _idle_helpers.append(helper)
        return json.loads(line)
    _stop(helper)
    return None


def _take_helper() -> subprocess.Popen:
    while True:
        try:
            helper = _idle_helpers.pop()
        except IndexError:
            return _start_helper()
        if helper.poll() is None:
            return helper
        _stop(helper)


def _start_helper() -> subprocess.Popen:
    check_installed()
    source = str(Path(__file__).resolve().parents[2])
    environment = {
        name: value for name, value in os.environ.items() if HELPER_VARIABLES.fullmatch(name)
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "PYTHONHASHSEED": "0",  # SymPy's sets have the same order in every run
        "SYMPY_USE_CACHE": "yes",
        "SYMPY_GROUND_TYPES": "python",
    }
    # -P: no import from the working folder
    command = [sys.executable, "-P", "-m", equivalence.__name__]
    # Slurm sends SIGTERM to all processes of a job, but the current update still needs the helper.
    signal_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        helper = subprocess.Popen(
            command, env=environment, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, bufsize=0
        )
    except OSError as error:
        raise UserError(
            f"the process that runs Math-Verify cannot be started: {error.strerror}"
        ) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal_mask)
    try:
        ready = helper.stdout.readline()
    except BaseException:
        _stop(helper)
        raise
    if not ready:
        _stop(helper)
        raise UserError(
            f"Math-Verify does not start; `PYTHONPATH={source} {' '.join(command)}` shows why"
        )
    return helper


def _stop(helper: subprocess.Popen) -> None:
    with contextlib.suppress(OSError):
        helper.stdin.close()
    helper.stdout.close()
    helper.kill()
    helper.wait()


def stop_helpers() -> None:
    """Stop the helpers that no thread uses."""
    while _idle_helpers:
        _stop(_idle_helpers.pop())


def _reset_after_fork() -> None:
    while _idle_helpers:
        helper = _idle_helpers.pop()
        helper.stdin.close()
        helper.stdout.close()
        helper.returncode = 0  # the parent waits for the helper


atexit.register(stop_helpers)
os.register_at_fork(after_in_child=_reset_after_fork)
