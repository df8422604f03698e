"""A small study with a run for each selector (one run also with replay), a run with process
rewards, a run with plain GRPO, and a run whose prompts are chosen in two rounds."""

import csv
from pathlib import Path

import pytest

from conftest import TABLES
from hardgrpo.online import online_selectors

PROCESS = {"weight": 1.0, "beta": 0.05, "learning_rate": 4.0e-4, "max_grad_norm": 1.0}
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}
RECIPES = {
    "small_plain": {},
    "small_dynamic": {"selector": {"kind": "dynamic", "groups": 2}},
    "small_skip": {"selector": {"kind": "skip", "groups": 2}},
    "small_beta": {"selector": {"kind": "beta"}, "adapter": ADAPTER},
    "small_replay": {
        "selector": {"kind": "targeted", "reference": 4, "every": 2, "replay": 2, "buffer": 6}
    },
    "small_easy_first": {"selector": {"kind": "curriculum", "by": "pass_rate"}},
    "small_prime": {"process": PROCESS, "adapter": ADAPTER},
}
# sampling steps of a run, rollouts of a step, problems of the pool
STEPS, SAMPLED, POOL = 4, 3 * 4, 24


def rows(path: Path) -> list[dict]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def study(finished_world, tmp_path_factory):
    """The small study with RECIPES on all prompts of the pool, and with a run whose prompts are
    chosen in two rounds. Tests must not change the study."""
    world = finished_world.copy(tmp_path_factory.mktemp("online") / "world")

    def change(config):
        mini = config["recipes"]["mini"]
        config["recipes"] |= {name: mini | keys for name, keys in RECIPES.items()}
        config["policies"]["agreement_in_rounds"] |= {"rule": "highest", "budget": {"prompts": 15}}
        config["studies"]["mini"].update(
            arms=[
                {"policy": "all", "recipe": list(RECIPES)},
                {"policy": "agreement_in_rounds", "recipe": "small_plain"},
            ],
            held_constant=["rollouts"],
            also_tested_on={},
            weaker_signal=[],
        )

    world.configure(change)
    world.targets = [*TABLES, "paper/mini/tables/rollouts.csv", "paper/mini/figures/rollouts.csv"]
    done = world.snakemake(*world.targets)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return world


def test_the_counts_of_rollouts_equal_the_sums_of_the_logs(study):
    rollouts = {
        (row["policy"], row["recipe"]): row
        for row in rows(study.folder / "results/summaries/mini/rollouts.csv")
    }
    assert set(rollouts) == {("all", name) for name in RECIPES if name != "small_plain"}
    for name in RECIPES:
        log = rows(study.folder / f"results/training/tiny/swaps/{name}/all/seed0/updates.csv")
        assert sum(float(row["rollouts"]) for row in log) == STEPS * SAMPLED
        if name == "small_plain":
            assert "kept" not in log[0]
            continue
        for row in log:
            assert float(row["kept"]) + float(row["thrown_away"]) == float(row["rollouts"])
        row = rollouts["all", name]
        for counted, logged in (
            ("generated", "rollouts"),
            ("kept", "kept"),
            ("thrown_away", "thrown_away"),
            ("replayed", "replayed"),
        ):
            assert float(row[counted]) == sum(float(update[logged]) for update in log)
        assert float(row["updates"]) == sum(float(update["trained"]) for update in log)
    assert float(rollouts["all", "small_replay"]["thrown_away"]) == 2 * 4 * 4, (
        "the run must not train on the rollouts of its two sets of four prompts (key `reference`) that the selector measures"
    )


def test_only_a_curriculum_by_pass_rates_buys_labels_of_unsampled_prompts(study):
    table = rows(study.folder / "results/summaries/mini/spent.csv")
    spent = {row["recipe"]: float(row["labels"]) for row in table if row["policy"] == "all"}
    assert spent["small_easy_first"] == POOL, (
        "this curriculum sorts the pool by pass rates, which need the labels of all prompts"
    )
    assert spent["small_plain"] == STEPS * 3 < POOL, (
        "a run samples half of an epoch, so no prompt comes twice"
    )
    for name in RECIPES.keys() - {"small_plain", "small_easy_first"}:
        log = rows(study.folder / f"results/training/tiny/swaps/{name}/all/seed0/updates.csv")
        expected = (
            spent["small_plain"]
            if name == "small_prime"
            else sum(float(row["labels"]) for row in log)
        )
        assert spent[name] == expected <= POOL
    assert spent["small_dynamic"] == STEPS * 3, (
        "a run samples half of an epoch, so no prompt comes twice"
    )


