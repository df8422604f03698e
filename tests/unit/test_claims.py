"""Verdicts on hand-made tables, each test supported, contradicted and undecided; the claims' file and what it may say."""

import math

import pytest
import yaml

from conftest import ROOT
from hardgrpo.analysis import claims, verdicts
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
TASKS = {
    "tight": {"completion_tokens": 60, "problems": "tight"},
    "ample": {"completion_tokens": 192, "problems": "tight"},
    "far": {"completion_tokens": 72, "problems": "far"},
    "weak": {"completion_tokens": 60, "problems": "weak"},
    "graded": {"completion_tokens": 60, "problems": "tight"},
}


def row(policy, middle=0.0, half=0.01, name="gain", task="tight", eval_task=None, seeds=3, **others):
    """A row of a table with an estimate and its interval."""
    row = {"model": "m", "task": task, "eval_task": eval_task or task, "policy": policy, "seeds": seeds, "problems": 100}
    return row | {name: middle, f"{name}_low": middle - half, f"{name}_high": middle + half} | others


def minus(policy, other, middle, half=0.01, **others):
    return row(policy, middle, half, "difference", minus=other, **others)


def judged(claim: dict, weaker=(), **tables) -> list[dict]:
    claim = {"id": "c", "paper": "HE", "claim": "so"} | claim
    assert claims._wrong(claim, set()) is None
    return claims.judge([claim], verdicts.Study(tables, TASKS, list(weaker)))


def decided(claim: dict, **tables) -> list[str]:
    return [found["verdict"] for found in judged(claim, **tables)]


S, C, U = verdicts.SUPPORTED, verdicts.CONTRADICTED, verdicts.UNDECIDED
DIFFERENCE = {"test": "difference", "policy": "hard", "minus": "easy"}


# --- what is compared ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("middle, said", [(0.03, S), (-0.03, C), (0.005, U), (0.01, U), (math.nan, U)])
def test_a_difference_is_decided_by_its_interval(middle, said):
    assert decided(DIFFERENCE, differences=[minus("hard", "easy", middle)]) == [said]


def test_a_difference_may_stand_the_other_way_round_in_the_table():
    (found,) = judged(DIFFERENCE, differences=[minus("easy", "hard", 0.03, 0.02)])
    assert (found["estimate"], found["low"], found["high"]) == pytest.approx((-0.03, -0.05, -0.01))
    assert found["verdict"] == C and found["test"] == "hard - easy" and (found["seeds"], found["n"]) == (3, 100)


def test_what_holm_does_not_confirm_is_undecided():
    tables = lambda p: {"differences": [minus("hard", "easy", 0.03, p_holm=p)]}
    assert [decided(DIFFERENCE, **tables(p)) for p in (0.04, 0.06, math.nan)] == [[S], [U], [S]]
    assert judged(DIFFERENCE, **tables(0.06))[0]["p_holm"] == 0.06


def test_one_seed_says_nothing_about_another_run():
    assert decided(DIFFERENCE, differences=[minus("hard", "easy", 0.03, seeds=1)]) == [U]


def test_a_claim_about_a_policy_that_the_study_lacks_gives_no_row():
    assert judged(DIFFERENCE, differences=[minus("hard", "random", 0.03)]) == []
    assert judged(DIFFERENCE, differences=[]) == []


def test_every_cell_gives_a_row_and_scope_chooses_the_cells():
    rows = [
        minus("hard", "easy", 0.03, task=task, eval_task=test) for task in ("tight", "ample") for test in ("tight", "ample", "far")
    ]
    rows.append(minus("hard", "easy", 0.03, task="tight", eval_task="graded"))
    where = lambda **scope: [(r["task"], r["eval_task"]) for r in judged(DIFFERENCE | scope, differences=rows)]
    assert where() == [("tight", "tight"), ("ample", "ample")]
    assert where(tested="other") == [("tight", "far"), ("ample", "far")]
    assert where(tested="roomier") == [("tight", "ample")] and where(tested="tighter") == [("ample", "tight")]
    assert where(only={"task": ["ample"]}) == [("ample", "ample")] and where(only={"model": ["other"]}) == []


def test_equality_needs_an_interval_within_the_margin():
    claim = {"test": "equivalence", "policy": "low_tiers", "minus": "all", "margin": 0.02}
    said = lambda middle, half: decided(claim, differences=[minus("low_tiers", "all", middle, half)])
    assert said(0.005, 0.01) == [S]
    assert said(0.0, 0.03) == [U], "an interval that holds zero shows no equality"
    assert said(0.03, 0.02) == [U] and said(0.05, 0.01) == [C] and said(-0.05, 0.01) == [C]


