"""Read summary tables, with the labels of arms. The columns in NAMES are text."""

import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from hardgrpo.analysis import arms, summary_tables
from hardgrpo.analysis.columns import NAMES, NO_SUMMARIES
from hardgrpo.runtime import files
from hardgrpo.study import paths


def read(path: str | Path) -> pd.DataFrame:
    """A table; empty cells are nan."""
    return _parse(files.read_text(path).removeprefix("\ufeff"))


def _parse(text: str) -> pd.DataFrame:
    return pd.read_csv(
        io.StringIO(text), dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""]
    )


def has_no_file(tables: files.Tables, name: str) -> bool:
    """Whether a table has no file because it is the summary table of a committed study and has no
    rows that anything shows. Such a table is read as an empty one."""
    is_committed = any(path.parent.match(paths.reference("*")) for path in tables.values())
    return is_committed and name not in tables and name not in NO_SUMMARIES


def read_labelled(path: str | Path, first_recipe: str) -> pd.DataFrame:
    """A table with the labels of its arms (`arms.add_labels`)."""
    return arms.add_labels(read(path), first_recipe)


def own_test_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose test is the training task's own test (`eval_task` equals `task`)."""
    return frame[frame.task == frame.eval_task]


def own_test_samples(frame: pd.DataFrame) -> pd.DataFrame:
    """`own_test_rows` of sampled completions. Tables without a column `decoding` have only sampled
    completions."""
    rows = own_test_rows(frame)
    return rows[rows.decoding == "sampled"] if "decoding" in rows else rows


def with_several_tiers(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of tests with problems of more than one tier."""
    return frame[frame.groupby(["model", "task", "eval_task"]).tier.transform("nunique") > 1]


def read_all(
    tables: files.Tables, names: Iterable[str], first_recipe: str
) -> dict[str, pd.DataFrame]:
    """Labelled tables by name."""
    return {
        name: arms.add_labels(empty(name), first_recipe)
        if has_no_file(tables, name)
        else read_labelled(tables[name], first_recipe)
        for name in names
    }


def empty(name: str) -> pd.DataFrame:
    """A summary table without rows."""
    return _parse(",".join(summary_tables.all_tables()[name].columns))


def read_tables(
    tables: files.Tables, names: Iterable[str], first_recipe: str
) -> dict[str, list[dict]]:
    """Rows of labelled tables by name. An empty cell is "" in a column of names, and nan in other
    columns."""
    return {
        name: frame.fillna(dict.fromkeys(frame.columns.intersection(NAMES), "")).to_dict("records")
        for name, frame in read_all(tables, names, first_recipe).items()
    }
