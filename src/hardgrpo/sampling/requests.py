"""Requests to an engine, and the completions that the engine returns."""

import hashlib
from dataclasses import dataclass

MAX_SEQUENCES = 512  # maximum number of sequences in a batch of transformers or vLLM
MOST_SAMPLES = 16  # maximum number of samples of a prompt in one request to a server
CHARACTERS_PER_TOKEN = 4  # assumed if a server reports no token counts


@dataclass(frozen=True)
class Request:
    """One completion to sample. Temperature 0 means greedy decoding, which ignores the seed."""

    messages: tuple[dict, ...]  # {role, content}
    seed: int
    temperature: float
    log_probability: bool = False  # whether the engine returns the mean log-probability
    top_p: float = 1.0  # a server samples from the smallest set of tokens with this probability


@dataclass(frozen=True)
class Completion:
    """A sampled completion."""

    text: str
    tokens: int  # generated tokens, including the end token
    finish_reason: str  # "stop", "length" or, from a server, "content_filter"
    log_probability: float | None = None  # mean over the tokens at temperature 1, in nats


def sample_seed(*key) -> int:
    """A seed derived from names and numbers, e.g. (task seed, problem id, sample). Equal keys give
    equal seeds on every machine."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8]) >> 1
