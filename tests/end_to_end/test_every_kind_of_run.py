"""One study with every kind of run: policies that choose at random, by pass rates, by a signal
without labels, by a small labelled sample, by another model's pass rates and in two rounds; rewards
for correct and for majority answers; each selector, replay and process rewards; training on worked
solutions; a second model on a task of facts."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from conftest import RUN, TABLES
from hardgrpo.runtime import files
from hardgrpo.study.spec import Spec

POLICIES = {
    "hard": {"rule": "hard", "budget": 0.25},
    "agreement_lowest": {"rule": "lowest", "by": "agreement", "budget": {"prompts": 5}},
    "predicted_half": {"rule": "nearest_half", "by": "predicted", "calibrated_on": 0.5, "budget": 0.75},
    "half_by_small": {"rule": "nearest_half", "probed_by": "small", "budget": 0.25},
    "random": {"rule": "random", "budget": 0.25},
}  # fmt: skip
IN_ROUNDS = {"rule": "highest", "budget": {"prompts": 15}}
SMALL = {"hidden_size": 32, "intermediate_size": 64, "heads": 2, "key_value_heads": 2}
SMALLER = SMALL | {"layers": 1, "steps": 20, "seed": 0}
KNOWING = SMALL | {"layers": 2, "steps": 40, "batch_size": 16, "seed": 0}
PROCESS = {"weight": 1.0, "beta": 0.05, "learning_rate": 4.0e-4, "max_grad_norm": 1.0}
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}
TARGETED = {"kind": "targeted", "reference": 4, "every": 2, "replay": 2, "buffer": 6}
ONLINE = {  # {recipe: its differences from recipe mini}
    "small_dynamic": {"selector": {"kind": "dynamic", "groups": 2}},
    "small_skip": {"selector": {"kind": "skip", "groups": 2}},
    "small_beta": {"selector": {"kind": "beta"}, "adapter": ADAPTER},
    "small_replay": {"selector": TARGETED},
    "small_easy_first": {"selector": {"kind": "curriculum", "by": "pass_rate"}},
    "small_prime": {"process": PROCESS, "adapter": ADAPTER},
}
REWARDS = {"mini_majority": {"reward": "majority"}, "mini_rest": {"majority_share": 0.5}}
# sampling steps of a run, rollouts of a step, problems of the pool
STEPS, SAMPLED, POOL = 4, 3 * 4, 24
LABELS = {
    ("hard", "mini"): POOL,
    ("half_by_small", "mini"): POOL,
    ("agreement_lowest", "mini"): 5,
    ("predicted_half", "mini"): 18,
    ("random", "mini"): 6,
    ("random", "mini_majority"): 0,
    ("agreement_lowest", "mini_rest"): 5,
}
TRAINING = "results/training/tiny/swaps"
SFT = f"{TRAINING}/mini_sft/hard/seed0"


def rows(path: Path) -> list[dict]:
    return list(csv.DictReader(path.read_text().splitlines()))


def add_runs(config: dict) -> None:
    config["policies"] |= POLICIES
    config["policies"]["agreement_in_rounds"] |= IN_ROUNDS
    config["models"]["small"]["source"].update(SMALLER)
    config["models"]["knowing"]["source"].update(KNOWING)
    config["tasks"]["facts"]["test"]["reach"] = {"samples": 4, "seed": 3}
    mini = config["recipes"]["mini"]
    config["recipes"] |= {name: mini | keys for name, keys in (REWARDS | ONLINE).items()}
    config["recipes"]["mini_sft"].update(updates=4, prompts_per_update=3, checkpoint_every=2)
    arms = [
        {"policy": list(POLICIES), "recipe": "mini"},
        {"policy": ["hard", "random"], "recipe": "mini_sft"},
        {"policy": "random", "recipe": "mini_majority"},
        {"policy": "agreement_lowest", "recipe": "mini_rest"},
        {"policy": "all", "recipe": ["mini", *ONLINE]},
        {"policy": "agreement_in_rounds", "recipe": "mini"},
    ]
    arms = [arm | {"models": "tiny", "tasks": "swaps"} for arm in arms]
    facts = {"policy": ["hard", "random"], "recipe": "mini", "models": "knowing", "tasks": "facts"}
    config["studies"]["mini"].update(
        models=["tiny", "knowing"],
        tasks=["swaps", "facts"],
        arms=[*arms, facts],
        held_constant=[],
        also_tested_on={},
        weaker_signal=[],
    )


@pytest.fixture(scope="module")
def study(finished_world, tmp_path_factory):
    """The study of `finished_world` with further runs. Tests must not change the study."""
    world = finished_world.copy(tmp_path_factory.mktemp("runs") / "world")
    world.configure(add_runs)
    world.targets = [*TABLES, "paper/mini/tables", "paper/mini/figures"]
    world.planned = world.plan(*world.targets)
    world.run(*world.targets)
    return world


def summary(study, name: str) -> list[dict]:
    """The rows of a summary table about the pool of task swaps."""
    table = rows(study.folder / f"results/summaries/mini/{name}.csv")
    return [row for row in table if row.get("task", "swaps") == "swaps"]


def by_arm(table: list[dict]) -> dict[tuple[str, str], dict]:
    return {(row["policy"], row["recipe"]): row for row in table}


def log_of(study, recipe: str, policy: str) -> list[dict]:
    return rows(study.folder / f"{TRAINING}/{recipe}/{policy}/seed0/updates.csv")


def ids(table: list[dict]) -> list[str]:
    return [row["id"] for row in table]


def test_only_new_runs_are_trained_and_the_others_stay_as_they_are(study, finished_world):
    planned = {rule: study.planned[rule] for rule in ("pretrain_model", "write_solutions")}
    assert planned == {"pretrain_model": 2, "write_solutions": 1}
    assert (study.planned["train_grpo"], study.planned["train_first_round"]) == (17, 1)
    for name in ("spec.yaml", "updates.csv", "timing.csv", "provenance.json"):
        run = f"results/training/{RUN}/{name}"
        assert (study.folder / run).read_bytes() == (finished_world.folder / run).read_bytes()
    assert study.plan(*study.targets) == {}


# --- labels


def test_the_labels_that_every_run_buys_are_counted(study):
    arms = by_arm(summary(study, "spent"))
    assert {arm: float(arms[arm]["labels"]) for arm in LABELS} == LABELS
    subsets = study.folder / "results/subsets/tiny/swaps"
    for (policy, recipe), labels in LABELS.items():
        if recipe != "mini_majority" and labels < POOL:
            assert labels == len(rows(subsets / f"{policy}/seed0.csv")), (
                "a run must buy only the labels of its chosen prompts"
            )
    sample, chosen = (
        set(ids(rows(subsets / f"predicted_half/{name}.csv"))) for name in ("seed0.sample", "seed0")
    )
    assert sample < chosen, "prompts that were annotated for the fit are missing from the subset"


def test_majority_rewards_differ_from_correctness_if_a_majority_answer_is_wrong(study):
    updates = log_of(study, "mini_majority", "random")
    assert any(float(row["reward_mean"]) != float(row["correct_share"]) for row in updates), (
        "no majority answer is wrong, so the test compares nothing"
    )


def test_half_of_the_prompts_may_be_unlabelled(study):
    run = study.folder / f"{TRAINING}/mini_rest/agreement_lowest/seed0"
    spec = Spec.read(str(run / "spec.yaml"))
    questions = files.read_jsonl(study.folder / spec.questions, {"id": str, "question": str})
    assert len(questions) == POOL and all("answer" not in row for row in questions)
    updates, labelled = (log_of(study, name, "agreement_lowest") for name in ("mini_rest", "mini"))
    assert [row["prompts"] for row in updates] == [row["prompts"] for row in labelled]
    assert [row["reward_mean"] for row in updates] != [row["reward_mean"] for row in labelled]


# --- selectors


def test_the_counts_of_rollouts_equal_the_sums_of_the_logs(study):
    rollouts = by_arm(summary(study, "rollouts"))
    assert set(rollouts) == {("all", name) for name in ONLINE}
    assert "kept" not in log_of(study, "mini", "all")[0]
    for name in ONLINE:
        log = log_of(study, name, "all")
        total = lambda column, log=log: sum(float(row[column]) for row in log)
        assert total("rollouts") == STEPS * SAMPLED
        for row in log:
            assert float(row["kept"]) + float(row["thrown_away"]) == float(row["rollouts"])
        row = rollouts["all", name]
        columns = {"generated": "rollouts", "updates": "trained"}
        for column in ("generated", "kept", "thrown_away", "replayed", "updates"):
            assert float(row[column]) == total(columns.get(column, column))
    assert float(rollouts["all", "small_replay"]["thrown_away"]) == 2 * 4 * 4, (
        "the run must not train on the rollouts of its two sets of four prompts (key `reference`) that the selector measures"
    )


def test_a_second_round_chooses_by_the_partly_trained_model_and_continues_the_same_run(study):
    run = study.folder / f"{TRAINING}/mini/agreement_in_rounds/seed0"
    subset = study.folder / "results/subsets/tiny/swaps/agreement_in_rounds/seed0.csv"
    first_ids, all_ids = ids(rows(subset)), ids(rows(run / "second.csv"))
    assert len(first_ids) == 7 and len(set(all_ids)) == 15, "half of the budget is rounded down"
    assert all_ids[:7] == first_ids
    measured = rows(run / "first/signals.csv")
    of_base = rows(study.folder / "results/signals/tiny/swaps.csv")
    assert ids(measured) == ids(of_base)
    column = lambda table: [row["log_probability"] for row in table]
    assert column(measured) != column(of_base), "the second round uses signals of the trained model"
    agreement = {row["id"]: float(row["agreement"]) for row in measured}
    unchosen = [agreement[name] for name in agreement if name not in all_ids]
    assert min(agreement[name] for name in all_ids[7:]) >= max(unchosen)
    log, of_first = rows(run / "updates.csv"), rows(run / "first/updates.csv")
    assert [int(row["step"]) for row in log] == [1, 2, 3, 4] and len(of_first) == 2
    assert all(
        float(round_row[name]) == float(row[name])
        for round_row, row in zip(of_first, log)
        for name in round_row
        if round_row[name]
    )
    assert [path.name for path in (run / "checkpoints").glob("step-*")] == ["step-4"]
    spent = by_arm(summary(study, "spent"))["agreement_in_rounds", "mini"]
    counts = [float(spent[name]) for name in ("labels", "rollouts", "updates")]
    assert counts == [15, STEPS * SAMPLED, 4]
    weights = lambda folder: (folder / "model.safetensors").read_bytes()
    assert weights(run / "checkpoints/step-4") != weights(run / "first/checkpoints/step-2")


# --- training on worked solutions


def test_a_run_on_worked_solutions_writes_its_files(study):
    text = (study.folder / SFT / "spec.yaml").read_text()
    spec = yaml.safe_load(text)
    assert text.startswith("# One SFT run.") and spec["training"]["objective"] == "sft"
    assert spec["solutions"] == "results/tasks/swaps/solutions.jsonl"
    written, grpo = (log_of(study, recipe, "hard") for recipe in ("mini_sft", "mini"))
    assert list(written[0]) == list(grpo[0]), "the logs of SFT and GRPO must have the same columns"
    assert [(row["step"], row["prompts"], row["rollouts"]) for row in written] == [
        (str(step), "3", "0") for step in range(1, 5)
    ]
    empty = {name for name, cell in written[0].items() if cell == ""}
    shares = {
        f"{name}_share"
        for name in ("learnable", "all_right", "correct", "answered", "undecided", "truncated")
    }
    assert empty == {"reward_mean", "kl"} | shares
    record = json.loads((study.folder / SFT / "provenance.json").read_text())
    assert record["completion_tokens"] == 0
    tokens = sum(3 * float(row["tokens_mean"]) for row in written)
    assert record["solution_tokens"] == round(tokens) > 100
    log = study.folder / f"results/logs/train_grpo/{SFT.removeprefix('results/training/')}.log"
    assert f"4 updates, last loss {float(written[-1]['loss']):.3f}" in log.read_text()
    solved = files.read_jsonl(study.folder / spec["solutions"], {"solution": str})
    assert len(solved) == 24 and all("####" in row["solution"] for row in solved)


def test_tables_about_rollouts_leave_out_runs_on_worked_solutions(study):
    supervised = [(policy, "mini_sft") for policy in ("hard", "random")]
    for name in ("gains", "accuracy", "parts", "spent", "differences"):
        arms = [(row["policy"], row["recipe"]) for row in summary(study, name)]
        arms += [(row.get("minus"), row.get("minus_recipe")) for row in summary(study, name)]
        assert {*supervised, ("hard", "mini"), ("random", "mini")} <= set(arms), name
    for name in ("learnable", "curves"):
        arms = {(row["policy"], row["recipe"]) for row in summary(study, name)}
        assert ("hard", "mini") in arms and arms.isdisjoint(supervised)
    for row in summary(study, "spent"):
        if row["recipe"] == "mini_sft":
            assert (float(row["updates"]), float(row["prompts"])) == (4, 12)
            assert float(row["rollouts"]) == float(row["tokens"]) == 0
    paper = study.folder / "paper/mini"
    table = by_arm(rows(paper / "tables/spent.csv"))
    assert table["hard", "mini_sft"]["gain_per_million"] == ""
    assert "inf" not in (paper / "tables/spent.tex").read_text()


@pytest.mark.nightly
def test_a_study_on_worked_solutions_alone_is_summarised_and_drawn(study, tmp_path):
    world = study.copy(tmp_path / "world")
    arms = [{"policy": ["hard", "random"], "recipe": "mini_sft"}]
    keys = {"models": ["tiny"], "tasks": ["swaps"], "arms": arms}
    world.configure(lambda config: config["studies"]["mini"].update(keys))
    assert "train_grpo" not in world.run()
    assert "rollouts each" not in (world.folder / "paper/mini/supplement.tex").read_text()


# --- facts


def test_only_the_task_with_tiers_is_in_the_tables_of_tiers_and_reasons(study):
    tables = study.folder / "results/summaries/mini"
    tasks = {
        name: {row["task"] for row in files.read_rows(tables / f"{name}.csv", {"task": str})}
        for name in ("gains", "kinds", "decomposition", "accuracy", "tiers", "reasons")
    }
    # a fact has neither tier nor steps
    without_facts = {name for name in tasks if tasks[name] == {"swaps"}}
    assert without_facts == {"tiers", "reasons"}
    assert all(tasks[name] == {"swaps", "facts"} for name in tasks.keys() - without_facts)
    kinds = files.read_rows(tables / "kinds.csv", {"task": str, "tier": str})
    assert {row["tier"] for row in kinds if row["task"] == "facts"} == {None}
    knowing, tiny = (
        (study.folder / f"results/models/{name}/tokenizer.json").read_text()
        for name in ("knowing", "tiny")
    )
    assert "Zell" in knowing and "Zell" not in tiny, "only the facts contain the word Zell"


@pytest.mark.nightly
def test_a_study_of_facts_alone_has_no_tiers(study, tmp_path):
    world = study.copy(tmp_path / "world")
    arms = [{"policy": ["hard", "random"], "recipe": "mini"}]
    keys = {"models": ["knowing"], "tasks": ["facts"], "arms": arms}
    world.configure(lambda config: config["studies"]["mini"].update(keys))
    world.run(*TABLES)
    assert files.read_rows(world.folder / "results/summaries/mini/tiers.csv", {"task": str}) == []
