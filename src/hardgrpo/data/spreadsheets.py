"""Read and write tables for people and spreadsheets, and recognise cells that a spreadsheet has
changed.

The cells of a table are separated by commas, semicolons, tabs, vertical bars, or the character that
a first line `sep=` names. Spreadsheets write semicolons in countries where the comma is the decimal
mark. The project's own tables have commas, see `files.read_cells`.
"""

import collections
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

DELIMITERS = (",", ";", "\t", "|")
LONGEST_HEADER = 100_000  # characters
# A first line that names the delimiter, for Excel. Other spreadsheets may pad this line with
# delimiters, as if it were a row.
SEPARATOR_LINE = re.compile(r'"?sep=(\t|[^\w\s"])"?([,;\t|]*)(\r\n|\n|\r)', re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """The form of a table: the delimiter, whether a line `sep=` names the delimiter, and whether a
    byte order mark precedes the text."""

    delimiter: str = ","
    has_separator_line: bool = False
    has_mark: bool = False

    def text(self, columns: list[str], rows: list[list], for_people: bool = False) -> str:
        """The text of a table in this form.

        With `for_people`, a byte order mark precedes the text if the form has a mark or the text is
        not ASCII: without the mark, Excel takes UTF-8 for another encoding.
        """
        text = files.csv_text(columns, rows, self.delimiter)
        text = f"sep={self.delimiter}\n{text}" if self.has_separator_line else text
        return f"\ufeff{text}" if for_people and (self.has_mark or not text.isascii()) else text


@dataclass(frozen=True)
class Table:
    """A table of texts. `places` names each row for messages: "row 7", as a spreadsheet counts
    rows, or "row 7 (line 9)" if that row begins in line 9 of the file."""

    header: list[str]
    cells: list[list[str]]
    places: list[str]
    form: Form


def is_table(path: str | Path) -> bool:
    """Whether a file is a table, by its name."""
    return str(path).lower().endswith((".csv", ".tsv"))


def read(path: str | Path) -> Table:
    """The table of a file. Raise a `UserError` for wrong quoting, repeated column names and rows
    shorter or longer than the header.

    Blank lines are skipped. The empty cells that a spreadsheet writes for empty columns are not
    errors (`_without_empty_columns`).
    """
    text = files.read_user_text(path)
    csv.field_size_limit(2**31 - 1)
    separator_line, delimiter = SEPARATOR_LINE.match(text), None
    if separator_line:
        delimiter = None if separator_line[2] else separator_line[1]
        text = text[separator_line.end() :]
    if delimiter is None:
        is_tsv = str(path).lower().endswith(".tsv")
        delimiter = delimiter_of(text, DELIMITERS[2:] + DELIMITERS[:2] if is_tsv else DELIMITERS)
    first_line = 2 if separator_line else 1
    records = list(_records(text, path, delimiter, first_line)) or [("row 1", [])]
    header, cells = _without_empty_columns(records[0][1], [cells for _, cells in records[1:]])
    places = [place for place, _ in records[1:]]
    files.check_cells(path, header, cells, places.__getitem__)
    form = Form(delimiter, bool(separator_line), bool(files.byte_order_mark(path)))
    return Table(header, cells, places, form)


def delimiter_of(text: str, delimiters: tuple[str, ...] = DELIMITERS) -> str:
    """The delimiter of a table: the one that splits its header.

    If several delimiters split the header, the criteria are, in this order: the share of rows with
    as many cells as the header, the number of cells in the header, and the order of `delimiters`.
    The result is the first of `delimiters` if none splits the header, or if less than half of the
    rows fit the best delimiter. `csv.Sniffer` would take semicolons in a question for delimiters.
    """
    start = text[:LONGEST_HEADER]
    widths = {
        delimiter: len(next(filter(None, _rows(start, delimiter)), [])) for delimiter in delimiters
    }
    splitting = [delimiter for delimiter in delimiters if widths[delimiter] > 1]
    if splitting in ([], [delimiters[0]]):
        return delimiters[0]

    def fitting_share(delimiter: str) -> float:
        rows = [len(row) == widths[delimiter] for row in filter(None, _rows(text, delimiter))]
        return sum(rows[1:]) / len(rows[1:]) if len(rows) > 1 else 1.0

    shares = {delimiter: fitting_share(delimiter) for delimiter in splitting}
    best = max(splitting, key=lambda delimiter: (shares[delimiter], widths[delimiter]))
    # If few rows fit, `best` is not a delimiter but punctuation in a header with one cell.
    return best if shares[best] >= 0.5 else delimiters[0]


def _rows(text: str, delimiter: str) -> Iterable[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def _records(
    text: str, path: str | Path, delimiter: str, first_line: int
) -> Iterable[tuple[str, list[str]]]:
    """(place, cells) of the rows that are not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = first_line
    try:
        for row, cells in enumerate(reader, start=1):
            if cells:
                yield f"row {row}" + (f" (line {line})" if line != row else ""), cells
            line = reader.line_num + first_line
    except csv.Error as error:
        raise UserError(
            f"{path}: line {line}: not valid CSV ({error}); correct the quoting"
        ) from None


def _without_empty_columns(
    header: list[str], cells: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """Header and rows, corrected if columns without name and content make the table invalid: rows
    are cut or filled with empty cells to the header's length, and if several columns have no name,
    the empty ones among them are removed."""
    if header.count("") < 2 and all(len(row) == len(header) for row in cells):
        return header, cells
    width = max((number for number, name in enumerate(header, start=1) if name), default=0)
    fitted_rows = [
        row + [""] * (len(header) - len(row)) if width <= len(row) < len(header) else
        row[: len(header)] if is_blank(row[len(header) :]) else row
        for row in cells
    ]  # fmt: skip
    if header.count("") < 2:
        return header, fitted_rows
    used_columns = [
        index
        for index, name in enumerate(header)
        if name or not is_blank(row[index] for row in fitted_rows if index < len(row))
    ]
    return [header[index] for index in used_columns], [
        [row[index] for index in used_columns] if len(row) == len(header) else row
        for row in fitted_rows
    ]


def is_blank(cells: Iterable[object]) -> bool:
    """Whether all cells are empty."""
    return not any(str(cell).strip() for cell in cells if cell is not None)


# --- cells that a spreadsheet computes or changes

# The start of a cell that a spreadsheet reads as a formula, or would read as a formula without the
# apostrophes that `escape_formulas` adds.
FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
# Text within a cell that becomes a formula if a spreadsheet takes ';' or tabs for the delimiter, or
# loses the quotes: a new cell then starts with this text.
INNER_FORMULA = re.compile(r"(?<=[;\t\r\n])(['\"]*)([=+\-@\uff1d\uff0b\uff0d\uff20][^;\t\r\n]*)")
# characters that may precede the text of a cell; they stay in place when the text is escaped
START = "'\t\r\n"
NUMBER = re.compile(r"[+-]?[\d.]+")


def escape_formulas(cell: object) -> str:
    """Prefix formulas with an apostrophe, so that a spreadsheet shows them as text instead of
    computing them. Numbers with a sign get no apostrophe."""
    text = str(cell)
    body = text.lstrip(START)
    start = text[: len(text) - len(body)]
    body = INNER_FORMULA.sub(
        lambda part: part[0] if not part[1] and NUMBER.fullmatch(part[2]) else f"'{part[0]}", body
    )
    return f"'{start}{body}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else start + body


def unescape_formulas(cell: str) -> str:
    """Undo `escape_formulas`."""
    body = cell.lstrip(START)
    start = cell[: len(cell) - len(body)]
    body = INNER_FORMULA.sub(lambda part: part[0].removeprefix("'"), body)
    return start[1:] + body if cell[:1] == "'" and FORMULA.match(cell, 1) else start + body


# An id as displayed by a spreadsheet that interprets the id as a number.
SHOWN_NUMBER = re.compile(r"[+-]?\d{1,40}([.,]\d{1,40})?(E[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
# Ids that every spreadsheet changes: integers of more than 15 digits, and numbers with a plus sign,
# a leading zero, a final zero after the decimal point or an exponent without a sign. 01abc is text
# and stays the same.
WOULD_CHANGE = re.compile(
    r"\+\d+(\.\d+)?|[+-]?(0\d+(\.\d+)?|\d+\.\d*0|\d{16,}|\d+(\.\d+)?E\d{1,2})",
    re.ASCII | re.IGNORECASE,
)
DIGITS = 15  # significant digits of a number in a spreadsheet


class Ids:
    """Finds the ids of a pool from the text that a spreadsheet may show instead of an id: the id
    without leading zeros, rounded, or as 1.2E+11."""

    def __init__(self, ids: Iterable[str]):
        self.ids, self._by_value = list(ids), {}

    def shown_as(self, text: str) -> list[str]:
        """The ids that a spreadsheet may show as this text."""
        if not SHOWN_NUMBER.fullmatch(text):
            return []
        mantissa, _, exponent = text.upper().replace(",", ".").partition("E")
        digits = min(DIGITS, sum(map(str.isdigit, mantissa))) if exponent else DIGITS
        if digits not in self._by_value:
            self._by_value[digits] = _by_value(self.ids, digits)
        value = Decimal(f"{mantissa}E{exponent or 0}")
        candidates = self._by_value[digits].get(value, [])
        return [
            problem_id for problem_id in candidates if Decimal(problem_id) == value
        ] or candidates


def _by_value(ids: list[str], digits: int) -> dict[Decimal, list[str]]:
    """{number: ids that a spreadsheet may show as this number}. Excel truncates digits, other
    spreadsheets round."""
    ids_by_value: dict[Decimal, list[str]] = collections.defaultdict(list)
    contexts = [
        Context(prec=digits, rounding=rounding, traps=[])
        for rounding in (ROUND_DOWN, ROUND_HALF_UP)
    ]
    for problem_id in ids:
        if SHOWN_NUMBER.fullmatch(problem_id) and "," not in problem_id:
            for value in {context.create_decimal(problem_id) for context in contexts}:
                ids_by_value[value].append(problem_id)
    return ids_by_value


ERROR_VALUE = re.compile(r"#([^\W\d_]+[!?]|DIV/0!|N/A|NV|##+)|Err:\d{3}")
MONTH = (
    r"(jan|janv|gen|ene|feb|fév|févr|fev|mar|mär|mrz|mars|apr|avr|abr|may|mai|mag|maj|mei|jun|juin|giu|jul|juil|lug|aug|août|ago|"
    r"sep|sept|set|oct|okt|ott|out|nov|dec|dez|déc|dic)\.?"
)
DATE = re.compile(
    rf"\d{{1,2}}(-|\. ?){MONTH}([-. ] ?\d{{2,4}})?|{MONTH}-\d{{2,4}}|\d{{1,2}}(?P<mark>[./-])\d{{1,2}}(?P=mark)(19|20)\d\d|(19|20)\d\d-\d\d-\d\d",
    re.IGNORECASE,
)
ROUNDED = re.compile(r"-?\d[.,]\d{5}E[+-]\d{2,3}")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,(\d{1,2}|\d{4,})")


def change_of(answer: str) -> str | None:
    """The change that a spreadsheet seems to have made to an answer, in words; None without a
    change."""
    if ERROR_VALUE.fullmatch(answer):
        return "an error value of a spreadsheet"
    if DATE.fullmatch(answer):
        return "a date, into which spreadsheets convert answers such as 1/2"
    return "a number that a spreadsheet has rounded" if ROUNDED.fullmatch(answer) else None
