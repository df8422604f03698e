"""Resources that jobs request: GPUs, memory, time, and the partition and account that the profile
names."""

import functools
import json
import math
import re
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from snakemake.iocontainers import Wildcards
from snakemake.resources import Resource

from hardgrpo.planning import calibration, durations, server_costs
from hardgrpo.runtime.gpu_kinds import GPUS
from hardgrpo.sampling.requests import MAX_SEQUENCES
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import CORES_PER_GPU, Shape, TrainingGpus
from hardgrpo.workflow.entries import Entries
from hardgrpo.workflow.failures import WorkflowError, raises_workflow_error
from hardgrpo.workflow.names import Names

# Entries of a profile's default-resources that describe the cluster.
CLUSTER_ENTRIES = (
    "slurm_account",
    "slurm_partition",
    "slurm_extra",
    "gpu_partition",
    "gpu_name",
    "constraint",
    "gpu_constraint",
    "longest_runtime",
)


def read_cluster(default_resources) -> dict[str, str]:
    """The cluster's entries in default-resources, as text. Snakemake evaluates default-resources as
    Python expressions (a partition `open` would become Python's function), so each entry is
    replaced by a quoted string."""
    entries = {}
    for name in set(default_resources) & set(CLUSTER_ENTRIES):
        text = _text(default_resources[name])
        default_resources[name] = Resource(name, text, raw=repr(text))
        entries[name] = text
    if not re.fullmatch("[1-9][0-9]*", entries.get("longest_runtime", "1")):
        raise WorkflowError(
            f"profile: default-resources: longest_runtime: '{entries['longest_runtime']}' is not a number of minutes; write e.g. 1440"
        )
    return entries


def _text(resource: Resource) -> str:
    """The text of a resource that Snakemake has not evaluated."""
    return str(resource.value if resource.raw is None else resource.raw).strip("'\"")


