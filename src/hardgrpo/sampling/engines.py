"""Sample completions from a model folder, with transformers or vLLM. Every (prompt, sample) has its own seed.

With transformers a completion depends on weights, prompt, seed and limits, but not on the other prompts in its batch or shard: its
t-th token is drawn with the t-th uniform number of its own generator. (Batches of another shape may round the last bit
differently. Equal batches give equal bits; other batches give the same distribution.) vLLM takes the same seeds for its own
generator, so its completions differ but have the same distribution.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.sampling import decoding, model_folders
from hardgrpo.sampling.requests import Completion, Request


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
    done: Callable[[int], None] = lambda completions: None,
    ready: Callable[[], None] = lambda: None,
) -> Iterator[list[Completion]]:
    """Yield one list of completions, in the order of `requests`, for each of `adapters` (None: the base model alone).

    One engine serves all adapters. `parts` are lists of indices into `requests`: each adapter then yields one list for each part, and
    takes the next part only when the caller asks for the next list. `chat` holds arguments of the chat template. The engine calls
    `ready()` when it has started and `done(completions)` after each batch.
    """
    adapters = list(adapters)
    for adapter in filter(None, adapters):
        check_adapter(adapter, folder)
    tokenizer = load_tokenizer(folder)
    prompts = tokenize(tokenizer, requests, chat or {})
    check_context(folder, prompts, max_tokens)
    print(f"engine {engine} starts for {folder}: {len(adapters)} models of {len(requests)} completions each", flush=True)
    ends = end_tokens(folder, tokenizer)
    if engine == "vllm":
        from hardgrpo.sampling import vllm_engine

        yield from vllm_engine.sample(folder, tokenizer, ends, prompts, requests, max_tokens, adapters, parts, gpus, done, ready)
        return
    model = load(folder)
    model.generation_config.eos_token_id = ends
    print("engine transformers is ready", flush=True)
    ready()
    for _, adapted in with_adapters(model, adapters):
        for part in [range(len(requests))] if parts is None else parts:
            chosen = [prompts[i] for i in part], [requests[i] for i in part]
            yield generate(adapted, tokenizer, *chosen, max_tokens, batch, done)


def load_tokenizer(folder: str):
    """A model's tokenizer, which pads with its end token if it has no padding token. Raise a `UserError` if it has no chat template."""
    tokenizer = model_folders.load_tokenizer(folder, padding_side="left")
    check_chat_template(tokenizer, folder)
    ensure_padding(tokenizer)
    return tokenizer


def ensure_padding(tokenizer) -> None:
    """Give a tokenizer without a padding token (Llama's) its end token as such, as TRL does. Padding is masked, so any token will do."""
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)


def tokenize(tokenizer, requests: list[Request], chat: dict) -> list[list[int]]:
    """Token ids of each request's conversation, up to where the answer starts. Equal conversations are tokenized once."""
    conversations = {tuple(message["content"] for message in request.messages): list(request.messages) for request in requests}
    ids = dict(zip(conversations, model_folders.token_ids(tokenizer, list(conversations.values()), chat)))
    return [ids[tuple(message["content"] for message in request.messages)] for request in requests]


def end_tokens(folder: str, tokenizer) -> list[int]:
    """Ids of all tokens that end a completion, for both engines: eos_token_id of the model's configurations and, as in TRL's
    training, of the tokenizer. Raise a `UserError` if there is none."""
    stated = [tokenizer.eos_token_id]
    for name in ("generation_config.json", "config.json"):
        if (Path(folder) / name).exists():
            found = files.read_json(Path(folder) / name).get("eos_token_id")
            stated += found if isinstance(found, list) else [found]
    if any(type(token) is not int for token in stated if token is not None):
        raise UserError(f"{folder}: eos_token_id is {stated}, expected numbers of tokens; fetch the model again, or choose another")
    ends = sorted({token for token in stated if token is not None})
    if not ends:
        raise UserError(f"{folder}: neither configuration nor tokenizer says which token ends a completion; add eos_token_id")
    return ends


def check_chat_template(tokenizer, folder: str) -> None:
    if not tokenizer.chat_template:
        raise UserError(
            f"{folder}: the tokenizer has no chat template, so a question cannot be put to the model; take an instruction-tuned model"
            " or put a chat_template.jinja into its folder"
        )


def longest_prompt(folder: str, max_tokens: int) -> int | None:
    """Tokens that a model's context leaves for the prompt beside a completion of `max_tokens`; None if the model states no context."""
    context = getattr(model_folders.load_config(folder), "max_position_embeddings", None)
    return context - max_tokens if context else None


def check_context(folder: str, prompts: list[list[int]], max_tokens: int, ids: list[str] | None = None) -> None:
    """Raise a `UserError` if a prompt is too long; `ids` names them. The workflow leaves such prompts out before (fit_prompts.py)."""
    config = model_folders.load_config(folder)
    words = getattr(config.get_text_config(), "vocab_size", None)
    if words is not None and (largest := max(map(max, prompts))) >= words:
        raise UserError(
            f"{folder}: the tokenizer makes token {largest} of a prompt, but the model has {words} tokens; fetch the model again, or choose"
            " another"
        )
    limit, length = longest_prompt(folder, max_tokens), max(map(len, prompts))
    if limit is not None and length > limit:
        too_long = [f"'{name}'" for name, prompt in zip(ids or [], prompts) if len(prompt) > limit]
        names = f" ({len(too_long)} such prompts: {first_entries(too_long)})" if ids else ""
        raise UserError(
            f"a prompt of {length} tokens and {max_tokens} of completion exceed the model's context of {limit + max_tokens}{names};"
            " lower the task's completion_tokens or shorten the prompt"
        )


