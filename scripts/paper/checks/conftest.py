"""Fixtures and helpers of the checks: the tables, the runs, and the text of a failure."""

from hardgrpo.analysis import summaries
from hardgrpo.report import registry
from hardgrpo.study import paths

from collections import defaultdict
from math import isclose, isnan

import pytest

TOLERANCE = 1e-9  # numbers are written with ten digits


@pytest.fixture(scope="session")
def tables(given) -> dict[str, list[dict]]:
    return summaries.read_tables(given.tables, registry.SUMMARIES, given.conditions["first_recipe"])


@pytest.fixture(scope="session")
def made_here(given) -> None:
    """Skip if the tables are the committed reference: raw files in this folder belong to another run."""
    if given.reference:
        pytest.skip("the tables are the committed reference, its raw files are not here")


@pytest.fixture(scope="session")
def runs(given) -> dict[tuple, list]:
    """The runs of each (model, task, policy, recipe), in the order of their seeds."""
    groups = defaultdict(list)
    for run in paths.runs(given.config, given.study):
        groups[run.model, run.task, run.policy, run.recipe].append(run)
    return dict(groups)


def check(wrong: list[str]) -> None:
    """Fail with the first five entries of `wrong`, a line each, without a traceback."""
    if wrong:
        more = [f"... and {len(wrong) - 5} more"] if len(wrong) > 5 else []
        pytest.fail("\n".join(wrong[:5] + more), pytrace=False)


def at(table: str, number: int, row: dict) -> str:
    """Table, row and name of the row: 'gains.csv: row 2 (tiny swaps swaps hard)'."""
    keys = [str(row[key]) for key in ("model", "task", "eval_task", "arm", "minus_arm", "tier", "seed", "step") if key in row]
    return f"{table}.csv: row {number + 2} ({' '.join(keys)})"


def rows_of(tables: dict, *names: str):
    """(table, place, row) of the named tables; of all tables if none is named."""
    for name in names or tables:
        for number, row in enumerate(tables[name]):
            yield name, at(name, number, row), row


def known(value) -> bool:
    return value is not None and not (isinstance(value, float) and isnan(value))


def close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
