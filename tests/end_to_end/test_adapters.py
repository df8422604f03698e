"""LoRA: train, kill, resume and evaluate an adapter; train the same run in two processes, as on
several GPUs."""

import csv
import gzip
import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM

import command_line
from command_line import assert_refused, run, run_well
from conftest import RUN
from hardgrpo.runtime.errors import UserError
from hardgrpo.training import base_weights
from interruptible_run import wait_for

UPDATES = 6
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(finished_world, tmp_path_factory) -> Path:
    """A folder with the model and the tasks of the small study, and with the specification of a run
    that has an adapter and a KL term."""
    path = tmp_path_factory.mktemp("adapters")
    (path / "results").symlink_to(finished_world.folder / "results")
    spec = yaml.safe_load((path / f"results/training/{RUN}/spec.yaml").read_text())
    # The small study's model never answers correctly, but sometimes gives an answer. Rewarding any
    # answer gives the model something to learn.
    spec["training"] |= {
        "reward": "finished",
        "adapter": ADAPTER,
        "beta": 0.1,
        "learning_rate": 1e-2,
    }
    spec["training"] |= {"updates": UPDATES, "checkpoint_every": 1}
    (path / "spec.yaml").write_text(yaml.safe_dump(spec))
    return path


def options(name: str) -> dict[str, str]:
    return {"spec": "spec.yaml", "output": name, "state": f"{name}.state"}


def command(name: str, *arguments: str) -> list[str]:
    return command_line.command("train_grpo", *arguments, **options(name))


def train(folder: Path, name: str, *arguments: str) -> str:
    return run_well(folder, "train_grpo", *arguments, **options(name))


@pytest.fixture(scope="module")
def clean(folder) -> Path:
    train(folder, "clean")
    return folder / "clean"


def contents(run: Path) -> dict[str, bytes]:
    run_files = (
        p
        for p in sorted(run.rglob("*"))
        if p.is_file() and p.name not in ("provenance.json", "timing.csv")
    )
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in run_files}


def updates(run: Path) -> list[dict]:
    return list(csv.DictReader((run / "updates.csv").read_text().splitlines()))


