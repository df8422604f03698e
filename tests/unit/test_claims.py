"""Estimates and verdicts of claims, on hand-made tables."""

import math

import numpy as np
import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import claims, statistics

CONFIG = project_config.config()
FIRST = "plain"  # the first recipe of the study
TASKS = {
    "tight": {"completion_tokens": 60, "problems": "tight"},
    "ample": {"completion_tokens": 192, "problems": "tight"},
    "far": {"completion_tokens": 72, "problems": "far"},
    "weak": {"completion_tokens": 60, "problems": "weak"},
    "graded": {"completion_tokens": 60, "problems": "tight"},
}


def row(
    policy, middle=0.0, half=0.01, name="gain", task="tight", eval_task=None, seeds=3, **columns
):
    """A row of a table with an estimate and its interval. `policy` may be an arm's label: "hard,
    fast"."""
    row = {
        "model": "m",
        "task": task,
        "eval_task": eval_task or task,
        **arm(policy, "policy", "recipe", "arm"),
    }
    row |= {"seeds": seeds, "problems": 100}
    return (
        row | {name: middle, f"{name}_low": middle - half, f"{name}_high": middle + half} | columns
    )


def arm(label: str, *columns: str) -> dict:
    policy, _, recipe = label.partition(", ")
    return dict(zip(columns, (policy, recipe or FIRST, label)))


def minus(policy, other_policy, middle, half=0.01, **columns):
    return row(
        policy,
        middle,
        half,
        "difference",
        **arm(other_policy, "minus", "minus_recipe", "minus_arm"),
        **columns,
    )


PRIMARY = {"primary": True, "replicates": 3}


def judge(claim: dict, weaker=(), own_bases=(), **tables) -> list[dict]:
    claim = {"id": "c", "paper": "HE", "claim": "so"} | claim
    assert claims._problem(claim, []) is None
    rows = claims.judge([claim], claims.Study(tables, FIRST, TASKS, list(weaker), list(own_bases)))
    assert all(row.keys() == set(claims.COLUMNS) for row in rows)
    return rows


def list_verdicts(claim: dict, **tables) -> list[str]:
    return [verdict_row["verdict"] for verdict_row in judge(claim | PRIMARY, **tables)]


def list_estimates(claim: dict, **tables) -> list[float]:
    return [verdict_row["estimate"] for verdict_row in judge(claim, **tables)]


S, C, U, D = claims.SUPPORTED, claims.CONTRADICTED, claims.UNDECIDED, claims.DESCRIPTIVE
DIFFERENCE = {"test": "difference", "policy": "hard", "minus": "easy"}
SMALL = {"p": 0.001}


# --- verdicts on primary claims


@pytest.mark.parametrize(
    "middle, verdict", [(0.03, S), (-0.03, C), (0.005, U), (0.01, U), (math.nan, U)]
)
def test_a_primary_difference_is_decided_by_its_interval(middle, verdict):
    assert list_verdicts(DIFFERENCE, differences=[minus("hard", "easy", middle)]) == [verdict]


def test_a_claim_that_is_not_primary_is_descriptive_for_every_interval():
    (verdict_row,) = judge(
        DIFFERENCE, differences=[minus("hard", "easy", 0.3, p_holm=0.001, **SMALL)]
    )
    assert (
        verdict_row["verdict"] == D
        and verdict_row["p_holm"] is None
        and verdict_row["primary"] is False
    )
    assert (verdict_row["estimate"], verdict_row["low"], verdict_row["high"]) == pytest.approx(
        (0.3, 0.29, 0.31)
    )


def test_a_difference_that_the_table_holds_with_exchanged_arms_is_negated():
    (verdict_row,) = judge(
        DIFFERENCE | PRIMARY, differences=[minus("easy", "hard", 0.03, 0.02, **SMALL)]
    )
    assert (verdict_row["estimate"], verdict_row["low"], verdict_row["high"]) == pytest.approx(
        (-0.03, -0.05, -0.01)
    )
    assert (
        verdict_row["verdict"] == C
        and verdict_row["test"] == "hard - easy"
        and (verdict_row["seeds"], verdict_row["n"]) == (3, 100)
    )


