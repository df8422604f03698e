"""The input files of jobs."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow import input_files
from hardgrpo.workflow.input_files import InputFiles
from hardgrpo.workflow.names import Names

RUN = {"model": "tiny-seed0", "task": "swaps", "recipe": "mini", "policy": "hard", "seed": "0"}


def job(**wildcards: str) -> SimpleNamespace:
    return SimpleNamespace(**wildcards)


def write_file(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("id\n")


def inputs(change=lambda config: None, **workflow) -> InputFiles:
    """Input functions for the project's configuration after `change`."""
    config = project_config.config()
    change(config)
    config = Configuration.of(config)
    workflow = {"is_main_process": True, "configfiles": ["config.yaml"]} | workflow
    studies = resolve_studies(config)
    return InputFiles(config, studies, Names(config, studies), SimpleNamespace(**workflow))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Make an empty folder the working folder, in which input functions look for files."""
    monkeypatch.chdir(tmp_path)


CUT = {"model": "tiny-seed0", "task": "swaps_once", "eval_task": "swaps_once", "shard": "0", "run": "base"}  # fmt: skip
RECORDED = {"model": "qwen3-4b-recorded", "task": "gsm8k", "eval_task": "gsm8k"}


@pytest.mark.parametrize(
    ("name", "wildcards", "path"),
    [
        # a cut task reads the completions and problems of the task that it is cut from
        ("longer_probe", CUT, "results/probe/tiny-seed0/swaps/shard0.jsonl.gz"),
        ("longer_grades", CUT, "results/evaluation/tiny-seed0/base/swaps.csv.gz"),
        ("longer_completions", CUT, "results/evaluation/tiny-seed0/base/swaps.jsonl.gz"),
        ("pool", CUT, "results/pools/tiny-seed0/swaps/train.jsonl"),
        ("pool_questions", CUT, "results/pools/tiny-seed0/swaps/questions.jsonl"),
        ("test_problems", CUT, "results/pools/tiny-seed0/swaps/test.jsonl"),
        # a model with recorded completions uses all problems of the task
        ("pool", RECORDED, "results/tasks/gsm8k/train.jsonl"),
        ("pool_questions", RECORDED, "results/tasks/gsm8k/questions.jsonl"),
    ],
)
def test_jobs_read_the_completions_and_problems_of_their_task(name, wildcards, path):
    assert getattr(inputs(), name)(job(**wildcards)) == path


QUESTIONS = {"questions": "results/tasks/swaps/questions.jsonl"}
SIGNALS = {"signals": "results/signals/tiny-seed0/swaps.csv"}
SAMPLE = {"sample": "results/subsets/tiny-seed0/swaps/predicted_half/seed0.sample.csv"}


@pytest.mark.parametrize(
    ("policy", "is_labelled", "files"),
    [
        ("hard", True, {"difficulty": "results/difficulty/tiny-seed0/swaps.csv"}),
        # a policy that chooses by the probe of another task, and one by that of another model
        ("hard_once", True, {"difficulty": "results/difficulty/tiny-seed0/swaps_once.csv"}),
        ("half_by_small", True, {"difficulty": "results/difficulty/small-seed0/swaps.csv"}),
        ("agreement_lowest", True, SIGNALS),
        ("predicted_half", True, SIGNALS | SAMPLE),
        # without labels, there are no pass rates
        ("random", False, QUESTIONS),
        ("annotated", False, QUESTIONS | {"annotated": "results/tasks/swaps/annotated.jsonl"}),
    ],
)
def test_a_policy_chooses_by_the_measure_that_it_names(policy, is_labelled, files):
    label = lambda config: config["tasks"]["swaps"].update(labelled=is_labelled)
    assert inputs(label).measures(job(**RUN | {"policy": policy})) == files


def test_a_run_reads_what_its_recipe_and_policy_need():
    supervised = job(**RUN | {"recipe": "mini_sft"})
    assert inputs().training_extras(job(**RUN)) == []
    assert inputs().training_extras(supervised) == ["results/tasks/swaps/solutions.jsonl"]
    in_rounds = job(**RUN | {"policy": "agreement_in_rounds"})
    folder = "results/training/tiny-seed0/swaps/mini/agreement_in_rounds/seed0"
    assert inputs().training_extras(in_rounds) == [f"{folder}/first/checkpoints/manifest.json"]
    assert inputs().training_subset(in_rounds) == f"{folder}/second.csv"
    assert inputs().training_subset(job(**RUN)) == "results/subsets/tiny-seed0/swaps/hard/seed0.csv"


def record(config: dict) -> None:
    config["models"]["qwen3-4b-recorded"]["source"] = {
        "kind": "recorded",
        "recordings": {"gsm8k": {"base": "base.jsonl", "runs": {"hard": "hard/{step}.jsonl"}}},
    }


RECORDED_RUN = job(model="qwen3-4b-recorded", task="gsm8k", policy="hard")


def test_recorded_checkpoints_come_in_the_order_of_their_steps():
    for step in ("100", "20", "0", "last"):
        write_file(f"data/hard/{step}.jsonl")
    assert inputs(record).recorded_steps(RECORDED_RUN) == {
        20: "data/hard/20.jsonl",
        100: "data/hard/100.jsonl",
    }
    assert inputs(record).recorded_checkpoints(RECORDED_RUN) == [
        "data/hard/20.jsonl",
        "data/hard/100.jsonl",
    ]


# --- recordings in the formats of their authors

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ORIGINAL = job(model="mine", task="gsm8k", policy="hard", eval_task="gsm8k")


def record_original(config: dict) -> None:
    recording = {
        "questions": {"train": "train.json", "test": "test.json"},
        "scores": {"test": "{model}/scores.json"},
        "probe": "{model}/train.json",
        "base": "{model}/test.json",
        "runs": {"hard": "runs_{model}/checkpoint-{step}/test.json"},
    }
    config["models"]["mine"] = {
        "source": {
            "kind": "recorded", "repository": "someone/runs", "commit": COMMIT, "local": "runs", "name": "M",
            "recordings": {"gsm8k": recording},
        }
    }  # fmt: skip


def pin(**sizes: int) -> None:
    """Write a lock with checkpoints of run `hard` (s100=5: checkpoint 100 has 5 bytes)."""
    files = {
        f"runs_M/checkpoint-{step[1:]}/test.json": {"bytes": size, "sha256": "0" * 64}
        for step, size in sizes.items()
    }
    Path("inputs.lock").write_text(json.dumps({"repositories": {f"someone/runs@{COMMIT}": files}}))


def test_checkpoints_of_a_repository_are_found_in_the_lock_and_in_the_local_folder():
    pin(s1000=5, s200=5)
    write_file("data/runs/runs_M/checkpoint-30/test.json")
    write_file("data/runs/runs_M/checkpoint-0/test.json")
    assert inputs(record_original).recorded_steps(ORIGINAL) == {
        step: f"results/recordings/mine/gsm8k/hard/checkpoint-{step}.jsonl.gz"
        for step in (30, 200, 1000)
    }


def test_empty_files_of_checkpoints_are_left_out_and_logged(monkeypatch):
    pin(s100=5, s200=0)
    # the local folder may hold another commit; the size in the lock takes precedence
    write_file("data/runs/runs_M/checkpoint-200/test.json")
    Path("data/runs/runs_M/checkpoint-300").mkdir()
    Path("data/runs/runs_M/checkpoint-300/test.json").touch()
    files, lines = inputs(record_original), []
    monkeypatch.setattr(input_files, "logger", SimpleNamespace(info=lines.append))
    assert list(files.recorded_steps(ORIGINAL)) == list(files.recorded_steps(ORIGINAL)) == [100]
    assert len(lines) == 2, "each empty file is logged once"
    for line, step in zip(lines, (200, 300)):
        assert (
            f"runs_M/checkpoint-{step}/test.json is empty (0 bytes)" in line
            and f"checkpoint {step} of hard is left out" in line
        )


def test_a_run_of_a_repository_without_checkpoints_is_reported_as_a_missing_input():
    (path,) = inputs(record_original).recorded_checkpoints(ORIGINAL)
    assert "models.mine.source.recordings.gsm8k.runs.hard" in path and not Path(path).exists()
