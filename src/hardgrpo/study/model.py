"""Sources of weights, models behind servers, and recordings of models."""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study.recipe import Recipe
from hardgrpo.study.strict import Commit, Count, Name, Names, Share, Strict

OWN = "own"  # the value of `seed` of a pretrained model if each replicate pretrains its own base
# end of the name of a replicate's own base; the name of a model may not have this end
OWN_BASE_NAME = re.compile(r"-seed[0-9]+$")
CORES_PER_GPU = 4  # processor cores that a job requests for each of its GPUs
# Parameters of `apply_chat_template` itself. All other arguments are passed to the template.
NOT_OF_A_TEMPLATE = {
    "conversation",
    "tools",
    "documents",
    "chat_template",
    "add_generation_prompt",
    "continue_final_message",
    "tokenize",
    "sanitize_control_tokens",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
}
ABOUT_CHAT = "is no argument of the model's own template, such as enable_thinking"
# keys of a server's source that decide the completions
COMPLETION_KEYS = ("kind", "model")


def own_base(model: str, seed: int) -> str:
    """The name of a replicate's own base: tiny, 3 -> tiny-seed3."""
    return f"{model}-seed{seed}"


def model_of(base: str) -> str:
    """The model of a base: tiny-seed3 -> tiny."""
    return OWN_BASE_NAME.sub("", base)


class TrainingGpus(Strict):
    count: Count
    """GPUs per job, one process each. If every weight is trained, each GPU holds a part of the
    weights, gradients and optimiser state (FSDP)."""

    micro_batch: Count
    """Completions per GPU in one forward and backward pass."""

    vllm_memory: Annotated[float, Field(gt=0, le=0.95)]
    """Share of a GPU's memory that vLLM uses for weights and cache."""

    vllm_sleep: bool
    """true: vLLM frees its memory while the model is updated."""


NO_GPUS = TrainingGpus.model_construct(count=0)  # a job on the CPU


class HubModel(Strict):
    """A model on the Hugging Face hub."""

    kind: Literal["hub"]
    """The weights are downloaded from the Hugging Face hub."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]
    """Name of the model on the hub: owner/name."""

    revision: Commit
    """The full commit hash (40 hexadecimal digits) that is downloaded."""

    licence: str
    """The licence of the weights."""


class ModelFolder(Strict):
    """A model folder on this machine, in Hugging Face's form."""

    kind: Literal["folder"]
    """The weights are in a local folder."""

    path: str
    """Path of the folder: absolute (~ is the home folder), or relative to `data`."""


class ModelPackage(Strict):
    """A model whose weights (a GGUF file) are in a Python package, or in parts in several
    packages."""

    kind: Literal["package"]
    """The weights come with a Python package."""

    package: str | Names
    """Name of the package. If the file of the weights comes in parts: the names of the packages, in the order of their
    parts."""

    version: str
    """Version of the package, or of all packages."""

    file: str
    """Path of the file of the weights inside the package. If the file comes in parts: the path of
    the part inside each package. The path may contain wildcards (*)."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 checksum of the file of the weights. Required for a list of packages: the checksum shows that no part is
    missing and that the parts are in the right order."""

    licence: str
    """The licence of the weights."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.package, list) and len(set(self.package)) < len(self.package):
            yield "package", "a name is listed twice; remove one"
        if isinstance(self.package, list) and self.sha256 is None:
            yield "sha256", "a list of packages needs the SHA-256 of the joined parts; add it"


class Price(Strict):
    input: Annotated[float, Field(ge=0)]
    """Price of a million tokens of prompts, in any currency."""

    output: Annotated[float, Field(ge=0)]
    """Price of a million sampled tokens, in the same currency."""


class Server(Strict):
    """A model behind a server with OpenAI's interface: vLLM, SGLang, llama.cpp, Ollama or a hosted
    service. The model can be probed and evaluated. It cannot be trained, because its weights
    are not available to this project."""

    kind: Literal["server"]
    """The model answers at an address."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s@?#'\"\\]+$")]
    """Address of the server, usually with /v1 at its end. An account or a key in the address is refused."""

    model: Annotated[str, Field(min_length=1)]
    """The model's name on the server. A probe samples again if this name changes, but not if the address changes."""

    key: Annotated[str, Field(pattern=r"^[A-Z_][A-Z0-9_]*$")] | None = None
    """Name of the environment variable that holds the server's key, such as OPENAI_API_KEY. By default no key is sent."""

    concurrency: Count | None = None
    """Largest number of requests at the same time, for each job. The default is 32."""

    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds without an answer after which a request is repeated. The default is 600."""

    price: Price | None = None
    """Prices, from which costs are computed before and during sampling."""

    most_money: Annotated[float, Field(gt=0)] | None = None
    """Largest sum that all completions of this model may cost in this clone. Sampling stops before the sum is exceeded,
    and the completions sampled so far are kept."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.most_money and not self.price:
            yield "most_money", "the price is unknown; add price: {input: ..., output: ...}"


