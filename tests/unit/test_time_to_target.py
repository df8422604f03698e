"""Time to target (the rollouts until an arm reaches the final accuracy of plain GRPO) is compared
with values computed by hand. The coverage of its intervals is simulated."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hardgrpo.analysis import training
from hardgrpo.analysis.columns import CELL
from hardgrpo.study.study import Run


def test_time_to_target_is_measured_in_rollouts_of_plain_grpo_on_the_same_prompts():
    """All seeds have the same curve, so there is no spread. In the first case, the accuracy of
    plain GRPO rises from .2 to .6, and the other arm reaches .6 with half as many rollouts."""

    def table_rows(plain: list[float], other_accuracies: list[float], seeds: int = 6) -> list[dict]:
        one_seed = lambda accuracies: np.tile(np.array([0.2, *accuracies])[None, :], (seeds, 1))
        return time_to_target(one_seed(plain), one_seed(other_accuracies))

    (row,) = table_rows([0.4, 0.6], [0.6, 0.7])
    assert (row["policy"], row["recipe"], row["minus"], row["minus_recipe"]) == (
        "all",
        "fast",
        "all",
        "slow",
    )
    assert row["target"] == pytest.approx(0.6)
    assert (row["share"], row["share_low"], row["share_high"], row["reached"]) == (0.5, 0.5, 0.5, 1)
    (row,) = table_rows([0.4, 0.6], [0.3, 0.5])
    assert (row["share"], row["share_low"], row["reached"]) == (None, None, 0), (
        "an arm that never reaches the target must have no share"
    )
    (row,) = table_rows([0.7, 0.6], [0.7, 0.6])
    assert (row["share"], row["minus_share"]) == (1, pytest.approx(0.4)), (
        "arms with equal curves must have share 1, even if both reach the target early"
    )
    (row,) = table_rows([0.4, 0.6], [0.6, 0.7], seeds=5)
    assert (row["share"], row["share_low"], row["reached"]) == (0.5, None, 1), (
        "five seeds must give no interval"
    )
    assert table_rows([0.3, 0.1], [0.6, 0.7]) == [], (
        "without a gain of plain GRPO there must be no row, because there is no target"
    )


@pytest.mark.slow
def test_intervals_of_time_to_target_have_about_their_nominal_coverage():
    """Both curves are linear, and the second has 1.5 times the slope of the first. At least 86 %
    of the intervals, but not all, must contain the true share 2/3. Each interval is from ten
    seeds."""
    rng, held, tries = np.random.Generator(np.random.PCG64(11)), 0, 120
    for _ in range(tries):
        plain, fast = (
            0.2 + np.array([0, 0.2, 0.4]) * slope + rng.normal(0, 0.03, (10, 3)) * [0, 1, 1]
            for slope in (1, 1.5)
        )
        (row,) = time_to_target(plain, fast)
        low, high = (
            np.inf if row[name] is None else row[name] for name in ("share_low", "share_high")
        )
        held += low <= 2 / 3 <= high
    assert 0.86 * tries <= held < tries


def time_to_target(plain: np.ndarray, other_accuracies: np.ndarray) -> list[dict]:
    """The table of two arms on one task. The accuracies have shape (seeds, 3): the base model and
    two checkpoints."""
    seeds = list(range(len(plain)))

    def cell(recipe, curve):
        rates = lambda step: np.tile(curve[:, step // 5][:, None], (1, 4))
        return SimpleNamespace(
            model="m", task="t", eval_task="t", policy="all", recipe=recipe, arm=("all", recipe), seeds=seeds,
            keys=dict(zip(CELL, ("m", "t", "t", "all", recipe))),
            steps=lambda: [5, 10], base_rates=lambda: rates(0), rates=rates,
        )  # fmt: skip

    updates = {}
    for recipe, kept_rollouts in (("slow", np.nan), ("fast", 40.0)):
        for seed in seeds:
            updates[Run("m", "t", recipe, "all", seed, "m")] = pd.DataFrame(
                {"rollouts": [64.0] * 10, "kept": [kept_rollouts] * 10}
            )
    return training.time_to_target(
        [cell("slow", plain), cell("fast", other_accuracies)],
        updates,
        SimpleNamespace(first_recipe="slow"),
    )


def test_the_first_time_that_a_curve_reaches_a_target_by_hand():
    spent, curve = [0.0, 0.5, 1.0], np.array([0.2, 0.4, 0.8])
    assert training.first_reached(spent, curve, 0.3) == pytest.approx(0.25)
    assert training.first_reached(spent, curve, 0.6) == pytest.approx(0.75)
    assert training.first_reached(spent, curve, 0.2) == 0
    assert training.first_reached(spent, curve, 0.9) == np.inf
    assert training.first_reached(spent, np.array([0.2, 0.7, 0.1]), 0.7) == 0.5, (
        "the first time counts, although the curve falls below the target afterwards"
    )
