"""Sample completions from a model folder, with transformers or vLLM. Every (prompt, sample) has its
own seed.

With transformers, a completion depends on weights, prompt, temperature, seed and completion limit,
but, except for rounding, not on other prompts. vLLM uses the same seeds for its own generator, so
its completions differ but have the same distribution.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from hardgrpo.runtime import errors, exact_products, files
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.sampling import decoding, model_folders
from hardgrpo.sampling.requests import Completion, Request
from hardgrpo.study import memory

# Share of the GPU memory that the weights and `memory.CONTEXT_BYTES` leave free for the completions of
# a batch. The rest is for the allocator, and for a layer's second cache while rows are removed.
GPU_SHARE = 0.6


def sample(
    engine: str,
    folder: str,
    requests: list[Request],
    max_tokens: int,
    chat: dict | None = None,
    adapters: Iterable[str | None] = (None,),
    parts: Iterable[list[int]] | None = None,
    gpus: int = 0,
    batch: int = 512,
    precision: str = "fp32",
    on_batch: Callable[[int], None] = lambda completions: None,
    on_ready: Callable[[], None] = lambda: None,
) -> Iterator[list[Completion]]:
    """Yield one list of completions, in the order of `requests`, for each of `adapters` (None: the
    base model alone) and each of `parts`, lists of indices into `requests`, which are read one by
    one. `chat` are arguments of the chat template. The engine calls `on_ready()` when it has
    started, and `on_batch(completions)` with the number of new completions. transformers samples at
    most `batch` completions at once; vLLM ignores `batch` and `precision`."""
    adapters = list(adapters)
    tokenizer = load_tokenizer(folder)
    prompts = tokenize(tokenizer, requests, chat or {})
    check_context(folder, prompts, max_tokens)
    print(
        f"engine {engine} starts for {folder}: {len(adapters)} models, {len(requests)} completions of each model",
        flush=True,
    )
    end_token_ids = end_tokens(folder, tokenizer)
    if engine == "vllm":
        from hardgrpo.sampling import vllm_engine

        yield from vllm_engine.sample(
            folder,
            tokenizer,
            end_token_ids,
            prompts,
            requests,
            max_tokens,
            adapters,
            parts,
            gpus,
            on_batch,
            on_ready,
        )
        return
    model = load(folder, precision)
    model.generation_config.eos_token_id = end_token_ids
    batch = fitting_batch(model, max(map(len, prompts)), max_tokens, batch)
    print("engine transformers is ready", flush=True)
    on_ready()
    for _, adapted_model in adapted_models(model, adapters):
        for part in [range(len(requests))] if parts is None else parts:
            part_prompts = [prompts[index] for index in part]
            part_requests = [requests[index] for index in part]
            yield generate(
                adapted_model, tokenizer, part_prompts, part_requests, max_tokens, batch, on_batch
            )


def load_tokenizer(folder: str):
    """A model's tokenizer, with a padding token."""
    tokenizer = model_folders.load_tokenizer(folder, padding_side="left")
    ensure_padding(tokenizer)
    return tokenizer


