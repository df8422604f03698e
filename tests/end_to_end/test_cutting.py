"""Truncating the completions of another task at a smaller limit (`cut_from`) gives the same
results as sampling with this smaller limit."""

import csv
import gzip
import json
import re

import pytest
import yaml

from command_line import run_well
from hardgrpo.runtime import files

LIMIT = 14
BASE = "results/evaluation/tiny/base/swaps"


@pytest.fixture
def two_limits(finished):
    def change(config):
        swaps = config["tasks"]["swaps"]
        config["tasks"]["swaps_cut"] = swaps | {"completion_tokens": LIMIT, "cut_from": "swaps"}
        config["tasks"]["swaps_short"] = swaps | {"completion_tokens": LIMIT}
        config["tasks"]["swaps_once"] = swaps | {
            "probe": swaps["probe"] | {"samples": 1},
            "cut_from": "swaps",
        }
        config["policies"]["hard_once"] = {
            "rule": "hard",
            "budget": 0.25,
            "probed_on": "swaps_once",
        }
        config["policies"]["hard_by_cut"] = {
            "rule": "hard",
            "budget": 0.25,
            "probed_on": "swaps_cut",
        }
        config["studies"]["mini"]["also_tested_on"]["swaps"] = ["swaps_cut"]

    finished.configure(change)
    return finished


def content(path) -> list[dict]:
    return list(csv.DictReader(gzip.open(path, "rt").read().splitlines()))


def text_of(path) -> str:
    """The text of a file, with the log-probabilities removed. A log-probability is a mean over all
    tokens of the sampled completion, so it is unknown for a cut completion."""
    return re.sub(r', "log_probability": [^}]*', "", gzip.open(path, "rt").read())


def test_cut_completions_equal_those_sampled_under_the_limit(two_limits):
    world = two_limits
    run = "results/evaluation/tiny/swaps/mini/hard/seed0/swaps_cut.csv.gz"
    targets = [
        f"{BASE}_cut.csv.gz",
        run,
        "results/difficulty/tiny/swaps_cut.csv",
        "results/subsets/tiny/swaps/hard_by_cut/seed0.csv",
    ]
    output = world.run(*targets)
    assert "train_grpo" not in output

    # Sample the base model with the smaller limit, on the same problems.
    task = yaml.safe_load((world.folder / "config.yaml").read_text())["tasks"]["swaps"]
    common = {"model": "results/models/tiny", "prompt": task["prompt"], "completion_tokens": LIMIT}
    run_well(
        world.folder, "evaluate", problems="results/tasks/swaps/test.jsonl",
        grader=task["grader"], samples=task["test"]["samples"], greedy=True,
        seed=task["test"]["seed"], output="short.csv.gz", completions="short.jsonl.gz", **common,
    )  # fmt: skip
    run_well(
        world.folder, "probe", problems="results/tasks/swaps/train.jsonl",
        samples=task["probe"]["samples"], seed=task["probe"]["seed"],
        shards=task["probe"]["shards"], output="shard0.jsonl.gz", **common,
    )  # fmt: skip
    for sampled, cut in (
        ("short.csv.gz", f"{BASE}_cut.csv.gz"),
        ("short.jsonl.gz", f"{BASE}_cut.jsonl.gz"),
        ("shard0.jsonl.gz", "results/probe/tiny/swaps_cut/shard0.jsonl.gz"),
    ):
        assert text_of(world.folder / cut) == text_of(world.folder / sampled), cut
    cut, sampled = (
        files.read_jsonl(world.folder / path, {"tokens": int})
        for path in ("results/probe/tiny/swaps_cut/shard0.jsonl.gz", "shard0.jsonl.gz")
    )
    log_probabilities = [
        (cut_row["log_probability"], sampled_row["log_probability"])
        for cut_row, sampled_row in zip(cut, sampled)
    ]
    assert all(
        cut_value in (None, sampled_value) for cut_value, sampled_value in log_probabilities
    ), "a row must have the sampled completion's log-probability, or None if the completion is cut"
    assert 0 < sum(cut_value is None for cut_value, _ in log_probabilities) < len(log_probabilities)
    rows = content(world.folder / f"{BASE}_cut.csv.gz")
    assert {int(row["truncated"]) for row in rows} == {0, 1}, (
        "the limit must truncate some completions but not all"
    )
    assert [row["truncated"] for row in content(world.folder / f"{BASE}.csv.gz")] != [
        row["truncated"] for row in rows
    ]


def test_a_policy_can_choose_by_one_sample_per_prompt(two_limits):
    world = two_limits
    subset = "results/subsets/tiny/swaps/hard_once/seed0.csv"
    answers = {
        row["id"]: row["answer"]
        for row in map(json.loads, open(world.folder / "results/tasks/swaps/train.jsonl"))
    }
    # This small model solves nothing, so the test inserts some correct answers.
    right = set(sorted(answers)[::2])
    for shard in (world.folder / "results/probe/tiny/swaps").glob("shard*.jsonl.gz"):
        rows = [json.loads(row) for row in gzip.open(shard, "rt")]
        for row in rows:
            if row["id"] in right and row["sample"] != 1:
                row["completion"] = f" #### {answers[row['id']]}"
        files.write_jsonl(shard, rows)
    world.run("results/difficulty/tiny/swaps_once.csv", subset)
    first_grades = {name: int(name in right) for name in answers}
    with open(world.folder / "results/difficulty/tiny/swaps_once.csv") as table:
        rows = list(csv.DictReader(table))
    assert {row["id"]: float(row["pass_rate"]) for row in rows} == first_grades
    with open(world.folder / "results/difficulty/tiny/swaps.csv") as table:
        held_out = {
            row["id"]: (row["held_out"], row["held_out_correct"]) for row in csv.DictReader(table)
        }
    assert {row["id"]: (row["held_out"], row["held_out_correct"]) for row in rows} == held_out
    with open(world.folder / subset) as table:
        grades = [first_grades[row["id"]] for row in csv.DictReader(table)]
    assert sum(grades) == max(0, len(grades) - list(first_grades.values()).count(0)), (
        "prompts with an incorrect completion must be chosen first"
    )