def test_a_second_round_chooses_by_the_partly_trained_model_and_continues_the_same_run(study):
    run = study.folder / "results/training/tiny/swaps/small_plain/agreement_in_rounds/seed0"
    first_ids = [
        row["id"]
        for row in rows(study.folder / "results/subsets/tiny/swaps/agreement_in_rounds/seed0.csv")
    ]
    all_ids = [row["id"] for row in rows(run / "second.csv")]
    assert len(first_ids) == 7 and all_ids[:7] == first_ids and len(set(all_ids)) == 15, (
        "the first round must choose half of the budget (rounded down), and both rounds together must choose the whole budget"
    )
    measured, of_base = (
        rows(run / "first/signals.csv"),
        rows(study.folder / "results/signals/tiny/swaps.csv"),
    )
    assert [row["id"] for row in measured] == [row["id"] for row in of_base]
    assert [row["log_probability"] for row in measured] != [
        row["log_probability"] for row in of_base
    ], "the second round must use signals of the trained model"
    agreement_after_round_one = {row["id"]: float(row["agreement"]) for row in measured}
    unchosen_ids = [name for name in agreement_after_round_one if name not in all_ids]
    assert min(agreement_after_round_one[name] for name in all_ids[7:]) >= max(
        agreement_after_round_one[name] for name in unchosen_ids
    )
    log, of_first = rows(run / "updates.csv"), rows(run / "first/updates.csv")
    assert [int(row["step"]) for row in log] == [1, 2, 3, 4] and len(of_first) == 2
    assert all(
        float(round_row[name]) == float(row[name])
        for round_row, row in zip(of_first, log)
        for name in round_row
        if round_row[name]
    )
    assert sorted(path.name for path in (run / "checkpoints").glob("step-*")) == ["step-4"]
    spent = {row["policy"]: row for row in rows(study.folder / "results/summaries/mini/spent.csv")}[
        "agreement_in_rounds"
    ]
    assert (float(spent["labels"]), float(spent["rollouts"]), float(spent["updates"])) == (
        15,
        STEPS * SAMPLED,
        4,
    )
    weights = lambda folder: (folder / "model.safetensors").read_bytes()
    assert weights(run / "checkpoints/step-4") != weights(run / "first/checkpoints/step-2")


def test_tables_and_figures_of_rollouts_are_made(study):
    for kind in ("tables", "figures"):
        assert rows(study.folder / f"paper/mini/{kind}/rollouts.csv")
    sampled = [
        row
        for row in rows(study.folder / "results/summaries/mini/gains.csv")
        if row["decoding"] == "sampled"
    ]
    gains = {
        (row["policy"], row["recipe"]): float(row["gain"])
        for row in sampled
        if row["task"] == row["eval_task"]
    }
    reached = {
        (row["minus"], row["minus_recipe"])
        for row in rows(study.folder / "results/summaries/mini/time_to_target.csv")
    }
    assert reached <= {arm for arm, gain in gains.items() if gain > 0}, (
        "only the final accuracy of an arm with a positive gain can be a target"
    )
    assert (study.folder / "paper/mini/tables/time_to_target.csv").is_file()
    assert study.plan(*study.targets) == {}


def test_the_recipes_use_every_selector():
    kinds = {keys["selector"]["kind"] for keys in RECIPES.values() if "selector" in keys}
    assert kinds == set(online_selectors.KINDS)


def test_a_pool_without_a_mixed_group_gives_a_one_line_error(study, tmp_path):
    world = study.copy(tmp_path / "world")

    def change(config):
        config["recipes"]["small_dynamic"] |= {
            "reward": "correct",
            "temperature": 1.0e-6,
            "selector": {"kind": "dynamic", "most_steps": 2},
        }
        config["studies"]["mini"].update(arms=[{"policy": "all", "recipe": "small_dynamic"}])

    world.configure(change)
    done = world.snakemake()
    log = (
        world.folder / "results/logs/train_grpo/tiny/swaps/small_dynamic/all/seed0.log"
    ).read_text()
    assert done.returncode != 0
    assert (
        "error: recipe: selector dynamic: 6 prompts were tried in 2 sampling steps, and only 0 groups were neither all right nor all wrong, but an update needs 3"
        in log
    )
    assert (
        "Traceback" not in log
        and not (
            world.folder / "results/training/tiny/swaps/small_dynamic/all/seed0/updates.csv"
        ).exists()
    )