def ensure_padding(tokenizer) -> None:
    """Use the end token for padding if the tokenizer has no padding token (Llama), as TRL does."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)


def tokenize(tokenizer, requests: list[Request], chat: dict) -> list[list[int]]:
    """Token ids of each request's conversation, up to the start of the answer. Equal conversations
    are tokenized once."""
    keys = [tuple(message["content"] for message in request.messages) for request in requests]
    conversations = {key: list(request.messages) for key, request in zip(keys, requests)}
    ids = model_folders.token_ids(tokenizer, list(conversations.values()), chat)
    return list(map(dict(zip(conversations, ids)).__getitem__, keys))


def end_tokens(folder: str, tokenizer) -> list[int]:
    """Ids of all tokens that end a completion: `eos_token_id` of the model's two configuration
    files and, as in TRL, of the tokenizer. Raise a `UserError` if none of them defines an end
    token."""
    token_ids = [tokenizer.eos_token_id]
    for name in ("generation_config.json", "config.json"):
        if (Path(folder) / name).exists():
            setting = files.read_json(Path(folder) / name).get("eos_token_id")
            token_ids += setting if isinstance(setting, list) else [setting]
    end_token_ids = [token for token in token_ids if token is not None]
    if not end_token_ids or any(type(token) is not int for token in end_token_ids):
        raise UserError(
            f"{folder}: configuration and tokenizer define {token_ids} as the tokens that end a completion, expected token ids; correct eos_token_id in the"
            " model's config.json"
        )
    return sorted(set(end_token_ids))


def max_prompt_tokens(folder: str, max_tokens: int) -> int | None:
    """Number of tokens that the context, if known, leaves for a prompt beside a completion of
    `max_tokens`."""
    # in some models (Gemma 3), only the nested configuration of the language model has the context
    config = model_folders.load_config(folder).get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    return context - max_tokens if context else None


def check_context(
    folder: str, prompts: list[list[int]], max_tokens: int, ids: list[str] | None = None
) -> None:
    """Raise a `UserError` if a prompt is too long for the context, or has a token outside the
    vocabulary; `ids` are the prompts' names. In the workflow, fit_prompts.py has removed prompts
    that are too long from probes and tests, but not from every subset."""
    config = model_folders.load_config(folder).get_text_config()
    vocabulary_size = getattr(config, "vocab_size", None)
    if vocabulary_size is not None and (largest := max(map(max, prompts))) >= vocabulary_size:
        raise UserError(
            f"{folder}: the tokenizer gives a prompt the token id {largest}, but the model's vocabulary has {vocabulary_size} tokens; choose another model"
        )
    limit, length = max_prompt_tokens(folder, max_tokens), max(map(len, prompts))
    if limit is not None and length > limit:
        names = [f"'{name}'" for name, prompt in zip(ids or [], prompts) if len(prompt) > limit]
        raise UserError(
            f"a prompt of {length} tokens and a completion of {max_tokens} tokens exceed the model's context of {limit + max_tokens} tokens;"
            f" lower the task's completion_tokens or shorten the prompt {first_entries(names)}".rstrip()
        )


def load(folder: str, precision: str = "fp32"):
    """The model in evaluation mode, on the GPU if there is one. `precision` is bf16 or fp32; on a
    GPU, fp32 keeps the precision in which the weights are stored. Raise a `UserError` if the model
    cannot be used."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    if device == "cpu" and precision == "fp32" and exact_products.is_exact_model(folder):
        exact_products.install()
    if device == "cpu" and precision == "bf16":
        exact_products.avoid_fused_attention()
    converts_weights = device == "cpu" or precision == "bf16"
    model = model_folders.load_model(folder, dtype=dtype if converts_weights else "auto")
    model = model.to(device).eval()
    # some invalid settings cause an error only in a forward pass
    with errors.while_loading(folder), torch.inference_mode():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device))
    return model


def fitting_batch(model, prompt_tokens: int, max_tokens: int, batch: int) -> int:
    """Number of completions that a loaded model samples at once, at most `batch`: the same in each
    run on this kind of GPU."""
    shape = memory.shape_of(model.config.get_text_config().to_dict())
    if shape is None:
        return batch
    if model.device.type == "cpu":
        row_bytes = memory.sampled_row_bytes(shape, prompt_tokens, max_tokens)
        return memory.rows_at_once(row_bytes, batch)
    width = model.dtype.itemsize
    row_bytes = memory.sampled_row_bytes(shape, prompt_tokens, max_tokens, width)
    total_bytes = torch.cuda.get_device_properties(model.device).total_memory
    bytes_beside_weights = total_bytes - memory.parameters(shape) * width - memory.CONTEXT_BYTES
    return memory.rows_at_once(row_bytes, batch, GPU_SHARE * bytes_beside_weights)