def test_too_few_replicates_decide_nothing_and_are_reported():
    tables = lambda *seeds: {
        "differences": [
            minus("hard", "easy", 0.3, seeds=n, task=t, **SMALL) for n, t in zip(seeds, TASKS)
        ]
    }
    verdict_rows = judge(DIFFERENCE | PRIMARY | {"replicates": 10}, **tables(3, 1))
    assert [row["verdict"] for row in verdict_rows] == [
        "undecided: 3 of 10 replicates",
        "undecided: 1 of 10 replicates",
    ]
    assert all(math.isnan(row["p_holm"]) for row in verdict_rows), (
        "a row with too few replicates has a corrected p value"
    )
    assert list_verdicts(DIFFERENCE | {"replicates": 3}, **tables(3, 10)) == [S, S]


def test_holm_corrects_over_those_tasks_of_a_model_that_have_enough_replicates():
    def p_holm(*rows):
        verdict_rows = judge(
            DIFFERENCE | PRIMARY, differences=[minus("hard", "easy", 0.03, **row) for row in rows]
        )
        return [row["p_holm"] for row in verdict_rows], [row["verdict"] for row in verdict_rows]

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
        row = {
            "estimate": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "seeds": 6,
            "p": None,
        }
        p_value = statistics.p_value(statistics.components(np.repeat(values[:, None], 2, axis=1)))
        assert claims.interval_p(row, None) == pytest.approx(float(p_value), abs=1e-6)
        assert claims.interval_p(row | {"p": 0.2}, None) == 0.2
        verdict = claims.verdict_on_margin(interval.low, interval.high, 0.8)
        assert (claims.interval_p(row, 0.8) < 0.05) == (verdict != U)


def test_rows_state_whether_they_are_about_new_base_models_or_this_model():
    rows = {
        "differences": [minus("hard", "easy", 0.03)],
        "gains": [row("hard", 0.1, decoding="sampled")],
    }
    assert (
        judge(DIFFERENCE, own_bases=["m"], **rows)[0]["population"]
        == "new base models of this kind"
    )
    assert judge(DIFFERENCE, **rows)[0]["population"] == "this model"
    over_all = {"test": "fit", "predictor": "learnable"}
    fit = {"regressions": [regression("learnable", 0.5)]}
    of = lambda *models: [row("hard", 0.1, decoding="sampled", model=model) for model in models]
    holds_for = lambda models, own: judge(over_all, own_bases=own, gains=of(*models), **fit)[0][
        "population"
    ]
    assert [holds_for("m", ["m"]), holds_for("m", []), holds_for("mn", ["m"])] == [
        "new base models of this kind", "this model", "these models",
    ]  # fmt: skip


def test_primary_claims_come_first():
    rows = {"differences": [minus("hard", "easy", 0.03), minus("hard", "random", 0.02)]}
    two_claims = [
        {"id": n, "paper": "HE", "claim": n, **DIFFERENCE, "minus": n} for n in ("easy", "random")
    ]
    verdict_rows = claims.judge(
        [two_claims[0], two_claims[1] | PRIMARY], claims.Study(rows, FIRST, TASKS, [], [])
    )
    assert [(row["id"], row["primary"]) for row in verdict_rows] == [
        ("random", True),
        ("easy", False),
    ]


# --- estimates


def test_a_claim_about_a_policy_that_the_study_lacks_gives_no_row():
    assert judge(DIFFERENCE, differences=[minus("hard", "random", 0.03)]) == []
    assert judge(DIFFERENCE, differences=[]) == []


def test_no_claim_gives_a_row_on_empty_tables():
    empty = {name: [] for name in claims.TABLES}
    assert (
        claims.judge(
            claims.read(ROOT / "paper/claims.yaml"), claims.Study(empty, FIRST, TASKS, [], [])
        )
        == []
    )
    assert (
        claims.judge(
            claims.read(ROOT / "paper/claims.yaml"), claims.Study({}, FIRST, TASKS, [], [])
        )
        == []
    )


