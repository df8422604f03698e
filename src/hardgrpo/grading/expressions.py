r"""Read written answers: this module reads exact numbers itself, and asks Math-Verify to compare expressions.

Math-Verify may compute for ever on a model's text ('9^{9^{9^9}}'), and its own time limit works only in the main thread.
It therefore runs in a helper process: this module as a program, with JSON Lines over pipes. Each process starts its helper with
its first question, and a new one when a question has killed the helper. A comparison that kills two helpers is undecided.
"""

import atexit
import contextlib
import functools
import importlib.util
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hardgrpo.runtime.errors import UserError

LONGEST_NUMBER, LONGEST_EXPRESSION = 200, 1000  # characters; longer texts are not read
SECONDS = (5.0, 40.0)  # of processor time for a question, so that a busy machine gives the same grades; first and second try
PATIENCE_SECONDS = 90.0  # wall time, for a helper that makes no progress
START_SECONDS = 180.0  # wall time: importing SymPy from a cluster's file system is slow
MEMORY_BYTES = 2 << 30


# --- numbers -------------------------------------------------------------------------------------------------------

TEXT = re.compile(r"\\(?:text\w*|mathrm|mathbf|mathit|mathsf|operatorname|mbox|hbox)\s*\{([^{}]*)\}")
SPELLINGS = [  # replacements that unify spellings, applied in this order
    (re.compile(r"\\!\s*|\\(?:left|right|displaystyle)(?![A-Za-z])|\{\}"), ""),
    (re.compile(r"(?:\\[,;: ]|~|\\q?quad(?![A-Za-z])|\s)+"), " "),
    (re.compile("[\u2010\u2011\u2013\u2212\ufe63\uff0d]"), "-"),
    (re.compile(r"\\([%$])|\{([,])\}|\\(?:text|mathrm)\{ ?\\?([%$€£¥₹]) ?\}"), r"\1\2\3"),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r" ?(?:\^ ?(?:\\circ|\{ ?\\circ ?\})|\\degree(?![A-Za-z]))"), "°"),
]
AROUND = [re.compile(p, re.DOTALL) for p in (TEXT.pattern, r"\{([^{}]*)\}", r"\$([^$]+)\$", r"\\\((.+)\\\)", r"\*+([^*]+)\*+")]

CURRENCY = r"(?:(?:US)?\$|[€£¥₹₩₽¢]|\\(?:pounds|euro|yen)\b|\b(?:USD|EUR|GBP|INR|CAD|AUD)\b|\bRs\b\.?)"
DIGITS = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
WHOLE = r"([1-9]\d{0,2}(?:,\d{3})+|\d+)"
PART = rf" ?(?:\{{ ?(-?{DIGITS}) ?\}}|(\d))"
SIGN = re.compile(rf"([+-]?) ?(?:{CURRENCY} ?)?([+-]?) ?")
LATEX_FRACTION = re.compile(rf"(?:{WHOLE} ?)?\\frac{PART}{PART}", re.ASCII)  # \frac{1}{2}, \frac12, \frac9{19}, 1\frac{1}{2}
FRACTION = re.compile(rf"(?:{WHOLE} )?({DIGITS}) ?/ ?({DIGITS})", re.ASCII)  # 1/2, 1 1/2
DECIMAL = re.compile(DIGITS, re.ASCII)
NAME = re.compile(r"[A-Za-z\\ ]*(?:_(?:\w|\{\w+\}))?'*(?:\([A-Za-z]\))? ?")  # what may stand before '='

