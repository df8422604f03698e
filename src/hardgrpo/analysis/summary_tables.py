"""The decorator of functions that make summary tables.

A function decorated with `table` makes the summary table of its name, and yields or returns its
rows. Arguments without a default are named after what they are: the rows of another summary table, or
an entry of the inputs in scripts/summaries/summarize.py. The tables of an analysis, which have a
`kind`, get the counts and the analysis. The decorator's argument lists the columns; `x±` stands for
an estimate `x` and the ends of its 95 % interval, `x_low` and `x_high`.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from hardgrpo.analysis.columns import CELL, MINUS, RUNS

CELL_KEYS, RUN_KEYS, MINUS_KEYS = map(" ".join, (CELL, RUNS, MINUS))
MODULES = (
    "completions",
    "count_tables",
    "explanations",
    "pools",
    "recorded_runs",
    "training",
    "trajectory_groups",
)


@dataclass(frozen=True)
class SummaryTable:
    """`kind` is the kind of the analyses of published numbers that have the table; None for a table
    of studies."""

    make: Callable[..., list[dict]]
    inputs: list[str]
    columns: list[str]
    kind: str | None


_tables: dict[str, SummaryTable] = {}


def expand(columns: str) -> list[str]:
    return re.sub(r"(\S+)±", r"\1 \1_low \1_high", columns).split()


def table(columns: str, kind: str | None = None) -> Callable:
    def register(function: Callable) -> Callable:
        @functools.wraps(function)
        def make(*arguments, **options) -> list[dict]:
            return list(function(*arguments, **options))

        inputs = [
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is parameter.empty
        ]
        _tables[function.__name__] = SummaryTable(make, inputs, expand(columns), kind)
        return make

    return register


def all_tables() -> dict[str, SummaryTable]:
    """{name: summary table} of studies and of analyses of published numbers."""
    for module in MODULES:
        importlib.import_module(f"hardgrpo.analysis.{module}")
    return _tables