def test_each_cell_gives_a_row_unless_key_tested_or_key_only_leaves_it_out():
    rows = [
        minus("hard", "easy", 0.03, task=task, eval_task=test)
        for task in ("tight", "ample")
        for test in ("tight", "ample", "far")
    ]
    rows.append(minus("hard", "easy", 0.03, task="tight", eval_task="graded"))
    where = lambda **scope: [
        (r["task"], r["eval_task"]) for r in judge(DIFFERENCE | scope, differences=rows)
    ]
    assert where() == [("tight", "tight"), ("ample", "ample")]
    assert where(tested="other") == [("tight", "far"), ("ample", "far")]
    assert where(tested="roomier") == [("tight", "ample")] and where(tested="tighter") == [
        ("ample", "tight")
    ]
    assert (
        where(only={"task": ["ample"]}) == [("ample", "ample")]
        and where(only={"model": ["other"]}) == []
    )


def pair(policy, other_policy, middle, what, at, **columns):
    return minus(policy, other_policy, middle, what=what, at=at, **columns)


def test_the_estimate_of_an_order_is_its_least_difference_and_needs_every_policy():
    claim = {"test": "order", "policies": ["hard", "random", "easy"]}
    steps = [minus("hard", "random", 0.03), minus("easy", "random", -0.02)]
    (verdict_row,) = judge(claim, differences=steps)
    assert (
        verdict_row["estimate"] == 0.02
        and verdict_row["test"] == "random - easy (least of the order)"
    )
    assert judge(claim, differences=steps[:1]) == []


def test_difference_by_recipe_is_within_a_recipe_and_recipe_difference_within_a_policy():
    table = [
        minus("hard", "easy", 0.3),
        minus("hard", "hard, fast", 0.02),
        minus("easy", "easy, fast", 0.5),
        minus("easy, fast", "hard, fast", 0.04),
        minus("hard", "hard, slow", -0.01),
        minus("hard, slow", "random, slow", 0.6),
    ]
    verdict_rows = judge(
        {"test": "difference_by_recipe", "policy": "hard", "minus": "easy"}, differences=table
    )
    assert [(verdict_row["test"], verdict_row["estimate"]) for verdict_row in verdict_rows] == [
        ("hard - easy, fast", pytest.approx(-0.04))
    ]
    verdict_rows = judge({"test": "recipe_difference", "policy": "hard"}, differences=table)
    assert [(verdict_row["test"], verdict_row["estimate"]) for verdict_row in verdict_rows] == [
        ("hard - hard, fast", pytest.approx(0.02)),
        ("hard - hard, slow", pytest.approx(-0.01)),
    ]


def test_a_claim_may_name_the_recipe_of_each_arm():
    claim = {
        "test": "difference",
        "policy": "hard",
        "recipe": "fast",
        "minus": "easy",
        "minus_recipe": "slow",
    }
    table = [
        minus("hard", "easy", 0.3),
        minus("hard, fast", "easy", 0.2),
        minus("easy, slow", "hard, fast", -0.1),
    ]
    (verdict_row,) = judge(claim, differences=table)
    assert (verdict_row["test"], verdict_row["estimate"]) == (
        "hard, fast - easy, slow",
        pytest.approx(0.1),
    )
    assert list_estimates(DIFFERENCE | {"recipe": FIRST}, differences=table) == [0.3]


def test_a_difference_at_k_may_be_the_negative_of_the_row():
    claim = DIFFERENCE | {"test": "difference_at_k"}
    (verdict_row,) = judge(claim, paired=[pair("easy", "hard", -0.2, "pass@k", "16")])
    assert verdict_row["estimate"] == 0.2 and verdict_row["test"] == "pass@16, hard - easy"
    assert judge(claim, paired=[pair("hard", "easy", 0.1, "tier", "2")]) == []


def test_a_difference_by_tier_has_one_row_for_each_tier():
    claim = DIFFERENCE | {"test": "difference_by_tier"}
    rows = [pair("hard", "easy", x, "tier", t) for x, t in ((0.1, "1"), (0.2, "2"))] + [
        pair("hard", "easy", 0.3, "pass@k", "2")
    ]
    assert [(verdict_row["estimate"], verdict_row["test"]) for verdict_row in judge(claim, paired=rows)] == [
        (0.1, "hard - easy, tier 1"), (0.2, "hard - easy, tier 2"),
    ]  # fmt: skip


