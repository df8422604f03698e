"""Compare the numbers of a text with the cells of tables that their origins name."""

import csv
from pathlib import Path

from hardgrpo.analysis import formats
from hardgrpo.report import latex

PARTS = ("finishing", "correctness", "sharpening", "new_solving")


def wrong_numbers(origins: list[dict], folder: Path) -> list[dict]:
    """The rows of numbers.csv whose text is not the format of the cells that they name."""
    return [row for row in origins if {row["text"]} != set(expected_texts(row, folder))]


def expected_texts(row: dict, folder: Path) -> list[str]:
    with open(folder / row["file"], encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    cells = [table[int(line) - 2] for line in row["lines"].split()]
    column, show = row["column"], row["show"]
    if show == "count of rows":
        return [str(len(cells))]
    if show == "sum":
        return [str(sum(int(cell[column]) for cell in cells))]
    return [latex.number(cell_text(cell, column, show)) for cell in cells]


def cell_text(cell: dict, column: str, show: str) -> str:
    number = lambda name: float(cell.get(name) or "nan")
    names = [f"{column}{end}" if f"{column}{end}" in cell else end[1:] for end in formats.ENDS]
    ends = list(map(number, names))
    if show == "part":
        parts = {name: number(name) for name in PARTS if name in cell}
        rounded = formats.round_parts(number("gain"), list(parts.values()))
        return formats.signed_interval(dict(zip(parts, rounded))[column], *ends)
    endings, format_values = formats.FORMATS[show]
    value = cell[column] if show == "text" else number(column)
    return format_values(value, *(ends if len(endings) > 1 else []))
