"""Read and write tables for people and spreadsheets, and recognise cells that a spreadsheet has
changed.

The cells of a table are separated by commas, semicolons (in countries where the comma is the decimal
mark), tabs, vertical bars, or the character that a first line `sep=` names.
"""

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
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
    delimiter: str = ","
    has_separator_line: bool = False  # whether a first line `sep=` names the delimiter
    has_mark: bool = False  # whether a byte order mark precedes the text

    def text(self, columns: list[str], rows: list[list], for_people: bool = False) -> str:
        """The text of a table in this form. Without a byte order mark, Excel takes UTF-8 for another
        encoding, so with `for_people` a mark precedes texts that are not ASCII."""
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
    return str(path).lower().endswith((".csv", ".tsv"))


def read(path: str | Path) -> Table:
    """The table of a file, see `parse`."""
    return parse(files.read_user_text(path), path, bool(files.byte_order_mark(path)))


def parse(text: str, path: str | Path, has_mark: bool = False) -> Table:
    """The table of the text of the file `path`; `has_mark`: a byte order mark precedes the text.
    Blank lines, and the empty cells that a spreadsheet writes for empty columns, are left out.
    Raise a `UserError` for wrong quoting, repeated column names and rows shorter or longer than the
    header."""
    csv.field_size_limit(2**31 - 1)
    separator_line, delimiter = SEPARATOR_LINE.match(text), None
    if separator_line:
        delimiter = None if separator_line[2] else separator_line[1]
        text = text[separator_line.end() :]
    if delimiter is None:
        is_tsv = ".tsv" in Path(path).name.lower()
        delimiter = delimiter_of(text, DELIMITERS[2:] + DELIMITERS[:2] if is_tsv else DELIMITERS)
    first_line = 2 if separator_line else 1
    records = list(_records(text, path, delimiter, first_line)) or [("row 1", [])]
    header, cells = _without_empty_columns(records[0][1], [cells for _, cells in records[1:]])
    places = [place for place, _ in records[1:]]
    files.check_cells(path, header, cells, places.__getitem__)
    form = Form(delimiter, bool(separator_line), has_mark)
    return Table(header, cells, places, form)


def delimiter_of(text: str, delimiters: tuple[str, ...] = DELIMITERS) -> str:
    """The delimiter that splits the header of a table into the most cells; of several, the first of
    `delimiters`."""
    start = text[:LONGEST_HEADER]

    def width(delimiter: str) -> int:
        rows = csv.reader(io.StringIO(start, newline=""), delimiter=delimiter)
        return len(next(filter(None, rows), []))

    return max(delimiters, key=width)


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
    """Header and rows without the empty cells after the last named column, and without empty
    columns if several columns have no name. Blank cells beyond the header are cut only if all
    longer rows have the width of a blank row: they may otherwise come from a delimiter in a text
    without quotes."""
    width = max((number for number, name in enumerate(header, start=1) if name), default=0)
    longer_widths = {len(row) for row in cells if len(row) > len(header)}
    is_padded = len(longer_widths) == 1 and any(
        len(row) in longer_widths and is_blank(row) for row in cells
    )
    rows = [
        row[:width] if (is_padded or len(row) <= len(header)) and is_blank(row[width:]) else row
        for row in cells
    ]
    is_only = header[:width].count("") == 1
    used_columns = [
        index
        for index, name in enumerate(header[:width])
        if name or is_only or not is_blank(row[index] for row in rows if index < len(row))
    ]
    return [header[index] for index in used_columns], [
        [row[index] for index in used_columns] if len(row) == width else row for row in rows
    ]


# What is no column's name: a question, a sentence of three words ("No." is a name), five words, or
# more than 60 characters.
PROSE = re.compile(r".*[?!。？！]|(\S+\s+){2}.*\.|(\S+\s+){4}.*|.{61,}", re.DOTALL)


def looks_like_header(header: list[str], cells: list[list[str]]) -> bool:
    """Whether the first row of a table names the columns: no cell is a number, prose, or equal to
    another cell of its column."""
    return not any(
        PROSE.fullmatch(name)
        or NUMBER.fullmatch(name.replace(",", "."))
        or (name and any(name == row[index].strip() for row in cells if index < len(row)))
        for index, name in enumerate(map(str.strip, header))
    )


def is_blank(cells: Iterable[object]) -> bool:
    return not any(str(cell).strip() for cell in cells if cell is not None)


# --- cells that a spreadsheet computes or changes

# the start of a formula, or of a formula that `escape_formulas` has escaped
FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
NUMBER = re.compile(r"[+-]?[\d.]+")


def escape_formulas(cell: object) -> str:
    """Prefix formulas, but not numbers with a sign, with an apostrophe, so that a spreadsheet shows
    them as text."""
    text = str(cell)
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def rows_text(rows: list[dict], form: Form, for_people: bool = True) -> str:
    """Rows as a table in the format `form`. With `for_people`, formulas are escaped."""
    format_cell = escape_formulas if for_people else str
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [
        [format_cell("" if row.get(name) is None else row[name]) for name in columns]
        for row in rows
    ]
    return form.text([*map(format_cell, columns)], cells, for_people)


def unescape_formulas(cell: str) -> str:
    """Undo `escape_formulas`."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell, 1) else cell


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
    """The change that a spreadsheet seems to have made to an answer, in words."""
    if ERROR_VALUE.fullmatch(answer):
        return "an error value of a spreadsheet"
    if DATE.fullmatch(answer):
        return "a date, into which spreadsheets convert answers such as 1/2"
    return "a number that a spreadsheet has rounded" if ROUNDED.fullmatch(answer) else None
