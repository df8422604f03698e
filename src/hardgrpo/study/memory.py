"""Estimate the memory of a run from the model's shape and the recipe, before anything is
downloaded.

Numbers of weights are exact for the decoders in config/models.yaml (Qwen2.5, Llama 3, Phi-4,
SmolLM2: gated feed-forward layers, grouped-query attention). For Qwen3, the norms of queries and
keys (about 10,000 weights) are not counted. The memory of weights, gradients and optimiser state is
exact; the memory of activations is an upper estimate. For the large models in config/models.yaml,
no estimate has been compared with a measurement on a GPU. tests/unit/test_memory.py compares
estimates with calculations by hand.
"""

import math

from pydantic import ValidationError

from hardgrpo.runtime.gpu_kinds import GPUS
from hardgrpo.study import selector as selectors
from hardgrpo.study.model import Model, Shape, TrainingGpus
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.task import Task

GIB = 2**30
BYTES = {"fp32": 4.0, "bf16": 2.0}  # per weight
OPTIMISER_BYTES = {"adamw": 8.0, "paged_adamw_8bit": 2.0}  # per trained weight: two moments
# Assumed length of a prompt. Nearly all prompts of the tasks are shorter. The prompts that are
# usually longest, those with seven shuffled objects, have 330 to 380 tokens.
PROMPT_TOKENS = 400
CONTEXT_BYTES = 1.5 * GIB  # CUDA context, kernels, allocator slack
# assumed for vLLM's workspaces and CUDA graphs, which stay in memory while vLLM sleeps
VLLM_BYTES = 2.0 * GIB
GPU_GIB = GPUS["h100"].gib  # assumed unless a kind of GPU is named
LARGEST_SHARE = 0.95  # largest value of `vllm_memory`
# Number of scores (tokens x vocabulary) in memory: TRL computes log-probabilities tile by tile
# (trl/kernels/chunked_logprob.py).
TILE = 4096 * 32768
# Memory on a CPU for the completions that are computed at once in float32, in addition to the
# weights. With this value, two jobs, each with a model of half a billion weights, fit into 16 GiB.
CPU_BYTES = 4.0 * GIB
PROGRAM_BYTES = 1.0 * GIB  # Python, torch and transformers
REMEDY = (
    "lower micro_batch or vllm_memory, set vllm_sleep: true, raise count (if all weights are trained), use larger GPUs (plan.gpu, or"
    " gpu_name of the profile), or choose a smaller model or a recipe with an adapter"
)


def shape_of(model_config: dict) -> Shape | None:
    """The shape in the content of a model's config.json; None if an entry is missing or wrong."""
    try:
        heads = model_config["num_attention_heads"]
        shape = {
            "hidden_size": model_config["hidden_size"],
            "intermediate_size": model_config["intermediate_size"],
            "layers": model_config["num_hidden_layers"],
            "heads": heads,
            "key_value_heads": model_config.get("num_key_value_heads", heads),
            "head_size": model_config.get("head_dim") or model_config["hidden_size"] // heads,
            "vocabulary": model_config["vocab_size"],
            "tied": bool(model_config.get("tie_word_embeddings")),
        }
        is_fused = model_config.get("model_type") in ("phi3", "phi4")
        return Shape.of(shape | ({"fused": True} if is_fused else {}))
    except (KeyError, TypeError, ZeroDivisionError, ValidationError):
        return None


def parameters(shape: Shape) -> int:
    return (
        embedding_parameters(shape) * (1 if shape.tied else 2)
        + shape.layers * _layer(shape)
        + shape.hidden_size
    )


def embedding_parameters(shape: Shape) -> int:
    return shape.vocabulary * shape.hidden_size


