"""A study of which prompts to annotate, with trainings on the chosen prompts. Its policies choose
at random, by pass rates, by a signal without labels, by a small labelled sample and by another
model's pass rates. Two of its recipes reward majority answers."""

import csv
import json
from pathlib import Path

import pytest

from conftest import TABLES
from hardgrpo.runtime import files
from hardgrpo.study.spec import Spec

POLICIES = {
    "hard": {"rule": "hard", "budget": 0.25},
    "agreement_lowest": {"rule": "lowest", "by": "agreement", "budget": {"prompts": 5}},
    "predicted_half": {
        "rule": "nearest_half",
        "by": "predicted",
        "calibrated_on": 0.5,
        "budget": 0.75,
    },
    "half_by_small": {"rule": "nearest_half", "probed_by": "small", "budget": 0.25},
    "random": {"rule": "random", "budget": 0.25},
}
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "heads": 2,
    "key_value_heads": 2,
    "layers": 1,
    "steps": 20,
}
POOL = 24
LABELS = {
    ("hard", "mini"): POOL,
    ("half_by_small", "mini"): POOL,
    ("agreement_lowest", "mini"): 5,
    ("predicted_half", "mini"): 18,
    ("random", "mini"): 6,
    ("random", "mini_majority"): 0,
    ("agreement_lowest", "mini_rest"): 5,
}


def rows(path: Path) -> list[dict]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def study(finished_world, tmp_path_factory):
    """The study of `finished_world` with POLICIES, one run with a reward that needs no labels, and
    one run with this reward for two of the three prompts of each update; these two prompts are not
    in the subset. Tests must not change the study."""
    world = finished_world.copy(tmp_path_factory.mktemp("labels") / "world")

    def change(config):
        config["policies"] |= POLICIES
        config["models"]["small"]["source"].update(SMALL, seed=0)
        config["recipes"]["mini_majority"] = config["recipes"]["mini"] | {"reward": "majority"}
        config["recipes"]["mini_rest"] = config["recipes"]["mini"] | {"majority_share": 0.5}
        config["studies"]["mini"].update(
            arms=[
                {"policy": list(POLICIES), "recipe": "mini"},
                {"policy": "random", "recipe": "mini_majority"},
                {"policy": "agreement_lowest", "recipe": "mini_rest"},
            ],
            held_constant=["updates", "rollouts"],
            also_tested_on={},
            weaker_signal=[],
        )

    world.configure(change)
    world.planned = world.plan()
    world.targets = [*TABLES, "paper/mini/figures/labels.csv"]
    done = world.snakemake(*world.targets)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return world


def test_the_labels_that_every_run_buys_are_counted(study):
    spent = {
        (row["policy"], row["recipe"]): float(row["labels"])
        for row in rows(study.folder / "results/summaries/mini/spent.csv")
    }
    assert spent == LABELS
    for (policy, recipe), labels in spent.items():
        subset = study.folder / f"results/subsets/tiny/swaps/{policy}/seed0.csv"
        if recipe != "mini_majority" and labels < POOL:
            assert labels == len(rows(subset)), (
                "a run must buy only the labels of its chosen prompts"
            )
    sample = rows(study.folder / "results/subsets/tiny/swaps/predicted_half/seed0.sample.csv")
    chosen = rows(study.folder / "results/subsets/tiny/swaps/predicted_half/seed0.csv")
    assert {row["id"] for row in sample} < {row["id"] for row in chosen}, (
        "prompts that were annotated for the fit are missing from the subset"
    )


def test_another_model_chooses_without_being_trained(study):
    assert study.planned["pretrain_model"] == 1 and study.planned["train_grpo"] == 3 + 2, (
        "the runs of hard and random must not be trained again"
    )
    small, own = (
        rows(study.folder / f"results/difficulty/{base}/swaps.csv") for base in ("small", "tiny")
    )
    chosen = {
        row["id"]: row["pass_rate"]
        for row in rows(study.folder / "results/subsets/tiny/swaps/half_by_small/seed0.csv")
    }
    of_small = {row["id"]: row["pass_rate"] for row in small}
    assert all(float(of_small[name]) == float(rate) for name, rate in chosen.items())
    assert of_small != {row["id"]: row["pass_rate"] for row in own}
    assert not (study.folder / "results/training/small").exists()


def test_chosen_prompts_and_gains_are_in_tables_and_figures(study):
    chosen = {
        row["policy"]: row for row in rows(study.folder / "results/summaries/mini/chosen.csv")
    }
    assert set(chosen) == {"pool", *POLICIES} and float(chosen["agreement_lowest"]["prompts"]) == 5
    assert all(0 <= float(row["confidently_wrong"]) <= 1 for row in chosen.values())
    assert float(chosen["hard"]["pass_rate"]) <= float(chosen["pool"]["pass_rate"])
    drawn = rows(study.folder / "paper/mini/figures/labels.csv")
    assert {(row["policy"], row["recipe"]): float(row["labels"]) for row in drawn} == LABELS
    assert study.plan(*study.targets) == {}


def test_holding_labels_constant_fails_if_runs_buy_different_numbers_of_labels(study, tmp_path):
    world = study.copy(tmp_path / "world")
    world.configure(lambda config: config["studies"]["mini"].update(held_constant=["labels"]))
    done = world.snakemake("results/summaries/mini/gains.csv")
    assert done.returncode != 0
    assert (
        "holds labels constant, but mini/hard/seed0 has 24 and mini/agreement_lowest/seed0 has 5"
        in (world.folder / "results/logs/summarize/mini.log").read_text()
    )


def test_majority_rewards_differ_from_correctness_if_a_majority_answer_is_wrong(study):
    run = study.folder / "results/training/tiny/swaps/mini_majority/random/seed0"
    updates = rows(run / "updates.csv")
    assert any(float(row["reward_mean"]) != float(row["correct_share"]) for row in updates), (
        "no majority answer is wrong, so the test compares nothing"
    )
    assert json.loads((run / "provenance.json").read_text())["completion_tokens"] > 0


def test_half_of_the_prompts_may_be_unlabelled(study):
    run = study.folder / "results/training/tiny/swaps/mini_rest/agreement_lowest/seed0"
    spec = Spec.read(str(run / "spec.yaml"))
    questions = files.read_jsonl(study.folder / spec.questions, {"id": str, "question": str})
    assert len(questions) == POOL and all("answer" not in row for row in questions)
    updates, labelled = (
        rows(run.parents[1].with_name(name) / "agreement_lowest/seed0/updates.csv")
        for name in ("mini_rest", "mini")
    )
    assert [row["prompts"] for row in updates] == [row["prompts"] for row in labelled]
    assert [row["reward_mean"] for row in updates] != [row["reward_mean"] for row in labelled]
