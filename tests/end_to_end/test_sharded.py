"""Train all weights in two processes that shard the weights (FSDP2), on the CPU. accelerate shards
only on GPUs, so a sitecustomize.py sets accelerate's type of distribution to MULTI_GPU.
sitecustomize.py also records the calls by which the processes start, shard the layers and delay
sums of gradients."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from safetensors.torch import load_file

from conftest import ROOT, path_of
from hardgrpo.runtime import user_settings
from interruptible_run import WITHOUT_SERVER, contents, states, wait_for

SITECUSTOMIZE = """
import json, os
if "RANK" in os.environ:
    import accelerate, torch
    from accelerate import state
    from torch.distributed import fsdp
    def note(**facts):
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(json.dumps(facts) + "\\n")
    begin, group, wait = state.PartialState.__init__, torch.distributed.init_process_group, accelerate.Accelerator.no_sync
    shard = fsdp.fully_shard
    def begin_with_gpus(self, *arguments, **named):
        is_new = not self.initialized
        begin(self, *arguments, **named)
        if is_new and self.distributed_type == state.DistributedType.MULTI_CPU:
            self.distributed_type = state.DistributedType.MULTI_GPU
    def grouped(*arguments, **named):
        note(hours=named["timeout"].total_seconds() / 3600)
        return group(*arguments, **named)
    def waited(self, model):
        note(waited=True)
        return wait(self, model)
    def sharded(*arguments, mp_policy, **named):
        note(layer=type(arguments[0]).__name__, types=[str(kind) for kind in (mp_policy.param_dtype, mp_policy.reduce_dtype, mp_policy.output_dtype)])
        return shard(*arguments, mp_policy=mp_policy, **named)
    fsdp.fully_shard = sharded
    state.PartialState.__init__, torch.distributed.init_process_group, accelerate.Accelerator.no_sync = begin_with_gpus, grouped, waited
