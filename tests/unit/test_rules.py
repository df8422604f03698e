"""What rules accept, read and pass to programs, where tests/workflow/commands.txt does not show it."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake.iocontainers import Wildcards

import project_config
from hardgrpo.study import load
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow import input_files
from hardgrpo.workflow.arguments import Arguments
from hardgrpo.workflow.input_files import InputFiles
from hardgrpo.workflow.names import Names, any_of

RUN = {"model": "tiny-seed0", "task": "swaps", "recipe": "mini", "policy": "hard", "seed": "0"}


def job(**wildcards: str) -> Wildcards:
    return Wildcards(fromdict=wildcards)


def functions(kind: type, changes: dict | None = None):
    """The functions of rules, by the project's configuration with `changes`."""
    config = Configuration.of(load.lay_over(project_config.config(), changes or {}))
    workflow = SimpleNamespace(
        is_main_process=True,
        configfiles=["config.yaml"],
        basedir=str(project_config.ROOT),
        dag_settings=SimpleNamespace(targets=set()),
    )
    studies = resolve_studies(config)
    return kind(config, studies, Names(config, studies), workflow)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Make an empty folder the working folder, in which input functions look for files."""
    monkeypatch.chdir(tmp_path)


def test_a_constraint_matches_its_names_and_nothing_else():
    names = ("qwen2.5-3b", "qwen2x5-3b", "a|b", "a", "")
    pattern = any_of(["qwen2.5-3b", "a|b"])
    assert [name for name in names if re.fullmatch(pattern, name)] == ["qwen2.5-3b", "a|b"]
    assert not re.search(any_of([]), "hard")


def test_rules_accept_the_bases_of_replicates_and_the_base_that_probes_for_the_subset():
    changes = {
        "policies": {"own": {"rule": "nearest_half", "probed_by": "steady", "budget": 0.1}},
        "subset": {"model": "tiny", "task": "swaps", "policy": "own", "seed": 987},
    }
    names = functions(InputFiles, changes).names
    assert {"tiny-seed0", "tiny-seed987", "steady-seed987"} <= set(names.pretrained)
    assert "tiny" not in names.sampled


def test_the_order_of_keys_in_the_configuration_changes_no_argument():
    """Otherwise, an edit that changes nothing would train again."""
    config = project_config.config()
    for section in ("tasks", "policies", "recipes"):
        config[section] = {
            name: dict(reversed(entry.items())) for name, entry in config[section].items()
        }
    wildcards = job(**RUN, study="mini", split="train")
    for name in ("source", "policy", "spec", "study", "design", "prices", "conditions", "pretraining"):  # fmt: skip
        before, after = (functions(Arguments, changes) for changes in ({}, config))
        assert getattr(before, name)(wildcards) == getattr(after, name)(wildcards), name


def test_a_value_with_quotes_reaches_the_program_unchanged():
    system = """it's "quoted" $HOME `ls`"""
    arguments = functions(Arguments, {"models": {"qwen3-4b": {"chat": {"system": system}}}})
    words = shlex.split(arguments.sampling(job(model="qwen3-4b")))
    assert json.loads(words[3]) == {"enable_thinking": False, "system": system}


def test_a_cut_probe_with_fewer_samples_states_both_numbers():
    changes = {"tasks": {"swaps_once": {"probe": {"samples": 2}}}}
    fewer = functions(Arguments, changes).fewer_samples
    assert fewer(job(task="swaps_once")) == " --samples 2 --of 8"


# --- recorded checkpoints

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RECORDED = job(model="mine", task="gsm8k", policy="hard")
OWN = {"kind": "recorded", "recordings": {"gsm8k": {"base": "b.jsonl", "runs": {"hard": "hard/{step}.jsonl"}}}}  # fmt: skip
OF_REPOSITORY = {
    "kind": "recorded", "repository": "someone/runs", "commit": COMMIT, "local": "runs", "name": "M",
    "recordings": {
        "gsm8k": {
            "questions": {"train": "train.json", "test": "test.json"},
            "probe": "{model}/train.json",
            "base": "{model}/test.json",
            "runs": {"hard": "runs_{model}/checkpoint-{step}/test.json"},
        }
    },
}  # fmt: skip


def write_file(path: str, text: str = "id\n") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def recorded(source: dict) -> InputFiles:
    return functions(InputFiles, {"models": {"mine": {"source": source}}})


def test_recorded_checkpoints_come_in_the_order_of_their_steps():
    for step in ("100", "20", "0", "last"):
        write_file(f"data/hard/{step}.jsonl")
    steps = {20: "data/hard/20.jsonl", 100: "data/hard/100.jsonl"}
    assert recorded(OWN).recorded_steps(RECORDED) == steps
    assert recorded(OWN).recorded_checkpoints(RECORDED) == list(steps.values())


def test_checkpoints_of_a_repository_are_in_the_lock_or_the_local_folder_and_not_empty(monkeypatch):
    """The local folder may hold another commit; the size in the lock takes precedence."""
    pinned = {
        f"runs_M/checkpoint-{step}/test.json": {"bytes": size, "sha256": "0" * 64}
        for step, size in {"1000": 5, "200": 5, "100": 0}.items()
    }
    write_file("inputs.lock", json.dumps({"repositories": {f"someone/runs@{COMMIT}": pinned}}))
    for step, text in (("30", "id\n"), ("0", "id\n"), ("100", "id\n"), ("300", "")):
        write_file(f"data/runs/runs_M/checkpoint-{step}/test.json", text)
    inputs, lines = recorded(OF_REPOSITORY), []
    monkeypatch.setattr(input_files, "logger", SimpleNamespace(info=lines.append))
    folder = "results/recordings/mine/gsm8k/hard"
    steps = {step: f"{folder}/checkpoint-{step}.jsonl.gz" for step in (30, 200, 1000)}
    assert inputs.recorded_steps(RECORDED) == inputs.recorded_steps(RECORDED) == steps
    empty = [re.search(r"checkpoint-\d+", line)[0] for line in lines if " is empty" in line]
    assert empty == ["checkpoint-100", "checkpoint-300"], "each empty file is logged once"


def test_a_run_of_a_repository_without_checkpoints_is_reported_as_a_missing_input():
    (path,) = recorded(OF_REPOSITORY).recorded_checkpoints(RECORDED)
    assert "models.mine.source.recordings.gsm8k.runs.hard" in path and not Path(path).exists()
