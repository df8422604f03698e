"""With `probe: {..., stop: true}`, `snakemake subset` writes the same subset as with
full probing, from fewer samples."""

import json

import pytest
import yaml
from test_own_prompts import TABLE

from command_line import assert_refused, run
from conftest import World
from hardgrpo.runtime import files
from own_prompts import OVERLAY, SAMPLES, TASK, as_csv, choose_subset, make_world

STOPPING = TASK | {"probe": {"samples": SAMPLES, "shards": 1, "seed": 1, "stop": True}}
POLICIES = {"half": {"rule": "hard", "budget": 0.2}, "centre": {"rule": "middle", "budget": 0.2}}
SUBSET = "results/subsets/mine/mine/half/seed3"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory, untrained) -> tuple[World, World]:
    """Two worlds with the same pool, one probed in full and one with `stop`, each with its
    subset."""
    built = []
    for name, task in (("full", TASK), ("early", STOPPING)):
        overlay = OVERLAY | {"policies": POLICIES, "tasks": {"mine": task}}
        folder = tmp_path_factory.mktemp(name)
        world = make_world(folder, untrained, overlay, prompts_csv=as_csv(TABLE))
        world.planned = world.plan("subset", "--configfile", "my.yaml")
        world.rows, world.description = choose_subset(world)
        built.append(world)
    return tuple(built)


def completions(world) -> dict:
    paths = sorted((world.folder / "results/probe/mine/mine").glob("*.gz"))
    return {
        (row["id"], row["sample"]): row
        for path in paths
        for row in files.read_jsonl(path, {"id": str})
    }


def test_the_subset_equals_that_of_full_probing_byte_for_byte(worlds):
    full, early = worlds
    assert early.planned["probe_early"] == 1 and "probe" not in early.planned
    for end in (".csv", ".rows.csv"):
        subset, expected = ((world.folder / (SUBSET + end)).read_bytes() for world in (early, full))
        assert subset == expected
    for key in ("policy", "seed", "pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate"):  # fmt: skip
        assert early.description[key] == full.description[key], key


def test_an_early_stopped_probe_has_the_first_samples_of_each_prompt(worlds):
    full, early = worlds
    some, everything = completions(early), completions(full)
    assert (
        len(some)
        == early.description["probe_samples"]
        < early.description["probe_samples_in_full"]
        == len(everything)
    )
    assert_samples_of(some, everything)
    assert all((name, sample - 1) in some for name, sample in some if sample), (
        "the samples of a prompt must have consecutive numbers from 0"
    )


def test_the_table_of_difficulties_has_the_numbers_of_samples(worlds):
    full, early = worlds
    columns = {"id": str, "samples": int, "correct": int, "pass_rate": float}
    path = "results/difficulty/mine/mine.csv"
    rates = {row["id"]: row["pass_rate"] for row in files.read_rows(full.folder / path, columns)}
    assert "planned" not in (full.folder / path).read_text()
    rows = files.read_rows(early.folder / path, columns | {"planned": int})
    sampled_ids = [problem_id for problem_id, _ in completions(early)]
    for row in rows:
        assert row["samples"] == sampled_ids.count(row["id"]) and row["planned"] == SAMPLES
        is_complete = row["samples"] == SAMPLES
        assert row["pass_rate"] == (rates[row["id"]] if is_complete else None)
    assert 0 < sum(row["samples"] == SAMPLES for row in rows) < len(rows)


def test_planning_again_plans_nothing_and_another_policy_probes_in_full(worlds, tmp_path):
    copy = worlds[1].copy(tmp_path / "world")
    assert copy.plan("subset", "--configfile", "my.yaml") == {}
    (copy.folder / "other.yaml").write_text(yaml.safe_dump({"subset": {"policy": "centre"}}))
    done = copy.snakemake("-n", "subset", "--configfile", "my.yaml", "other.yaml")
    output = done.stdout + done.stderr
    assert (
        "tasks.mine.probe.stop is ignored, so every prompt gets all its samples: rule middle of policy 'centre' cannot stop early"
        in output
    )
    assert {"probe", "measure_difficulty", "select_subset"} <= set(
        copy.plan("subset", "--configfile", "my.yaml", "other.yaml")
    )


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("middle", "policy rule middle needs every pass rate"),
        ("easy", "policy rule easy, seed 3: the probe stopped when it had decided another subset"),
    ],
)
def test_a_subset_that_the_bounds_do_not_decide_is_refused(worlds, rule, words):
    path, policy = (
        worlds[1].folder / "results/difficulty/mine/mine.csv",
        {"rule": rule, "budget": 0.2},
    )
    arguments = {"difficulty": path, "policy": json.dumps(policy), "seed": 3, "output": "o.csv"}
    done = run(path.parent, "select_subset", **arguments)
    assert_refused(done, f"error: {path}: {words}", "take `stop` out of the task's probe")


def test_several_shards_are_refused_and_a_study_s_task_is_probed_in_full(world):
    def stop(config: dict) -> None:
        config["tasks"]["arithmetic"]["probe"].pop("held_out")
        config["tasks"]["arithmetic"]["probe"]["stop"] = True

    world.configure(stop)
    world.configure(
        lambda config: config["subset"].update(model="tiny", task="arithmetic", policy="hard")
    )
    done = world.snakemake("-n", "subset")
    assert (
        "tasks.arithmetic.probe.stop is ignored, so every prompt gets all its samples: "
        in done.stdout + done.stderr
    )
    assert done.returncode == 0 and "probe_early" not in done.stdout + done.stderr
    world.configure(lambda config: config["tasks"]["arithmetic"]["probe"].update(shards=2))
    done = world.snakemake("-n", "subset")
    assert done.returncode != 0
    assert "tasks.arithmetic.probe.shards: 2 shards cannot stop early" in done.stdout + done.stderr


def assert_samples_of(some: dict, everything: dict) -> None:
    """Assert that each row of `some` equals its row in `everything`. The sixth decimal of the
    log-probability may differ, because matrix products of another shape are rounded
    differently."""
    for key, row in some.items():
        close = pytest.approx(everything[key]["log_probability"], rel=0, abs=2e-6)
        assert row == everything[key] | {"log_probability": row["log_probability"]}
        assert row["log_probability"] == close
