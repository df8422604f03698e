"""Tables of training logs, compared with values computed by hand: what runs spent, the rollouts of
selectors, and the rollouts until an arm reaches the final accuracy of plain GRPO."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hardgrpo.analysis import training
from hardgrpo.analysis.columns import CELL
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.study import Run


def updates_of(*lengths: int) -> dict[Run, pd.DataFrame]:
    """{run: its log} with one run for each number of updates; the runs alternate between two
    policies."""
    unknown = dict.fromkeys(("kept", "replayed", "thrown_away", "labels", "trained"), np.nan)
    frames = {}
    for number, length in enumerate(lengths):
        run = Run("m", "t", "slow", ("all", "low")[number % 2], number // 2, "m")
        row = {"prompts": 8.0, "rollouts": 64.0, "tokens_mean": 10.0 + number} | unknown
        frames[run] = pd.DataFrame([row | {"step": step + 1} for step in range(length)])
    return frames


def parity_rows(monkeypatch, updates: dict, held_constant: list[str]) -> list[dict]:
    spec = SimpleNamespace(completion_tokens=48, training={"reward": "correct"}, subset="seed0.csv")
    monkeypatch.setattr(training.Spec, "read", lambda path: spec)
    description = {"policy": {"rule": "all"}, "pool": 40, "prompts": 40}
    monkeypatch.setattr(training.files, "read_json", lambda path: description)
    return training.parity(updates, SimpleNamespace(held_constant=held_constant))


def test_a_difference_in_what_the_study_holds_constant_stops_the_summary_with_both_numbers(
    monkeypatch,
):
    with pytest.raises(UserError) as error:
        parity_rows(monkeypatch, updates_of(3, 3, 3, 2), ["prompts"])
    for words in ("m/t: ", "prompts", "slow/all/seed0 has 24", "slow/low/seed1 has 16"):
        assert words in str(error.value)
    assert len(parity_rows(monkeypatch, updates_of(3, 3, 3, 2), ["completion_tokens"])) == 4, (
        "runs may differ in what the study does not hold constant"
    )


HARD, DRAWN = {"rule": "hard", "budget": 0.1}, {"rule": "random", "budget": 0.1}
LOWEST, ALL = {"rule": "lowest", "by": "agreement", "budget": 0.1}, {"rule": "all"}
PREDICTED = {"rule": "nearest_half", "by": "predicted", "calibrated_on": 0.02, "budget": 0.1}
PROMPTS = {"prompts": [8] * 100}


@pytest.mark.parametrize(
    ("policy", "chosen", "recipe", "log", "labels"),
    [
        (HARD, 50, {}, PROMPTS, 500),
        (HARD, 50, {"reward": "majority"}, PROMPTS, 500),
        (DRAWN, 50, {}, PROMPTS, 50),
        (LOWEST, 50, {}, PROMPTS, 50),
        (LOWEST, 50, {"reward": "majority"}, PROMPTS, 0),
        (PREDICTED, 50, {}, PROMPTS, 50),
        (PREDICTED, 50, {"reward": "majority"}, PROMPTS, 10),
        (ALL, 500, {"reward": "finished"}, PROMPTS, 0),
        (ALL, 500, {}, PROMPTS, 500),
        # a short run on all prompts needs only the answers of the sampled prompts
        (ALL, 500, {}, {"prompts": [8, 8, 8]}, 24),
        (ALL, 20, {}, {"prompts": [8, 8, 8]}, 20),
        (DRAWN, 50, {}, {"prompts": [8, 8, 8]}, 50),
        ({"rule": "annotated"}, 50, {}, {"prompts": [8, 8, 8]}, 50),
        (HARD, 50, {}, {"prompts": [8, 8, 8]}, 500),
        # with a selector, a label for each prompt that was sampled, not for each of the subset
        (ALL, 500, {"selector": {"kind": "beta"}}, {"labels": [8, 7, 3]}, 18),
        (DRAWN, 50, {"selector": {"kind": "dynamic"}}, {"labels": [8, 8, 8]}, 24),
        # 500 if the policy's choice or the curriculum's order needs the labels of the whole pool
        (HARD, 50, {"selector": {"kind": "dynamic"}}, {"labels": [8, 8, 8]}, 500),
        (ALL, 500, {"selector": {"kind": "curriculum", "by": "pass_rate"}}, {"labels": [8, 8]}, 500),
        (ALL, 500, {"selector": {"kind": "curriculum", "by": "tier"}}, {"labels": [8, 8]}, 16),
        (PREDICTED, 50, {"selector": {"kind": "beta"}}, {"labels": [8, 8]}, 26),
        (PREDICTED, 50, {"selector": {"kind": "beta"}}, {"labels": [45]}, 50),
        (ALL, 500, {"selector": {"kind": "beta"}, "reward": "majority"}, {"labels": [0, 0]}, 0),
    ],
)  # fmt: skip
def test_labels_bought_by_hand(policy, chosen, recipe, log, labels, monkeypatch):
    description = {"policy": policy, "pool": 500, "prompts": chosen}
    description["sample"] = 10 if policy is PREDICTED else None
    monkeypatch.setattr(training.files, "read_json", lambda path: description)
    recipe = {"reward": "correct"} | recipe
    assert training.labels_bought("p/seed0.csv", recipe, pd.DataFrame(log)) == labels


def test_wall_time_is_read_from_timing_csv_and_is_nan_without_this_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    updates = updates_of(2, 2)
    rows = [{"step": 1, "seconds": 1.5}, {"step": 2, "seconds": 2}]
    run = next(iter(updates))
    files.write_rows(f"results/training/{run.path}/timing.csv", ["step", "seconds"], rows)
    seconds = training.read_seconds(updates)
    assert seconds["m", "t", "all", "slow", 0] == 3.5
    assert np.isnan(seconds["m", "t", "low", "slow", 0])


# --- rollouts until a target


def time_to_target(plain: np.ndarray, fast: np.ndarray) -> list[dict]:
    """The table of two arms, each with ten updates of 64 rollouts. The accuracies have the shape
    (seeds, 3): the base model, and checkpoints after 5 and 10 updates."""

    def measured(recipe: str, curves: np.ndarray) -> SimpleNamespace:
        rates = lambda step: np.tile(curves[:, step // 5][:, None], (1, 4))
        keys = dict(zip(CELL, ("m", "t", "t", "all", recipe)))
        names = {"arm": ("all", recipe), "keys": keys, "seeds": list(range(len(curves)))}
        return SimpleNamespace(
            **keys, **names, steps=lambda: [5, 10], rates=rates, base_rates=lambda: rates(0)
        )

    compared, updates = [], {}
    for recipe, curves, kept in (("slow", plain, np.nan), ("fast", fast, 40.0)):
        compared.append(measured(recipe, curves))
        for seed in range(len(curves)):
            log = pd.DataFrame({"rollouts": [64.0] * 10, "kept": [kept] * 10})
            updates[Run("m", "t", recipe, "all", seed, "m")] = log
    return training.time_to_target(compared, updates, SimpleNamespace(first_recipe="slow"))


@pytest.mark.parametrize(
    ("plain", "fast", "seeds", "expected"),
    [
        # the accuracy of plain GRPO rises from .2 to .6; the other arm needs half of the rollouts
        ([0.4, 0.6], [0.6, 0.7], 6, {"target": 0.6, "share": 0.5, "share_low": 0.5, "share_high": 0.5, "reached": 1}),
        # never reached
        ([0.4, 0.6], [0.3, 0.5], 6, {"share": None, "share_low": None, "reached": 0}),
        # equal curves reach the target early
        ([0.7, 0.6], [0.7, 0.6], 6, {"share": 1, "minus_share": 0.4}),
        # five seeds give no interval
        ([0.4, 0.6], [0.6, 0.7], 5, {"share": 0.5, "share_low": None, "reached": 1}),
    ],
)  # fmt: skip
def test_time_to_target_is_measured_in_rollouts_of_plain_grpo(plain, fast, seeds, expected):
    """All seeds have the same curve, so there is no spread."""
    (row,) = time_to_target(*(np.array([[0.2, *curve]] * seeds) for curve in (plain, fast)))
    arms = ("policy", "recipe", "minus", "minus_recipe")
    assert [row[name] for name in arms] == ["all", "fast", "all", "slow"]
    assert {name: row[name] for name in expected} == {
        name: value if value is None else pytest.approx(value) for name, value in expected.items()
    }


def test_without_a_gain_of_plain_grpo_there_is_no_target():
    curves = [[0.2, 0.3, 0.1]] * 6, [[0.2, 0.6, 0.7]] * 6
    assert time_to_target(*map(np.array, curves)) == []


@pytest.mark.slow
def test_intervals_of_time_to_target_have_about_their_nominal_coverage():
    """The second curve has 1.5 times the slope of the first. At least 86 % of the intervals, each
    from ten seeds, but not all, must contain the true share 2/3."""
    rng, held, tries = np.random.default_rng(11), 0, 120
    for _ in range(tries):
        curves = (
            0.2 + np.array([0, 0.2, 0.4]) * slope + rng.normal(0, 0.03, (10, 3)) * [0, 1, 1]
            for slope in (1, 1.5)
        )
        (row,) = time_to_target(*curves)
        ends = (row[name] or np.inf for name in ("share_low", "share_high"))
        held += next(ends) <= 2 / 3 <= next(ends)
    assert 0.86 * tries <= held < tries


def test_the_first_time_that_a_curve_reaches_a_target_by_hand():
    spent, curve = [0.0, 0.5, 1.0], np.array([0.2, 0.4, 0.8])
    reached = [training.first_reached(spent, curve, target) for target in (0.3, 0.6, 0.2, 0.9)]
    assert reached == pytest.approx([0.25, 0.75, 0, np.inf])
    assert training.first_reached(spent, np.array([0.2, 0.7, 0.1]), 0.7) == 0.5, (
        "the first time counts, although the curve falls below the target afterwards"
    )