WORD = r"[^\W\d_]++(?:-[^\W\d_]++)*+"
UNITS = re.compile(rf"(?:[ /.·()%°]|{CURRENCY}|\\cdot|{WORD}(?: ?\^ ?\{{?-?\d\}}?|[²³23])?+)*+")
SHORT_UNITS = re.compile(
    "cm|mm|km|dm|kg|mg|ml|cl|ft|in|yd|mi|lbs?|oz|pt|qt|gal|hrs?|min|sec|yrs?|wk|mph|kph|kmh|sq|cu|deg|rad|hz|khz|gb|mb|pts"
    "|usd|eur|gbp|inr|cad|aud|rs",
    re.IGNORECASE,
)
VARIABLE = re.compile(r"(?<=\d)[A-Za-z]{1,3}(?![A-Za-z])|(?<![A-Za-z])[A-Za-z]{1,2}(?![A-Za-z])")
LETTER_UNIT = re.compile(r"(?<=[ /])[mghsL](?![A-Za-z])")
MULTIPLES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
# A number followed by one of these words is another number, or not the only one: '5 and a half', '2 pi', '3 squared', '4 or more'.
NOT_UNITS = re.compile(
    "and|or|to|plus|minus|times|over|divided|half|halves|thirds?|pi|sqrt|root|squared|cubed|factorial|mod|base", re.IGNORECASE
)


def number(text: str) -> Fraction | None:
    r"""The number that an answer states, or None where it does not state exactly one.

    Numbers: '70,000', '70{,}000', '\$460', '18 \text{ cm}^2', '50\%' (50), '18.0', '\frac12', '1\frac{1}{2}', '-1 1/2', 'x = 5',
    '2 million'. No numbers: '2k', '3\pi', '3-4', '52_8', '2:00', '1,2'.
    """
    plain = _one_spelling(text) if len(text) <= LONGEST_NUMBER else ""
    name, equals, value = plain.rpartition("=")
    if equals and not NAME.fullmatch(TEXT.sub(r"\1", name)):
        return None
    value = value.strip()
    sign = SIGN.match(value)
    size, end = _magnitude(value, sign.end())
    if size is None or all(sign.groups()):
        return None
    multiple = _multiple(value[end:])
    return multiple and size * multiple * (-1 if "-" in sign.groups() else 1)


def is_number(text: str) -> bool:
    """Whether an answer is exactly one number. A bare letter counts as a variable, not as a unit, so '5 m' is none."""
    return number(text) is not None and not variables(text.rpartition("=")[2])


def _one_spelling(text: str) -> str:
    r"""Unify the spelling, and remove marks around the whole answer: '\text{18 cm}', '$18$', '**18**', '18.'."""
    for spelling, chosen in SPELLINGS:
        text = spelling.sub(chosen, text)
    for around in AROUND * 2:
        text = text.strip().rstrip(".,; ")
        text = around.sub(r"\1", text) if around.fullmatch(text) else text
    return text.strip()


def _magnitude(text: str, start: int) -> tuple[Fraction | None, int]:
    """The number without sign at `start`, and the place where it ends."""
    if found := LATEX_FRACTION.match(text, start) or FRACTION.match(text, start):
        whole, *parts = found.groups()
        above, below = (_decimal(part) for part in parts if part is not None)
        if not below or (whole is not None and not 0 < above < below):  # a mixed number needs a proper fraction
            return None, start
        return (0 if whole is None else _decimal(whole)) + above / below, found.end()
    if found := DECIMAL.match(text, start):
        return _decimal(found.group()), found.end()
    return None, start


def _decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace(" ", "").rstrip("."))


def _multiple(behind: str) -> int | None:
    """The factor that the text behind a number stands for: 1 for units, 10**6 for 'million dollars', None for anything else."""
    words = TEXT.sub(r" \1 ", behind)
    if not UNITS.fullmatch(words) or variables("0" + LETTER_UNIT.sub("", behind)):
        return None
    words = re.findall(WORD, words)
    if any(NOT_UNITS.fullmatch(word) for word in words):
        return None
    return MULTIPLES.get(words[0].casefold(), 1) if words else 1


def variables(text: str) -> bool:
    r"""Whether the text has letters that are variables, as in '2k', '3ab' or '6 - 5i', but not in '5 cm' or '5\text{ m}'."""
    bare = re.sub(r"\\[A-Za-z]+", " ", TEXT.sub(" ", text))
    return any(not SHORT_UNITS.fullmatch(letters) for letters in VARIABLE.findall(bare))


# --- expressions ---------------------------------------------------------------------------------------------------