def _linear(shape: Shape) -> list[tuple[int, int]]:
    """(inputs, outputs) of a layer's linear maps: queries, keys, values, gate, up, output, down; in
    a `fused` layer, one map for queries, keys and values and one for gate and up."""
    hidden, feed_forward = shape.hidden_size, shape.intermediate_size
    query, key_value = (
        getattr(shape, heads) * shape.head_size for heads in ("heads", "key_value_heads")
    )
    output_and_down = [(query, hidden), (feed_forward, hidden)]
    if shape.fused:
        return [(hidden, query + 2 * key_value), (hidden, 2 * feed_forward), *output_and_down]
    return [
        (hidden, query),
        *[(hidden, key_value)] * 2,
        *[(hidden, feed_forward)] * 2,
        *output_and_down,
    ]


def _layer(shape: Shape) -> int:
    biases = sum(outputs for _, outputs in _linear(shape)[:3]) if shape.attention_bias else 0
    return (
        sum(inputs * outputs for inputs, outputs in _linear(shape)) + biases + 2 * shape.hidden_size
    )


def adapter_parameters(shape: Shape, rank: int) -> int:
    """Weights of a LoRA adapter: rank x (inputs + outputs) for every linear map."""
    return shape.layers * rank * sum(inputs + outputs for inputs, outputs in _linear(shape))


def training_memory(
    shape: Shape,
    recipe: Recipe,
    completion_tokens: int,
    gpus: TrainingGpus,
    gpu_gib: float = GPU_GIB,
) -> dict[str, float]:
    """GiB on each GPU by purpose, and `total`, that of the phase that needs more, sampling or
    updating. With an adapter each process holds the whole base; without, weights, gradients and
    optimiser state are sharded over the GPUs. Gradient checkpointing recomputes layers. vLLM takes
    a fixed share of memory, or VLLM_BYTES while it sleeps during updates. `rollouts`: to sample an
    update's rollouts by transformers."""
    count, adapter = gpus.count, recipe.adapter
    all_weights = parameters(shape) * BYTES[recipe.base]
    base = all_weights / (1 if adapter else count)
    trained = adapter_parameters(shape, adapter.rank) if adapter else parameters(shape) / count
    width = 4.0 if recipe.precision == "fp32" else 2.0
    # An update may have more groups than a sampling step. It is split into as many micro-batches as
    # an update of one sampling step, so its micro-batches are larger.
    rows = math.ceil(
        gpus.micro_batch * (selectors.largest_update(recipe.entry) if recipe.selector else 1)
    )
    tokens = rows * (PROMPT_TOKENS + completion_tokens)
    # Values per token in the layer that is being recomputed; an adapter adds the outputs of its
    # maps.
    layer = 10 * shape.hidden_size + 3 * shape.intermediate_size
    layer += sum(outputs for _, outputs in _linear(shape)) if adapter else 0
    # The inputs of all layers stay in memory. Autocast leaves these inputs in float32 if the
    # weights are in float32. Sharded weights have no autocast: they are converted to bf16 before a
    # layer computes.
    autocast = not adapter and count <= 1 and recipe.base == "fp32" and recipe.precision == "bf16"
    activation_bytes = tokens * (
        shape.layers * shape.hidden_size * (4.0 if autocast else width) + layer * width
    )
    if autocast:  # autocast keeps a copy of each weight in bf16 for the forward pass
        activation_bytes += parameters(shape) * 2.0
    # The last hidden states of the completions, the gradient of these states in float32, a tile of
    # scores, and the gradient of a trained output layer in float32.
    head = rows * completion_tokens * shape.hidden_size * (width + 4.0) + TILE * width
    head += 0.0 if adapter else embedding_parameters(shape) * 4.0
    # The reference policy of a KL term is the base without its adapter, or a second copy of all
    # weights in the same precision.
    has_copy = not adapter and recipe.beta
    reference = all_weights / count if has_copy else 0.0
    gathered = 0.0
    if not adapter and count > 1:
        # Each GPU holds two gathered layers in bf16, the gathered embeddings and their gradient in
        # bf16, and the sum of this gradient over the GPUs in float32.
        embeddings = embedding_parameters(shape) * (1 if shape.tied else 2)
        gathered = 2 * _layer(shape) * 2.0 + embeddings * (2.0 + 2.0 + 4.0)
    reward_model = _reward_model_bytes(trained, bool(adapter)) if recipe.process else 0.0
    need = {
        "weights": base + (trained * 4.0 if adapter else 0.0),
        "gradients": trained * 4.0,
        "optimiser": trained * OPTIMISER_BYTES[recipe.optimiser],
        "reference": reference,
        "reward model": reward_model,
        "activations": activation_bytes + head + gathered,
        "context": CONTEXT_BYTES,
    }
    need = {purpose: size / GIB for purpose, size in need.items()}
    vllm = gpus.vllm_memory * gpu_gib if recipe.generation == "vllm" else 0.0
    rollouts = 0.0
    if recipe.generation == "transformers":
        rollouts = _rollout_bytes(shape, recipe, completion_tokens, count, width) / GIB
    updating = sum(need.values()) + (min(vllm, VLLM_BYTES / GIB) if gpus.vllm_sleep else vllm)
    sampling = sum(need.values()) - need["activations"] - need["gradients"] + vllm + rollouts
    return need | {"vllm": vllm, "rollouts": rollouts, "total": max(updating, sampling)}


