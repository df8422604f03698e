"""Parse JSON strictly, with errors that name the place of the problem."""

import argparse
import collections
import json
import math
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import RowError, UserError


def parse_json(
    text: str, name: str | Path, remedy: str, line: int | None = None, numbers: bool = False
):
    """The value of a JSON text: the content of the file `name`, or of its line number `line`.

    Raise a `UserError` (for a line: a `RowError`) for invalid JSON, duplicate keys and, if
    `numbers`, for NaN, Infinity and numbers too large for a float. Python's own parser rejects only
    invalid JSON.
    """

    def refusal(problem: str, column: int = 0) -> UserError:
        if not line:
            return UserError(f"{name}: {problem}; {remedy}")
        place = f"line {line}" + (f", column {column}" if column else "")
        return RowError(name, place, problem, remedy)

    def as_dict(pairs: list[tuple]) -> dict:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            raise refusal(
                f"'{first_repeated([name for name, _ in pairs])}' occurs twice in an object"
            )
        return entries

    def refuse_constant(constant: str):
        raise refusal(f"{constant} is not a finite number")

    def finite_float(digits: str) -> float:
        value = float(digits)
        return refuse_constant(digits) if math.isinf(value) else value

    def bounded_int(digits: str) -> int:
        float(value := int(digits))  # raises OverflowError if the number is too large
        return value

    readers = (
        {"parse_constant": refuse_constant, "parse_float": finite_float, "parse_int": bounded_int}
        if numbers
        else {}
    )
    try:
        return json.loads(text, object_pairs_hook=as_dict, **readers)
    except json.JSONDecodeError as error:
        if line:
            raise refusal(f"not valid JSON ({error.msg})", error.colno) from None
        raise UserError(
            f"{name}: line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); {remedy}"
        ) from None
    # for example a number of thousands of digits, or thousands of brackets
    except (ValueError, OverflowError, RecursionError):
        raise refusal("a number is too large for JSON, or the nesting is too deep") from None


def nested_entries(value: object) -> Iterator[object]:
    """A value of JSON or YAML and all entries of its objects and lists, at every depth."""
    queue = [value]
    while queue:
        entry = queue.pop()
        yield entry
        queue += (
            entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
        )


def first_repeated(names: list[str]) -> str | None:
    """The first name that occurs more than once; None if all names differ."""
    times = collections.Counter(names)
    return next((name for name in names if times[name] > 1), None)


def as_object(text: str) -> dict:
    """The JSON object in an argument of a program; a `type` of `argparse`."""
    return _argument(text, dict, "object")


def as_list(text: str) -> list[dict]:
    """The JSON list of objects in an argument of a program; a `type` of `argparse`."""
    rows = _argument(text, list, "list of objects")
    if not all(isinstance(row, dict) for row in rows):
        raise argparse.ArgumentTypeError("expected a JSON list of objects")
    return rows


def _argument(text: str, kind: type, form: str):
    try:
        value = parse_json(text, "the argument", f"expected a JSON {form}")
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(value, kind):
        raise argparse.ArgumentTypeError(f"expected a JSON {form}, found {type(value).__name__}")
    return value