IMAGINARY = re.compile(r"(?<![A-Za-z\\_])i(?![A-Za-z])")
IN_BASE = re.compile(r"([0-9A-Fa-f]+)_\{?(\d+)\}?")
LAST_UNIT = re.compile(r"(?<=.)\\(?:text|mbox|mathrm)\s*\{[^{}]*\}(?:\^\{?\d\}?)?\s*$")


def check_installed() -> None:
    if importlib.util.find_spec("math_verify") is None:
        raise UserError(
            "math expressions are graded by Math-Verify, which is not installed; `make test` and `make demo` install it"
            " (envs/training.txt)"
        )


def same_text(left: str, right: str) -> bool:
    r"""Whether two texts differ only in LaTeX's spaces: '(3,\,4)' and '(3, 4)'. A space between digits counts: '1 1/2' is not '11/2'."""
    return _spaceless(left) == _spaceless(right)


def _spaceless(text: str) -> str:
    text = re.sub(r"(?:\\[,;:! ]|~|\\q?quad(?![A-Za-z])|\s)+", " ", text).strip()
    return re.sub(r"(?<!\d) | (?!\d)", "", text)


@functools.lru_cache(maxsize=2**16)
def equal(reference: str, answer: str) -> bool | None:
    """Whether an answer is equivalent to a reference; None if Math-Verify does not finish, even with more time in a second try.

    Not symmetric, like Math-Verify: a set is accepted for 'x > 2'.
    """
    known = _equal_at_sight(reference, answer)
    return _ask({"compare": [reference, answer]}) if known is None else known


def _equal_at_sight(reference: str, answer: str) -> bool | None:
    """Decide easy cases without the helper, and cases where Math-Verify errs (bases, small decimals); None for all others."""
    if same_text(reference, answer) or _words(reference) == _words(answer):
        return True
    if max(len(reference), len(answer)) > LONGEST_EXPRESSION:
        return False
    bases = [IN_BASE.fullmatch(_spaceless(text)) for text in (reference, answer)]
    if all(bases):
        return bases[0].groups() == bases[1].groups()
    # Leave to Math-Verify: whether x = 5 equals y = 5, and percentages (50 % equals 50 and 1/2).
    if "%" in reference + answer or ("=" in reference and "=" in answer) or not (is_number(reference) and is_number(answer)):
        return None
    if number(reference) == number(answer):
        return True
    # Math-Verify rounds to six decimals. That is wanted for 1/3 = 0.333333, but not between two decimals: .0000671 = .0000672.
    return None if "frac" in reference + answer or "/" in reference + answer else False


def _words(text: str) -> str:
    r"""'\text{Evelyn}', 'Evelyn' and 'evelyn.' are the same; commands differ by case ('\Delta')."""
    text = _spaceless(TEXT.sub(r"\1", text)).rstrip(".")
    return text if "\\" in text else text.casefold()


@functools.lru_cache(maxsize=2**16)
def parses(text: str) -> bool:
    """Whether an answer is a number or an expression that Math-Verify parses."""
    if len(text) > LONGEST_EXPRESSION or not text.strip():
        return False
    return number(text) is not None or bool(_ask({"parse": text}))


# --- the helper process --------------------------------------------------------------------------------------------

_helper: subprocess.Popen | None = None
_lock = threading.Lock()


def _ask(question: dict) -> bool | None:
    """The helper's reply. None if the question takes too long twice, or kills two helpers in a row."""
    with _lock:
        for seconds in SECONDS:
            helper = _running_helper()
            try:
                helper.stdin.write(json.dumps(question | {"seconds": seconds}).encode() + b"\n")
                reply = _read_line(helper, PATIENCE_SECONDS)
            except BrokenPipeError:
                reply = None
            except BaseException:  # after an interrupt the late reply would be read as the next question's
                _stop_helper()
                raise
            if reply:
                return json.loads(reply)
            _stop_helper()
    return None


