"""The cost model: estimate the time, tokens and disk of a job for plans and for walltimes on a
cluster.

docs/cluster.md states how accurate the estimates are. A decoding step generates one
token of every sequence: it reads all weights and the cache once, and multiplies the weights with
the current token of every sequence. The time of a decoding step is the larger of bytes / bandwidth
and FLOPs / peak (roofline model), divided by the share of the device's limit that is reached in
practice, plus an overhead for each layer. An update samples its rollouts and trains on them: 2
FLOPs per weight and token in the forward pass, and 2 (with an adapter) or 4 in the backward pass;
`_training` adds the passes that GPUs and some recipes need. The times of finished jobs correct
these estimates (`calibration.py`).
"""

import functools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from hardgrpo.grading.graders import GRADERS
from hardgrpo.runtime import files
from hardgrpo.runtime.gpu_kinds import GPUS, Processor
from hardgrpo.sampling.requests import MAX_SEQUENCES
from hardgrpo.study import memory, paths
from hardgrpo.study import selector as selectors
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import (
    CORES_PER_GPU,
    NO_GPUS,
    Model,
    ModelFolder,
    SamplingGpus,
    Shape,
    TrainingGpus,
    model_of,
)
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.task import HubDataset, Split, Task

CORE = Processor(60e9, 10e9)  # one core of a server, fp32

# Models with at least this hidden size nearly reach a core's peak in products of matrices.
WIDE = 512
# Speed of a core with AMX in bf16, divided by the speed of `CORE` (fp32); measured with
# Qwen2.5-Coder-0.5B-Instruct. On cores without AMX, bf16 is slower than fp32.
BF16_SPEEDUP = 2.6
# The share of the peak performance that is reached in practice. vLLM: the median of three published
# figures (tests/unit/test_durations.py). CPU: measured with model `tiny`. Wide CPU: in an update of
# Qwen2.5-Coder-0.5B-Instruct, a core with AVX-512 reached 1.2 to 1.5 times the peak of `CORE`;
# cores without AVX-512 are slower. Training on GPUs, and sampling with transformers on GPUs:
# assumed, because no run of real size has been measured.
SAMPLING_SHARE = {"vllm": 0.27, "transformers": 0.27, "cpu": 0.2, "wide cpu": 1.0}
TRAINING_SHARE = {"gpu": 0.3, "cpu": 0.5, "wide cpu": 1.0}
# overhead per layer and decoding step; for transformers, measured on the host of an H200 with an
# adapter, beside other jobs (SmolLM2-135M, docs/cluster.md)
LAYER_SECONDS = {"vllm": 2e-5, "transformers": 1.4e-3, "cpu": 7e-4, "wide cpu": 7e-4}
# Least time of a pass (2 FLOPs per weight and token) of a micro-batch through a layer on a GPU, because
# the host starts the kernels one by one. Measured on an H200 with SmolLM2-135M, which has 30 layers:
# 8 s for 5 passes of 16 micro-batches, an upper bound, because it includes a part of UPDATE_SECONDS.
PASS_SECONDS = 3.3e-3
# imports and the start of the engine
START_SECONDS = {"vllm": 90.0, "transformers": 30.0, "cpu": 5.0, "wide cpu": 15.0}
WEIGHTS_PER_SECOND = 1e9  # bytes read from shared storage
DOWNLOAD_PER_SECOND = 50e6  # bytes
SYNC_PER_SECOND = 20e9  # bytes; the trainer copies its weights to vLLM in each update
# per update, for grading, logging, the optimiser, and vLLM's sleep and wake-up
UPDATE_SECONDS = {"gpu": 2.0, "cpu": 0.05, "wide cpu": 0.5}
# processor seconds of Math-Verify per rollout; wrong answers of MATH took 0.025 to 0.053
MATH_SECONDS = 0.04
LIGHT_SECONDS = 4.0  # a job that mostly imports modules
FILL = 0.8  # share of the completion limit that a completion fills on average
# Mean tokens of a prompt with its template: of GSM8K (gpu, wide cpu), and of the miniature's tasks
# (cpu).
PROMPT_TOKENS = {"gpu": 150, "cpu": 40, "wide cpu": 150}
UNKNOWN_PROBLEMS = 1000  # problems of a split of unknown size
UNKNOWN_SECONDS = 7200.0  # assumed time of a job whose model has an unknown size
TEXT_BYTES = 1.5  # bytes on disk per token of a completion, compressed

