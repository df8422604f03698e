"""The columns of tables that latex.py and web.py print. A cell is text, a formula, a marked number,
or a tuple of cells."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from hardgrpo.analysis.formats import UNKNOWN, integer, points, signed_interval, with_interval

BREAK = "\N{ZERO WIDTH SPACE}"  # allows a line break in a long name


@dataclass(frozen=True)
class Math:
    """A formula in LaTeX and as plain text."""

    tex: str
    plain: str


Cell = str | Math | tuple
N, K, P = (Math(letter, letter) for letter in "nkp")
K_NOTE = Math("k={}", "k = {}")
P_HAT, R_SQUARED = Math(r"\hat p", "p̂"), Math("R^2", "R²")


@dataclass(frozen=True)
class Column:
    """A column of a table. LaTeX may print a column of equal cells in the caption, in the words of
    the `note` if there is one; see `latex.printed_columns`."""

    header: Cell
    cells: list[Cell]
    align: str = "l"
    note: Cell = ""  # such as "model {}", where {} stands for the cell
    number: bool = False  # whether the cells are numbers, in which LaTeX sets + and < as math
    width: float = 0.0  # width as a share of the line, if the text wraps; 0: no wrapping


def text(
    frame: pd.DataFrame,
    name: str,
    header: Cell,
    show: Callable = str,
    note: str = "",
    width: float = 0.0,
) -> Column:
    return Column(header, [show(value) for value in frame[name]], note=note, width=width)


def number(
    frame: pd.DataFrame, name: str, header: Cell, show: Callable = points, note: Cell = ""
) -> Column:
    return numbers(
        header, [UNKNOWN if pd.isna(value) else show(value) for value in frame[name]], note
    )


def numbers(header: Cell, cells: list[Cell], note: Cell = "", width: float = 0.0) -> Column:
    return Column(header, cells, "l" if width else "r", note, True, width)


def with_95(header: Cell) -> Cell:
    return (header, " [95\N{NARROW NO-BREAK SPACE}%]")


def estimate(
    frame: pd.DataFrame, name: str, header: Cell, show: Callable = with_interval
) -> Column:
    ends = zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])
    return numbers(with_95(header), [show(*end) for end in ends])


def in_points(header: Cell) -> Cell:
    """The header of a change in percentage points (pp)."""
    return (header, ", pp")


def change(frame: pd.DataFrame, name: str, header: Cell) -> Column:
    """A change in percentage points, with its sign and its interval."""
    return estimate(frame, name, in_points(header), signed_interval)


def known_columns(columns: list[Column]) -> list[Column]:
    """The columns, except columns of numbers in which every number is unknown."""
    return [
        column
        for column in columns
        if not column.cells
        or not column.number
        or any(set(plain(cell)) - set(f"{UNKNOWN}→ ") for cell in column.cells)
    ]


def arrow(
    frame: pd.DataFrame, before: str, after: str, header: str, show: Callable = points
) -> Column:
    return numbers(header, [f"{show(a)} → {show(b)}" for a, b in zip(frame[before], frame[after])])


def key_columns(frame: pd.DataFrame, *columns: str) -> list[Column]:
    """The columns that name a row; `eval_task` is left out if it equals `task` in every row."""
    headers = {"task": "trained on", "eval_task": "tested on", "arm": "policy"}
    if "eval_task" in columns and "task" in columns and (frame.task == frame.eval_task).all():
        columns = tuple(name for name in columns if name != "eval_task")
    if "eval_task" not in columns:
        headers["task"] = "task"
    formats = {"model": lambda name: str(name).removesuffix("-recorded")}
    notes = {
        "model": "model {}",
        "task": "task {}",
        "eval_task": "tested on {}",
        "decoding": "decoding {}",
        "arm": "policy {}",
        "policy": "policy {}",
    }
    return [
        text(frame, name, headers.get(name, name), formats.get(name, str), notes.get(name, ""))
        for name in columns
    ]


def with_several_tiers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of tests with problems of more than one tier."""
    return frame[frame.groupby(["model", "task", "eval_task"]).tier.transform("nunique") > 1]


def seeds(frame: pd.DataFrame) -> Column:
    return number(frame, "seeds", "seeds", integer, "seeds: {}")


def problems(frame: pd.DataFrame) -> Column:
    return number(frame, "problems", N, integer, (Math("n={}", "n = {}"), " problems"))


def design(frame: pd.DataFrame) -> list[Column]:
    return [problems(frame), seeds(frame)]


def plain(cell: Cell) -> str:
    """A cell as plain text, without marks and without BREAK."""
    if isinstance(cell, tuple):
        return "".join(map(plain, cell))
    if isinstance(cell, Math):
        return cell.plain
    return cell.replace(BREAK, "")
