"""Sources of weights, and recordings of models."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study import settings
from hardgrpo.study.strict import Commit, Count, Name, Share, Strict


class TrainingGpus(Strict):
    count: Count
    """GPUs per job, one process for each. Where every weight is trained, several GPUs share weights, gradients and
    optimiser state (FSDP)."""

    micro_batch: Count
    """Completions per GPU in one forward and backward pass."""

    vllm_memory: Annotated[float, Field(gt=0, le=0.95)]
    """Share of a GPU's memory that vLLM uses for weights and cache."""

    vllm_sleep: bool
    """true: vLLM frees its memory while the model is updated."""


class HubModel(Strict):
    """A model on the Hugging Face hub."""

    kind: Literal["hub"]
    """The weights are downloaded from the Hugging Face hub."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]
    """Its name on the hub, owner/name."""

    revision: Commit
    """The full commit hash (40 hexadecimal digits) that is downloaded."""

    licence: str
    """The licence of the weights."""

    gated: bool | None = None
    """true: accept the licence on the model's page first, and set HF_TOKEN."""


class ModelFolder(Strict):
    """A model folder on this machine, in Hugging Face's form."""

    kind: Literal["folder"]
    """The weights are in a local folder."""

    path: str
    """The folder: an absolute path, or one below `data`."""


class ModelPackage(Strict):
    """A model whose weights (GGUF) come with a Python package."""

    kind: Literal["package"]
    """The weights come with a Python package."""

    package: str
    """Its name."""

    version: str
    """Its version."""

    file: str
    """The weights' file inside the package; may hold wildcards (*)."""

    licence: str
    """The licence of the weights."""


class DemonstratedShare(Strict):
    """The task's share of the demonstrations, at the beginning and at the end."""

    first: Share
    """Share in the first quarter of the steps."""

    last: Share
    """Share in the second half of the steps. It changes linearly in between."""


class SlipByOperation(Strict):
    plus: Share = Field(alias="+")
    """Addition."""

    minus: Share = Field(alias="-")
    """Subtraction."""

    times: Share = Field(alias="*")
    """Multiplication."""

    divided_by: Share = Field(alias="/")
    """Division."""


class Demonstrations(Strict):
    share: DemonstratedShare

    length: Annotated[list[Annotated[int, Field(ge=1, le=9)]], Field(min_length=1)] | None = None
    """Swaps and arithmetic need it. How many swaps or steps a demonstrated problem may have."""

    slip: Share | SlipByOperation | None = None
    """Swaps and arithmetic need it. Probability that a step is wrong: one number for swaps, one for each operation for
    arithmetic."""

    restated: Annotated[list[Share], Field(min_length=2, max_length=3)] | None = None
    """Swaps only: shares of solutions that repeat all holdings after each swap zero times, once and twice. Repetition
    makes the same solution longer. By default no solution repeats."""

    known: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)] | None = None
    """Facts need it. The two parameters of a beta distribution, from which each fact draws the probability that a
    demonstration shows its right answer, by the base's seed. With parameters below 1, the model knows most facts
    nearly always or nearly never."""

    misconception: Share | None = None
    """Facts need it: the share of a fact's wrong demonstrations that show the fact's own wrong answer; all others show
    any wrong answer. Arithmetic may have it: the probability that a tripling is worked as a doubling, so that wrong
    completions of the model agree."""