class DemonstratedShare(Strict):
    """Share of this task among the demonstrations, at the beginning and at the end of training."""

    first: Share
    """Share of this task in the first quarter of the steps."""

    last: Share
    """Share of this task in the second half of the steps. In between, the share changes linearly."""


class SlipByOperation(Strict):
    plus: Share = Field(alias="+")
    """Probability that an addition is wrong."""

    minus: Share = Field(alias="-")
    """Probability that a subtraction is wrong."""

    times: Share = Field(alias="*")
    """Probability that a multiplication is wrong."""

    divided_by: Share = Field(alias="/")
    """Probability that a division is wrong."""


class Demonstrations(Strict):
    share: DemonstratedShare

    length: Annotated[list[Annotated[int, Field(ge=1, le=9)]], Field(min_length=1)] | None = None
    """Required for swaps and arithmetic: the numbers of swaps or steps that a demonstrated problem may have."""

    slip: Share | SlipByOperation | None = None
    """Required for swaps and arithmetic: the probability that a step is wrong. For swaps one number, for arithmetic one
    number for each operation."""

    restated: Annotated[list[Share], Field(min_length=2, max_length=3)] | None = None
    """Only for swaps: the shares of solutions that repeat who holds which colour zero times, once
    or twice after each swap. Repetition makes the same solution longer. By default, no solution
    repeats who holds which colour."""

    known: (
        Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)] | None
    ) = None
    """Required for facts: the two parameters of a beta distribution. For each fact, the probability that a
    demonstration gives the right answer is drawn from this distribution, with the base model's seed. With parameters
    below 1, most of these probabilities are near 0 or 1."""

    misconception: Share | None = None
    """Required for facts: for each fact one wrong answer is drawn, and this share of the fact's wrong demonstrations
    gives that answer; the others give any wrong answer. Optional for arithmetic: the probability that a tripling is
    calculated as a doubling, so that wrong completions of the model agree."""


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
    """Number of attention heads."""

    key_value_heads: Count
    """Number of heads of keys and values. `heads` must be a multiple of this number."""

    head_size: Annotated[int, Field(ge=2, multiple_of=2)]
    """Width of a head: an even number, for vLLM on the CPU at least 32."""

    rotary_base: Annotated[float, Field(gt=1)]
    """Base of the rotary position embedding (rope_theta)."""

    context_tokens: Count
    """Largest number of tokens of a prompt and its completion together."""

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
    """For each generated task: the demonstrations on which the model is trained, and how often a
    demonstration is wrong. Demonstrations of swaps and arithmetic are worked solutions and need
    length and slip. Demonstrations of facts consist of the answer only and need known and
    misconception."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.heads % self.key_value_heads:
            yield (
                "key_value_heads",
                f"{self.key_value_heads} does not divide heads ({self.heads}); change one",
            )
        for end in ("first", "last"):
            if not any(getattr(task.share, end) for task in self.demonstrations.values()):
                yield "demonstrations", f"share.{end} is 0 for all tasks; raise one"


class FilesOfSplits(Strict):
    train: str | None = None
    """File of the train split."""

    test: str | None = None
    """File of the test split."""


class Recording(Strict):
    probe: str | None = None
    """File of the base model's completions on the train split, from which difficulties and subsets are computed."""

    base: str
    """File of the base model's completions on the test split."""

    runs: (
        dict[Name, Annotated[str, Field(pattern=r"^([^{}]|\{model\})*\{step\}([^{}]|\{model\})*$")]]
        | None
    ) = None
    """Keys: names of recorded runs; a run usually has the name of its policy. Values: the files of the checkpoints' completions on the
    test split, with {step} for the number of updates."""

    questions: FilesOfSplits | None = None
    """Required with `repository`: the files of the questions, in the order of the completions. A
    file is JSON Lines with question and answer, or a JSON object whose list `answer` holds the
    answers alone. Without questions in the file, the prompt of the completions replaces the
    question."""

    scores: FilesOfSplits | None = None
    """Only with `repository`: the files of published pass rates of the base model, each a JSON list
    in the order of the questions."""

    published: dict[Name, str] | None = None
    """Only with `repository`. Keys: names of recorded runs. Values: the files with the published accuracy of each
    checkpoint. A run with published accuracies needs no completions."""


