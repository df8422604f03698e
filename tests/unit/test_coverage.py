"""The simulation of docs/statistics.md in small, and that its text is what its tables say."""

import numpy as np
import pandas as pd
import pytest

import simulate_coverage as simulation
from conftest import ROOT
from hardgrpo.analysis import statistics

COMPONENTS, COVERED, LEVELS = simulation.read(ROOT / "docs")
SWAPS = COMPONENTS[COMPONENTS.eval_task == "swaps"]


def test_the_text_says_what_the_tables_hold():
    text = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    assert simulation.filled(text, COMPONENTS, COVERED, LEVELS) == text, "run scripts/maintenance/simulate_coverage.py"


@pytest.mark.parametrize("target", ["A", "B"])
def test_reported_intervals_covered_93_to_98_per_cent_of_1000_studies(target):
    reported = COVERED[(COVERED.target == target) & (COVERED.method == simulation.REPORTED[target])]
    assert set(reported.seeds) == {3, 5, 10} and set(reported.quantity) == {"gain", "difference"}
    assert (reported.replications >= 1000).all()
    assert reported.coverage.between(0.93, 0.98).all(), reported[["eval_task", "seeds", "quantity", "coverage"]]


def test_tests_held_their_level():
    held = LEVELS[~LEVELS.test.str.contains("not corrected")]
    within = 0.05 + 2.58 * np.sqrt(0.05 * 0.95 / held.replications)  # with what chance does to a share of 1,000
    assert (held.level <= within).all(), held


def test_a_small_simulation_covers_and_shows_what_does_not():
    """150 studies: wide bounds, that a wrong formula still leaves."""
    rows = pd.DataFrame(simulation.coverage(SWAPS, 150, seeds_tried=(5,), seed=3))
    of = lambda target, quantity, method: rows[
        (rows.target == target) & (rows.quantity == quantity) & (rows.method == method)
    ].coverage.item()
    for target, method in simulation.REPORTED.items():
        for quantity in ("gain", "difference"):
            assert 0.89 <= of(target, quantity, method) <= 0.995
    assert of("B", "gain", "t over seeds") < 0.75 and of("B", "gain", "hierarchical bootstrap") < 0.85
    assert of("B", "difference", "bootstrap over seeds") < 0.8


def test_a_small_simulation_of_the_tests():
    levels = {row["test"]: row["level"] for row in simulation.levels(SWAPS, 150, seeds_tried=(5,), seed=3)}
    assert levels["paired, one comparison"] < 0.09 and levels["paired, any of 6, Holm"] < 0.13
    assert levels["McNemar, one comparison"] < 0.09 and levels["McNemar, any of 6, Holm"] < 0.13
    assert levels["paired, any of 6, not corrected"] > levels["paired, any of 6, Holm"]


def test_holm_finds_something_where_the_smallest_p_is_small_enough():
    """The shortcut that the simulation takes."""
    for p in np.random.default_rng(4).random((6, 6)) ** 3:
        assert (statistics.holm(p) < 0.05).any() == (p.min() * 6 < 0.05)


def test_simulated_studies_have_the_components_that_they_were_given():
    """Estimated from a simulated study with many problems, the components come out as they went in."""
    row = next(SWAPS.assign(problems=4000, seed_sd=0.0).itertuples())
    base, runs, truths = simulation.simulate(row, 2, 1, np.random.default_rng(1))
    rates = [float(rate) for rate in row.accuracies.split()]
    assert base.mean() == pytest.approx(row.base_accuracy, abs=0.02)
    assert runs.mean(axis=(0, 2, 3, 4)) == pytest.approx(rates, abs=0.02)
    assert truths["B"] == pytest.approx(np.array(rates) - row.base_accuracy)
    assert truths["A"][0] == pytest.approx(truths["B"], abs=0.02), "of many problems the two targets are one"
    latent = lambda one, other, own=False: simulation._latent(one.astype(float), other.astype(float), own)
    assert latent(base[0], base[0], own=True)[0] == pytest.approx(row.problem_base, abs=0.06)
    different, same = latent(runs[0, 0, 0], runs[0, 1, 1])
    assert (different, same - different) == pytest.approx((row.problem_two_policies, row.number_two_policies), abs=0.06)
    different, same = latent(base[0], runs[0, 2, 0])
    assert (different, same - different) == pytest.approx((row.problem_base_and_run, row.number_base_and_run), abs=0.08)