class Pretrained(Strict):
    """A Qwen3 model trained here from scratch on demonstrations of generated tasks."""

    kind: Literal["pretrain"]
    """The weights are trained here."""

    hidden_size: Count
    """Width."""

    intermediate_size: Count
    """Width of the feed-forward layers."""

    layers: Count
    """Transformer layers."""

    heads: Count
    """Attention heads."""

    key_value_heads: Count
    """Heads of keys and values. The number of heads must be a multiple of it."""

    head_size: Annotated[int, Field(ge=2, multiple_of=2)]
    """Width of a head: even, and at least 32 for vLLM on the CPU."""

    rotary_base: Annotated[float, Field(gt=1)]
    """Base of the rotary position embedding (rope_theta)."""

    context_tokens: Count
    """Longest prompt and completion together, in tokens."""

    seed: Annotated[int, Field(ge=0, le=4294967295)] | Literal["own"]
    """Random seed of the initial weights and of the demonstrations. `own`: each seed of a study pretrains its own base
    model, so that intervals also cover the variation between base models."""

    steps: Count
    """Optimiser steps."""

    batch_size: Annotated[int, Field(ge=2)]
    """Demonstrations per step."""

    learning_rate: Annotated[float, Field(gt=0)]
    """Peak learning rate of AdamW, which trains embeddings and norms."""

    matrix_learning_rate: Annotated[float, Field(gt=0)]
    """Peak learning rate of Muon, which trains the layers' matrices."""

    demonstrations: Annotated[dict[str, Demonstrations], Field(min_length=1)]
    """For each generated task: the demonstrations that the model is trained on, and how often they are wrong. Swaps and
    arithmetic have worked solutions, with length and slip; facts have answers alone, with known and misconception."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.heads % self.key_value_heads:
            yield "key_value_heads", f"{self.key_value_heads} does not divide heads ({self.heads}); change one of them"


class Recording(Strict):
    probe: str | None = None
    """Completions of the base model on the train split: they give difficulties and subsets."""

    base: str
    """Completions of the base model on the test split."""

    runs: dict[Name, Annotated[str, Field(pattern=r"^[^{}]*\{step\}[^{}]*$")]] | None = None
    """For each policy (or any name), completions of trained checkpoints on the test split. {step} in a file's name
    stands for the number of updates."""


class Recorded(Strict):
    """Completions that were sampled elsewhere, read from files. No weights are needed."""

    kind: Literal["recorded"]
    """The completions are recorded."""

    recordings: Annotated[dict[str, Recording], Field(min_length=1)]
    """For each task, the files of its completions (JSON Lines with question, answer, completions)."""


class Trajectory(Strict):
    """A recording of training: how many rollouts of each prompt were right in each epoch of one run. No weights and no
    texts are needed."""

    kind: Literal["trajectory"]
    """The right answers during a training run are recorded."""

    file: str
    """The file, a path below `data`: CSV, also gzipped (.gz), with columns id, epoch, correct and rollouts. A row is a
    prompt in an epoch."""

    origin: str
    """The authors of the run, the origin of the file, and its licence. The paper quotes this text."""

    prompts: Name
    """A name for the prompts of the run, which replaces the task's name in results. No task may have the same name."""

    chosen_from: Count
    """How many epochs of each prompt, from the first, give the pass rate by which policies choose. Later epochs are
    summarised."""


class Shape(Strict):
    """The sizes of the architecture. The workflow estimates memory and time from them before it downloads anything."""

    hidden_size: Count
    """Width."""

    intermediate_size: Count
    """Width of the feed-forward layers."""

    layers: Count
    """Transformer layers."""

    heads: Count
    """Attention heads."""

    key_value_heads: Count
    """Heads of keys and values."""

    head_size: Count
    """Width of a head."""

    vocabulary: Count
    """Rows of the embedding."""

    tied: bool
    """Whether input and output embedding are the same matrix."""

    fused: bool | None = None
    """Whether a layer holds queries, keys and values as one matrix, and gate and up as another (Phi-4), so that an
    adapter has four parts per layer instead of seven. The default is false."""

    attention_bias: bool | None = None
    """Whether queries, keys and values have a bias. The default is false."""


class SamplingGpus(Strict):
    """For probing and evaluation."""

    count: Count
    """GPUs per job. vLLM splits the model over them (tensor parallelism)."""


class Gpus(Strict):
    """The GPUs, of 80 GB, that each stage needs. Without this key the model runs on the CPU."""

    sampling: SamplingGpus

    adapter: TrainingGpus
    """For training with an adapter."""

    full: TrainingGpus
    """For training every weight."""


class Model(Strict):
    """A model is a source of weights, or a recording of a model: its completions, or the right answers during its
    training."""

    source: Annotated[Pretrained | Recorded | Trajectory | HubModel | ModelFolder | ModelPackage, Field(discriminator="kind")]
    """Where the weights, the completions or the counts come from."""

    engine: Literal["transformers", "vllm", "auto"] | None = None
    """The software that samples completions: transformers (the default), vllm (in .venv-gpu or .venv-vllm-cpu), or auto
    (vllm where it is installed)."""

    chat: dict | None = None
    """Arguments of the model's chat template, for example enable_thinking."""

    shape: Shape | None = None

    gpus: Gpus | None = None

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for name in sorted(set(self.chat or {}) & settings.NOT_OF_A_TEMPLATE):
            yield "chat", f"{name} {settings.ABOUT_CHAT}"
