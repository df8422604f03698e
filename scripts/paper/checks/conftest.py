"""Fixtures and helpers of the checks: the tables, the runs, and the text of a failure."""

from hardgrpo.analysis import summaries
from hardgrpo.report import registry
from hardgrpo.study.resolved import ResolvedStudy

from collections import defaultdict
from math import isclose, isnan

import pytest

TOLERANCE = 1e-9  # numbers are written with ten digits


@pytest.fixture(scope="session")
def tables(arguments) -> dict[str, list[dict]]:
    return summaries.read_tables(
        arguments.tables, registry.SUMMARIES, arguments.conditions["first_recipe"]
    )


@pytest.fixture(scope="session")
def require_local_tables(arguments) -> None:
    """Skip if the tables are the committed reference results, because local raw files belong to
    other runs."""
    if arguments.reference:
        pytest.skip(
            "the tables are the committed reference results, whose raw files are not in this clone"
        )


@pytest.fixture(scope="session")
def study(arguments) -> ResolvedStudy:
    return ResolvedStudy.of(arguments.config, arguments.study)


@pytest.fixture(scope="session")
def runs(study) -> dict[tuple, list]:
    """The runs of each (model, task, policy, recipe), in the order of their seeds."""
    groups = defaultdict(list)
    for run in study.runs:
        groups[run.model, run.task, run.policy, run.recipe].append(run)
    return dict(groups)


def check(failures: list[str]) -> None:
    """Fail with the first five entries of `failures`, a line each, without a traceback."""
    if failures:
        rest_note = [f"... and {len(failures) - 5} more"] if len(failures) > 5 else []
        pytest.fail("\n".join(failures[:5] + rest_note), pytrace=False)


def at(table: str, number: int, row: dict) -> str:
    """Table, row and name of the row: 'gains.csv: row 2 (tiny swaps swaps hard)'."""
    keys = [
        str(row[key])
        for key in ("model", "task", "eval_task", "arm", "minus_arm", "tier", "seed", "step")
        if key in row
    ]
    return f"{table}.csv: row {number + 2} ({' '.join(keys)})"


def rows_of(tables: dict, *names: str):
    """(table, place, row) of the tables `names`, by default of all tables."""
    for name in names or tables:
        for number, row in enumerate(tables[name]):
            yield name, at(name, number, row), row


def is_known(value) -> bool:
    return value is not None and not (isinstance(value, float) and isnan(value))


def close(value: float, expected: float) -> bool:
    return isclose(value, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
