"""The advice follows from the committed comparisons with a random choice, by the rule in the
docstring of pages/recommended.py; a comparison has one verdict wherever it is shown."""

import numpy as np
import pandas as pd
import pytest

from hardgrpo.analysis import pooling, random_choice
from pages import recommended

POLICIES = {
    "random": {"rule": "random", "budget": 0.1},
    "random_5": {"rule": "random", "budget": 0.05},
    "hard": {"rule": "hard", "budget": 0.1},
    "unsure": {"rule": "lowest", "by": "agreement", "budget": 0.1},
    "unsure_5": {"rule": "lowest", "by": "agreement", "budget": 0.05},
    "all": {"rule": "all"},
}
RECIPES = {"short": {"updates": 5}, "long": {"updates": 9}}
RECIPES["short_curve"] = {"updates": 5, "checkpoint_every": 1}
CONFIG = {"policies": POLICIES, "recipes": RECIPES}


def leads_of(*rows: tuple, study: str = "s", seeds: int = 10, primary=()) -> list[dict]:
    """The leads of a study, from (policy, minus, difference, p, and the recipe if it is not
    "short"), for one model and task. Leads in `primary` (policies) are primary claims."""
    frame = pd.DataFrame(
        [(*row, "short")[:5] for row in rows],
        columns=["policy", "minus", "difference", "p", "recipe"],
    )
    frame = frame.assign(model="m", task="t", minus_recipe=frame.recipe, seeds=seeds)
    frame["difference_low"] = frame.difference - 0.01
    frame["difference_high"] = frame.difference + 0.02
    other_test = frame.assign(eval_task="other", difference=-frame.difference)
    arms = pd.concat(
        [
            frame[["policy", "recipe"]],
            frame[["minus", "recipe"]].set_axis(["policy", "recipe"], axis=1),
        ]
    ).drop_duplicates()
    arms = arms.assign(model="m", task="t", eval_task="t", decoding="sampled")
    runs = arms.merge(pd.DataFrame({"seed": range(seeds)}), how="cross")
    tables = {
        "differences": pd.concat([frame.assign(eval_task="t"), other_test]),
        "spent": arms.assign(labels=[50 if "unsure" in name else 500 for name in arms.policy]),
        "gains": arms.assign(gain=0.25, gain_low=0.2, gain_high=0.3),
        "decomposition_runs": runs.assign(gain=0.2 + 0.01 * runs.seed),
    }
    primary_p = {
        ("m", "t", frozenset([(row.policy, row.recipe), (row.minus, row.recipe)])): row.p
        for row in frame.itertuples()
        if row.policy in primary
    }
    return recommended.leads_of_study(CONFIG, study, tables, primary_p)


def verdicts(rows: list[dict]) -> dict[tuple, str]:
    return {
        (row["way"], row["budget"], row["recipe"]): row["verdict"]
        for row in random_choice.decide(rows)
    }


def test_a_primary_claim_is_tested_by_itself_and_counts_before_larger_studies():
    rows = leads_of(
        ("hard", "random", 0.03, 0.04), ("unsure", "random", 0.03, 0.04), primary=("hard",)
    )
    assert verdicts(rows) == {("hard", 0.1, "short"): "better", ("unsure", 0.1, "short"): "better"}
    swapped = leads_of(("random", "hard", -0.03, 0.04), primary=("random",))
    assert [row["primary"] for row in swapped] == [True], "the claim subtracts the other arm"
    both = leads_of(("hard", "random", 0.03, 0.04), ("unsure", "random", 0.03, 0.04))
    assert set(verdicts(both).values()) == {"no difference shown"}
    larger = leads_of(("hard", "random", -0.03, 0.001), study="other", seeds=20)
    assert verdicts(rows + larger)["hard", 0.1, "short"] == "better"
    assert verdicts(both + larger)["hard", 0.1, "short"] == "worse"


def case(*values: float, seed: int = 0) -> dict[tuple, float]:
    return {("m", seed + number): value for number, value in enumerate(values)}


def test_a_pooled_lead_of_independent_cases_has_the_t_interval_of_their_means():
    # the variance between these cases is larger than what chance over base models explains
    cases = [case(mean - 0.001, mean + 0.001, seed=10 * i) for i, mean in enumerate((1, 2, 4, 5))]
    pooled = pooling.pool_leads(cases)
    assert pooled.mean.estimate == pytest.approx(3)
    # t(.975, 3) sd / 2
    assert pooled.mean.high - 3 == pytest.approx(3.182446 * np.std([1, 2, 4, 5], ddof=1) / 2, 1e-4)
    assert pooled.new_case[1] > pooled.mean.high
    unknown = pooling.pool_leads(cases[:2])
    assert unknown.mean.estimate == pytest.approx(1.5) and np.isnan(unknown.mean.low)


def test_cases_that_share_base_models_do_not_count_as_independent():
    generator = np.random.default_rng(0)
    covers = {True: 0, False: 0}
    for _ in range(400):
        base = generator.normal(0, 0.02, 10)
        noise = generator.normal(0, 0.005, (6, 10))
        shared = [case(*(base + noise[i])) for i in range(6)]
        renamed = [case(*(base + noise[i]), seed=100 * i) for i in range(6)]
        for is_shared, cases in ((True, shared), (False, renamed)):
            mean = pooling.pool_leads(cases).mean
            covers[is_shared] += mean.low <= 0 <= mean.high
    assert covers[True] >= 0.93 * 400 > 0.8 * 400 > covers[False]


def ways_of(*rows: tuple) -> list[dict]:
    return recommended.pooled_ways(random_choice.decide(leads_of(*rows)))


def test_a_way_is_advised_only_if_its_pooled_lead_and_half_of_its_gains_are_above_zero(monkeypatch):
    way = ways_of(("unsure", "random", 0.04, 0.001))[0]
    leads = [
        way["leads"][0] | {"bases": case(*(mean + spread for spread in (-0.01, 0.01)), seed=10 * i)}
        for i, mean in enumerate((0.03, 0.04, 0.05, 0.04))
    ]

    def advised(**changes) -> bool:
        changed = [lead | changes if i < 3 else lead for i, lead in enumerate(leads)]
        return recommended.pooled_ways(changed)[0]["is_advised"]

    assert advised()
    assert not advised(gain_low=-0.01), "training raised accuracy in one of four cases only"
    assert not advised(bases=case(-0.05, 0.05))
    lines = recommended.advice(recommended.pooled_ways(leads))
    assert [line["best"]["way"] for line in lines] == ["unsure"] * 3
    hard = recommended.pooled_ways([lead | {"way": "hard", "needs": "pool"} for lead in leads])
    assert [line["best"] and line["best"]["way"] for line in recommended.advice(hard)] == [None, None, "hard"]  # fmt: skip