STAGE_OF_RULE = {  # rules that sample or train; all other rules are light
    "pretrain_model": "pretraining",
    "probe": "probing",
    "probe_early": "probing",
    "train_grpo": "training",
    "train_first_round": "training",
    "probe_again": "probing",
    "evaluate_base": "evaluation",
    "sample_reach": "evaluation",
    "evaluate_run": "evaluation",
}
TRAINING = ("train_grpo", "train_first_round")
# The first attempt requests this multiple of the estimated time, plus 5 minutes; each later attempt
# adds half of the first request.
SAFETY = 2.0
LEAST_MINUTES = 10


@dataclass(frozen=True, eq=False)
class Job:
    """A job of Snakemake, with the objects of the configuration that its wildcards name (None if
    there is none)."""

    config: Configuration
    rule: str
    base: str | None = None  # the wildcard `model`
    task_name: str | None = None  # the task whose pool is probed or trained on
    recipe_name: str | None = None
    policy_name: str | None = None
    test_name: str | None = None  # the wildcard `eval_task`
    results: str = "results"  # the folder of results

    @classmethod
    def of(
        cls, config: Configuration, rule: str, wildcards: dict, results: str = "results"
    ) -> Self:
        names = ("model", "task", "recipe", "policy", "eval_task")
        return cls(config, rule, *map(wildcards.get, names), results)

    @functools.cached_property
    def model(self) -> Model | None:
        is_known = self.base and model_of(self.base) in self.config.models
        return self.config.model(self.base) if is_known else None

    @property
    def task(self) -> Task | None:
        return self.config.tasks.get(self.task_name)

    @property
    def recipe(self) -> Recipe | None:
        return self.config.recipes.get(self.recipe_name)

    @property
    def policy(self) -> Policy | None:
        return self.config.policies.get(self.policy_name)

    @property
    def eval_task(self) -> Task | None:
        return self.config.tasks.get(self.test_name)

    @property
    def is_complete(self) -> bool:
        """Whether the configuration has all that the job names and its rule needs."""
        named_objects = (
            (self.base, self.model),
            (self.task_name, self.task),
            (self.recipe_name, self.recipe),
            (self.policy_name, self.policy),
            (self.test_name, self.eval_task),
        )
        if not all(entry for name, entry in named_objects if name is not None):
            return False
        if self.rule == "pretrain_model":
            return self.model.is_pretrained
        test = self.eval_task and self.eval_task.test
        if self.rule == "sample_reach":
            return bool(test and test.reach)
        return not self.eval_task or bool(test)

    @functools.cached_property
    def shape(self) -> Shape | None:
        return model_shape(self.base, self.model, self.config.data, self.results)

    @functools.cached_property
    def gpus(self) -> TrainingGpus | SamplingGpus:
        """The GPUs that the job needs; count 0 on a CPU."""
        if self.rule == "pretrain_model" or self.model.gpus is None:
            return NO_GPUS
        if self.rule in TRAINING:
            return self.model.training_gpus(self.recipe)
        return self.model.gpus.sampling

    @property
    def device(self) -> str:
        return "gpu" if self.gpus.count else "cpu"

    @property
    def split(self) -> Split:
        """The split for whose problems the job samples completions."""
        if self.eval_task:
            return Split(self.test_name, "test", self.eval_task)
        return Split(self.task_name, "train", self.task)

    @property
    def completion_limit(self) -> int:
        return (self.eval_task or self.task).completion_tokens

    @property
    def updates(self) -> int:
        """Updates that the job trains or whose checkpoints it evaluates: half of the recipe's if
        the policy annotates in two rounds."""
        return self.recipe.updates // (2 if self.policy and self.policy.has_rounds else 1)

    @property
    def checkpoints(self) -> int:
        if self.rule != "evaluate_run":
            return 1
        return self.updates // self.recipe.checkpoint_every

    @property
    def completions(self) -> int:
        """Completions that the job samples, over all its checkpoints."""
        rule = self.rule
        if rule in TRAINING:
            return 0 if self.recipe.is_supervised else self.texts
        if rule in ("probe", "probe_early", "probe_again"):
            pool = problems(self.split, self.results)
            probe = self.task.probe
            if rule == "probe_again":
                return pool * probe.samples
            # an upper bound for probe_early, which stops when the subset is decided
            return -(-pool // probe.shards) * probe.all_samples
        test = self.eval_task.test
        size = problems(self.split, self.results)
        if rule == "sample_reach":
            return size * test.reach.samples
        return size * (test.samples + test.greedy) * self.checkpoints

    @property
    def texts(self) -> int:
        """The completions that the job samples, or the worked solutions that it trains on."""
        if self.rule not in TRAINING:
            return self.completions
        return self.updates * self.recipe.texts_per_update


@dataclass(frozen=True)
class Estimate:
    """The estimated needs of a job. `seconds` includes the start; only `tokens_trained` includes
    prompts."""

    seconds: float
    start_seconds: float = 0.0
    gpus: int = 0
    completions: int = 0
    tokens_generated: float = 0.0
    tokens_trained: float = 0.0
    kept_bytes: float = 0.0  # added on disk after the job; negative if the job deletes files
    scratch_bytes: float = 0.0  # on disk only while the job runs
    is_known: bool = True  # False if the model's size is unknown and `seconds` is `UNKNOWN_SECONDS`

    @property
    def gpu_hours(self) -> float:
        return self.seconds * self.gpus / 3600


def estimate(job: Job, gpu: str, calibration=None) -> Estimate:
    """Time, tokens and disk of a job. `gpu` is a key of `gpu_kinds.GPUS`, `calibration` a
    `calibration.Calibration`."""
    rule = job.rule
    if rule not in STAGE_OF_RULE:
        return _light(job)
    if job.shape is None:
        return Estimate(UNKNOWN_SECONDS, gpus=job.gpus.count, is_known=False)
    medians = calibration.find(job) if calibration else {}
    model_estimate = {
        "train_grpo": _training,
        "train_first_round": _training,
        "pretrain_model": _pretraining,
    }.get(rule, _sampling)(job, gpu, medians.get("fill"))
    return replace(model_estimate, seconds=model_estimate.seconds * medians.get("slowness", 1.0))


def walltime(job: Job, gpu: str, attempt: int, calibration=None) -> int:
    """Minutes to request for the `attempt`-th attempt (from 1)."""
    seconds = estimate(job, gpu, calibration).seconds
    return max(LEAST_MINUTES, round(seconds / 60 * SAFETY + 5)) * (1 + attempt) // 2


def model_shape(name: str, model: Model, data: str, results: str = "results") -> Shape | None:
    """The shape in a model's entry, or in the config.json of a local copy below `results` or
    `data`; None without both."""
    if model.shape:
        return model.shape
    source = model.source
    if model.is_pretrained:
        sizes = {key: value for key, value in source.entry.items() if key in Shape.model_fields}
        return Shape.of(sizes | {"vocabulary": 128, "tied": True})
    path = _below(results, paths.model_folder(name)) / "config.json"
    if not path.exists() and isinstance(source, ModelFolder):
        path = Path(data) / Path(source.path).expanduser() / "config.json"
    return memory.shape_of(files.read_json(path)) if path.exists() else None


def place(shape: Shape, gpus: int) -> str:
    """The key of TRAINING_SHARE and UPDATE_SECONDS: gpu, cpu or wide cpu."""
    return "gpu" if gpus else "wide cpu" if shape.hidden_size >= WIDE else "cpu"


def problems(split: Split, results: str = "results") -> int:
    return known_problems(split, results) or UNKNOWN_PROBLEMS


def known_problems(split: Split, results: str = "results") -> int | None:
    """Number of problems of a split: configured, else counted if the split is prepared, else
    configured before `keep` is applied; None if unknown."""
    source = split.task.source
    is_hub = isinstance(source, HubDataset)
    sizes = source if split.task.is_generated else source.problems if is_hub else None
    stated = getattr(sizes, split.name, None)
    if stated is not None and not (is_hub and source.keep):
        return stated
    prepared = _below(results, paths.problems(split.task_name, split.name))
    if not prepared.is_file():
        return stated
    with open(prepared, "rb") as stream:
        return sum(1 for _ in stream)


def _below(results: str, path: str) -> Path:
    return Path(results, Path(path).relative_to("results"))


def _sampling(job: Job, gpu: str, fill: float | None) -> Estimate:
    count, shape = job.gpus.count, job.shape
    engine = (
        ("transformers" if job.model.engine_name == "transformers" else "vllm")
        if count
        else place(shape, 0)
    )
    limit, amount = job.completion_limit, job.completions
    tokens = amount * limit * (fill or FILL)
    loads = 1
    if job.rule == "evaluate_run" and not job.recipe.adapter:
        loads = job.checkpoints  # each checkpoint is a full model and needs a new engine
    start = loads * _start(shape, engine)
    seconds = sampling_seconds(shape, amount, tokens, limit, engine, gpu, max(1, count))
    seconds /= speedup(engine, job.model.precision)
    return Estimate(start + seconds, start, count, amount, tokens, kept_bytes=tokens * TEXT_BYTES)


def speedup(device: str, precision: str | None) -> float:
    """How much faster than estimated for fp32 (CPU) or bf16 (GPU) a job in `precision` is: a CPU is
    assumed to have AMX."""
    return BF16_SPEEDUP if (device, precision) == ("wide cpu", "bf16") else 1.0


def _start(shape: Shape, engine: str) -> float:
    return START_SECONDS[engine] + memory.parameters(shape) * 2.0 / WEIGHTS_PER_SECOND


def sampling_seconds(
    shape: Shape, amount: float, tokens: float, limit: int, engine: str, gpu: str, count: int
) -> float:
    """Seconds for `amount` completions with `tokens` tokens in total, by a model split over `count`
    devices. A batch has at most `MAX_SEQUENCES` completions, and on a CPU at most as many as fit
    into memory.

    vLLM replaces a finished completion immediately and takes tokens / batch size decoding steps.
    transformers samples a batch until the longest completion ends; the estimate assumes `limit`
    decoding steps per batch.
    """
    if not amount or not tokens:
        return 0.0
    is_cpu = engine.endswith("cpu")
    processor = CORE if is_cpu else GPUS[gpu]
    width = 4.0 if is_cpu else 2.0  # bytes per value
    prompt = PROMPT_TOKENS[engine if is_cpu else "gpu"]
    rows = min(MAX_SEQUENCES, amount)
    if is_cpu:
        rows = memory.rows_at_once(memory.sampled_row_bytes(shape, prompt, limit), math.ceil(rows))
    steps = tokens / rows if engine == "vllm" else math.ceil(amount / rows) * limit
    # Of an untied input embedding, a decoding step reads only the rows of the current tokens. A tied
    # embedding is also the output layer and is read completely.
    weights = memory.parameters(shape) - (0 if shape.tied else memory.embedding_parameters(shape))
    cache = memory.cache_values(shape, 1) * width * (prompt + tokens / amount / 2)
    bytes_read = steps * weights * width + tokens * cache
    flops = 2 * weights * (tokens + amount * prompt)
    busy_seconds = (
        max(bytes_read / processor.bandwidth, flops / processor.flops) / SAMPLING_SHARE[engine]
    )
    return busy_seconds / count + steps * shape.layers * LAYER_SECONDS[engine]


def _training(job: Job, gpu: str, fill: float | None) -> Estimate:
    shape, recipe, updates = job.shape, job.recipe, job.updates
    count, limit = job.gpus.count, job.completion_limit
    device = place(shape, count)
    engine = (recipe.generation or "transformers") if count else device
    amount, sampled = job.texts, job.completions
    tokens = amount * limit * (fill or FILL)
    trained, generated = tokens + amount * PROMPT_TOKENS[device], tokens if sampled else 0.0
    parameters, adapter = memory.parameters(shape), recipe.adapter
    # Each GPU samples an equal part of an update's rollouts, and computes with all weights.
    parts = updates * max(1, count)
    sampling = updates * sampling_seconds(
        shape, sampled / parts, generated / parts, limit, engine, gpu, 1
    )
    # FLOPs per weight and token: 2 for the forward pass, 2 for the gradients of activations, and
    # 2 for the gradients of weights if there is no adapter
    weight_flops = 2 + (2 if adapter else 4)
    # gradient checkpointing recomputes layers in the backward pass
    weight_flops += 2 if count else 0
    weight_flops += 2 if recipe.beta else 0  # the reference policy
    # TRL computes the log-probabilities of vLLM's tokens in a pass of their own
    weight_flops += 2 if recipe.scores_before_update else 0
    share = selectors.trained_share(recipe.entry) if recipe.selector else 1
    trained *= share
    # process rewards: the reference policy forward; the reward model forward, backward, and, after
    # the reward model's update, forward again
    if recipe.process:
        weight_flops += 2 + 2 + (2 if adapter else 4) + (2 if count else 0) + 2
    processor = GPUS[gpu] if count else CORE
    learning = (
        weight_flops
        * parameters
        * trained
        / (processor.flops * TRAINING_SHARE[device])
        / max(1, count)
    )
    if count:
        micro_batches = amount * share / count / job.gpus.micro_batch
        passes = micro_batches * shape.layers * weight_flops / 2
        learning = max(learning, passes * PASS_SECONDS)
    grading = 0.0
    if GRADERS[job.task.grader].needs_math_verify:
        grading = sampled * MATH_SECONDS / max(1, CORES_PER_GPU * count)
    sync = parameters * 2.0 / SYNC_PER_SECOND if engine == "vllm" else 0.0
    start = _start(shape, engine)
    computing = (sampling + learning) / speedup(device, recipe.precision)
    seconds = start + computing + grading + updates * (UPDATE_SECONDS[device] + sync)
    checkpoint_bytes, state_bytes = training_bytes(shape, recipe, updates, count)
    return Estimate(
        seconds, start, count, sampled, generated, trained, checkpoint_bytes, state_bytes
    )


def training_bytes(
    shape: Shape, recipe: Recipe, updates: int, gpus: int = 1
) -> tuple[float, float]:
    """(bytes of the checkpoints, further bytes of the training state): a second copy of the
    checkpoints' weights and, in the newest two checkpoints, the optimiser's state, the reward model
    with its state, and, if weights are sharded, the copy from which shards are loaded."""
    adapter = recipe.adapter
    trained_parameters = (
        memory.adapter_parameters(shape, adapter.rank) if adapter else memory.parameters(shape)
    )
    weights = trained_parameters * (4.0 if adapter or recipe.base == "fp32" else 2.0)
    checkpoint_bytes = weights * (updates // recipe.checkpoint_every)
    reward_model = 4.0 + memory.OPTIMISER_BYTES["adamw"] if recipe.process else 0.0
    shards = 4.0 if gpus > 1 and not adapter else 0.0
    return checkpoint_bytes, checkpoint_bytes + 2 * trained_parameters * (
        memory.OPTIMISER_BYTES[recipe.optimiser] + reward_model + shards
    )


def _pretraining(job: Job, gpu: str, fill: float | None) -> Estimate:
    source, parameters = job.model.source, memory.parameters(job.shape)
    # 80 tokens for a worked solution and its question
    tokens = source.steps * source.batch_size * 80
    start = START_SECONDS["cpu"]
    seconds = start + 6 * parameters * tokens / (CORE.flops * TRAINING_SHARE["cpu"])
    return Estimate(seconds, start, tokens_trained=tokens, kept_bytes=parameters * 4.0)


def _light(job: Job) -> Estimate:
    if job.rule == "fetch_model" and job.shape:
        size = memory.parameters(job.shape) * 2.0
        return Estimate(LIGHT_SECONDS + size / DOWNLOAD_PER_SECOND, kept_bytes=size)
    if job.rule == "prune_checkpoints" and job.shape:
        checkpoint_bytes, _ = training_bytes(job.shape, job.recipe, job.updates)
        last_share = job.recipe.checkpoint_every / job.updates
        return Estimate(LIGHT_SECONDS, kept_bytes=-checkpoint_bytes * (1 - last_share))
    return Estimate(LIGHT_SECONDS)
