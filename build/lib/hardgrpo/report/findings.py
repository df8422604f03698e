"""The numbers of the paper over all studies, and the conditions under which its sentences hold.

paper/findings.yaml lists both. A *number* becomes a LaTeX macro. A *condition* belongs to a
sentence of paper/main.tex that is marked as `\\claim{label}{sentence}`. `check` raises an error for
the first condition that the tables do not fulfil, so that no paper contradicts its results.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hardgrpo.analysis import formats
from hardgrpo.report import latex
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

DESIGN = "design"  # key of numbers that come from the configuration
FINDINGS = "paper/findings.yaml"

# {value of the key `show`: (suffixes of the columns to read, function that formats their values)}
FORMATS = {
    "gain": (("", "_low", "_high"), formats.signed_interval),
    "share": (("", "_low", "_high"), formats.with_interval),
    "points": (("",), formats.points),
    "signed": (("",), formats.signed),
    "count": (("",), formats.integer),
    "p": (("",), formats.probability),
    "text": (("",), str),
}
# {suffix: column}, for tables with one estimate per row: `low` and `high` are the interval's ends
ENDS = {"": "", "_low": "low", "_high": "high"}
ORIGIN = ["macro", "text", "file", "lines", "column", "show"]


@dataclass(frozen=True)
class Condition:
    """What a row of a table must fulfil. `test` receives the estimate, the ends of its interval
    (None without `has_interval`) and the limit; `words` describes the expected value in an error
    message."""

    words: str
    test: object
    has_interval: bool


CONDITIONS = {
    "above": Condition("an interval above {}", lambda value, low, high, limit: low > limit, True),
    "below": Condition("an interval below {}", lambda value, low, high, limit: high < limit, True),
    "includes": Condition(
        "an interval that includes {}", lambda value, low, high, limit: low <= limit <= high, True
    ),
    "at_least": Condition(
        "at least {}", lambda value, low, high, limit: float(value) >= limit, False
    ),
    "at_most": Condition(
        "at most {}", lambda value, low, high, limit: float(value) <= limit, False
    ),
    "equals": Condition(
        "{}", lambda value, low, high, limit: as_text(value) == as_text(limit), False
    ),
}


class Committed:
    """The committed tables below a folder, read once each. `design` holds the configuration's
    entries that the paper describes."""

    def __init__(self, root: str | Path, design: dict):
        self.root, self.design = Path(root), design
        self.frames: dict[str, pd.DataFrame] = {}

    def path(self, table: str) -> str:
        return paths.committed_table(table)

    def rows(self, entry: dict, place: str) -> pd.DataFrame:
        """The rows that an entry of findings.yaml names, with their lines in the file as the column
        `line`. Raise a `UserError` if the table lacks a column that the entry's key `rows` names,
        or if no row matches and the entry has no key `count`."""
        table = entry["table"]
        if table not in self.frames:
            header, cells = files.read_cells(self.root / self.path(table))
            frame = pd.DataFrame(cells, columns=header)
            self.frames[table] = frame.assign(line=range(2, len(frame) + 2))
        frame = self.frames[table]
        for column, value in entry.get("rows", {}).items():
            if column not in frame:
                raise UserError(f"{place}: {self.path(table)} has no column {column}")
            values = map(str, value if isinstance(value, list) else [value])
            frame = frame[frame[column].astype(str).isin(list(values))]
        if frame.empty and "count" not in entry:
            raise UserError(
                f"{place}: {self.path(table)} has no row with {words_of(entry)}; if the table is"
                f" right, change the sentence and its entry in {FINDINGS}"
            )
        return frame

    def values(self, row, column: str, suffixes: tuple[str, ...], place: str, table: str) -> list:
        """The cells of `column` with each of `suffixes` (an estimate and the ends of its interval),
        as numbers where possible."""
        cells = []
        for suffix in suffixes:
            name = next((n for n in (f"{column}{suffix}", ENDS[suffix]) if n and n in row), None)
            if name is None:
                raise UserError(f"{place}: {self.path(table)} has no column {column}{suffix}")
            cells.append(as_number(row[name]))
        return cells


def as_number(cell: str) -> float | str:
    """A cell as a number: nan if it is empty, the text if it is not a number."""
    try:
        return float(cell) if cell != "" else float("nan")
    except ValueError:
        return cell


def as_text(value: float | str) -> str:
    """A cell or a limit as text: 1, 1.0 and "1" are the same."""
    number = as_number(str(value))
    return f"{number:g}" if isinstance(number, float) else number


def words_of(entry: dict) -> str:
    """The rows that an entry names, in words."""
    return ", ".join(f"{column} {value}" for column, value in entry.get("rows", {}).items()) or (
        "any value"
    )


# --- numbers ---


def macros(tables: Committed, numbers: dict[str, dict]) -> list[dict]:
    """A row for each number: its macro, its text in LaTeX, and where it comes from."""
    return [define(tables, name, entry) for name, entry in numbers.items()]


def define(tables: Committed, name: str, entry: dict) -> dict:
    place = f"{FINDINGS}: number {name}"
    if DESIGN in entry:
        value = tables.design
        for key in entry[DESIGN].split("/"):
            if not isinstance(value, dict) or key not in value:
                raise UserError(f"{place}: the configuration has no {entry[DESIGN]}")
            value = value[key]
        if not isinstance(value, int | float):
            raise UserError(f"{place}: {entry[DESIGN]} in the configuration is not a number")
        text = f"{100 * value:g}" if entry.get("show") == "percent" else formats.integer(value)
        return dict(zip(ORIGIN, (name, latex.number(text), DESIGN, "", entry[DESIGN], "")))
    frame = tables.rows(entry, place)
    origin = [tables.path(entry["table"]), " ".join(frame.line.astype(str))]
    if "count" in entry:
        text = latex.number(formats.integer(len(frame)))
        return dict(zip(ORIGIN, (name, text, *origin, "", "count of rows")))
    column = entry["column"]
    suffixes, format_values = FORMATS[entry["show"]]
    if column not in frame:
        raise UserError(f"{place}: {tables.path(entry['table'])} has no column {column}")
    if "at" in entry:  # the row with the least or the largest value
        values = pd.to_numeric(frame[column], errors="coerce")
        if values.isna().any():
            raise UserError(
                f"{place}: {tables.path(entry['table'])} has no number in column {column}, line {frame.line[values.isna()].iloc[0]}; name the rows"
                " with numbers under `rows`"
            )
        frame = frame.loc[[values.idxmin() if entry["at"] == "least" else values.idxmax()]]
        origin[1] = str(frame.line.iloc[0])
    texts = {
        format_values(*tables.values(row, column, suffixes, place, entry["table"]))
        for _, row in frame.iterrows()
    }
    if len(texts) > 1:
        raise UserError(
            f"{place}: {tables.path(entry['table'])} has {len(frame)} rows with {words_of(entry)},"
            f" and {len(texts)} values of {column}; name more columns under `rows`"
        )
    text = texts.pop()
    text = latex.escape(text) if entry["show"] == "text" else latex.number(text)
    return dict(zip(ORIGIN, (name, text, *origin, column, entry["show"])))


def commands(rows: list[dict]) -> str:
    r"""A `\newcommand` for each number."""
    header = f"% Made by write_findings.py from {FINDINGS}; not to be edited.\n"
    return header + "".join(
        f"\\newcommand{{\\{row['macro']}}}{{{row['text']}\\xspace}}\n" for row in rows
    )


# --- conditions of sentences ---

CLAIM = re.compile(r"\\claim\{([\w.]+)\}")


def claim_lines(text: str) -> dict[str, int]:
    r"""{label: line} of the sentences that are marked as \claim{label}{...}."""
    return {
        label: number
        for number, line in enumerate(text.splitlines(), 1)
        for label in CLAIM.findall(re.sub(r"(?<!\\)%.*", "", line))
    }


def check(tables: Committed, conditions: dict[str, list[dict]], text: str, name: str) -> int:
    """The number of conditions. Raise a `UserError` if the tables do not fulfil a condition, if a
    marked sentence has no condition, or if a label in `conditions` has no marked sentence. `text`
    is the paper's text, `name` the name of the paper's file."""
    lines = claim_lines(text)
    if missing := sorted(lines.keys() - conditions.keys()):
        raise UserError(
            f"{name}:{lines[missing[0]]}: sentence {missing[0]} has no condition; add one to"
            f" `claims` in {FINDINGS}"
        )
    if unused := sorted(conditions.keys() - lines.keys()):
        raise UserError(
            f"{FINDINGS}: claim {unused[0]}: {name} has no sentence \\claim{{{unused[0]}}}; delete"
            " the claim or mark the sentence"
        )
    for label, entries in conditions.items():
        place = f"{name}:{lines[label]}: sentence {label}"
        for entry in entries:
            check_entry(tables, entry, place)
    return sum(map(len, conditions.values()))


def check_entry(tables: Committed, entry: dict, place: str) -> None:
    """Raise a `UserError` if the rows of an entry do not support the sentence. All rows must fulfil
    the entry's conditions. If the entry has the key `share` or `count` (least, most), the share or
    number of rows that fulfil the conditions must be between these two limits instead."""
    table = entry["table"]
    frame = tables.rows(entry, place)
    tested = [name for name in CONDITIONS if name in entry]
    unknown_keys = entry.keys() - {"table", "rows", "column", "over", "share", "count", *CONDITIONS}
    if "over" in entry and any(CONDITIONS[name].has_interval for name in tested):
        raise UserError(
            f"{place}: {tables.path(table)}: `over` divides the value and not its interval; test it with at_least or at_most"
        )
    if unknown_keys or (tested and frame.empty) or not (tested or "count" in entry):
        fault = f"has unknown keys: {', '.join(sorted(unknown_keys))}"
        raise UserError(
            f"{place}: {tables.path(table)}: the condition with {words_of(entry)}"
            f" {fault if unknown_keys else 'tests nothing'}; correct its entry in {FINDINGS}"
        )
    failures = []
    for _, row in frame.iterrows():
        for name in tested:
            condition, column = CONDITIONS[name], entry["column"]
            suffixes = ("", "_low", "_high") if condition.has_interval else ("",)
            cells = tables.values(row, column, suffixes, place, table)
            if "over" in entry:  # the estimate as a share of another column
                cells[0] /= float(row[entry["over"]])
            value, low, high = (*cells, None, None)[:3]
            if not condition.test(value, low, high, entry[name]):
                expected = condition.words.format(entry[name])
                actual = ", ".join(f"{n} {c}" for n, c in zip(("", "low", "high"), cells)).strip()
                over = f" / {entry['over']}" if "over" in entry else ""
                failures.append((row.line, f"{column}{over} is {actual}, expected {expected}"))
                break
    fulfilled = len(frame) - len(failures)
    problem = ""
    if "count" in entry:
        least, most = entry["count"]
        if not least <= fulfilled <= most:
            problem = f"{fulfilled} rows with {words_of(entry)}, expected {least} to {most}"
    elif "share" in entry:
        least, most = entry["share"]
        if not least <= fulfilled / len(frame) <= most:
            tests = " and ".join(f"{entry['column']} {name} {entry[name]}" for name in tested)
            problem = (
                f"{fulfilled} of {len(frame)} rows with {words_of(entry)} fulfil '{tests}',"
                f" expected a share of {least} to {most}"
            )
    elif failures:
        problem = f"line {failures[0][0]}: {failures[0][1]}"
    if problem:
        raise UserError(
            f"{place} is not supported: {tables.path(table)}: {problem}; if the table is right,"
            f" rewrite the sentence and its condition in {FINDINGS}"
        )
