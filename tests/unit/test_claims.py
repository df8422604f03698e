"""Estimates and verdicts of claims, on hand-made tables."""

import math

import numpy as np
import pytest

from conftest import ROOT
from hardgrpo.analysis import claims, statistics
from hardgrpo.runtime import files

FIRST = "plain"  # the first recipe of the study
TASKS = {
    "tight": {"completion_tokens": 60, "problems": "tight"},
    "ample": {"completion_tokens": 192, "problems": "tight"},
    "far": {"completion_tokens": 72, "problems": "far"},
    "weak": {"completion_tokens": 60, "problems": "weak"},
    "graded": {"completion_tokens": 60, "problems": "tight"},
}


def row(policy, middle=0.0, half=0.01, name="gain", task="tight", eval_task=None, **columns):
    """A row of a table with an estimate and its interval. `policy` may be an arm's label: "hard,
    fast"."""
    keys = {"model": "m", "task": task, "eval_task": eval_task or task}
    keys |= arm(policy, "policy", "recipe", "arm") | {"seeds": 3, "problems": 100}
    interval = {name: middle, f"{name}_low": middle - half, f"{name}_high": middle + half}
    return keys | interval | columns


def arm(label: str, *columns: str) -> dict:
    policy, _, recipe = label.partition(", ")
    return dict(zip(columns, (policy, recipe or FIRST, label)))


def minus(policy, other_policy, middle, half=0.01, **columns):
    other = arm(other_policy, "minus", "minus_recipe", "minus_arm")
    return row(policy, middle, half, "difference", **other, **columns)


PRIMARY = {"primary": True, "replicates": 3}


def judge(claim: dict, weaker=(), own_bases=(), **tables) -> list[dict]:
    claim = {"id": "c", "paper": "HE", "claim": "so"} | claim
    rows = claims.judge([claim], claims.Study(tables, FIRST, TASKS, list(weaker), list(own_bases)))
    assert all(row.keys() == set(claims.COLUMNS) for row in rows)
    return rows


def list_verdicts(claim: dict, **tables) -> list[str]:
    return [verdict_row["verdict"] for verdict_row in judge(claim | PRIMARY, **tables)]


S, C, U, D = claims.SUPPORTED, claims.CONTRADICTED, claims.UNDECIDED, claims.DESCRIPTIVE
DIFFERENCE = {"test": "difference", "policy": "hard", "minus": "easy"}
SMALL = {"p": 0.001}


# --- verdicts on primary claims


def interval_of(row: dict) -> tuple:
    return row["estimate"], row["low"], row["high"]


@pytest.mark.parametrize(
    "middle, verdict", [(0.03, S), (-0.03, C), (0.005, U), (0.01, U), (math.nan, U)]
)
def test_a_primary_difference_is_decided_by_its_interval(middle, verdict):
    assert list_verdicts(DIFFERENCE, differences=[minus("hard", "easy", middle)]) == [verdict]


def test_a_difference_that_the_table_holds_with_exchanged_arms_is_negated():
    rows = [minus("easy", "hard", 0.03, 0.02, **SMALL)]
    (judged,) = judge(DIFFERENCE | PRIMARY, differences=rows)
    assert interval_of(judged) == pytest.approx((-0.03, -0.05, -0.01))
    names = ("verdict", "test", "seeds", "n")
    assert [judged[name] for name in names] == [C, "hard - easy", 3, 100]


def test_too_few_replicates_decide_nothing_and_are_reported():
    tables = lambda *seeds: {
        "differences": [
            minus("hard", "easy", 0.3, seeds=n, task=t, **SMALL) for n, t in zip(seeds, TASKS)
        ]
    }
    rows = judge(DIFFERENCE | PRIMARY | {"replicates": 10}, **tables(3, 1))
    assert [row["verdict"] for row in rows] == [f"undecided: {n} of 10 replicates" for n in (3, 1)]
    assert all(math.isnan(row["p_holm"]) for row in rows)
    assert list_verdicts(DIFFERENCE | {"replicates": 3}, **tables(3, 10)) == [S, S]


