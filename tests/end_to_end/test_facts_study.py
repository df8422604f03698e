"""Studies of a task of facts, with and without a second task whose problems have tiers: from
pretraining to the verification of the paper's tables."""

import pytest

from conftest import TABLES
from hardgrpo.runtime import files

SMALL_MODEL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "heads": 2,
    "key_value_heads": 2,
    "layers": 2,
    "steps": 40,
    "batch_size": 16,
}


def add_facts(config: dict) -> None:
    config["models"]["knowing"]["source"].update(SMALL_MODEL, seed=0)
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
    """A copy of the finished study with an added task of facts. Tests must not change the copy."""
    world = finished_world.copy(tmp_path_factory.mktemp("facts") / "world")
    world.configure(add_facts)
    process = world.snakemake(*TABLES)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return world


def test_only_the_task_with_tiers_is_in_the_tables_of_tiers_and_reasons(study_with_facts):
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
    knowing, tiny = (
        (world.folder / f"results/models/{name}/tokenizer.json").read_text()
        for name in ("knowing", "tiny")
    )
    assert "Zell" in knowing and "Zell" not in tiny, "only the facts contain the word Zell"


def test_a_study_of_facts_alone_has_no_tiers(study_with_facts, tmp_path):
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
    process = world.snakemake(*TABLES)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    assert files.read_rows(world.folder / "results/summaries/mini/tiers.csv", {"task": str}) == []