class Repository(Strict):
    """A GitHub repository, as the origin of files in the format of their authors."""

    repository: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")] | None = None
    """A GitHub repository (owner/name) that has the files, in the format of their authors. Without
    this key, the files are below `data`, in the format of this project."""

    commit: Commit | None = None
    """Required with `repository`: the full commit hash (40 hexadecimal digits)."""

    local: str | None = None
    """A folder below `data`. Files of the repository that are in this folder are not downloaded. For a trajectory,
    `local` may also be the path of the file."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if (self.repository is None) != (self.commit is None):
            missing = "commit" if self.commit is None else "repository"
            yield missing, "`repository` and `commit` belong together; give both or neither"


class Recorded(Repository):
    """Completions that were sampled elsewhere, read from files. No weights are needed."""

    kind: Literal["recorded"]
    """The completions are recorded."""

    name: str | None = None
    """Replaces {model} in the paths of `recordings`."""

    recordings: Annotated[dict[str, Recording], Field(min_length=1)]
    """For each task, the files of its completions: JSON Lines with question and completions. With
    `repository`, each file is a JSON list with a list of texts for each question. Each text is the
    prompt followed by one completion."""

    def recording(self, task: str) -> Recording:
        """The recording of a task, with `name` in place of {model}."""
        recording = self.recordings[task]
        if self.name is None:
            return recording
        text = recording.model_dump_json(exclude_unset=True)
        return Recording.model_validate_json(text.replace("{model}", json.dumps(self.name)[1:-1]))

    def contradictions(self) -> Iterator[tuple[str, str]]:
        yield from super().contradictions()
        for task, recording in self.recordings.items():
            place = f"recordings.{task}"
            if self.name is None and "{model}" in recording.model_dump_json():
                yield place, "a path has {model}, but the source has no `name`; add it"
            for part, split in (("probe", "train"), ("base", "test")):
                if (
                    self.repository
                    and getattr(recording, part)
                    and not getattr(recording.questions, split, None)
                ):
                    yield (
                        f"{place}.questions",
                        f"`{part}` needs the file of its questions; add `{split}`",
                    )


class Trajectory(Repository):
    """A recording of training: the number of right rollouts of each prompt in each epoch of one
    run. No weights and no texts are needed."""

    kind: Literal["trajectory"]
    """The numbers of right rollouts during a training run are recorded."""

    file: str
    """Path of a CSV file (also gzipped, .gz) below `data`, with columns id, epoch, correct and rollouts. Each row is one
    prompt in one epoch. With `repository`: path of a JSON object in the repository that maps each prompt to a list of the
    shares of right rollouts, one for each epoch."""

    rollouts: Count | None = None
    """Required with `repository`: rollouts of each prompt in each epoch."""

    origin: str
    """The authors of the run, the origin of the file, and its licence. The paper quotes this text."""

    prompts: Name
    """A name for the prompts of the run, in place of the name of a task. No task may have the
    same name."""

    chosen_from: Count
    """Policies choose by the pass rates in this number of first epochs. Later epochs are
    summarised."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        yield from super().contradictions()
        if (self.repository is None) != (self.rollouts is None):
            yield "rollouts", "belongs to `repository`; give both or neither"


class Shape(Strict):
    """The sizes of the architecture, from which the workflow estimates memory and time before any
    download."""

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
    """GPUs for probing and evaluation."""

    count: Count
    """GPUs per job. vLLM splits the model over them (tensor parallelism)."""