def test_holm_corrects_over_those_tasks_of_a_model_that_have_enough_replicates():
    def p_holm(*rows):
        differences = [minus("hard", "easy", 0.03, **row) for row in rows]
        judged = judge(DIFFERENCE | PRIMARY, differences=differences)
        return [row["p_holm"] for row in judged], [row["verdict"] for row in judged]

    tight, weak = {"p": 0.03, "task": "tight"}, {"p": 0.04, "task": "weak"}
    assert p_holm(tight) == (pytest.approx([0.03]), [S])
    assert p_holm(tight, weak) == (pytest.approx([0.06, 0.06]), [U, U])
    assert p_holm(tight | {"p": 0.01}, weak) == (pytest.approx([0.02, 0.04]), [S, S])
    assert p_holm(tight, weak | {"model": "n"}) == (pytest.approx([0.03, 0.04]), [S, S]), (
        "Holm's correction must be computed for each model separately"
    )
    (tight_p, weak_p), decisions = p_holm(tight, weak | {"seeds": 2})
    assert tight_p == pytest.approx(0.03) and math.isnan(weak_p) and decisions[0] == S


def solving_rows(*tiers, **columns):
    """Rows of table `kinds`, one for each tuple (tier, new solving, half-width of its interval,
    share out of reach). Tier "" stands for all problems."""
    facts = {"reach_samples": 64.0, "seeds": 10} | columns
    return [
        row("random", x, half, "new_solving", tier=tier, out_of_reach=lost, **facts)
        for tier, x, half, lost in tiers
    ]


NEW = {"test": "new_solving", "policy": "random", "margin": 0.02}


@pytest.mark.parametrize(
    "middle, half, verdict",
    [(0.005, 0.01, S), (0.05, 0.01, C), (0.015, 0.01, U), (0.0, 0.03, U), (0.0, 0.0, S)],
)
def test_the_claim_of_no_new_solving_is_decided_by_the_interval_and_the_margin(
    middle, half, verdict
):
    rows = solving_rows(("", 0.5, 0.01, 0.6), ("1", 0.5, 0.01, 0.6), ("10", middle, half, 0.4))
    (verdict_row,) = judge(NEW | PRIMARY, kinds=rows)
    assert verdict_row["verdict"] == verdict and verdict_row["estimate"] == middle
    assert "tier 10" in verdict_row["test"] and "64 samples" in verdict_row["test"], (
        "the claim must be about the last tier, which is the hardest"
    )


def test_a_claim_that_cannot_fail_is_not_supported():
    rows = solving_rows(("1", 0.0, 0.0, 0.5), ("2", 0.0, 0.001, 0.015))
    assert list_verdicts(NEW, kinds=rows) == ["undecided: only 1.5 % out of reach"]
    assert judge(NEW, kinds=rows[1:]) == [], "a study with one tier has no hardest tier"
    assert judge(NEW, kinds=[]) == []


def test_the_p_value_of_a_claim_is_the_level_at_which_the_interval_reaches_the_boundary():
    """For an interval over seeds alone, p equals the p value of a t test. p is below 5 % exactly if
    the interval excludes the boundary: zero or, with a margin, the nearer end of the margin."""
    for values in np.random.default_rng(2).normal(0.5, 1, (20, 6)):
        interval = statistics.seeds_interval(values)
        row = vars(interval) | {"seeds": 6, "p": None}
        p_value = statistics.p_value(statistics.components(np.repeat(values[:, None], 2, axis=1)))
        assert claims.interval_p(row, None) == pytest.approx(float(p_value), abs=1e-6)
        assert claims.interval_p(row | {"p": 0.2}, None) == 0.2
        verdict = claims.verdict_on_margin(interval.low, interval.high, 0.8)
        assert (claims.interval_p(row, 0.8) < 0.05) == (verdict != U)


