r"""Compare two expressions with Math-Verify. expressions.py runs this module as a helper process,
with JSON Lines over pipes.

A *question* is a pair of texts to compare, or a text to parse. This module corrects Math-Verify: it
replaces spellings that Math-Verify does not read, also reads i as the imaginary unit, combines
inequalities that are joined by 'or', removes units, and compares small values a second time. It
resets the state of SymPy, so that a verdict depends only on the question.
"""

import contextlib
import decimal
import functools
import json
import logging
import os
import random
import re
import signal
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from hardgrpo.grading.quantities import (
    BALANCED,
    KNOWN_UNIT,
    TEXT,
    has_variables,
    is_unit,
    read_quantity,
)

MEMORY_BYTES = 2 << 30
# Largest relative difference at which a decimal counts as a rounding of a value: about four digits.
ROUNDING_TOLERANCE = 5e-4
EXACT_DIGITS = 50
DECIMAL_DIGITS = 4000  # more than the numbers that `quantities` reads can have

# --- spellings that Math-Verify does not read ---

SPELLINGS = [
    (re.compile(r"\\varnothing(?![A-Za-z])"), r"\\emptyset"),
    (re.compile(r"(?<![\\A-Za-z])(pi|sqrt|sin|cos|tan|log|ln)(?![A-Za-z])"), r"\\\1 "),
    (re.compile(r"\\sqrt *\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"\*\*"), "^"),
    (re.compile(rf"\\(?:boldsymbol|bm|underline|emph|mathnormal)\s*\{{{BALANCED}\}}"), r"{\1}"),
]
IMAGINARY = re.compile(r"(?<![A-Za-z\\_])i(?![A-Za-z])")
SEPARATOR = re.compile(
    r"(,(?!\d{3}(?!\d))|;|\\text\{ ?(?:and|or) ?\}|(?<![A-Za-z])(?:and|or)(?![A-Za-z]))"
)
BRACKETS = re.compile(r"([\s(\[]*(?:\\\{)?)(.*?)((?:\\\})?[\s)\].]*)", re.DOTALL)
UNIT_TEXT = re.compile(
    rf"(?:(?:[ ~/]|\\[,;: ]|\\cdot)*{TEXT.pattern}(?:\s*\^(?:\d|\{{-?\d\}}))?)+$"
)
UNIT_WORDS = (
    "units?|square|cubic|(?:centi|milli|kilo)?(?:met(?:er|re)|gram|lit(?:er|re))s?|inch(?:es)?|feet|foot|yards?|miles?|degrees?|radians?"
    "|dollars?|cents?|hours?|minutes?|seconds?|days?|weeks?|months?|years?|pounds?|ounces?|gallons?"
)
BARE_UNIT = re.compile(
    rf"(?:(?:[ /]|\\[,;: ])+(?:{UNIT_WORDS}|{KNOWN_UNIT.pattern})(?:\^(?:\d|\{{-?\d\}}))?)+$"
)
NOT_A_UNIT = re.compile(
    r"\b(?:is|are|not|no|if|when|where|for|with|such|odd|even|prime|integers?|real)\b"
)
OR_WORD = re.compile(r",?\s*(?:\\text\{ ?or ?\}|\\lor(?![A-Za-z])|(?<![A-Za-z])or(?![A-Za-z]))")
OR_WORD_OR_COMMA = re.compile(rf"{OR_WORD.pattern}|,")
INEQUALITY = re.compile(r"[<>]|\\(?:[lg]eq?|[lg]t)(?![A-Za-z])")


def _normalise(text: str, units: bool) -> str:
    """The text without units (with `units`, also without bare words such as 'cm'), in spellings that
    Math-Verify reads."""
    text = text.strip().rstrip(".,;")
    for pattern, spelling in SPELLINGS:
        text = pattern.sub(spelling, text)
    parts = SEPARATOR.split(text)
    parts[::2] = [_remove_unit(part, units) for part in parts[::2]]
    return "".join(parts)


def _remove_unit(part: str, units: bool) -> str:
    r"""'5 \text{ boys}' -> '5', '9\pi \text{ cm}^2' -> '9\pi'. Only a unit at the end is removed:
    '18 \text{ ft } 6 \text{ in}' -> '18 \text{ ft } 6'."""
    opening, value, closing = BRACKETS.fullmatch(part).groups()
    quantity = read_quantity(value)
    pair = "," in value and opening.strip()  # '(1,200)' is a pair
    if quantity and not (quantity.bare or quantity.percent or pair or "=" in value):
        return opening + _format_value(quantity.value, quantity.ratio) + closing
    unit = UNIT_TEXT.search(value) or (units and BARE_UNIT.search(value))
    if (
        unit
        and unit.start()
        and all(is_unit(text) and not NOT_A_UNIT.search(text) for text in TEXT.findall(unit[0]))
    ):
        value = value[: unit.start()]
    return opening + value + closing


def _format_value(value: Fraction, is_ratio: bool) -> str:
    r"""'5' for an integer, '\frac{1}{3}' for a ratio, because Math-Verify rounds decimals before it
    compares them, otherwise a decimal with all digits."""
    if value.denominator == 1:
        return str(value)
    if is_ratio:
        return rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
    with decimal.localcontext(prec=DECIMAL_DIGITS):
        return f"{decimal.Decimal(value.numerator) / value.denominator:f}"


# --- questions ---


def _is_equivalent(reference: str, answer: str) -> bool:
    from math_verify import verify

    units = not has_variables(reference)
    sides = {
        tuple(reading(_normalise(side, units)) for side in (reference, answer))
        for reading in (_with_imaginary_unit, str)
    }
    for left, right in sorted(sides):
        alternatives = _read_alternatives(left)
        # as in Math-Verify, a set matches a reference of inequalities, but not the other way round
        values = (alternatives and _read_alternatives(right, OR_WORD_OR_COMMA)) or _parsed(right)
        if verify(alternatives or _parsed(left), values, timeout_seconds=None):
            return True
    return False


def _is_expression(text: str) -> bool:
    text = _normalise(text, not has_variables(text))
    return any(
        not isinstance(expression, str)
        for reading in (_with_imaginary_unit(text), text)
        for expression in _parsed(reading)
    )


def _with_imaginary_unit(text: str) -> str:
    """Replace i by SymPy's I. Math-Verify reads i as a variable."""
    return IMAGINARY.sub("I", text)


def _read_alternatives(text: str, separator: re.Pattern = OR_WORD) -> list:
    r"""[the set of solutions] of alternative inequalities such as 'x<2 \text{ or } x>3'; empty for
    other texts."""
    from sympy import Union
    from sympy.core.relational import Relational

    parts = separator.split(text)
    if len(parts) < 2 or not all(map(INEQUALITY.search, parts)):
        return []
    relations = [_parsed(part)[0] for part in parts]
    if not all(isinstance(relation, Relational) for relation in relations):
        return []
    return [Union(*(relation.as_set() for relation in relations))]


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> list:
    """Math-Verify's readings of a text. The last reading is the text itself."""
    from math_verify import LatexExtractionConfig, parse

    config = LatexExtractionConfig(boxed_match_priority=0)
    config = replace(config, normalization_config=replace(config.normalization_config, units=False))
    # with further matches, Math-Verify would take a \frac{}{} out of a text that it cannot read
    return parse(
        rf"\boxed{{{text}}}", [config], extraction_mode="first_match", parsing_timeout=None
    )


# --- corrections of Math-Verify's comparisons ---


def _check_equal_values() -> None:
    from math_verify import grader

    numeric_eq, symbolic_eq = grader.sympy_numeric_eq, grader.sympy_symbolic_eq
    grader.sympy_numeric_eq = lambda a, b, *digits: (
        numeric_eq(a, b, *digits) and not _differ(a, b, vanishing=True)
    )
    grader.sympy_symbolic_eq = lambda a, b: symbolic_eq(a, b) and not _differ(a, b)


def _differ(a, b, vanishing: bool = False) -> bool:
    """Whether two values differ although Math-Verify, which compares six decimals and replaces small
    numbers by zero, calls them equal. With `vanishing`, also expressions with variables."""
    from math_verify.grader import get_pct_val
    from sympy import Float, MatrixBase, MatrixExpr, nan, oo, zoo

    if any(
        isinstance(value, MatrixBase | MatrixExpr) or get_pct_val(value) is not None
        for value in (a, b)
    ):
        return False  # elements of a matrix are compared one by one; 50 % equals 50 and 1/2
    a, b = a.doit(), b.doit()
    if any(value.has(nan, zoo, oo, -oo) for value in (a, b)):
        return a != b or a.has(nan, zoo)
    if a.free_symbols or b.free_symbols:
        return vanishing and (a - b).evalf() != 0
    size, difference = (
        value.evalf(EXACT_DIGITS, maxn=8 * EXACT_DIGITS) for value in (abs(a) + abs(b), abs(a - b))
    )
    tolerance = (
        ROUNDING_TOLERANCE if a.has(Float) or b.has(Float) else Float(10) ** (10 - EXACT_DIGITS)
    )
    return size.is_Number and difference.is_Number and bool(difference > tolerance * size)


# --- the program ---


def answer_questions() -> None:
    """Read one question per line and write one verdict per line, until the parent closes the
    pipe."""
    import resource

    import math_verify.parser  # noqa: F401  (before the memory limit)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _check_equal_values()
    # initialises SymPy, which could exceed the time limit of the first question
    _is_equivalent("x^2 + 2x + 1", "(x + 1)^2")
    reset = _make_reset()
    print("true", file=replies, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        reset(json.dumps(question | {"seconds": None}))
        # after `seconds` of processor time, SIGPROF ends this process, whatever it computes
        signal.setitimer(signal.ITIMER_PROF, question["seconds"])
        try:
            reply = (
                _is_equivalent(*question["compare"])
                if "compare" in question
                else _is_expression(question["parse"])
            )
        except Exception:
            reply = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), file=replies, flush=True)


def _make_reset() -> Callable[[str], None]:
    """A function to call before each question, so that the verdict does not depend on random draws
    or earlier questions.

    SymPy caches results, and draws at random the points at which it compares functions and the
    order in which it derives assumptions. The function clears the caches if random numbers were
    drawn or a numbered dummy symbol was created since the last question.
    """
    from math_verify import parser
    from sympy import Dummy
    from sympy.core import assumptions, cache
    from sympy.core import random as draws

    assumptions.shuffle = list.sort
    Dummy._base_dummy_index = 10**6  # SymPy draws this number at import; here it is fixed
    draws.seed(0)
    random.seed(0)
    states = draws.rng.getstate(), random.getstate()
    dummies = Dummy._count

    def reset(question: str) -> None:
        nonlocal dummies
        if Dummy._count != dummies or (draws.rng.getstate(), random.getstate()) != states:
            cache.clear_cache()
            for cached in (_parsed, parser.parse_latex_cached, parser.extract_latex):
                cached.cache_clear()
            draws.rng.setstate(states[0])
            random.setstate(states[1])
        # a number that depends only on the question, far above those of SymPy's own dummy symbols
        dummies = Dummy._count = zlib.crc32(question.encode()) << 20

    return reset


if __name__ == "__main__":
    answer_questions()
