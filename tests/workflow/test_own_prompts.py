"""A user's own prompts and model: `snakemake subset --configfile my.yaml` exports the rows of the
chosen prompts."""

import csv
import io
import json

import pytest
import yaml

import project_config
from conftest import ROOT, World
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, load
from own_prompts import (
    OVERLAY,
    SAMPLES,
    TASK,
    as_csv,
    check_order,
    choose_subset,
    make_world,
    read_answers,
)

SAYINGS = [
    'Say "one",\nthen two', "plain", "a, b; c\td", "é ü 語", "'single'", " spaces ", "{question}",
    "#### 1", "\\boxed{2}", "$x$",
]  # fmt: skip
TABLE = [
    {"name": f"n{i}", "level": str(i % 3), "my prompt": f"{SAYINGS[i % 10]} {i}", "note": SAYINGS[-i % 10], "gold": ["red", "Blue."][i % 2]}
    for i in range(20)
]  # fmt: skip


@pytest.fixture(scope="module")
def answered(tmp_path_factory, untrained) -> World:
    world = make_world(
        tmp_path_factory.mktemp("answered"), untrained, prompts_csv="\ufeff" + as_csv(TABLE)
    )
    world.planned = world.plan("subset", "--configfile", "my.yaml")
    world.rows, world.description = choose_subset(world)
    return world


def test_only_files_that_the_subset_needs_are_planned_and_made(answered):
    assert answered.planned == {
        "fetch_model": 1, "prepare_task": 1, "compare_pool": 1, "fit_prompts": 1, "probe": 2, "measure_difficulty": 1, "select_subset": 1, "export_subset": 1, "subset": 1,
    }  # fmt: skip
    folders = {path.name for path in (answered.folder / "results").iterdir()}
    assert folders == {
        "models", "tasks", "pools", "probe", "difficulty", "subsets", "logs", "provenance",
        "reference", "published",
    }  # fmt: skip
    for part in ("results/reference", "paper"):
        new, committed = (
            {path.relative_to(folder) for path in (folder / part).rglob("*") if path.is_file()}
            for folder in (answered.folder, ROOT)
        )
        assert new <= committed
    assert "Study mini" not in answered.output, "the output must show no study"
    assert answered.plan("subset", "--configfile", "my.yaml") == {}


def test_the_pass_rates_equal_those_of_the_probe(answered):
    answers = read_answers(answered)
    gold = {row["name"]: row["gold"].strip(".").lower() for row in TABLE}
    rates = {name: words.count(gold[name]) / SAMPLES for name, words in answers.items()}
    path = answered.folder / "results/difficulty/mine/mine.csv"
    columns = {"id": str, "tier": str, "answered": int, "pass_rate": float}
    levels = {row["name"]: row["level"] for row in TABLE}
    assert {row["id"]: row for row in files.read_rows(path, columns)} == {
        name: {"id": name, "tier": levels[name], "answered": SAMPLES - words.count(None), "pass_rate": rates[name]}
        for name, words in answers.items()
    }  # fmt: skip
    check_order(answered.rows, rates)


def test_chosen_rows_are_exported_unchanged_in_the_order_of_their_rank(answered):
    path = answered.folder / "results/subsets/mine/mine/half/seed3.rows.csv"
    text = path.read_bytes().decode()
    exported_rows = list(csv.DictReader(io.StringIO(text, newline="")))
    by_name = {row["name"]: row for row in TABLE}
    assert exported_rows == [by_name[row["id"]] for row in answered.rows]
    assert text.startswith("name,level,my prompt,note,gold\n") and "\ufeff" not in text
    assert any("\n" in row["my prompt"] + row["note"] for row in exported_rows)
    assert any('"' in row["note"] for row in exported_rows)


def test_facts_about_the_chosen_prompts_are_printed_and_written(answered):
    description, rates = answered.description, [row["pass_rate"] for row in answered.rows]
    assert (description["policy"], description["seed"]) == ({"rule": "hard", "budget": 0.5}, 3)
    assert (description["pool"], description["prompts"]) == (20, 10)
    assert description["mean_pass_rate"] == pytest.approx(sum(rates) / 10)
    assert description["boundary_pass_rate"] == rates[-1]
    policy, mean = json.dumps(description["policy"]), f"{sum(rates) / 10:.3f}"
    assert f"10 of 20 prompts by {policy}, mean pass rate {mean}" in answered.output
    assert "results/subsets/mine/mine/half/seed3.rows.csv" in answered.output


def test_changed_answers_plan_a_new_measurement_and_a_new_subset(answered, tmp_path):
    copy = answered.copy(tmp_path / "world")
    changed = as_csv([row | {"gold": "red"} for row in TABLE])
    (copy.folder / "my data/prompts.csv").write_bytes(changed.encode())
    assert {"prepare_task", "measure_difficulty", "select_subset", "export_subset"} <= set(
        copy.plan("subset", "--configfile", "my.yaml")
    )


def test_another_policy_chooses_from_the_same_pass_rates(answered):
    easy = {"rule": "low_tiers", "highest_tier": 0}
    (answered.folder / "other.yaml").write_text(
        yaml.safe_dump({"policies": {"low": easy}, "subset": {"policy": "low"}})
    )
    arguments = ("subset", "--configfile", "my.yaml", "other.yaml")
    assert answered.plan(*arguments) == {"select_subset": 1, "export_subset": 1, "subset": 1}
    answered.run(*arguments)
    rows = files.read_rows(answered.folder / "results/subsets/mine/mine/low/seed3.csv", {"id": str})
    assert {row["id"] for row in rows} == {row["name"] for row in TABLE if row["level"] == "0"}


@pytest.mark.parametrize("profile", ["laptop", pytest.param("slurm", marks=pytest.mark.nightly)])
def test_a_large_pool_that_was_touched_or_copied_plans_nothing(profile, tmp_path, untrained):
    """Snakemake compares checksums only of files up to `max-checksum-file-size`. The profiles raise
    this size from 1 MB to 1 GB."""
    rows = [{"my prompt": f"{number}: {'long ' * 400}", "gold": "red"} for number in range(1500)]
    columns = {"question": "my prompt", "answer": "gold"}
    source = {"kind": "files", "train": "prompts.csv", "columns": columns}
    overlay = OVERLAY | {"study": "mini", "tasks": {"mine": TASK | {"source": source}}}
    world = make_world(tmp_path, untrained, overlay, prompts_csv=as_csv(rows))
    call = ("results/tasks/mine/questions.jsonl", "--configfile", "my.yaml")
    world.run(*call, *(["--executor", "local"] if profile == "slurm" else []), profile=profile)
    for name in ("my data/prompts.csv", "results/tasks/mine/train.jsonl"):
        path = world.folder / name
        assert path.stat().st_size > 2_000_000
        path.touch()
        assert world.plan(*call, profile=profile) == {}, f"touching {name} must plan nothing"
        path.write_bytes(path.read_bytes())
        assert world.plan(*call, profile=profile) == {}, (
            f"the same bytes of {name} must plan nothing"
        )
    path = world.folder / "my data/prompts.csv"
    path.write_bytes(path.read_bytes().replace(b"7: long", b"7: lone"))
    assert world.plan(*call, profile=profile) == {"prepare_task": 1, "remove_answers": 1}


def test_a_pool_that_is_only_for_a_subset_needs_no_test_split():
    config = load.lay_over(project_config.config(), OVERLAY)
    checks.check(config, "my.yaml")
    config["tasks"]["mine"]["source"].pop("train")
    with pytest.raises(UserError, match="tasks.mine.source: neither 'train' nor 'test' is there"):
        checks.check(config, "my.yaml")