def test_rows_state_whether_they_are_about_new_base_models_or_this_model():
    new, this, these = "new base models of this kind", "this model", "these models"

    def population(claim: dict, own_bases: list[str], models: str = "m", **tables) -> str:
        gains = [sampled("hard", 0.1, model=model) for model in models]
        return judge(claim, own_bases=own_bases, gains=gains, **tables)[0]["population"]

    rows = {"differences": [minus("hard", "easy", 0.03)]}
    assert [population(DIFFERENCE, own, **rows) for own in (["m"], [])] == [new, this]
    fit = {"test": "fit", "predictor": "learnable"}
    cases = {("m", "m"): new, ("m", ""): this, ("mn", "m"): these}
    for (models, own), expected in cases.items():
        regressions = [regression("learnable", 0.5)]
        assert population(fit, [*own], models, regressions=regressions) == expected


# --- estimates


@pytest.mark.parametrize("tables", [{}, dict.fromkeys(claims.TABLES, [])])
def test_no_claim_gives_a_row_on_empty_tables(tables):
    listed = files.read_yaml(ROOT / "paper/claims.yaml")
    assert claims.judge(listed, claims.Study(tables, FIRST, TASKS, [], [])) == []


def test_each_cell_gives_a_row_unless_key_tested_or_key_only_leaves_it_out():
    rows = [
        minus("hard", "easy", 0.03, task=task, eval_task=test)
        for task in ("tight", "ample")
        for test in ("tight", "ample", "far")
    ]
    rows.append(minus("hard", "easy", 0.03, task="tight", eval_task="graded"))

    def where(**scope) -> list[tuple]:
        judged = judge(DIFFERENCE | scope, differences=rows)
        return [(row["task"], row["eval_task"]) for row in judged]

    assert where() == [("tight", "tight"), ("ample", "ample")]
    assert where(tested="other") == [("tight", "far"), ("ample", "far")]
    assert where(tested="roomier") == [("tight", "ample")]
    assert where(tested="tighter") == [("ample", "tight")]
    assert where(only={"task": ["ample"]}) == [("ample", "ample")]
    assert where(only={"model": ["other"]}) == []


def test_a_smaller_lead_subtracts_the_lead_of_a_weaker_model_on_the_same_task():
    claim = DIFFERENCE | {"test": "smaller_lead"}
    lead = lambda model, task, x: minus("hard", "easy", x, model=model, task=task)
    rows = [lead("m", "tight", 0.3), lead("n", "tight", 0.1), lead("m", "weak", 0.2)]
    (judged,) = judge(claim, weaker=["n"], differences=rows)
    assert (judged["model"], judged["task"]) == ("m", "tight")
    # the squares of the half-widths are added, because two models share no replicates
    half = math.hypot(0.01, 0.01)
    assert interval_of(judged) == pytest.approx((0.2, 0.2 - half, 0.2 + half))
    assert judge(claim, weaker=["weak"], differences=rows) == [], "weak is a task"


def pair(policy, other_policy, middle, what, at, **columns):
    return minus(policy, other_policy, middle, what=what, at=at, **columns)


def regression(predictor, r_squared, slope=1.0, adjusted_for="", task="all"):
    row = {"task": task, "predictor": predictor, "adjusted_for": adjusted_for}
    return row | {"r_squared": r_squared, "slope": slope, "cells": 8}


def of(test: str, **keys) -> dict:
    return DIFFERENCE | {"test": test} | keys


def alone(test: str, **keys) -> dict:
    """A claim without a second policy."""
    return {"test": test} | keys


def sampled(policy, value, **columns):
    return row(policy, value, decoding="sampled", **columns)


