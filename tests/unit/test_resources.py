"""The resources that jobs request from a machine or a cluster."""

import json
import shlex
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError
from snakemake.iocontainers import Wildcards
from snakemake.resources import Resource

import project_config
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.names import Names
from hardgrpo.workflow.resources import Machine, read_cluster

CLUSTER = {
    "gpu_partition": "gpu",
    "slurm_partition": "cpu",
    "gpu_name": "nvidia_h100",
    "constraint": "ib",
    "gpu_constraint": "80gb",
}


def job(**wildcards: str) -> Wildcards:
    return Wildcards(fromdict=wildcards)


def machine(cluster=None, change=lambda config: None) -> Machine:
    config = project_config.config()
    change(config)
    config = Configuration.of(config)
    return Machine(config, Names(config, resolve_studies(config)), cluster or {})


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Change to an empty working folder, because the cost model reads results of finished runs
    there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluate(resources: dict, wildcards: Wildcards) -> dict:
    """The values of the resources that are not None."""
    values = {name: value(wildcards) for name, value in resources.items()}
    return {name: value for name, value in values.items() if value is not None}


# --- a profile's entries ---


@pytest.mark.parametrize("name", ["open", "all", "1.5", "a100_80"])
def test_entries_of_a_profile_stay_text(name):
    """Snakemake evaluates these texts as Python, in which `open` would be a function."""
    defaults = {
        "slurm_partition": Resource("slurm_partition", eval(name, {"a100_80": "x"}), raw=name)
    }
    assert read_cluster(defaults) == {"slurm_partition": name}
    assert eval(defaults["slurm_partition"].raw) == name, (
        "the Snakemake inside a job would not read the entry as the same text"
    )


@pytest.mark.parametrize("minutes", ["0", "-5", "1d", "1e3", ""])
def test_a_longest_runtime_that_is_no_number_of_minutes_is_refused(minutes):
    with pytest.raises(WorkflowError, match="longest_runtime"):
        read_cluster({"longest_runtime": Resource("longest_runtime", minutes, raw=repr(minutes))})


# --- GPUs ---


def test_a_job_with_gpus_requests_their_kind_and_partition():
    values = evaluate(machine(CLUSTER).for_gpus(lambda wildcards: 2), job())
    place = values.pop("place")
    assert values == {
        "gpu": 2,
        "gpu_model": "nvidia_h100",
        "cpus_per_task": 8,
        "slurm_partition": "gpu",
        "constraint": "80gb",
    }
    assert place == "2 nvidia_h100 in partition gpu"


def test_a_job_without_gpus_requests_no_kind_of_gpu():
    values = evaluate(machine(CLUSTER).for_gpus(lambda wildcards: 0), job())
    place = values.pop("place")
    assert values == {"gpu": 0, "slurm_partition": "cpu", "constraint": "ib"}
    assert place == "no GPU in partition cpu"


def test_jobs_with_gpus_go_to_the_only_partition_that_is_named():
    values = evaluate(machine({"slurm_partition": "cpu"}).for_gpus(lambda wildcards: 1), job())
    assert values["slurm_partition"] == "cpu"


def test_a_program_receives_its_gpus():
    sampling = machine(CLUSTER | {"gpu_name": "a b"}).for_sampling("probe")
    assert shlex.split(sampling["hardware"](job(model="qwen3-4b"))) == [
        "--gpus",
        "1",
        "--gpu-name",
        "a b",
    ]
    assert sampling["hardware"](job(model="tiny-seed0")) == "--gpus 0"


def test_a_training_receives_the_gpu_settings_of_its_model():
    run = job(model="qwen3-4b", recipe="as_written", task="gsm8k", policy="hard", seed="0")
    resources = machine().for_training()
    words = shlex.split(resources["hardware"](run))
    entry = project_config.config()["models"]["qwen3-4b"]["gpus"]["adapter"]
    assert words[:2] == ["--gpus", str(entry["count"])] and words[
        words.index("--micro-batch") + 1
    ] == str(entry["micro_batch"])
    assert "--vllm-sleep" in words and words[-1] == str(resources["gpu_gib"](run)) != "0"
    assert resources["mem_mb"](run) > 10_000


@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b-instruct", "smollm2-135m"])
def test_a_job_of_a_published_model_on_the_cpu_requests_memory_for_weights_and_one_batch(model):
    run = job(model=model, recipe="mini_adapter", task="gsm8k", policy="hard", seed="0", shard="0")
    weights_mb = memory.parameters(Model.of(project_config.config()["models"][model]).shape) * 4e-6
    for requested_mb in (
        machine().for_training()["mem_mb"](run),
        machine().for_sampling("probe")["mem_mb"](run),
    ):
        assert weights_mb + 4000 < requested_mb < weights_mb + 7000
    evaluation = job(model=model, eval_task="gsm8k_1024")
    assert (
        weights_mb + 4000
        < machine().for_sampling("evaluate_base")["mem_mb"](evaluation)
        < weights_mb + 7000
    )


# --- time ---


def test_each_attempt_gets_more_time_up_to_what_the_cluster_allows():
    run = job(model="qwen3-14b", recipe="as_written", task="gsm8k", policy="hard", seed="0")
    first, second = (machine().minutes("train_grpo")(run, attempt) for attempt in (1, 2))
    assert second > first > 60
    assert machine({"longest_runtime": "60"}).minutes("train_grpo")(run, 1) == 60


def test_a_training_is_warned_before_its_time_limit():
    run = job(model="tiny-seed0", recipe="mini", task="swaps", policy="hard", seed="0")
    resources = machine({"slurm_extra": "--mail-type=END"}).for_training()
    extra, minutes = resources["slurm_extra"](run, 1), resources["runtime"](run, 1)
    assert extra == f"--mail-type=END --signal=TERM@{15 * minutes}"
    long_run = job(model="qwen3-14b", recipe="as_written", task="gsm8k", policy="hard", seed="0")
    assert machine().for_training()["slurm_extra"](long_run, 1) == "--signal=TERM@600"


# --- where jobs run ---


def call(gpu=None, nodes=None):
    gpus = {} if gpu is None else {"gpu": Resource("gpu", gpu)}
    return SimpleNamespace(
        resource_settings=SimpleNamespace(nodes=nodes, cores=8), global_resources=gpus
    )


def test_a_plan_counts_the_gpus_of_this_machine_or_of_the_cluster():
    planned = project_config.config()["plan"]["gpus"]
    assert machine().setting(call(gpu=1)) == {
        "gpu": machine().gpu,
        "gpus": 1,
        "slots": 8,
        "cluster": False,
    }
    assert machine().setting(call())["gpus"] == planned
    assert machine().setting(call(gpu=1, nodes=100)) == {
        "gpu": machine().gpu,
        "gpus": planned,
        "slots": 100,
        "cluster": True,
    }
    json.dumps(machine().setting(call(gpu=1)))