def check_adapter(adapter: str, base: str) -> None:
    """Raise a `UserError` if the adapter's matrices do not fit those of the base model. Reads file headers only."""
    shapes = _shapes(Path(adapter), "adapter_model.safetensors")
    base_shapes = _shapes(Path(base), "*.safetensors")
    for name, shape in shapes.items():
        module, _, matrix = name.removeprefix("base_model.model.").rpartition(".lora_")
        expected = base_shapes.get(f"{module}.weight")
        fits = expected and (shape[1] == expected[1] if matrix.startswith("A") else shape[0] == expected[0])
        if matrix[:1] in ("A", "B") and not fits:
            found = f"there has the shape {expected}" if expected else "is not there"
            raise UserError(
                f"{adapter}: the adapter does not fit its base {base}: {name} is {shape}, but {module}.weight {found};"
                " name the model that it was trained on"
            )


def _shapes(folder: Path, pattern: str) -> dict[str, list[int]]:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise UserError(f"{folder}: no {pattern}; expected weights as safetensors")
    shapes = {}
    for path in paths:
        with errors.while_loading(folder), safe_open(path, framework="pt") as stream:
            names = list(stream.keys())  # noqa: SIM118 (a handle, not a dictionary)
            shapes |= {name: stream.get_slice(name).get_shape() for name in names}
    return shapes


def load(folder: str):
    """The model in evaluation mode on the best device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = model_folders.load_model(folder, dtype=torch.float32 if device == "cpu" else "auto").to(device).eval()
    with errors.while_loading(folder), torch.inference_mode():  # some settings are first used here
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device))
    return model


def with_adapters(model, adapters: list[str | None]) -> Iterator[tuple]:
    """Yield (adapter, model with this adapter) for each adapter; None is the base model alone."""
    wrapped = None
    for number, adapter in enumerate(adapters):
        if adapter is None:
            with wrapped.disable_adapter() if wrapped is not None else contextlib.nullcontext():
                yield None, wrapped or model
            continue
        from peft import PeftModel  # only where there are adapters

        name = f"adapter{number}"
        if wrapped is None:
            wrapped = PeftModel.from_pretrained(model, adapter, adapter_name=name).eval()
        else:
            wrapped.load_adapter(adapter, adapter_name=name)
        wrapped.set_adapter(name)
        wrapped.eval()
        yield adapter, wrapped
        if len(wrapped.peft_config) > 1:
            wrapped.delete_adapter(next(other for other in wrapped.peft_config if other != name))


def generate(
    model,
    tokenizer,
    prompts: list[list[int]],
    requests: list[Request],
    max_tokens: int,
    batch: int,
    done: Callable[[int], None] = lambda completions: None,
) -> list[Completion]:
    """Sample one completion per request with transformers, in order. Calls `done(completions)` after each batch."""
    stated = model.generation_config.eos_token_id
    ends = stated if isinstance(stated, list) else [stated]
    out: list[Completion | None] = [None] * len(requests)
    for rows in _batches(prompts, requests, batch):
        inputs = tokenizer.pad({"input_ids": [prompts[i] for i in rows]}, return_tensors="pt").to(model.device)
        wanted = [requests[i] for i in rows]
        asked = any(r.log_probability for r in wanted)
        draw = decoding.SeededSampling([r.seed for r in wanted], [r.temperature for r in wanted], max_tokens, model.device, asked)
        with torch.inference_mode():
            sampled = decoding.decode(model, inputs["input_ids"], inputs["attention_mask"], ends, max_tokens, draw)
        for row, (i, (ids, ended)) in enumerate(zip(rows, sampled)):
            text = tokenizer.decode(ids, skip_special_tokens=True)
            likely = draw.log_probabilities[row, : len(ids)].double().mean().item() if requests[i].log_probability else None
            out[i] = Completion(text, len(ids), "stop" if ended else "length", likely)
        done(len(rows))
    return out


def _batches(prompts: list[list[int]], requests: list[Request], batch: int) -> Iterator[list[int]]:
    """Indices in batches: prompts of similar length (long prompts mostly have long solutions), either all greedy or none."""
    for greedy in (False, True):
        rows = [i for i, r in enumerate(requests) if (r.temperature == 0) == greedy]
        rows.sort(key=lambda i: (-len(prompts[i]), i))
        yield from (rows[start : start + batch] for start in range(0, len(rows), batch))


def fix_threads() -> None:
    """Compute with OMP_NUM_THREADS threads (default: 1). Results are bit-identical only for the same number of threads."""
    asked = os.environ.get("OMP_NUM_THREADS", "1")
    if not (asked.isascii() and asked.isdecimal() and int(asked)):
        raise UserError(f"OMP_NUM_THREADS is {printable(asked)!r}, expected a number of threads; unset it")
    torch.set_num_threads(int(asked))