STEPS = [minus("hard", "random", 0.03), minus("easy", "random", -0.02)]
BY_RECIPE = [
    minus("hard", "easy", 0.3), minus("hard", "hard, fast", 0.02), minus("easy", "easy, fast", 0.5),
    minus("easy, fast", "hard, fast", 0.04), minus("hard", "hard, slow", -0.01),
    minus("hard, slow", "random, slow", 0.6),
]  # fmt: skip
RECIPES = [
    minus("hard", "easy", 0.3),
    minus("hard, fast", "easy", 0.2),
    minus("easy, slow", "hard, fast", -0.1),
]
BY_TIER = [pair("hard", "easy", x, "tier", t) for x, t in ((0.1, "1"), (0.2, "2"))]
BY_K = [pair("easy", "hard", -0.2, "pass@k", "16")]
HUNDRED = [sampled("hard", 0.1, step=100), sampled("easy", 0.1, step=100), sampled("all", 0.1, step=20)]  # fmt: skip
CHECKPOINTS = [pair("hard", "easy", s / 1000, "checkpoint", str(s)) for s in (10, 20, 30, 40, 60)]
LOST = [
    pair("hard", "easy", 0.4, "test", "ample"), pair("hard", "easy", 0.3, "test", "graded"),
    pair("hard", "easy", 0.2, "test", "tight", task="ample"),
]  # fmt: skip
TRANSFER = [pair("all", "all", -0.1, "trained on", "tight", task="weak", eval_task="far")]
TRANSFERRED = alone("transfer", policy="all", trained_on="tight", minus="weak")
SHARES = [row(p, x, name="learnable", updates=30) for p, x in (("hard", 0.8), ("easy", 0.5))]
for share_row in SHARES:
    del share_row["eval_task"]
GAINS = [sampled("hard", x, task=t) for x, t in zip((0.03, 0.5, -0.1), TASKS)]
TREND = row("random", 0.09, name="points", easiest="1", hardest="10")
TREND |= {"log_odds": -0.5, "log_odds_low": -0.7, "log_odds_high": -0.3}
PARTS = [row(p, x, name="finishing_minus_correctness") for p, x in (("hard", 0.4), ("easy", -0.4))]
CAUGHT = row("low") | {"step": 40, "step_first": 30, "step_last": 90, "steps": 100, "seeds_reached": 3}  # fmt: skip
FITS = [
    regression("learnable", 0.66, -1.0), regression("tokens", 0.9),
    regression("learnable", 0.1, adjusted_for="tokens"), regression("learnable", 0.2, task="tight"),
]  # fmt: skip
BASES = [
    [sampled("all", 0.5 - b, base_accuracy=b, task=t, model=m) for b, t, m in zip((0.1, 0.2, 0.3, 0.4, 0.5), TASKS, models)]
    for models in ("aabbc", "aaaaa")
]  # fmt: skip
NO_INTERVAL = {"low": math.nan, "verdict": D}


