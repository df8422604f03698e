"""Train all weights in two processes that shard the weights (FSDP2), on the CPU. accelerate shards
only on GPUs, so a sitecustomize.py sets accelerate's type of distribution to MULTI_GPU.
sitecustomize.py also records the calls by which the processes start, shard the layers and delay
sums of gradients."""

import csv
import json
from pathlib import Path

import psutil
import pytest
import yaml
from safetensors.torch import load_file

from conftest import ROOT, RUN
from hardgrpo.runtime import user_settings
from interruptible_run import WITHOUT_SERVER, complete_checkpoints, contents, start, wait_for

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


KEYS = {"reward": "finished", "beta": 0.1, "loss": "grpo", "updates": 8, "checkpoint_every": 2}


class Place:
    """A folder with the small study's model and tasks, in which `train` trains all weights of the
    model with a KL term."""

    def __init__(self, folder: Path, results: Path):
        self.folder = folder
        (folder / "results").symlink_to(results)
        (folder / "site").mkdir()
        (folder / "site/sitecustomize.py").write_text(SITECUSTOMIZE)

    def start(self, name: str, is_sharded: bool = True, **changes):
        """Start a run in two processes. If it is sharded, they load SITECUSTOMIZE, and `notes`
        returns the calls that they record."""
        spec = yaml.safe_load((self.folder / f"results/training/{RUN}/spec.yaml").read_text())
        spec["training"] |= KEYS | changes
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        variables = {
            "PYTHONPATH": f"{self.folder}/site:{ROOT / 'src'}",
            user_settings.KEEP_PYTHONPATH: "1",
            "NOTES": str(self.folder / f"{name}.notes"),
        }
        env = WITHOUT_SERVER | (variables if is_sharded else {})
        return start(self.folder, name, *TWO, spec=f"{name}.yaml", env=env)

    def train(self, name: str, is_sharded: bool = True, **changes) -> Path:
        assert self.start(name, is_sharded, **changes).wait() == 0, self.log(name)
        return self.folder / name

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def notes(self, name: str) -> list[dict]:
        return [json.loads(line) for line in open(self.folder / f"{name}.notes")]

    def updates(self, name: str) -> list[dict[str, float]]:
        rows = csv.DictReader((self.folder / name / "updates.csv").read_text().splitlines())
        return [{key: float(value) for key, value in row.items() if value} for row in rows]


@pytest.fixture(scope="module")
def place(finished_world, tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("sharded"), finished_world.folder / "results")


@pytest.fixture(scope="module")
def sharded(place) -> Path:
    place.train("sharded")
    assert "2 processes, all weights sharded over them (FSDP2)" in place.log("sharded")
    return place.folder / "sharded"


def test_sharded_weights_are_trained_like_weights_that_each_process_holds(place, sharded):
    whole = place.train("whole", is_sharded=False)
    assert "all weights held by each" in place.log("whole")
    updates = place.updates("sharded")
    for update, whole_update in zip(updates, place.updates("whole"), strict=True):
        assert update == pytest.approx(whole_update, rel=1e-3, abs=1e-5)
    first, *_, last = updates
    assert first["kl"] == 0 < last["kl"], "the reference policy must be the untrained model"
    assert any(row["grad_norm"] > 0 for row in updates)
    sharded_shapes, whole_shapes = (
        {name: (weights.shape, weights.dtype) for name, weights in load_file(run / "checkpoints/step-8/model.safetensors").items()}
        for run in (sharded, whole)
    )  # fmt: skip
    assert whole_shapes.items() <= sharded_shapes.items()


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
    place.train("bf16", precision="bf16")
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
    process = place.start("killed")
    wait_for(lambda: complete_checkpoints(place.folder, "killed"), process)
    children = psutil.Process(process.pid).children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=60)
    assert process.wait() == 1, place.log("killed")[-3000:]
    killed = place.train("killed")
    assert json.loads((killed / "provenance.json").read_text())["resumed_from"] >= 2
    assert contents(killed) == contents(sharded)


@pytest.mark.vllm
def test_vllm_receives_complete_weights_of_a_sharded_training(place):
    place.train("vllm", generation="vllm", precision="bf16", learning_rate=2e-2)
    rows = place.updates("vllm")
    assert max(row["logp_difference_mean"] for row in rows) < 0.05, (
        "vLLM must sample with the weights that are trained"
    )
    assert rows[0]["kl"] < 1e-4