def _reward_model_bytes(trained: float, has_adapter: bool) -> float:
    """Bytes of PRIME's reward model: trained weights, their AdamW state, and (without an adapter,
    whose base is kept) the initial weights. Its gradients are freed before the model's are
    computed."""
    return trained * (4.0 + OPTIMISER_BYTES["adamw"] + (0.0 if has_adapter else 4.0))


def _rollout_bytes(
    shape: Shape, recipe: Recipe, completion_tokens: int, processes: int, width: float
) -> float:
    """Bytes of one of `processes` while transformers samples its share of an update's rollouts: the
    cache, the widest layer for each prompt (once for all its rollouts), and the scores of one token
    with four float32 copies (`decoding.GlobalSampling`). `width`: bytes per value."""
    rollouts = recipe.texts_per_update / processes
    cache_bytes = cache_values(shape, PROMPT_TOKENS + completion_tokens) * width
    prompt_bytes = PROMPT_TOKENS * _prompt_layer(shape) * width
    score_bytes = shape.vocabulary * (width + 4 * 4.0)
    return rollouts * (cache_bytes + prompt_bytes / recipe.group_size + score_bytes)


# --- completions sampled by transformers ---


def cache_values(shape: Shape, tokens: int) -> int:
    """Keys and values in the cache of a row with `tokens` tokens."""
    return 2 * shape.layers * shape.key_value_heads * shape.head_size * tokens


def _prompt_layer(shape: Shape) -> int:
    """Values of a token in the widest layer."""
    return 4 * shape.hidden_size + 3 * shape.intermediate_size


def sampled_row_bytes(
    shape: Shape, prompt_tokens: int, completion_tokens: int, width: float = 4.0
) -> float:
    """Bytes of a completion while transformers samples it: the cache, the scores of one token with
    four copies in double precision (`decoding.SeededSampling`), and the widest layer for the
    prompt. `width`: bytes per value."""
    cache = cache_values(shape, prompt_tokens + completion_tokens)
    prompt = prompt_tokens * _prompt_layer(shape)
    return width * (cache + prompt) + shape.vocabulary * (width + 4 * 8.0)


# --- on a CPU ---


def trained_row_bytes(shape: Shape, recipe: Recipe, tokens: int) -> float:
    """Bytes that a text keeps between forward and backward pass on a CPU, where no layer is
    recomputed."""
    layer = (
        8 * shape.hidden_size
        + 4 * shape.intermediate_size
        + sum(outputs for _, outputs in _linear(shape)[:3])
    )
    layer += sum(outputs for _, outputs in _linear(shape)) if recipe.adapter else 0
    return 4.0 * tokens * (shape.layers * layer + 4 * shape.hidden_size)