"""
pytestmark = pytest.mark.nightly
TWO = ("--processes", "2", "--micro-batch", "3")


class Place:
    """A folder with the small study's model and tasks, in which `train` trains all weights of the
    model with a KL term."""

    def __init__(self, folder: Path, results: Path):
        self.folder = folder
        (folder / "results").symlink_to(results)
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(SITECUSTOMIZE)

    def environment(self, name: str) -> dict:
        """The environment of a run whose processes load SITECUSTOMIZE. `notes` returns the calls
        that they record."""
        return {
            "PYTHONPATH": f"{self.folder}/site:{ROOT / 'src'}",
            user_settings.KEEP_PYTHONPATH: "1",
            "NOTES": str(self.folder / f"{name}.notes"),
        }

    def command(self, name: str, **changes) -> list[str]:
        spec = yaml.safe_load(
            (self.folder / "results/training/tiny/swaps/mini/hard/seed0/spec.yaml").read_text()
        )
        spec["training"] |= {
            "reward": "finished",
            "beta": 0.1,
            "loss": "grpo",
            "updates": 8,
            "checkpoint_every": 2,
        } | changes
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        return [
            sys.executable,
            path_of("train_grpo"),
            "--spec",
            f"{name}.yaml",
            "--output",
            name,
            "--state",
            f"{name}.state",
        ]

    def train(self, name: str, *arguments: str, env: dict | None = None, **changes) -> str:
        command = [*self.command(name, **changes), *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=WITHOUT_SERVER | (env or {}),
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
        return done.stdout

    def notes(self, name: str) -> list[dict]:
        return [
            json.loads(line) for line in (self.folder / f"{name}.notes").read_text().splitlines()
        ]

    def updates(self, name: str) -> list[dict[str, float]]:
        rows = csv.DictReader((self.folder / name / "updates.csv").read_text().splitlines())
        return [{key: float(value) for key, value in row.items() if value} for row in rows]


@pytest.fixture(scope="module")
def place(finished_world, tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("sharded"), finished_world.folder / "results")


@pytest.fixture(scope="module")
def sharded(place) -> Path:
    output = place.train("sharded", *TWO, env=place.environment("sharded"))
    assert "2 processes, all weights sharded over them (FSDP2)" in output
    return place.folder / "sharded"


def test_sharded_weights_are_trained_like_weights_that_each_process_holds(place, sharded):
    assert "all weights held by each" in place.train("whole", *TWO)
    for sharded_update, whole_update in zip(
        place.updates("sharded"), place.updates("whole"), strict=True
    ):
        assert sharded_update == pytest.approx(whole_update, rel=1e-3, abs=1e-5)
    first, *_, last = place.updates("sharded")
    assert first["kl"] == 0 < last["kl"], "the reference policy must be the untrained model"
    assert any(row["grad_norm"] > 0 for row in place.updates("sharded"))
    sharded_weights, whole_weights = (
        load_file(place.folder / f"{name}/checkpoints/step-8/model.safetensors")
        for name in ("sharded", "whole")
    )
    assert all(
        sharded_weights[name].shape == weights.shape
        and sharded_weights[name].dtype == weights.dtype
        for name, weights in whole_weights.items()
    )


def test_processes_wait_for_hours_and_shard_gradients_after_each_micro_batch(place, sharded):
    """While the first process reads all checkpoints, the second process waits up to three hours. No
    process calls accelerate's `no_sync`, which would keep unsharded gradients between
    micro-batches."""
    notes = place.notes("sharded")
    assert {note["hours"] for note in notes if "hours" in note} == {3}
    assert not [note for note in notes if "waited" in note]


def test_arithmetic_in_bf16_sums_gradients_and_gives_log_probabilities_in_float32(place, sharded):
    """By default, accelerate would round the sums of gradients and the log-probabilities to bf16. A
    training in one process rounds neither."""
    place.train("bf16", *TWO, env=place.environment("bf16"), precision="bf16")
    notes = [note for note in place.notes("bf16") if "types" in note]
    assert {tuple(note["types"]) for note in notes} == {
        ("torch.bfloat16", "torch.float32", "None")
    }, "parameters must be in bf16, sums of gradients in float32, and outputs must keep their type"
    layers = [note["layer"] for note in notes]
    assert layers.count("Qwen3DecoderLayer") == 2 * 2, (
        "two layers of the trained model in two processes"
    )
    assert layers.count("Qwen3ForCausalLM") == 2 * 2, (
        "the trained model and the reference in two processes"
    )
    assert place.updates("bf16")[0]["kl"] < 1e-4, (
        "the policy and the reference must both compute in bf16"
    )


def test_a_killed_and_restarted_training_writes_the_same_weights(place, sharded):
    with open(place.folder / "log", "w") as log:
        command = ["nice", "-n", "19", *place.command("killed"), *TWO]
        process = subprocess.Popen(
            command,
            cwd=place.folder,
            stdout=log,
            stderr=log,
            env=WITHOUT_SERVER | place.environment("killed"),
        )
        wait_for(
            lambda: any(
                (path / "manifest.json").exists() for path in states(place.folder, "killed")
            ),
            process,
        )
        children = psutil.Process(process.pid).children(recursive=True)
        for child in children:
            child.kill()
        psutil.wait_procs(children, timeout=60)
        assert process.wait() == 1, (place.folder / "log").read_text()[-3000:]
    place.train("killed", *TWO, env=place.environment("killed"))
    assert json.loads((place.folder / "killed/provenance.json").read_text())["resumed_from"] >= 2
    assert contents(place.folder / "killed") == contents(sharded)


@pytest.mark.vllm
def test_vllm_receives_complete_weights_of_a_sharded_training(place):
    place.train(
        "vllm",
        *TWO,
        env=place.environment("vllm"),
        generation="vllm",
        precision="bf16",
        learning_rate=2e-2,
    )
    rows = place.updates("vllm")
    assert max(row["logp_difference_mean"] for row in rows) < 0.05, (
        "vLLM must sample with the weights that are trained"
    )
    assert rows[0]["kl"] < 1e-4
