"""Parse JSON strictly, with errors that name the place."""

import argparse
import collections
import json
import math
from pathlib import Path

from hardgrpo.runtime.errors import RowError, UserError


def parse_json(text: str, name: str | Path, remedy: str, line: int | None = None, numbers: bool = False):
    """Parse JSON of the file `name` or its line `line`, which messages name. Raise a `UserError` (of a line: a `RowError`) for invalid
    JSON, duplicate keys and, if `numbers`, for NaN, Infinity and numbers too large for a float: Python's own reader accepts these."""

    def refusal(problem: str, column: int = 0) -> UserError:
        place = f"line {line}" + (f", column {column}" if column else "")
        return RowError(name, place, problem, remedy) if line else UserError(f"{name}: {problem}; {remedy}")

    def once(pairs: list[tuple]) -> dict:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise refusal(f"'{first_repeated([name for name, _ in pairs])}' stands in an object twice")
        return found

    def refused(constant: str):
        raise refusal(f"{constant} is no number")

    def finite(digits: str) -> float:
        value = float(digits)
        return refused(digits) if math.isinf(value) else value

    def whole(digits: str) -> int:
        float(value := int(digits))  # OverflowError where no float is so large
        return value

    readers = {"parse_constant": refused, "parse_float": finite, "parse_int": whole} if numbers else {}
    try:
        return json.loads(text, object_pairs_hook=once, **readers)
    except json.JSONDecodeError as error:
        if line:
            raise refusal(f"not valid JSON ({error.msg})", error.colno) from None
        raise UserError(f"{name}: line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); {remedy}") from None
    except (ValueError, OverflowError, RecursionError):  # a number of hundreds of digits; thousands of brackets
        raise refusal("a number or a nesting that is too large for JSON") from None


def first_repeated(names: list[str]) -> str | None:
    """The first name that stands in a list more than once; None if all differ."""
    times = collections.Counter(names)
    return next((name for name in names if times[name] > 1), None)


def as_object(text: str) -> dict:
    """A JSON object as a program's argument."""
    return _argument(text, dict, "object")


def as_list(text: str) -> list[dict]:
    """A JSON list of objects as a program's argument."""
    found = _argument(text, list, "list of objects")
    if not all(isinstance(one, dict) for one in found):
        raise argparse.ArgumentTypeError("expected a JSON list of objects")
    return found


def _argument(text: str, kind: type, expected: str):
    try:
        found = parse_json(text, "the argument", f"expected a JSON {expected}")
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(found, kind):
        raise argparse.ArgumentTypeError(f"expected a JSON {expected}, found {type(found).__name__}")
    return found