def rows_at_once(row_bytes: float, rows: int, memory_bytes: float | None = None) -> int:
    """How many of `rows` fit into `memory_bytes` (None: CPU_BYTES), at least one."""
    available_bytes = CPU_BYTES if memory_bytes is None else memory_bytes
    return max(1, min(rows, int(available_bytes // row_bytes)))


def cpu_sampling_memory(shape: Shape, completion_tokens: int, rows: int) -> float:
    """GiB of a program that samples at most `rows` completions at once on a CPU."""
    row_bytes = sampled_row_bytes(shape, PROMPT_TOKENS, completion_tokens)
    return (
        parameters(shape) * 4.0 + rows_at_once(row_bytes, rows) * row_bytes + PROGRAM_BYTES
    ) / GIB


def cpu_training_memory(shape: Shape, recipe: Recipe, completion_tokens: int) -> float:
    """GiB of a program that trains on a CPU: weights, gradients, optimiser state, and the larger of
    a micro-batch with a tile of scores and its gradient, and the rollouts of an update."""
    trained = (
        adapter_parameters(shape, recipe.adapter.rank) if recipe.adapter else parameters(shape)
    )
    texts = recipe.texts_per_update
    row_bytes = trained_row_bytes(shape, recipe, PROMPT_TOKENS + completion_tokens)
    sampled = texts * sampled_row_bytes(shape, PROMPT_TOKENS, completion_tokens)
    learning = rows_at_once(row_bytes, texts) * row_bytes + 2 * TILE * 4.0
    copies = 2 if recipe.beta and not recipe.adapter else 1
    state = parameters(shape) * 4.0 * copies + trained * (
        4.0 + 4.0 * bool(recipe.adapter) + OPTIMISER_BYTES[recipe.optimiser]
    )
    if recipe.process:
        state += _reward_model_bytes(trained, bool(recipe.adapter))
    return (state + max(learning, sampled) + PROGRAM_BYTES) / GIB


# --- main memory of a machine with GPUs, and checks of a configured run ---


def main_memory(shape: Shape, recipe: Recipe) -> float:
    """GiB of main memory of each process: the weights of model and reference policy while they are
    loaded, and 16 GiB."""
    copies = 1 if recipe.adapter or not recipe.beta else 2
    return (parameters(shape) * BYTES[recipe.base] * copies + 16 * GIB) / GIB


def vllm_memory(shape: Shape, context: int) -> float:
    """The smallest GiB that vLLM needs: weights in bf16, workspaces, a cache for 32 sequences."""
    cache = cache_values(shape, context) * 2.0 * 32
    return (parameters(shape) * 2.0 + VLLM_BYTES + cache) / GIB


def run_memory(
    model: Model, recipe: Recipe, task: Task, gpu_gib: float = GPU_GIB
) -> dict[str, float]:
    gpus = model.training_gpus(recipe)
    return training_memory(model.shape, recipe, task.completion_tokens, gpus, gpu_gib)


def shortage(
    shape: Shape,
    recipe: Recipe,
    completion_tokens: int,
    gpus: TrainingGpus,
    name: str,
    gpu: str = "h100",
) -> str | None:
    """Why a run does not fit GPUs of kind `gpu`, or vLLM gets too little memory, with a remedy;
    None if the memory suffices. `name`: the run in the message."""
    gpu_gib = GPUS[gpu].gib
    need = training_memory(shape, recipe, completion_tokens, gpus, gpu_gib)
    if need["total"] > gpu_gib:
        parts = ", ".join(
            f"{purpose} {size:.1f}" for purpose, size in need.items() if purpose != "total" and size
        )
        return f"{name} needs about {need['total']:.0f} GiB on each of {gpus.count} GPUs ({parts}), but a GPU ({gpu}) has {gpu_gib:.0f}; {REMEDY}"
    vllm_need = vllm_memory(shape, PROMPT_TOKENS + completion_tokens)
    if need["vllm"] and need["vllm"] < vllm_need:
        share = math.ceil(100 * vllm_need / gpu_gib) / 100
        remedy = (
            f"set vllm_memory to at least {share}"
            if share <= LARGEST_SHARE
            else "choose a smaller model, or a recipe with generation: transformers"
        )
        return f"vllm_memory gives vLLM {need['vllm']:.0f} GiB for {name}, but vLLM needs {vllm_need:.0f} for weights and cache; {remedy}"
    return None
