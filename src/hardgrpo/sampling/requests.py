"""Requests to an engine and its completions, for both engines."""

import hashlib
from dataclasses import dataclass

MAX_SEQUENCES = 512  # sequences in a batch of either engine on a GPU


@dataclass(frozen=True)
class Request:
    """One completion to sample; temperature 0 is greedy and ignores the seed."""

    messages: tuple[dict, ...]  # {role, content}
    seed: int
    temperature: float
    log_probability: bool = False  # whether the engine returns the completion's mean log-probability


@dataclass(frozen=True)
class Completion:
    """A sampled completion."""

    text: str
    tokens: int  # generated tokens, including the end token
    finish_reason: str  # "stop" or "length", as vLLM calls them
    log_probability: float | None = None  # mean over its tokens at temperature 1, in nats; None: not requested


def sample_seed(*key) -> int:
    """A seed derived from names and numbers, e.g. (task seed, problem id, sample), equal on every machine."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8]) >> 1