@pytest.mark.parametrize(
    ("claim", "table", "rows", "expected"),
    [
        (DIFFERENCE, "differences", [minus("hard", "random", 0.03)], []),
        (DIFFERENCE, "differences", [], []),
        # the least difference of an order, which needs every policy
        (alone("order", policies=["hard", "random", "easy"]), "differences", STEPS, [{"estimate": 0.02, "test": "random - easy (least of the order)"}]),
        (alone("order", policies=["hard", "random", "easy"]), "differences", STEPS[:1], []),
        # within a recipe, and within a policy
        (of("difference_by_recipe"), "differences", BY_RECIPE, [{"test": "hard - easy, fast", "estimate": -0.04}]),
        (alone("recipe_difference", policy="hard"), "differences", BY_RECIPE, [{"test": "hard - hard, fast", "estimate": 0.02}, {"test": "hard - hard, slow", "estimate": -0.01}]),
        (DIFFERENCE | {"recipe": "fast", "minus_recipe": "slow"}, "differences", RECIPES, [{"test": "hard, fast - easy, slow", "estimate": 0.1}]),
        (DIFFERENCE | {"recipe": FIRST}, "differences", RECIPES, [{"estimate": 0.3}]),
        (of("difference_at_k"), "paired", BY_K, [{"estimate": 0.2, "test": "pass@16, hard - easy"}]),
        (of("difference_at_k"), "paired", BY_TIER, []),
        (of("difference_by_tier"), "paired", BY_TIER + BY_K, [{"estimate": 0.1, "test": "hard - easy, tier 1"}, {"estimate": 0.2, "test": "hard - easy, tier 2"}]),
        # the first checkpoint at or after a share of the updates of the compared arms
        (of("ahead", share=0.3), "paired", CHECKPOINTS, [{"estimate": 0.03, "test": "hard - easy after 30 of 100"}]),
        (of("ahead", share=0.3), "paired", CHECKPOINTS[3:], [{"estimate": 0.04}]),
        (of("ahead", share=0.3), "paired", CHECKPOINTS[:2], []),
        # the same runs under the ample limit
        (of("lost_lead"), "paired", LOST, [{"estimate": 0.4, "test": "hard - easy, minus the same tested on ample"}]),
        # two training tasks on one test
        (TRANSFERRED, "paired", TRANSFER, [{"task": "tight", "eval_task": "far", "estimate": 0.1}]),
        (TRANSFERRED, "paired", [TRANSFER[0] | {"at": "ample"}], []),
        (of("learnable"), "learnable", SHARES, [{"estimate": 0.3, "n": 30, "eval_task": "tight"}]),
        (alone("gain", policy="hard"), "gains", GAINS, [{"estimate": x} for x in (0.03, 0.5, -0.1)]),
        (alone("largest_gain", policy="hard"), "gains", GAINS, [{"estimate": 0.5, "task": "ample", "test": "largest gain of hard, of 3"}]),
        (alone("largest_gain", policy="hard"), "gains", [], []),
        (alone("tiers", policies=["all", "random"]), "tier_trends", [TREND], [{"estimate": 0.09, "test": "gain of random, tier 1 - tier 10"}, {"estimate": -0.5, "low": -0.7}]),
        # a tier that is always solved has no log odds
        (alone("tiers", policies=["all", "random"]), "tier_trends", [TREND | {"log_odds": math.nan}], [{"estimate": 0.09}]),
        (alone("parts", policy="hard"), "parts", PARTS, [{"estimate": 0.4}]),
        (alone("catches_up", policy="low"), "catches_up", [CAUGHT], [{"estimate": 0.4, "low": 0.3, "high": 0.9, "n": 3}]),
        # one seed never reaches the target
        (alone("catches_up", policy="low"), "catches_up", [CAUGHT | {"seeds_reached": 2}], [{"high": math.nan}]),
        (alone("fit", predictor="learnable"), "regressions", FITS, [{"estimate": 0.66, "n": 8, "test": "R^2 (learnable, gain), slope -"} | NO_INTERVAL]),
        # a fit needs several models and four points
        (alone("fit_base", policies=["all"]), "gains", BASES[0], [{"estimate": 1} | NO_INTERVAL]),
        (alone("fit_base", policies=["all"]), "gains", BASES[1], []),
        (alone("fit_base", policies=["all"]), "gains", BASES[0][:4], [{"estimate": 1}]),
        (alone("fit_base", policies=["all"]), "gains", BASES[0][:3], []),
    ],
)  # fmt: skip
def test_estimates_equal_those_by_hand(claim, table, rows, expected):
    judged = judge(claim, **{"gains": HUNDRED, table: rows})
    approximate = lambda value: (
        value if isinstance(value, str) else pytest.approx(value, nan_ok=True)
    )
    for row, wanted in zip(judged, expected):
        assert {key: row[key] for key in wanted} == {
            key: approximate(value) for key, value in wanted.items()
        }
    assert len(judged) == len(expected)