class Machine(Entries):
    """Functions that map the wildcards of a job to the resources that the job requests.
    `cluster_entries` is the result of `read_cluster`; `set_resources` are Snakemake's, by rule, which
    replace what these functions return."""

    def __init__(
        self,
        config: Configuration,
        names: Names,
        cluster_entries: dict[str, str],
        set_resources: Mapping[str, Mapping] = MappingProxyType({}),
    ):
        super().__init__(config, names)
        self.cluster = cluster_entries
        self.set_resources = set_resources
        self.gpu = config.plan.gpu  # `startup.complete` takes the kind from the profile

    def setting(self, workflow) -> dict:
        """The hardware of this call, as the fields of `plans.Setting`."""
        limits, gpus = workflow.resource_settings, workflow.global_resources.get("gpu")
        gpus = None if gpus is None else gpus.value  # None: no profile limits the number of GPUs
        on_cluster = limits.nodes is not None
        return {
            "gpu": self.gpu,
            "gpus": self.config.plan.gpus if on_cluster or gpus is None else gpus,
            "slots": limits.nodes if on_cluster else limits.cores,
            "cluster": on_cluster,
        }

    # --- any job ---

    def for_gpus(self, count_gpus: Callable[[Wildcards], int]) -> dict[str, Callable]:
        """Resources of jobs that may use GPUs. A resource that is None is not set: without GPUs,
        gpu_model must be None, because Snakemake would request zero GPUs of that kind."""

        def entry(*keys: str) -> Callable[[Wildcards], str | None]:
            return lambda wildcards: self._cluster_entry(count_gpus(wildcards), *keys)

        keys_by_resource = {
            "gpu_model": ("gpu_name",),
            "slurm_partition": ("gpu_partition", "slurm_partition"),
            "constraint": ("gpu_constraint", "constraint"),
        }
        # Snakemake calls each function for each job; resources that are never set would waste calls
        entries = {
            resource: entry(*keys)
            for resource, keys in keys_by_resource.items()
            if any(map(self.cluster.get, keys))
        }
        return entries | {
            "gpu": count_gpus,
            "cpus_per_task": lambda wildcards: CORES_PER_GPU * count_gpus(wildcards) or None,
            "place": lambda wildcards, rulename: self._place(count_gpus(wildcards), rulename),
        }

    def minutes(self, rule: str) -> Callable[[Wildcards, int], int]:
        """The walltime of a rule's jobs, at most the cluster's limit. A training that needs longer
        resumes in the next attempt."""

        @raises_workflow_error
        def walltime(wildcards: Wildcards, attempt: int) -> int:
            job = self._job(rule, wildcards)
            estimate = durations.walltime(job, self.gpu, attempt, self._calibration)
            return min(estimate, int(self.cluster.get("longest_runtime", estimate)))

        return walltime

    def _job(self, rule: str, wildcards: Wildcards) -> durations.Job:
        return durations.Job.of(self.config, rule, dict(wildcards.items()))

    @functools.cached_property
    def _calibration(self) -> calibration.Calibration | None:
        return calibration.read()

    def _cluster_entry(self, gpus: int, gpu_key: str, default_key: str = "") -> str | None:
        """The profile's entry for jobs with or without GPUs."""
        return (self.cluster.get(gpu_key) if gpus else None) or self.cluster.get(default_key)

    def _place(self, gpus: int, rule: str) -> str:
        """A job's GPUs and partition, for its message."""
        place = f"{gpus} {self.cluster.get('gpu_name', 'GPU')}" if gpus else "no GPU"
        rule_resources = self.set_resources.get(rule, {})
        if "slurm_partition" in rule_resources:
            partition = _text(rule_resources["slurm_partition"])
        else:
            partition = self._cluster_entry(gpus, "gpu_partition", "slurm_partition")
        return place + (f" in partition {partition}" if partition else "")

    def _gpu_arguments(self, count: int) -> str:
        """Arguments by which a program checks that it has the GPUs that its job requested."""
        kind = self.cluster.get("gpu_name")
        return f"--gpus {count}" + (f" --gpu-name {shlex.quote(kind)}" if count and kind else "")

    # --- pretraining and sampling ---

    def for_pretraining(self) -> dict[str, Callable | int]:
        return self.for_gpus(lambda wildcards: 0) | {
            "mem_mb": 2000,
            "runtime": self.minutes("pretrain_model"),
        }

    def for_sampling(self, rule: str) -> dict[str, Callable]:
        def place(wildcards: Wildcards) -> str:
            model = self._model(wildcards)
            if not model.is_served:
                return self._place(self._sampling_gpus(wildcards), rule)
            costs = server_costs.describe(self._job(rule, wildcards))
            return f"server {model.source.url}: {costs}"

        return self.for_gpus(self._sampling_gpus) | {
            "place": place,
            "mem_mb": self._sampling_memory,
            "runtime": self.minutes(rule),
            "hardware": self._sampling_arguments,
        }

    def _sampling_gpus(self, wildcards: Wildcards) -> int:
        return self._model(wildcards).sampling_gpus

    def _sampling_arguments(self, wildcards: Wildcards) -> str:
        """The GPUs or the server of a program that samples: a resource, because a changed resource
        does not rerun jobs."""
        model = self._model(wildcards)
        if model.is_served:
            return f"--server {shlex.quote(json.dumps(model.server))}"
        return self._gpu_arguments(self._sampling_gpus(wildcards))

    def _sampling_memory(self, wildcards: Wildcards) -> int:
        """MB of main memory."""
        if gpus := self._sampling_gpus(wildcards):
            return 64000 * gpus
        limit = self._task(wildcards).completion_tokens
        return self._memory_without_gpus(
            wildcards, lambda shape: memory.cpu_sampling_memory(shape, limit, MAX_SEQUENCES)
        )

    def _memory_without_gpus(self, wildcards: Wildcards, estimate: Callable[[Shape], float]) -> int:
        """MB of a job on the CPU. `estimate` maps the shape of a model to GiB."""
        model = self._model(wildcards)
        if wildcards.model in self.names.pretrained or model.is_served:
            return 2000
        shape = durations.model_shape(wildcards.model, model, self.config.data)
        return 6000 if shape is None else math.ceil(1100 * estimate(shape))

    # --- training ---

    def for_training(self) -> dict[str, Callable]:
        return self.for_gpus(self._training_gpus) | {
            "gpu_gib": self._training_gpu_memory,
            "mem_mb": self._training_memory,
            "runtime": self.minutes("train_grpo"),
            "slurm_extra": self._training_signal,
            "hardware": self._training_arguments,
        }

    def _training_gpu_settings(self, wildcards: Wildcards) -> TrainingGpus:
        return self._model(wildcards).training_gpus(self.config.recipes[wildcards.recipe])

    def _training_gpus(self, wildcards: Wildcards) -> int:
        return self._training_gpu_settings(wildcards).count

    def _training_gpu_memory(self, wildcards: Wildcards) -> int:
        """GiB that a run needs on each GPU; 0 on a CPU."""
        if not self._training_gpus(wildcards):
            return 0
        recipe, gib = self.config.recipes[wildcards.recipe], GPUS[self.gpu].gib
        need = memory.run_memory(self._model(wildcards), recipe, self._task(wildcards), gib)
        return math.ceil(need["total"])

    def _training_memory(self, wildcards: Wildcards) -> int:
        """MB of main memory."""
        count, recipe = self._training_gpus(wildcards), self.config.recipes[wildcards.recipe]
        if not count:
            limit = self._task(wildcards).completion_tokens
            return self._memory_without_gpus(
                wildcards, lambda shape: memory.cpu_training_memory(shape, recipe, limit)
            )
        shape = self._model(wildcards).shape
        return math.ceil(1100 * count * memory.main_memory(shape, recipe))

    def _training_signal(self, wildcards: Wildcards, attempt: int) -> str:
        """Slurm sends SIGTERM a quarter of the time limit before its end, at most ten minutes, in
        which the training can finish the current update and save its state."""
        seconds = min(600, 15 * self.minutes("train_grpo")(wildcards, attempt))
        return " ".join(filter(None, [self.cluster.get("slurm_extra"), f"--signal=TERM@{seconds}"]))

    def _training_arguments(self, wildcards: Wildcards) -> str:
        gpus = self._training_gpu_settings(wildcards)
        arguments = self._gpu_arguments(gpus.count)
        if not gpus.count:
            return arguments
        sleep = " --vllm-sleep" if gpus.vllm_sleep else ""
        vllm = f"--vllm-memory {gpus.vllm_memory}{sleep}"
        return f"{arguments} --micro-batch {gpus.micro_batch} {vllm} --gpu-gib {self._training_gpu_memory(wildcards)}"