def test_ahead_uses_the_first_checkpoint_at_or_after_a_share_of_the_updates():
    claim = DIFFERENCE | {"test": "ahead", "share": 0.3}
    gains = [row(p, 0.1, decoding="sampled", step=100) for p in ("hard", "easy")]
    judge_ahead = lambda *steps: judge(
        claim,
        gains=gains,
        paired=[pair("hard", "easy", s / 1000, "checkpoint", str(s)) for s in steps],
    )
    assert [row["test"] for row in judge_ahead(10, 30, 60)] == ["hard - easy after 30 of 100"]
    assert [row["estimate"] for row in judge_ahead(10, 40, 60)] == [0.04] and judge_ahead(
        10, 20
    ) == []


def test_a_smaller_lead_subtracts_the_lead_of_a_weaker_model_on_the_same_task():
    claim = DIFFERENCE | {"test": "smaller_lead"}
    lead = lambda model, task, x: minus("hard", "easy", x, model=model, task=task)
    rows = [lead("m", "tight", 0.3), lead("n", "tight", 0.1), lead("m", "weak", 0.2)]
    (verdict_row,) = judge(claim, weaker=["n"], differences=rows)
    assert (verdict_row["model"], verdict_row["task"], verdict_row["estimate"]) == (
        "m",
        "tight",
        pytest.approx(0.2),
    )
    assert verdict_row["high"] - verdict_row["low"] == pytest.approx(2 * math.hypot(0.01, 0.01)), (
        "the squares of the half-widths must be added, because two models share no replicates"
    )
    assert judge(claim, weaker=["weak"], differences=rows) == [], (
        "the task in `weaker_signal` was used as a weaker model"
    )


def test_a_lost_lead_is_compared_with_the_same_runs_under_the_ample_limit():
    claim = DIFFERENCE | {"test": "lost_lead"}
    rows = [pair("hard", "easy", 0.4, "test", "ample"), pair("hard", "easy", 0.3, "test", "graded")]
    rows.append(pair("hard", "easy", 0.2, "test", "tight", task="ample"))
    (verdict_row,) = judge(claim, paired=rows)
    assert (
        verdict_row["estimate"] == 0.4
        and verdict_row["test"].startswith("hard - easy")
        and verdict_row["test"].endswith("ample")
    )


def test_transfer_compares_two_training_tasks_on_one_test():
    claim = {"test": "transfer", "policy": "all", "trained_on": "tight", "minus": "weak"}
    rows = [pair("all", "all", -0.1, "trained on", "tight", task="weak", eval_task="far")]
    (verdict_row,) = judge(claim, paired=rows)
    assert (verdict_row["task"], verdict_row["eval_task"], verdict_row["estimate"]) == (
        "tight",
        "far",
        0.1,
    )
    assert judge(claim, paired=[rows[0] | {"at": "ample"}]) == []


def test_a_learnable_share_has_no_test_set_and_counts_updates():
    shares = [row(p, x, name="learnable", updates=30) for p, x in (("hard", 0.8), ("easy", 0.5))]
    for share_row in shares:
        del share_row["eval_task"]
    (verdict_row,) = judge(DIFFERENCE | {"test": "learnable"}, learnable=shares)
    assert (
        verdict_row["estimate"] == pytest.approx(0.3)
        and verdict_row["n"] == 30
        and verdict_row["eval_task"] == "tight"
    )


def test_a_claim_about_gains_has_a_row_for_each_task_but_a_claim_about_the_largest_gain_has_one():
    gains = [row("hard", x, decoding="sampled", task=t) for x, t in zip((0.03, 0.5, -0.1), TASKS)]
    assert list_estimates({"test": "gain", "policy": "hard"}, gains=gains) == [0.03, 0.5, -0.1]
    (verdict_row,) = judge({"test": "largest_gain", "policy": "hard"}, gains=gains)
    assert (verdict_row["estimate"], verdict_row["task"], verdict_row["test"]) == (
        0.5,
        "ample",
        "largest gain of hard, of 3",
    )
    assert judge({"test": "largest_gain", "policy": "hard"}, gains=[]) == []


