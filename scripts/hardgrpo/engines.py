"""Sampling completions from a model folder. Every (prompt, sample) has a seed of its own.

A completion depends on (weights, prompt, seed, limits) and not on which other prompts share its batch or shard: the
uniform number behind its t-th token is the t-th draw of its own generator. (Batches of another shape may round
differently in the last bit, so bit-identity holds for the same batches, agreement in law always.)
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList

from .errors import UserError

logging.getLogger("transformers.generation").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Request:
    """One completion to sample; temperature 0 is greedy and ignores the seed."""

    messages: tuple[dict, ...]
    seed: int
    temperature: float


@dataclass(frozen=True)
class Completion:
    text: str
    tokens: int  # generated tokens, the end-of-text token included
    finish_reason: str  # "stop" or "length", as vLLM calls them


def sample_seed(*key) -> int:
    """A seed from names and numbers, e.g. (task seed, problem id, sample): the same on every machine."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8]) >> 1


def load(folder: str) -> tuple:
    """(model in evaluation mode on the best device, tokenizer padded on the left)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype=torch.float32 if device == "cpu" else "auto"
    )
    return model.to(device).eval(), tokenizer


def generate(
    model,
    tokenizer,
    requests: list[Request],
    max_tokens: int,
    batch: int,
    done: Callable[[int, int], None] = lambda n, tokens: None,
) -> list[Completion]:
    """One completion a request, in order. `done(completions, tokens)` is called after each batch."""
    prompts = [
        tokenizer.apply_chat_template(list(r.messages), add_generation_prompt=True, return_dict=True)["input_ids"] for r in requests
    ]
    context = getattr(model.config, "max_position_embeddings", None)
    longest = max(map(len, prompts))
    if context and longest + max_tokens > context:
        raise UserError(
            f"a prompt of {longest} tokens and {max_tokens} of completion exceed the model's context of {context};"
            " lower the task's completion_tokens or shorten the prompt"
        )
    out: list[Completion | None] = [None] * len(requests)
    for rows in _batches(prompts, requests, batch):
        chunk = [requests[i] for i in rows]
        inputs = tokenizer.pad({"input_ids": [prompts[i] for i in rows]}, return_tensors="pt").to(model.device)
        greedy = chunk[0].temperature == 0
        processors = LogitsProcessorList([] if greedy else [SeededSampling(chunk, max_tokens)])
        with torch.inference_mode():
            ids = model.generate(
                **inputs,
                max_new_tokens=max_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                logits_processor=processors,
                pad_token_id=tokenizer.pad_token_id,
            )[:, inputs["input_ids"].shape[1] :]
        ends = set(np.atleast_1d(model.generation_config.eos_token_id).tolist())
        tokens = 0
        for i, row in zip(rows, ids.tolist()):
            length = next((n for n, token in enumerate(row, start=1) if token in ends), None)
            kept = row[: length or len(row)]
            text = tokenizer.decode(kept, skip_special_tokens=True)
            out[i] = Completion(text, len(kept), "stop" if length else "length")
            tokens += len(kept)
        done(len(rows), tokens)
    return out


def _batches(prompts: list[list[int]], requests: list[Request], batch: int) -> Iterator[list[int]]:
    """Indices in batches of like length (a long prompt mostly has a long solution) and one way of decoding each."""
    for greedy in (False, True):
        rows = [i for i, r in enumerate(requests) if (r.temperature == 0) == greedy]
        rows.sort(key=lambda i: (-len(prompts[i]), i))
        yield from (rows[start : start + batch] for start in range(0, len(rows), batch))


class SeededSampling(LogitsProcessor):
    """Inverse-CDF sampling with one uniform number a (request, step), drawn beforehand from the request's own seed."""

    def __init__(self, requests: list[Request], max_tokens: int):
        draws = [np.random.Generator(np.random.PCG64(r.seed)).random(max_tokens) for r in requests]
        self.uniform = torch.from_numpy(np.stack(draws))
        self.temperature = torch.tensor([r.temperature for r in requests], dtype=torch.float64).unsqueeze(1)
        self.step = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores that leave only the drawn token: greedy decoding then picks it."""
        cumulative = torch.softmax(scores.double().cpu() / self.temperature, dim=-1).cumsum(dim=-1)
        # The last sum may fall short of one by rounding: scale the draw instead of running off the end.
        target = self.uniform[:, self.step].unsqueeze(1) * cumulative[:, -1:]
        token = torch.searchsorted(cumulative, target, right=True).clamp(max=scores.shape[-1] - 1)
        self.step += 1
        return torch.full_like(scores, float("-inf")).scatter_(1, token.to(scores.device), 0.0)


def fix_threads() -> None:
    """One thread unless OMP_NUM_THREADS says otherwise: results are bit-identical only for the same number of threads."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