def test_a_checkpoint_is_an_adapter_without_the_base_weights(clean, folder):
    step = clean / f"checkpoints/step-{UPDATES}"
    config = json.loads((step / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (
        4,
        8,
        "results/models/tiny",
    )
    assert sorted({name.rpartition(".")[2] for name in config["target_modules"]}) == [
        "down_proj",
        "gate_proj",
        "k_proj",
        "o_proj",
        "q_proj",
        "up_proj",
        "v_proj",
    ]
    assert (step / "adapter_model.safetensors").exists() and not (
        step / "model.safetensors"
    ).exists()
    base = AutoModelForCausalLM.from_pretrained(folder / "results/models/tiny", dtype=torch.float32)
    assert json.loads((clean / "provenance.json").read_text())[
        "base_sha256"
    ] == base_weights.checksum(base), "training changed the base weights"
    assert updates(clean)[0]["kl"] == "0.0" and float(updates(clean)[-1]["kl"]) > 0, (
        "the KL must be 0 in the first update (the reference is the base model) and positive in the last"
    )


def test_a_killed_and_restarted_training_writes_the_same_adapters(folder, clean):
    for kills in range(3):
        process = subprocess.Popen(
            ["nice", "-n", "19", *command("killed")],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        written = lambda: len(list((folder / "killed.state").glob("*/checkpoint-*")))
        wait_for(lambda kills=kills, written=written: written() > kills, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"
    train(folder, "killed")
    assert json.loads((folder / "killed/provenance.json").read_text())["resumed_from"] > 0
    assert contents(folder / "killed") == contents(clean)


TWO = ("--processes", "2", "--micro-batch", "3", "--track", "tensorboard")


@pytest.fixture(scope="module")
def two(folder) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "curves"))
        train(folder, "two", *TWO)
    return folder / "two"


@pytest.mark.nightly
def test_two_processes_that_receive_a_signal_stop_after_the_same_update(folder, two):
    """The test signals the process that launches the two processes. A second training resumes from
    the saved state."""
    with open(folder / "stopped.log", "w") as log:
        process = subprocess.Popen(
            ["nice", "-n", "19", *command("stopped", *TWO)], cwd=folder, stdout=log, stderr=log
        )
        wait_for(lambda: list((folder / "stopped.state").glob("*/checkpoint-*")), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1
    log_text = (folder / "stopped.log").read_text()
    assert (
        log_text.count("error: stopped by SIGTERM after update") == 1
        and "Traceback" not in log_text
    )
    train(folder, "stopped", *TWO)
    assert json.loads((folder / "stopped/provenance.json").read_text())["resumed_from"] > 0
    assert contents(folder / "stopped") == contents(two)


@pytest.mark.nightly
def test_two_processes_divide_the_same_work(folder, clean, two):
    """With `--track`, the training curves also go to TensorBoard."""
    assert list((folder / "curves").rglob("events.out.tfevents.*"))
    columns = ("step", "prompts", "rollouts", "learning_rate")
    assert [[row[k] for k in columns] for row in updates(folder / "two")] == [
        [row[k] for k in columns] for row in updates(clean)
    ]
    assert json.loads((folder / "two/provenance.json").read_text())["machine"]["processes"] == 2
    assert sorted(contents(folder / "two")) == sorted(contents(clean))


def test_a_tracker_that_is_not_installed_is_an_error(folder, monkeypatch):
    import train_grpo

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [*command("tracked", "--track", "wandb")[1:]])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError,
        match="track: wandb needs the package wandb: .* -m pip install --require-hashes --no-deps -r envs/tracking.lock",
    ):
        train_grpo.main()
    assert not (folder / "tracked").exists()


def test_completions_that_cannot_be_divided_evenly_are_an_error(folder):
    done = run(folder, "train_grpo", "--processes", "5", **options("five"))
    assert_refused(done, "12 completions an update do not divide evenly among 5 processes")
    assert not (folder / "five").exists()


def evaluate(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    limit = yaml.safe_load((folder / "spec.yaml").read_text())["completion_tokens"]
    return run(
        folder, "evaluate", *arguments, problems="results/tasks/swaps/test.jsonl",
        prompt="{question}", grader="final_word", samples=2, greedy=True,
        completion_tokens=limit, seed=2, output="out.csv.gz", completions="out.jsonl.gz",
    )  # fmt: skip


def test_one_engine_evaluates_the_base_and_every_adapter(folder, clean):
    done = evaluate(
        folder, "--model", "results/models/tiny", "--checkpoints", "clean/checkpoints", "--base"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("engine transformers starts") == 1
    assert f"{UPDATES + 1} models, 24 completions of each" in done.stdout
    rows = list(csv.DictReader(gzip.open(folder / "out.csv.gz", "rt")))
    assert {int(row["step"]) for row in rows} == set(range(UPDATES + 1)) and len(rows) == 24 * (
        UPDATES + 1
    )
    base = list(
        csv.DictReader(gzip.open(folder / "results/evaluation/tiny/base/swaps.csv.gz", "rt"))
    )
    assert [row["tokens"] for row in rows if row["step"] == "0"] == [row["tokens"] for row in base]
    texts = [json.loads(line) for line in gzip.open(folder / "out.jsonl.gz", "rt")]
    of_step = lambda step: [row["completion"] for row in texts if row["step"] == step]
    assert of_step(UPDATES) != of_step(0), "the adapter does not change the completions"


def test_an_adapter_of_another_model_is_an_error(folder, clean, tmp_path):
    from hardgrpo.runtime import provenance
    from hardgrpo.training.pretraining import build_model, build_tokenizer

    tokenizer = build_tokenizer()
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "layers": 2,
        "heads": 2,
        "key_value_heads": 2,
        "head_size": 32,
    }
    build_model(
        sizes | {"context_tokens": 192, "rotary_base": 100.0, "seed": 0}, tokenizer
    ).save_pretrained(tmp_path / "wide")
    tokenizer.save_pretrained(tmp_path / "wide")
    provenance.write_manifest(tmp_path / "wide")
    (folder / "out.csv.gz").unlink(missing_ok=True)
    done = evaluate(folder, "--model", str(tmp_path / "wide"), "--checkpoints", "clean/checkpoints")
    assert done.returncode == 1 and "size mismatch" in done.stderr
    assert "Traceback" not in done.stderr and not (folder / "out.csv.gz").exists()


def test_a_reward_for_finishing_rewards_wrong_answers_too(clean):
    rows = updates(clean)
    assert all(row["reward_mean"] == row["answered_share"] for row in rows), (
        "each answered completion must be rewarded, because any word after #### is a readable answer"
    )
    assert any(float(row["correct_share"]) < float(row["reward_mean"]) for row in rows)