def test_tiers_are_compared_in_points_and_in_log_odds():
    claim = {"test": "tiers", "policies": ["all", "random"]}
    trend = row(
        "random",
        0.09,
        name="points",
        easiest="1",
        hardest="10",
        log_odds=-0.5,
        log_odds_low=-0.7,
        log_odds_high=-0.3,
    )
    points, odds = judge(claim, tier_trends=[trend])
    assert (points["estimate"], points["test"]) == (0.09, "gain of random, tier 1 - tier 10")
    assert (odds["estimate"], odds["low"]) == (-0.5, -0.7) and odds["test"].startswith(
        "log odds of "
    )
    assert len(judge(claim, tier_trends=[trend | {"log_odds": math.nan}])) == 1, (
        "a tier that is always solved has no log odds"
    )


def test_parts_are_those_of_one_policy():
    name = "finishing_minus_correctness"
    rows = [row("hard", 0.4, name=name), row("easy", -0.4, name=name)]
    assert list_estimates({"test": "parts", "policy": "hard"}, parts=rows) == [0.4]


def test_catching_up_is_a_share_of_the_updates():
    columns = {"step": 40, "step_first": 30, "step_last": 90, "steps": 100, "seeds_reached": 3}
    of = lambda **changes: judge(
        {"test": "catches_up", "policy": "low"}, catches_up=[row("low") | columns | changes]
    )[0]
    assert [of()[key] for key in ("estimate", "low", "high", "n")] == [0.4, 0.3, 0.9, 3]
    assert math.isnan(of(seeds_reached=2)["high"]), (
        "`high` is not nan, although one seed never reaches the target"
    )


def regression(predictor, r_squared, slope=1.0, adjusted_for="", task="all"):
    return {
        "task": task,
        "predictor": predictor,
        "adjusted_for": adjusted_for,
        "r_squared": r_squared,
        "slope": slope,
        "cells": 8,
    }


def test_a_fit_has_no_interval_and_no_verdict():
    claim = {"test": "fit", "predictor": "learnable"}
    rows = [
        regression("learnable", 0.66, -1.0),
        regression("tokens", 0.9),
        regression("learnable", 0.1, adjusted_for="tokens"),
    ]
    (verdict_row,) = judge(claim, regressions=[*rows, regression("learnable", 0.2, task="tight")])
    assert (
        verdict_row["estimate"] == 0.66
        and math.isnan(verdict_row["low"])
        and verdict_row["verdict"] == D
        and verdict_row["n"] == 8
    )
    assert verdict_row["test"] == "R^2 (learnable, gain), slope -"


def test_a_fit_of_the_gain_by_base_accuracy_needs_several_models():
    claim = {"test": "fit_base", "policies": ["all"]}
    rows = lambda models: [
        row("all", 0.5 - b, decoding="sampled", base_accuracy=b, task=t, model=m) for b, t, m in zip((0.1, 0.2, 0.3, 0.4, 0.5), TASKS, models)
    ]  # fmt: skip
    (verdict_row,) = judge(claim, gains=rows("aabbc"))
    assert (
        verdict_row["estimate"] == pytest.approx(1)
        and verdict_row["verdict"] == D
        and math.isnan(verdict_row["low"])
    )
    assert judge(claim, gains=rows("aaaaa")) == []


def test_ahead_counts_the_updates_of_the_compared_arms():
    claim = DIFFERENCE | {"test": "ahead", "share": 0.3}
    gains = [row(p, 0.1, decoding="sampled", step=100) for p in ("hard", "easy")] + [
        row("all", 0.1, decoding="sampled", step=20)
    ]
    verdict_rows = judge(
        claim, gains=gains, paired=[pair("hard", "easy", 0.03, "checkpoint", "30")]
    )
    assert [verdict_row["test"] for verdict_row in verdict_rows] == ["hard - easy after 30 of 100"]