def test_equality_by_tier_adds_the_widths_of_the_two():
    claim = {"test": "equivalence_by_tier", "policy": "low_tiers", "minus": "all", "margin": 0.02}
    tiers = [row("low_tiers", 0.1, 0.003, tier="1"), row("all", 0.1, 0.004, tier="1"), row("all", 0.1, 0.004, tier="2")]
    (found,) = judged(claim, tiers=tiers)
    assert (found["low"], found["high"]) == pytest.approx((-0.005, 0.005)) and found["verdict"] == S and "tier 1" in found["test"]


LARGEST = {"test": "largest", "policy": "hard", "among": ["random", "middle", "easy"]}


def test_largest_needs_every_difference_and_shows_the_one_that_decides():
    ahead = [minus("hard", "random", 0.02), minus("hard", "middle", 0.05), minus("hard", "easy", 0.3)]
    (found,) = judged(LARGEST, differences=ahead)
    assert found["verdict"] == S and found["test"] == "hard - random (weakest)"
    behind = [*ahead[:2], minus("easy", "hard", 0.5)]
    (found,) = judged(LARGEST, differences=behind)
    assert found["verdict"] == C and found["test"].startswith("hard - easy") and found["estimate"] == -0.5
    assert decided(LARGEST, differences=[*ahead[:2], minus("hard", "easy", 0.005)]) == [U]
    slightly = [*ahead[:2], minus("hard", "easy", -0.012)]
    assert decided(LARGEST, differences=slightly) == [U], "one of three may be behind by chance"
    assert judged(LARGEST, differences=ahead[:1]) == [], "one other policy is no choice"


def test_order_needs_every_step_and_every_policy():
    claim = {"test": "order", "policies": ["hard", "random", "easy"]}
    steps = lambda a, b: [minus("hard", "random", a), minus("random", "easy", b)]
    assert decided(claim, differences=steps(0.02, 0.03)) == [S]
    assert decided(claim, differences=steps(0.02, -0.3)) == [C]
    assert decided(claim, differences=steps(0.02, 0.0)) == [U]
    assert judged(claim, differences=steps(0.02, 0.03)[:1]) == []


def test_largest_by_learnable_share_and_by_pass_at_the_largest_k():
    shares = [row(p, x, name="learnable", updates=30) for p, x in (("hard", 0.8), ("random", 0.5), ("easy", 0.2))]
    for one in shares:
        del one["eval_task"]
    (found,) = judged(LARGEST | {"test": "largest_learnable"}, learnable=shares)
    assert found["verdict"] == S and found["n"] == 30 and found["estimate"] == pytest.approx(0.3)
    passes = [row(p, x, k=k) for k, x1 in ((1, 0.9), (4, 0.1)) for p, x in (("hard", x1), ("random", 0.5), ("easy", 0.5))]
    (found,) = judged(LARGEST | {"test": "largest_pass"}, pass_at_k=passes)
    assert found["verdict"] == C and found["test"].startswith("pass@4")
    assert judged(LARGEST | {"test": "largest_pass"}, pass_at_k=[r for r in passes if r["k"] == 1]) == []


def test_gain_at_most_and_at_least():
    gains = lambda *middles: {"gains": [row("hard", x, decoding="sampled", task=t) for x, t in zip(middles, TASKS)]}
    gain = {"test": "gain", "policy": "hard"}
    assert decided(gain, **gains(0.03, -0.03, 0.005)) == [S, C, U]
    assert decided({"test": "no_more_than", "policy": "hard", "at_most": 0.02}, **gains(0.0, 0.05, 0.015)) == [S, C, U]
    reaches = {"test": "reaches", "policy": "hard", "at_least": 0.47}
    assert decided(reaches, **gains(0.50, 0.1)) == [S] and decided(reaches, **gains(0.3, 0.40)) == [C]
    assert decided(reaches, **gains(0.475, 0.3)) == [U] and judged(reaches, gains=[]) == []
    assert decided(reaches, **gains(0.482)) == [S] and decided(reaches, **gains(0.482, 0.3, 0.3)) == [U], "of three the largest"


def test_ahead_takes_the_first_checkpoint_from_the_share_on_that_is_not_the_last():
    claim = {"test": "ahead", "policy": "hard", "minus": "random", "share": 0.3}
    curve = lambda policy, *values: [
        row(policy, v, name="accuracy", decoding="sampled", step=s) for s, v in zip((0, 100, 300, 1000), values)
    ]
    random = curve("random", 0.5, 0.5, 0.5, 0.5)
    (found,) = judged(claim, accuracy=curve("hard", 0.5, 0.1, 0.6, 0.2) + random)
    assert found["verdict"] == S and found["test"] == "hard - random after 300 of 1000" and found["estimate"] == pytest.approx(0.1)
    assert decided(claim, accuracy=curve("hard", 0.5, 0.6, 0.4, 0.6) + random) == [C]
    assert decided(claim, accuracy=curve("hard", 0.5, 0.6, 0.51, 0.6) + random) == [U]
    assert judged(claim, accuracy=[r for r in curve("hard", 0.5, 0.6, 0.4, 0.6) + random if r["step"] in (0, 1000)]) == []
    assert judged(claim, accuracy=random) == []