def adapted_models(model, adapters: list[str | None]) -> Iterator[tuple]:
    """Yield (adapter, model with this adapter) for each adapter; None: the base model alone."""
    peft_model = None
    for index, adapter in enumerate(adapters):
        if adapter is None:
            with peft_model.disable_adapter() if peft_model else contextlib.nullcontext():
                yield None, peft_model or model
            continue
        from peft import PeftModel  # slow to import, and needed only for adapters

        name = f"adapter{index}"
        with errors.while_loading(adapter):  # the adapter may not fit its base
            if peft_model is None:
                peft_model = PeftModel.from_pretrained(model, adapter, adapter_name=name).eval()
            else:
                peft_model.load_adapter(adapter, adapter_name=name)
        peft_model.set_adapter(name)
        peft_model.eval()
        yield adapter, peft_model
        for earlier_name in peft_model.peft_config.keys() - {name}:
            peft_model.delete_adapter(earlier_name)


def generate(
    model,
    tokenizer,
    prompts: list[list[int]],
    requests: list[Request],
    max_tokens: int,
    batch_size: int,
    on_batch: Callable[[int], None] = lambda completions: None,
) -> list[Completion]:
    """Sample one completion per request with transformers, in the order of `requests`."""
    setting = model.generation_config.eos_token_id
    end_token_ids = setting if isinstance(setting, list) else [setting]
    completions: list[Completion | None] = [None] * len(requests)
    for batch in _sort_into_batches(prompts, requests, batch_size):
        inputs = tokenizer.pad(
            {"input_ids": [prompts[index] for index in batch]}, return_tensors="pt"
        ).to(model.device)
        batch_requests = [requests[index] for index in batch]
        log_probabilities = any(request.log_probability for request in batch_requests)
        seeds = [request.seed for request in batch_requests]
        temperatures = [request.temperature for request in batch_requests]
        sampler = decoding.SeededSampling(
            seeds, temperatures, max_tokens, model.device, log_probabilities
        )
        with torch.inference_mode():
            sampled = decoding.decode(
                model,
                inputs["input_ids"],
                inputs["attention_mask"],
                end_token_ids,
                max_tokens,
                sampler,
            )
        for row, (index, (ids, has_ended)) in enumerate(zip(batch, sampled)):
            text = tokenizer.decode(ids, skip_special_tokens=True)
            mean = (
                sampler.log_probabilities[row, : len(ids)].double().mean().item()
                if requests[index].log_probability
                else None
            )
            completions[index] = Completion(text, len(ids), "stop" if has_ended else "length", mean)
        on_batch(len(batch))
    return completions


def _sort_into_batches(
    prompts: list[list[int]], requests: list[Request], batch_size: int
) -> Iterator[list[int]]:
    """Yield batches of indices. Each batch has prompts of similar lengths, because long prompts
    mostly have long solutions. Greedy requests are in separate batches."""
    order = sorted(range(len(requests)), key=lambda index: -len(prompts[index]))
    for is_greedy in (False, True):
        rows = [index for index in order if (requests[index].temperature == 0) == is_greedy]
        yield from (rows[start : start + batch_size] for start in range(0, len(rows), batch_size))


def configure_torch() -> None:
    """Make torch compute with OMP_NUM_THREADS threads (default: 1) and, on a GPU, without cuDNN's
    attention. Results are bit-identical only for equal numbers of threads."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    if not (threads.isascii() and threads.isdecimal() and int(threads)):
        raise UserError(
            f"OMP_NUM_THREADS is {printable(threads)!r}, expected a number of threads; unset it"
        )
    torch.set_num_threads(int(threads))
    # On Hopper GPUs, torch prefers cuDNN's attention, which builds a plan for each new shape. On an
    # H200, a decoding step of 256 rollouts took 212 ms, and 42 ms without it (torch 2.11).
    torch.backends.cuda.enable_cudnn_sdp(False)