def _running_helper() -> subprocess.Popen:
    global _helper
    if _helper is None:
        check_installed()
        source = str(Path(__file__).resolve().parents[2])
        # -P: do not import from the working folder. The fixed hash seed gives SymPy's sets the same order in every run.
        paths = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "bufsize": 0}
        command = [sys.executable, "-P", "-m", __name__]
        try:
            # Slurm sends SIGTERM to every process of a job step, but the last update before the end still needs the helper.
            held_back = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            try:
                _helper = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0"}, **pipes)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
            ready = _read_line(_helper, START_SECONDS)
        except BaseException as error:
            _stop_helper()
            if isinstance(error, OSError):
                raise UserError(f"the process that runs Math-Verify cannot be started: {error.strerror}") from None
            raise
        if not ready:
            _stop_helper()
            raise UserError(f"Math-Verify does not start; `cd {source} && {' '.join(command)}` shows why")
    return _helper


def _read_line(helper: subprocess.Popen, seconds: float) -> bytes:
    """A line from the helper; empty if the helper ends or takes longer."""
    line, deadline, poll = b"", time.monotonic() + seconds, select.poll()
    poll.register(helper.stdout, select.POLLIN)
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            return b""
        part = os.read(helper.stdout.fileno(), 4096)
        if not part:
            return b""
        line += part
    return line


def _stop_helper() -> int | None:
    """Stop the helper and return its exit status; None without a helper."""
    global _helper
    if _helper is None:
        return None
    helper, _helper = _helper, None
    with contextlib.suppress(OSError):
        helper.stdin.close()
    helper.stdout.close()
    helper.kill()
    return helper.wait()


def _leave_to_parent() -> None:
    """After a fork the child gets a new lock (another thread may have held the old one) and leaves the helper to the parent."""
    global _helper, _lock
    _lock = threading.Lock()
    if _helper is not None:
        helper, _helper = _helper, None
        helper.stdin.close()
        helper.stdout.close()
        helper.returncode = 0  # the parent waits for it, not this process


atexit.register(_stop_helper)
os.register_at_fork(after_in_child=_leave_to_parent)


# --- the helper's program ------------------------------------------------------------------------------------------


def answer_questions() -> None:
    """Read one question per line and write one reply per line, until the asking process ends."""
    import resource

    import math_verify.parser  # noqa: F401  (before the memory limit)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the asking process handles Ctrl-C
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # SymPy sets up much of itself at the first comparison; a slow machine would spend the first question's time on it.
    _equivalent("x^2 + 2x + 1", "(x + 1)^2")
    print("true", file=replies, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, question["seconds"])  # SIGPROF ends this process during any computation
        try:
            reply = _equivalent(*question["compare"]) if "compare" in question else _is_expression(question["parse"])
        except Exception:
            reply = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), file=replies, flush=True)


def _equivalent(reference: str, answer: str) -> bool:
    from math_verify import verify

    units = not variables(reference)
    sides = {tuple(read(side) for side in (reference, answer)) for read in (_with_imaginary_unit, str)}
    return any(verify(_parsed(r, units), _parsed(a, units), timeout_seconds=None) for r, a in sorted(sides))


def _is_expression(text: str) -> bool:
    found = [_parsed(read(text), not variables(text)) for read in (_with_imaginary_unit, str)]
    return any(not isinstance(expression, str) for expressions in found for expression in expressions)


def _with_imaginary_unit(text: str) -> str:
    """Replace i by SymPy's I. Math-Verify reads i as a variable: a real one in '5i' and a complex one in '5 i', which differ."""
    return IMAGINARY.sub("I", text)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str, units: bool) -> list:
    """Math-Verify's readings; the last is the text itself. Without `units` a final letter is a variable, so '2t' is not 2."""
    from math_verify import LatexExtractionConfig, parse

    normalize = replace(LatexExtractionConfig().normalization_config, units=units)
    text = text.strip().rstrip(".,;")
    if not units:
        text = LAST_UNIT.sub("", text)
    box = LatexExtractionConfig(boxed_match_priority=0, normalization_config=normalize)
    return parse(rf"\boxed{{{text}}}", [box], parsing_timeout=None)


if __name__ == "__main__":
    answer_questions()
