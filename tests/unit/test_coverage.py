"""The committed tables of the simulation that docs/statistics.md reports, and a comparison of the
numbers on this page with the tables."""

import numpy as np
import pandas as pd
import pytest

from conftest import ROOT

COVERED = pd.read_csv(ROOT / "docs/coverage.csv")
LEVELS = pd.read_csv(ROOT / "docs/levels.csv")
REPORTED = {"B": "reported (B)", "A": "reported (A)"}  # by target


def range_of(shares: pd.Series) -> str:
    return f"{100 * shares.min():.1f} to {100 * shares.max():.1f}" if len(shares) else ""


def test_the_page_states_the_numbers_of_the_tables():
    page = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    coverage_lines = [line for line in lines if len(line) == 8 and line[0] in ("A", "B")]
    level_lines = [line for line in lines if line[:1] and line[0] in set(LEVELS.test)]
    assert len(coverage_lines) == 8 and len(level_lines) == LEVELS.test.nunique()
    for target, method, *cells in coverage_lines:
        rows = COVERED[(COVERED.target == target) & (COVERED.method == method.strip("*"))]
        assert cells == [
            range_of(rows[(rows.quantity == quantity) & (rows.seeds == seeds)].coverage)
            for quantity in ("gain", "difference")
            for seeds in (3, 5, 10)
        ], method
    for test, *cells in level_lines:
        rows = LEVELS[LEVELS.test == test]
        assert cells == [range_of(rows[rows.seeds == seeds].level) for seeds in (1, 3, 5, 10)], test


@pytest.mark.parametrize("target", ["A", "B"])
def test_reported_intervals_cover_the_true_value_in_93_to_98_per_cent_of_1000_studies(target):
    reported = COVERED[(COVERED.target == target) & (COVERED.method == REPORTED[target])]
    assert set(reported.seeds) == {3, 5, 10} and set(reported.quantity) == {"gain", "difference"}
    assert (reported.replications >= 1000).all()
    assert reported.coverage.between(0.93, 0.98).all(), reported[
        ["eval_task", "seeds", "quantity", "coverage"]
    ]


def test_corrected_tests_keep_their_level():
    held = LEVELS[~LEVELS.test.str.contains("not corrected")]
    # 5 %, with a tolerance for the sampling noise of a share of 1,000 studies
    within = 0.05 + 2.58 * np.sqrt(0.05 * 0.95 / held.replications)
    assert (held.level <= within).all(), held
