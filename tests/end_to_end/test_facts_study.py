"""A study with a task of facts beside one with tiers: from pretraining to the verified paper's
tables."""

import pytest

from conftest import TABLES
from hardgrpo.runtime import files

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "heads": 2,
    "key_value_heads": 2,
    "layers": 2,
    "steps": 40,
    "batch_size": 16,
}


def with_facts(config: dict) -> None:
    config["models"]["knowing"]["source"].update(SMALL, seed=0)
    config["tasks"]["facts"]["test"]["reach"] = {"samples": 4, "seed": 3}
    config["studies"]["mini"].update(
        models=["tiny", "knowing"],
        tasks=["swaps", "facts"],
        arms=[
            {"policy": ["hard", "random"], "recipe": "mini", "models": "tiny", "tasks": "swaps"},
            {"policy": ["hard", "random"], "recipe": "mini", "models": "knowing", "tasks": "facts"},
        ],
    )


@pytest.fixture(scope="module")
def study_with_facts(finished_world, tmp_path_factory):
    """The finished study with a task of facts beside its own; not to be changed."""
    world = finished_world.copy(tmp_path_factory.mktemp("facts") / "world")
    world.configure(with_facts)
    done = world.snakemake(*TABLES, "paper/mini/figures/tiers.csv")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return world


def test_a_task_without_tiers_beside_one_with_tiers(study_with_facts):
    world = study_with_facts
    tables = world.folder / "results/summaries/mini"
    tasks_of = lambda name: {
        row["task"] for row in files.read_rows(tables / f"{name}.csv", {"task": str})
    }
    assert (
        tasks_of("gains")
        == tasks_of("kinds")
        == tasks_of("decomposition")
        == tasks_of("accuracy")
        == {"swaps", "facts"}
    )
    assert tasks_of("tiers") == tasks_of("reasons") == {"swaps"}, (
        "a fact has neither tier nor steps"
    )
    kinds = files.read_rows(tables / "kinds.csv", {"task": str, "tier": str})
    assert {row["tier"] for row in kinds if row["task"] == "facts"} == {None}
    drawn = files.read_rows(world.folder / "paper/mini/figures/tiers.csv", {"task": str})
    assert {row["task"] for row in drawn} == {"swaps"}
    assert "0 failed" in (world.folder / "paper/mini/verified.txt").read_text()
    words = (world.folder / "results/models/knowing/tokenizer.json").read_text()
    assert (
        "Zell" in words
        and "Zell" not in (world.folder / "results/models/tiny/tokenizer.json").read_text()
    )


def test_a_study_of_facts_alone(study_with_facts, tmp_path):
    world = study_with_facts.copy(tmp_path / "world")
    world.configure(
        lambda config: config["studies"]["mini"].update(
            models=["knowing"],
            tasks=["facts"],
            arms=[{"policy": ["hard", "random"], "recipe": "mini"}],
            also_tested_on={},
            weaker_signal=[],
        )
    )
    assert "plot_tiers" not in (planned := world.plan()) and "plot_accuracy" in planned, (
        "there are no tiers to draw"
    )
    done = world.snakemake(*TABLES)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 failed" in (world.folder / "paper/mini/verified.txt").read_text()
    assert files.read_rows(world.folder / "results/summaries/mini/tiers.csv", {"task": str}) == []
