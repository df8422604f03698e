"""The resources that jobs request from a machine or a cluster."""

import pytest
from snakemake.exceptions import WorkflowError
from snakemake.iocontainers import Wildcards
from snakemake.resources import Resource

import project_config
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.names import Names
from hardgrpo.workflow.resources import Machine, read_cluster

PARTITIONS = {"gpu_partition": "gpu", "slurm_partition": "cpu"}
CLUSTER = PARTITIONS | {"gpu_name": "a b", "constraint": "ib", "gpu_constraint": "80gb"}
CONFIG = Configuration.of(project_config.config())
NAMES = Names(CONFIG, resolve_studies(CONFIG))


def job(**wildcards: str) -> Wildcards:
    return Wildcards(fromdict=wildcards)


def run_of(model: str, recipe: str, task: str = "gsm8k") -> Wildcards:
    return job(model=model, recipe=recipe, task=task, policy="hard", seed="0", shard="0")


def machine(cluster: dict | None = None) -> Machine:
    return Machine(CONFIG, NAMES, cluster or {})


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """An empty working folder: the cost model would read results of finished runs there."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["open", "all", "1.5", "a100_80"])
def test_entries_of_a_profile_stay_text(name):
    """Snakemake evaluates these texts as Python, in which `open` would be a function."""
    defaults = {
        "slurm_partition": Resource("slurm_partition", eval(name, {"a100_80": "x"}), raw=name)
    }
    assert read_cluster(defaults) == {"slurm_partition": name}
    assert eval(defaults["slurm_partition"].raw) == name, "in the Snakemake inside a job"


@pytest.mark.parametrize("minutes", ["0", "-5", "1d", ""])
def test_a_longest_runtime_that_is_no_number_of_minutes_is_refused(minutes):
    with pytest.raises(WorkflowError, match="longest_runtime"):
        read_cluster({"longest_runtime": Resource("longest_runtime", minutes, raw=repr(minutes))})


@pytest.mark.parametrize(
    ("cluster", "gpus", "expected"),
    [
        (CLUSTER, 2, {"gpu": 2, "gpu_model": "a b", "cpus_per_task": 8, "slurm_partition": "gpu", "constraint": "80gb", "place": "2 a b in partition gpu"}),
        (CLUSTER, 0, {"gpu": 0, "slurm_partition": "cpu", "constraint": "ib", "place": "no GPU in partition cpu"}),
        ({"slurm_partition": "cpu"}, 1, {"gpu": 1, "cpus_per_task": 4, "slurm_partition": "cpu", "place": "1 GPU in partition cpu"}),
    ],
)  # fmt: skip
def test_a_job_requests_its_gpus_and_the_place_that_the_profile_names(cluster, gpus, expected):
    resources = machine(cluster).for_gpus(lambda wildcards: gpus)
    evaluate = lambda name, value: Resource(name, value).evaluate(job(), rulename="probe").value
    values = {name: evaluate(name, value) for name, value in resources.items()}
    assert {name: value for name, value in values.items() if value is not None} == expected


def test_a_program_receives_the_kind_of_its_gpus():
    hardware = machine(CLUSTER).for_sampling("probe")["hardware"]
    assert hardware(job(model="qwen3-4b")) == "--gpus 1 --gpu-name 'a b'"
    assert hardware(job(model="tiny-seed0")) == "--gpus 0"


@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b-instruct", "smollm2-135m"])
def test_a_job_of_a_published_model_on_the_cpu_requests_memory_for_weights_and_one_batch(model):
    weights_mb = memory.parameters(CONFIG.models[model].shape) * 4e-6
    run, evaluation = run_of(model, "mini_adapter"), job(model=model, eval_task="gsm8k_1024")
    for requested_mb in (
        machine().for_training()["mem_mb"](run),
        machine().for_sampling("probe")["mem_mb"](run),
        machine().for_sampling("evaluate_base")["mem_mb"](evaluation),
    ):
        assert weights_mb + 4000 < requested_mb < weights_mb + 7000


def test_a_training_is_warned_before_its_time_limit():
    short = run_of("tiny-seed0", "mini", "swaps")
    resources = machine({"slurm_extra": "--mail-type=END"}).for_training()
    seconds = 15 * resources["runtime"](short, 1)
    assert resources["slurm_extra"](short, 1) == f"--mail-type=END --signal=TERM@{seconds}"
    long_run = run_of("qwen3-14b", "as_written")
    assert machine().for_training()["slurm_extra"](long_run, 1) == "--signal=TERM@600"
    first, second = (machine().for_training()["runtime"](long_run, attempt) for attempt in (1, 2))
    assert second > first > 60
