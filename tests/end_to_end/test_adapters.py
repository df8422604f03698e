"""LoRA: train and evaluate an adapter; train the same run in two processes, as on several GPUs."""

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

from command_line import assert_refused, command, run
from conftest import RUN
from hardgrpo.runtime import provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.training import base_weights
from hardgrpo.training.pretraining import build_model, build_tokenizer
from interruptible_run import contents, start, states, supervised, wait_for

UPDATES = 6
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}
OPTIONS = {"spec": "spec.yaml", "output": "refused", "state": "refused.state"}


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


def train(folder: Path, name: str, *arguments: str) -> Path:
    """The output folder of a training."""
    assert start(folder, name, *arguments).wait() == 0, (folder / f"{name}.log").read_text()
    return folder / name


@pytest.fixture(scope="module")
def clean(folder) -> Path:
    return train(folder, "clean")


def updates(run: Path) -> list[dict]:
    return list(csv.DictReader((run / "updates.csv").read_text().splitlines()))


def test_a_checkpoint_is_an_adapter_without_the_base_weights(clean, folder):
    step = clean / f"checkpoints/step-{UPDATES}"
    config = json.loads((step / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (4, 8)
    assert config["base_model_name_or_path"] == "results/models/tiny"
    names = {name.rpartition(".")[2].removesuffix("_proj") for name in config["target_modules"]}
    assert names == {"q", "k", "v", "o", "gate", "up", "down"}
    assert {path.name for path in step.glob("*.safetensors")} == {"adapter_model.safetensors"}
    base = AutoModelForCausalLM.from_pretrained(folder / "results/models/tiny", dtype=torch.float32)
    record = json.loads((clean / "provenance.json").read_text())
    assert record["base_sha256"] == base_weights.checksum(base), "training changed the base weights"
    first, *_, last = updates(clean)
    assert float(first["kl"]) == 0 < float(last["kl"]), "the reference must be the base model"


TWO = ("--processes", "2", "--micro-batch", "3", "--track", "tensorboard")


@pytest.fixture(scope="module")
def two(folder) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "curves"))
        return train(folder, "two", *TWO)


@pytest.mark.nightly
def test_two_processes_that_receive_a_signal_stop_after_the_same_update(folder, two):
    """The test signals the process that launches the two processes. A second training resumes from
    the saved state."""
    process = start(folder, "stopped", *TWO)
    wait_for(lambda: states(folder, "stopped"), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    log_text = (folder / "stopped.log").read_text()
    assert log_text.count("error: stopped by SIGTERM after update") == 1
    assert "Traceback" not in log_text
    train(folder, "stopped", *TWO)
    assert json.loads((folder / "stopped/provenance.json").read_text())["resumed_from"] > 0
    assert contents(folder / "stopped") == contents(two)


@pytest.mark.nightly
def test_two_processes_divide_the_same_work(folder, clean, two):
    """With `--track`, the training curves also go to TensorBoard."""
    assert list((folder / "curves").rglob("events.out.tfevents.*"))
    columns = ("step", "prompts", "rollouts", "learning_rate")
    of_one, of_two = ([[row[k] for k in columns] for row in updates(run)] for run in (clean, two))
    assert of_one == of_two
    assert json.loads((two / "provenance.json").read_text())["machine"]["processes"] == 2
    assert sorted(contents(two)) == sorted(contents(clean))


@pytest.mark.nightly
def test_two_processes_have_the_same_losses_as_one_process_on_worked_solutions(folder):
    """Each process has half of an update's texts, and the two halves differ in their number of
    tokens. The loss must be the mean over the tokens of both halves."""
    spec = supervised(folder, yaml.safe_load((folder / "spec.yaml").read_text()))
    spec["training"] |= {"prompts_per_update": 4}
    (folder / "sft.yaml").write_text(yaml.safe_dump(spec))
    log = {}
    for name, arguments in (("sft_one", []), ("sft_two", ["--processes", "2"])):
        done = start(folder, name, *arguments, spec="sft.yaml").wait()
        assert done == 0, (folder / f"{name}.log").read_text()
        log[name] = updates(folder / name)
    assert len({row["tokens_mean"] for row in log["sft_one"]}) > 1
    for one, two in zip(log["sft_one"], log["sft_two"], strict=True):
        columns = ("step", "prompts", "rollouts", "tokens_mean")
        assert [one[name] for name in columns] == [two[name] for name in columns]
        assert float(two["loss"]) == pytest.approx(float(one["loss"]), rel=1e-3)


def test_a_tracker_that_is_not_installed_is_an_error(folder, monkeypatch):
    import train_grpo

    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", command("train_grpo", "--track", "wandb", **OPTIONS)[1:])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError,
        match="track: wandb needs the package wandb: .* -m pip install --require-hashes --no-deps -r envs/tracking.lock",
    ):
        train_grpo.main()
    assert not (folder / "refused").exists()


def test_completions_that_cannot_be_divided_evenly_are_an_error(folder):
    done = run(folder, "train_grpo", "--processes", "5", **OPTIONS)
    assert_refused(done, "12 completions an update do not divide evenly among 5 processes")
    assert not (folder / "refused").exists()


def evaluate(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    limit = yaml.safe_load((folder / "spec.yaml").read_text())["completion_tokens"]
    return run(
        folder, "evaluate", *arguments, problems="results/tasks/swaps/test.jsonl",
        prompt="{question}", grader="final_word", samples=2, greedy=True,
        completion_tokens=limit, seed=2, output="out.csv.gz", completions="out.jsonl.gz",
    )  # fmt: skip


def test_one_engine_evaluates_the_base_and_every_adapter(folder, clean):
    checkpoints = ("--checkpoints", "clean/checkpoints", "--base")
    done = evaluate(folder, "--model", "results/models/tiny", *checkpoints)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("engine transformers starts") == 1
    assert f"{UPDATES + 1} models, 24 completions of each" in done.stdout
    rows = read_table(folder / "out.csv.gz")
    assert {int(row["step"]) for row in rows} == set(range(UPDATES + 1))
    assert len(rows) == 24 * (UPDATES + 1)
    base = read_table(folder / "results/evaluation/tiny/base/swaps.csv.gz")
    assert [row["tokens"] for row in rows if row["step"] == "0"] == [row["tokens"] for row in base]
    texts = [json.loads(line) for line in gzip.open(folder / "out.jsonl.gz", "rt")]
    of_step = lambda step: [row["completion"] for row in texts if row["step"] == step]
    assert of_step(UPDATES) != of_step(0), "the adapter does not change the completions"


def read_table(path: Path) -> list[dict]:
    return list(csv.DictReader(gzip.open(path, "rt")))


def test_an_adapter_of_another_model_is_an_error(folder, clean, tmp_path):
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "layers": 2,
        "heads": 2,
        "key_value_heads": 2,
    }
    sizes |= {"head_size": 32, "context_tokens": 192, "rotary_base": 100.0, "seed": 0}
    tokenizer = build_tokenizer()
    build_model(sizes, tokenizer).save_pretrained(tmp_path / "wide")
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
