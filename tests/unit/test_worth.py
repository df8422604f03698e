"""The page "Was it worth it?": its verdicts, and their agreement with docs/which-prompts.csv."""

import json
from math import nan
from types import SimpleNamespace

import pandas as pd
import pytest

import fork_server
import project_config
from conftest import ROOT, path_of
from hardgrpo.analysis import random_choice, summaries
from hardgrpo.analysis.arms import label
from hardgrpo.report import registry, worth
from hardgrpo.runtime import files
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import ResolvedStudy

CONFIG = project_config.config()


def row(gain=(0.02, 0.01, 0.03), greedy=(nan, nan, nan), lead=(nan, nan)) -> SimpleNamespace:
    return SimpleNamespace(
        gain=gain[0], gain_low=gain[1], gain_high=gain[2], greedy_gain=greedy[0], greedy_gain_low=greedy[1],
        greedy_gain_high=greedy[2], lead=lead[0], lead_p=lead[1],
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
        ({"lead": (0.01, 0.2)}, worth.NOT_BETTER),
        ({"lead": (0.01, 0.01)}, worth.YES),
        ({"lead": (-0.01, 0.01)}, worth.WORSE_THAN_RANDOM),
        ({"lead": (0.01, 0.01), "greedy": (-0.11, -0.15, -0.07)}, worth.GREEDY_FELL),
    ],
)
def test_the_verdict_depends_on_the_gain_the_greedy_gain_and_the_lead_over_random(numbers, verdict):
    assert worth.worth_it(row(**numbers)) == verdict


def arms(study: str) -> dict[tuple, dict]:
    """{(model, task, name of the arm): the page's entry for the arm}, from the committed tables."""
    resolved_study = ResolvedStudy.of(CONFIG, study)
    design = designs.design(resolved_study)
    prices = designs.prices(resolved_study, CONFIG["plan"]["price"], CONFIG["subset"]["policy"])
    tables = files.Tables.below(ROOT / paths.reference(study))
    tables = summaries.read_all(tables, registry.columns(*registry.WORTH), design["first_recipe"])
    groups = worth.entries_by_model_and_task(design["policy_settings"], **tables, prices=prices)
    return {
        (group["model"], group["task"], arm["name"]): arm
        for group in groups
        for arm in group["arms"]
    }


COMMITTED = [
    name for name in CONFIG["studies"] if (ROOT / paths.reference(name) / "spent.csv").exists()
]


@pytest.mark.parametrize("study", COMMITTED)
def test_an_arm_with_a_loss_of_greedy_accuracy_is_never_worth_its_labels(study):
    design = designs.design(ResolvedStudy.of(CONFIG, study))
    gains = summaries.read_labelled(
        ROOT / paths.reference(study) / "gains.csv", design["first_recipe"]
    )
    fell = gains[
        (gains.task == gains.eval_task) & (gains.decoding == "greedy") & (gains.gain_high < 0)
    ]
    by_name = arms(study)
    assert not [
        line.arm
        for line in fell.itertuples()
        if by_name[line.model, line.task, line.arm]["mark"] == "yes"
    ]


def test_the_committed_studies_have_an_arm_with_each_of_four_verdicts():
    verdicts = {entry["worth_it"] for study in COMMITTED for entry in arms(study).values()}
    assert {worth.YES, worth.GREEDY_FELL, worth.NOT_BETTER, worth.WORSE_THAN_RANDOM} <= verdicts


def test_the_page_of_worth_and_the_table_of_choices_give_the_same_verdict():
    """Of the arms in docs/which-prompts.csv, the page says "yes" only of those that the table calls
    better than a random choice, and "no, random is better" only of those that it calls worse."""
    cases = pd.read_csv(ROOT / "docs/which-prompts.csv")
    compared = 0
    for study in COMMITTED:
        differences, by_name = (
            pd.read_csv(ROOT / paths.reference(study) / "differences.csv"),
            arms(study),
        )
        first_recipe = designs.design(ResolvedStudy.of(CONFIG, study))["first_recipe"]
        for comparison in random_choice.comparisons(differences, CONFIG["policies"]):
            of_case = cases[
                (cases.study == study) & (cases.model == comparison["model"]) & (cases.task == comparison["task"])
                & (cases.budget == comparison["budget"]) & (cases.difference - comparison["difference"]).abs().lt(1e-9)
            ]  # fmt: skip
            name = label(comparison["policy"], comparison["recipe"], first_recipe)
            entry = by_name[comparison["model"], comparison["task"], name]
            for line in of_case.itertuples():
                assert line.verdict == random_choice.BETTER or entry["worth_it"] != worth.YES, (
                    study,
                    name,
                )
                assert (
                    line.verdict == random_choice.WORSE
                    or entry["worth_it"] != worth.WORSE_THAN_RANDOM
                ), (study, name)
                compared += 1
    assert compared > 20


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
    ((_, recipe, names),) = random_choice.cases(policies, arms)
    assert recipe == "mini" and sorted(names) == ["random", "unsure"]
    policies["random"]["budget"] = {"prompts": 31}
    assert random_choice.cases(policies, arms) == []


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"gpus": {}, "label": {}}, "--prices: gpu_hour is missing"),
        ({"gpu_hour": 1, "gpus": {"other": {}}, "label": {}}, "gpus has no model steady"),
    ],
)
def test_prices_that_do_not_fit_the_tables_are_reported(tmp_path, prices, words):
    design = json.dumps(designs.design(ResolvedStudy.of(CONFIG, "mini")))
    tables = sorted(map(str, (ROOT / paths.reference("mini")).glob("*.csv")))
    arguments = ["--tables", *tables, "--study", design, "--prices", json.dumps(prices)]
    output = tmp_path / "worth.html"
    done = fork_server.run(path_of("write_worth"), [*arguments, "--output", str(output)], tmp_path)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and not output.exists()