class Gpus(Strict):
    """The GPUs that each stage needs. Without this key, the model runs on the CPU."""

    sampling: SamplingGpus

    adapter: TrainingGpus
    """GPUs for training with an adapter."""

    full: TrainingGpus
    """GPUs for training every weight."""


class Model(Strict):
    """A model is a source of weights, a model behind a server, or a recording: completions, or
    numbers of right answers during training."""

    source: Annotated[
        Pretrained | Recorded | Trajectory | HubModel | ModelFolder | ModelPackage | Server,
        Field(discriminator="kind"),
    ]
    """The origin of the weights, of the completions, or of the numbers of right rollouts."""

    engine: Literal["transformers", "vllm", "auto"] | None = None
    """The software that samples completions: transformers (the default), vllm (in .venv-gpu or .venv-vllm-cpu), or auto
    (vllm if vllm is installed, else transformers)."""

    precision: Literal["fp32", "bf16"] | None = None
    """Precision in which transformers samples: fp32 (the default) or bf16. On a CPU, bf16 is faster with AMX (Intel's
    servers since 2023) and several times slower without. On a GPU, the value fp32 converts nothing: the model samples in the precision in which its weights are stored."""

    chat: dict | None = None
    """Arguments of the model's chat template, for example enable_thinking. A template that writes the current date into
    the prompt gets 26 July 2024, except at a server."""

    shape: Shape | None = None

    gpus: Gpus | None = None

    @property
    def is_pretrained(self) -> bool:
        return isinstance(self.source, Pretrained)

    @property
    def is_recorded(self) -> bool:
        return isinstance(self.source, Recorded)

    @property
    def is_trajectory(self) -> bool:
        return isinstance(self.source, Trajectory)

    @property
    def is_served(self) -> bool:
        return isinstance(self.source, Server)

    @property
    def is_sampled(self) -> bool:
        return not (self.is_recorded or self.is_trajectory)

    @property
    def is_of_repository(self) -> bool:
        """Whether the recordings are files of a repository, in the format of their authors."""
        return isinstance(self.source, Repository) and self.source.repository is not None

    @property
    def has_own_bases(self) -> bool:
        return self.is_pretrained and self.source.seed == OWN

    def base(self, name: str, seed: int) -> str:
        """The weights from which a replicate starts: `name`, or its own base (tiny-seed3)."""
        return own_base(name, seed) if self.has_own_bases else name

    def bases(self, name: str, seeds: list[int]) -> list[str]:
        return list(dict.fromkeys(self.base(name, seed) for seed in seeds))

    def with_seed(self, seed: int) -> "Model":
        source = self.source.model_copy(update={"seed": seed})
        return self.model_copy(update={"source": source})

    @property
    def chat_arguments(self) -> dict:
        return self.chat or {}

    @property
    def engine_name(self) -> str:
        return "server" if self.is_served else self.engine or "transformers"

    @property
    def weights_source(self) -> dict:
        """The part of the source that decides the completions."""
        source = self.source.entry
        if not self.is_served:
            return source
        return {key: source[key] for key in COMPLETION_KEYS if key in source}

    @property
    def server(self) -> dict:
        """The part of a server's source that does not: address, key, price and limits."""
        source = self.source.entry
        return {key: value for key, value in source.items() if key not in COMPLETION_KEYS}

    @property
    def sampling_gpus(self) -> int:
        return self.gpus.sampling.count if self.gpus else 0

    def training_gpus(self, recipe: Recipe) -> TrainingGpus:
        """The GPUs of a training run; at most one with a selector or process rewards, which train
        in a single process."""
        if self.gpus is None:
            return NO_GPUS
        gpus = self.gpus.adapter if recipe.adapter else self.gpus.full
        return gpus.model_copy(update={"count": 1}) if recipe.is_online else gpus

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for name in sorted(set(self.chat or {}) & NOT_OF_A_TEMPLATE):
            yield "chat", f"{name} {ABOUT_CHAT}"
        if isinstance(self.source, Server):
            for key in ("engine", "precision", "shape", "gpus"):
                if getattr(self, key) is not None:
                    yield key, f"the server decides the {key}; remove the key"
