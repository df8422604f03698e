"""Read summary tables: text in columns of names, numbers elsewhere."""

import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from hardgrpo.analysis.columns import NAMES
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

TEXTS = {*NAMES, "claim", "test", "population", "verdict", "source", "july", "later"}  # columns that hold no numbers


def read(path: str | Path, columns: Iterable[str] = ()) -> pd.DataFrame:
    """A table with at least `columns`; nan where a cell is empty."""
    if columns:
        files.read_rows(path, dict.fromkeys(columns, str))  # raises an error that names a missing column
    text = io.StringIO(files.read_text(path).removeprefix("\ufeff"))
    frame = pd.read_csv(text, dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""])
    for column in frame.columns.difference(TEXTS):
        if frame[column].notna().any() and not pd.api.types.is_numeric_dtype(frame[column]):
            raise UserError(f"{path}: column '{column}' holds something else than numbers; make the table again")
    files.check_numbers(path, frame.columns.difference(TEXTS))
    return frame


def read_tables(tables: files.Tables, names: Iterable[str]) -> dict[str, list[dict]]:
    """Rows of summary tables by name; an empty cell is "" in a column of names, else nan."""
    found = {}
    for name in names:
        frame = read(tables[name])
        for column in frame.columns.intersection(NAMES):
            frame[column] = frame[column].fillna("")
        found[name] = frame.to_dict("records")
    return found
