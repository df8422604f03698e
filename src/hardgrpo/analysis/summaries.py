"""Read summary tables: the columns in NAMES as text; the columns outside TEXTS must be numeric. Add
labels of arms."""

import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from hardgrpo.analysis import arms
from hardgrpo.analysis.columns import NAMES, NO_SUMMARIES
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

# columns that may contain text
TEXTS = {*NAMES, "claim", "test", "population", "verdict", "source", "july", "later"}


def read(path: str | Path, columns: Iterable[str] = ()) -> pd.DataFrame:
    """A table; empty cells are nan. Raise a `UserError` if one of `columns` is missing, or if a
    numeric column contains text."""
    if columns:
        # raises an error that names a missing column
        files.read_rows(path, dict.fromkeys(columns, str))
    frame = _parse(files.read_text(path).removeprefix("\ufeff"))
    for column in frame.columns.difference(TEXTS):
        if frame[column].notna().any() and not pd.api.types.is_numeric_dtype(frame[column]):
            raise UserError(
                f"{path}: column '{column}' has a value that is not a number; make the table again"
            )
    files.check_numbers(path, frame.columns.difference(TEXTS))
    return frame


def _parse(text: str) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text), dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""]
    )


def has_no_file(tables: files.Tables, name: str) -> bool:
    """Whether a table has no file because it is the summary table of a committed study and has no
    rows that anything shows. Such a table is read as an empty one."""
    is_committed = any(path.parent.match(paths.reference("*")) for path in tables.values())
    return is_committed and name not in tables and name not in NO_SUMMARIES


def read_labelled(path: str | Path, first_recipe: str, columns: Iterable[str] = ()) -> pd.DataFrame:
    """A table with the labels of its arms (`arms.add_labels`)."""
    return arms.add_labels(read(path, columns), first_recipe)


def own_test_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose test is the training task's own test (`eval_task` equals `task`)."""
    return frame[frame.task == frame.eval_task]


def own_test_samples(frame: pd.DataFrame) -> pd.DataFrame:
    """`own_test_rows` of sampled completions. Tables without a column `decoding` have only sampled
    completions."""
    rows = own_test_rows(frame)
    return rows[rows.decoding == "sampled"] if "decoding" in rows else rows


def read_all(
    tables: files.Tables, columns: dict[str, list[str]], first_recipe: str
) -> dict[str, pd.DataFrame]:
    """Labelled tables by name. `columns` lists the columns that each table must have."""
    return {
        name: arms.add_labels(_parse(",".join(required)), first_recipe)
        if has_no_file(tables, name)
        else read_labelled(tables[name], first_recipe, required)
        for name, required in columns.items()
    }


def read_tables(
    tables: files.Tables, names: Iterable[str], first_recipe: str
) -> dict[str, list[dict]]:
    """Rows of labelled tables by name. An empty cell is "" in a column of names, and nan in other
    columns."""
    rows = {}
    for name in names:
        if has_no_file(tables, name):
            rows[name] = []
            continue
        frame = read_labelled(tables[name], first_recipe)
        for column in frame.columns.intersection(NAMES):
            frame[column] = frame[column].fillna("")
        rows[name] = frame.to_dict("records")
    return rows