def test_the_lead_where_the_signal_is_weaker():
    claim = {"test": "smaller_lead", "policy": "hard", "minus": "easy"}
    rows = lambda strong, weak: [minus("hard", "easy", strong), minus("hard", "easy", weak, task="weak")]
    said = lambda *leads: [r["verdict"] for r in judged(claim, weaker=["weak"], differences=rows(*leads))]
    assert said(0.3, 0.04) == [S] and said(0.04, 0.3) == [C] and said(0.1, 0.095) == [U]
    assert judged(claim, differences=rows(0.3, 0.04)) == [], "the study names no weaker signal"


def test_a_lead_that_the_limit_makes_is_lost_with_room():
    claim = {"test": "lost_lead", "policy": "hard", "minus": "easy"}
    rows = lambda tight, ample: [minus("hard", "easy", tight), minus("easy", "hard", -ample, eval_task="ample")]
    said = lambda *leads: decided(claim, differences=rows(*leads))
    assert said(0.5, -0.01) == [S] and said(0.0, 0.3) == [C] and said(0.1, 0.085) == [U]
    (found,) = judged(claim, differences=rows(0.5, 0.1))
    assert (found["estimate"], found["low"], found["high"]) == pytest.approx((0.4, 0.38, 0.42)), "half-widths are added"
    assert found["test"] == "(hard - easy) less that on ample"
    assert judged(claim, differences=rows(0.5, 0.1)[:1]) == [] == judged(claim, differences=rows(0.5, 0.1)[1:])


def test_parts_are_of_the_last_checkpoint_and_of_one_run_too():
    name = "finishing_minus_correctness"
    rows = [row(p, x, name=name, step=30, seeds=1) for p, x in (("hard", 0.4), ("easy", -0.4), ("random", 0.0))]
    rows.append(row("hard", -0.9, name=name, step=15, seeds=1))
    assert decided({"test": "parts"}, parts=rows) == [S, C, U] and judged({"test": "parts"}, parts=[]) == []


def regression(predictor, r_squared, half=0.05, slope=1.0, adjusted_for=""):
    return {"task": "all", "predictor": predictor, "adjusted_for": adjusted_for, "slope": slope, "cells": 8, "r_squared": r_squared} | {
        "r_squared_low": max(0.0, r_squared - half), "r_squared_high": r_squared + half
    }  # fmt: skip


def test_a_fit_needs_the_right_sign():
    claim = {"test": "fit", "predictor": "learnable", "sign": 1}
    said = lambda *args, **more: decided(claim, regressions=[regression("learnable", *args, **more)])
    assert said(0.66) == [S] and said(0.66, slope=-1.0) == [C] and said(0.04) == [U] and said(math.nan) == [U]
    assert judged(claim, regressions=[regression("learnable", 0.9, adjusted_for="tokens")]) == [] == judged(claim, regressions=[])


def test_a_better_fit_is_one_whose_interval_is_above_the_other():
    claim = {"test": "better_fit", "predictor": "tokens", "than": "learnable"}
    said = lambda one, other: decided(claim, regressions=[regression("tokens", one), regression("learnable", other)])
    assert said(0.97, 0.66) == [S] and said(0.3, 0.66) == [C] and said(0.7, 0.66) == [U]
    assert judged(claim, regressions=[regression("tokens", 0.9)]) == []


def test_base_accuracy_against_gain_needs_several_models():
    claim = {"test": "fit_base", "policies": ["all"]}
    rows = lambda gains, models: [
        row("all", g, decoding="sampled", base_accuracy=b, task=t) | {"model": m}
        for (b, t), g, m in zip([(0.1, "tight"), (0.2, "ample"), (0.3, "far"), (0.4, "weak"), (0.5, "graded")], gains, models)
    ]
    assert decided(claim, gains=rows([0.11, 0.2, 0.31, 0.4, 0.52], "aabbc")) == [S]
    assert decided(claim, gains=rows([0.1, 0.5, 0.2, 0.4, 0.1], "aabbc")) == [U]
    assert judged(claim, gains=rows([0.1, 0.2, 0.3, 0.4, 0.5], "aaaaa")) == []


def test_tiers_compare_the_easiest_with_the_hardest():
    claim = {"test": "tiers", "policies": ["all", "random"]}
    rows = lambda *gains: [row("random", g, tier=t) for g, t in zip(gains, ("1", "2", "10"))]
    (found,) = judged(claim, tiers=rows(0.3, 0.9, 0.1))
    assert found["verdict"] == S and found["test"] == "gain of random, tier 1 - tier 10"
    assert decided(claim, tiers=rows(0.1, 0.9, 0.3)) == [C] and decided(claim, tiers=rows(0.1, 0.9, 0.1)) == [U]
    assert judged(claim, tiers=rows(0.1)) == []


