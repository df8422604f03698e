"""The page "Was it worth it?": its verdicts, and their agreement with results/reference/all/which-prompts.csv."""

import functools
from math import nan
from types import SimpleNamespace

import pandas as pd
import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import claims, random_choice, summaries
from hardgrpo.analysis.arms import add_labels
from hardgrpo.report import worth
from hardgrpo.runtime import files
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import resolve_study
from pages import committed

CONFIG = project_config.config()


def row(gain=(0.02, 0.01, 0.03), greedy=(nan, nan, nan), lead=(nan, nan)) -> SimpleNamespace:
    return SimpleNamespace(
        gain=gain[0], gain_low=gain[1], gain_high=gain[2], greedy_gain=greedy[0], greedy_gain_low=greedy[1],
        greedy_gain_high=greedy[2], lead=lead[0], lead_verdict=lead[1],
    )  # fmt: skip


@pytest.mark.parametrize(
    "numbers, verdict",
    [
        ({}, worth.YES),
        ({"gain": (0.02, -0.01, 0.05)}, worth.NOT_SHOWN),
        ({"gain": (-0.02, -0.03, -0.01)}, worth.ACCURACY_FELL),
        ({"gain": (nan, nan, nan)}, worth.UNKNOWN_WORTH),
        ({"greedy": (-0.11, -0.15, -0.07)}, worth.GREEDY_FELL),
        ({"greedy": (-0.01, -0.05, 0.03)}, worth.YES),
        ({"lead": (0.01, random_choice.OPEN)}, worth.NOT_BETTER),
        ({"lead": (0.01, random_choice.BETTER)}, worth.YES),
        ({"lead": (-0.01, random_choice.WORSE)}, worth.WORSE_THAN_RANDOM),
        (
            {"lead": (0.01, random_choice.BETTER), "greedy": (-0.11, -0.15, -0.07)},
            worth.GREEDY_FELL,
        ),
    ],
)
def test_the_verdict_depends_on_the_gain_the_greedy_gain_and_the_lead_over_random(numbers, verdict):
    assert worth.worth_it(row(**numbers)) == verdict


@functools.cache
def arms(study: str) -> dict[tuple, dict]:
    """{(model, task, name of the arm): the page's entry for the arm}, from the committed tables."""
    resolved_study = resolve_study(CONFIG, study)
    design = designs.design(resolved_study)
    prices = designs.prices(resolved_study, CONFIG["plan"]["price"], CONFIG["subset"]["policy"])
    tables = files.Tables.below(ROOT / paths.reference(study))
    names = [name for name in worth.TABLES if name != "against_random"]
    tables = summaries.read_all(tables, names, design["first_recipe"])
    tables["against_random"] = against_random(study)
    groups = worth.entries_by_model_and_task(**tables, prices=prices)
    return {
        (group["model"], group["task"], arm["name"]): arm
        for group in groups
        for arm in group["arms"]
    }


COMMITTED = [
    name for name in CONFIG["studies"] if (ROOT / paths.reference(name) / "spent.csv").exists()
]


def test_an_arm_with_a_loss_of_greedy_accuracy_is_never_worth_its_labels():
    entries = {study: arms(study) for study in COMMITTED}
    for study, by_name in entries.items():
        gains = files.Tables.below(ROOT / paths.reference(study))
        gains = summaries.read_all(gains, ["gains"], resolve_study(CONFIG, study).first_recipe)
        greedy = summaries.own_test_rows(gains["gains"])
        fell = greedy[(greedy.decoding == "greedy") & (greedy.gain_high < 0)]
        marks = {by_name[key]["mark"] for key in zip(fell.model, fell.task, fell.arm)}
        assert "yes" not in marks, study
    verdicts = {entry["worth_it"] for by_name in entries.values() for entry in by_name.values()}
    assert {worth.YES, worth.GREEDY_FELL, worth.NOT_BETTER, worth.WORSE_THAN_RANDOM} <= verdicts


@functools.cache
def against_random(study: str) -> pd.DataFrame:
    rows = committed.judged(ROOT, resolve_study(CONFIG, study))["against_random"]
    return add_labels(rows, designs.design(resolve_study(CONFIG, study))["first_recipe"])


def test_no_comparison_with_a_random_choice_has_two_verdicts():
    """The table results/reference/all/which-prompts.csv, each study's table against_random (which its
    supplement quotes) and page of worth, and the verdicts on primary claims agree."""
    verdicts: dict[tuple, set] = {}
    names = designs.names_of_ways(CONFIG["policies"], CONFIG["recipes"])
    says = {claims.SUPPORTED: random_choice.BETTER}
    says |= {claims.CONTRADICTED: random_choice.WORSE}
    listed_claims = {claim["id"]: claim for claim in files.read_yaml(ROOT / "paper/claims.yaml")}
    for line in pd.read_csv(ROOT / "results/reference/all/which-prompts.csv").to_dict("records"):
        verdicts[random_choice.comparison_of(line)] = {line["verdict"]}
    claims_seen = 0
    for study in COMMITTED:
        by_name, rows = arms(study), against_random(study)
        stated = committed.judged(ROOT, resolve_study(CONFIG, study))["claims"]
        for row in rows.itertuples():
            recipe = names["recipes"][row.recipe]
            comparison = row.way, row.model, row.task, recipe, row.budget
            stated_verdicts = verdicts.setdefault(comparison, set())
            stated_verdicts.add(row.verdict)
            entry = by_name[row.model, row.task, row.arm]["worth_it"]
            assert (entry == worth.YES) <= (row.verdict == random_choice.BETTER)
            assert (entry == worth.WORSE_THAN_RANDOM) <= (row.verdict == random_choice.WORSE)
            for claim in stated[
                (stated.model == row.model) & (stated.task == row.task)
            ].itertuples():
                entry = listed_claims[claim.id]
                if row.decided_by == study and claim.primary and entry["test"] == "difference":
                    is_of_row = (entry["policy"], entry["minus"]) == (row.policy, "random")
                    if is_of_row and "recipe" not in entry and claim.p_holm == claim.p_holm:
                        stated_verdicts.add(says.get(claim.verdict, random_choice.OPEN))
                        claims_seen += 1
    assert all(len(stated_verdicts) == 1 for stated_verdicts in verdicts.values())
    assert claims_seen > 5


@pytest.mark.parametrize(
    "budgets",
    [
        (0.1, 0.1),
        ({"prompts": 30}, {"prompts": 30}),
        ({"money": 60, "label_price": 2}, {"prompts": 30}),
    ],
)
def test_a_random_choice_is_compared_whatever_form_the_budget_has(budgets):
    policies = {
        "unsure": {"rule": "lowest", "by": "agreement", "budget": budgets[0]},
        "random": {"rule": "random", "budget": budgets[1]},
    }
    arms = [("unsure", "mini"), ("random", "mini")]
    assert list(random_choice.cases(policies, arms).values()) == [["unsure", "random"]]
    policies["random"]["budget"] = {"prompts": 31}
    assert len(random_choice.cases(policies, arms)) == 2