def test_reach_asks_every_seed():
    claim = {"test": "reach", "policy": "low_tiers", "within": 0.5}
    reach = lambda step, first, last, reached, seeds=3: decided(
        claim,
        reach=[
            row("low_tiers", seeds=seeds)
            | {"step": step, "step_first": first, "step_last": last, "steps": 100, "seeds_reached": reached}
        ],
    )
    assert reach(40, 30, 50, 3) == [S]
    assert reach(70, 60, 90, 3) == [C] and reach(math.nan, math.nan, math.nan, 0) == [C]
    assert reach(40, 30, 90, 3) == [U] and reach(40, 30, 40, 2) == [U] and reach(40, 40, 40, 1, seeds=1) == [U]
    assert judged(claim, reach=[]) == []


def test_transfer_compares_two_training_tasks_on_one_test():
    claim = {"test": "transfer", "policy": "all", "trained_on": "tight", "minus": "weak"}
    gains = lambda one, other: [
        row("all", one, decoding="sampled", task="tight", eval_task="far"),
        row("all", other, decoding="sampled", task="weak", eval_task="far"),
        row("all", 0.9, decoding="sampled", task="weak"),
    ]
    assert decided(claim, gains=gains(0.3, 0.2)) == [S] and decided(claim, gains=gains(0.2, 0.3)) == [C]
    assert decided(claim, gains=gains(0.2, 0.2)) == [U] and judged(claim, gains=gains(0.3, 0.2)[1:]) == []


# --- the file ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published_claims():
    return claims.read(ROOT / "paper/claims.yaml")


def test_the_claims_are_about_policies_models_and_tasks_that_exist(published_claims):
    assert {claim["paper"] for claim in published_claims} == {"HE", "LDS", "here"}
    for claim in published_claims:
        named = [claim[key] for key in ("policy", "minus") if key in claim and claim["test"] != "transfer"]
        named += [*claim.get("among", []), *claim.get("policies", [])]
        assert set(named) <= CONFIG["policies"].keys(), claim["id"]
        assert set(claim.get("only", {}).get("model", [])) <= CONFIG["models"].keys(), claim["id"]
        tasks = {name for key in ("task", "eval_task") for name in claim.get("only", {}).get(key, [])}
        assert tasks | ({claim["trained_on"], claim["minus"]} if claim["test"] == "transfer" else set()) <= CONFIG["tasks"].keys()
    assert {claim["test"] for claim in published_claims} == claims.TESTS.keys(), "no test without a claim"


@pytest.mark.parametrize(
    "change, said",
    [
        ({"test": "differenec"}, "unknown test 'differenec'; expected one of difference,"),
        ({"minus": None}, "test 'difference' needs 'minus', a str"),
        ({"margin": 0.02}, "test 'difference' does not read 'margin'"),
        ({"tested": "elsewhere"}, "tested is 'elsewhere', expected one of same,"),
        ({"only": {"seed": [0]}}, "'only' must hold lists of names under model, task, eval_task"),
        ({"id": None}, "'id' is missing"),
    ],
)
def test_a_wrong_claim_is_told_with_its_place(tmp_path, change, said):
    right = {"id": "one", "paper": "HE", "claim": "so", "test": "difference", "policy": "hard", "minus": "easy"}
    wrong = {key: value for key, value in (right | {"id": "two"} | change).items() if value is not None}
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump([right, wrong]))
    with pytest.raises(UserError, match=r"claims\.yaml: claim 2 \((two|without an id)\): ") as error:
        claims.read(tmp_path / "claims.yaml")
    assert said in str(error.value)


def test_a_file_that_is_no_list_of_claims_is_told(tmp_path):
    for text in ("", "a: [", "[1]"):
        (tmp_path / "claims.yaml").write_text(text)
        with pytest.raises(UserError, match=r"claims\.yaml:"):
            claims.read(tmp_path / "claims.yaml")


def test_conditions_say_which_tasks_share_problems():
    tasks = paths.conditions(CONFIG, "mini_truncation")["tasks"]
    assert verdicts.relation("swaps_tight", "swaps_ample", tasks) == "roomier"
    tasks = paths.conditions(CONFIG, "mini")["tasks"]
    assert verdicts.relation("swaps", "swaps_hard", tasks) == "other"
    assert paths.conditions(CONFIG, "mini")["weaker"] == ["arithmetic"]
    tasks = paths.conditions(CONFIG, "limits")["tasks"]
    assert verdicts.relation("math", "math_numeric", tasks) == "other"
