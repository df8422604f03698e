"""Decoding: its cache of keys and values, and its memory."""

import subprocess
import sys

import pytest
import torch
from transformers import DynamicCache, Qwen3Config

from hardgrpo.sampling import decoding


def config(layer_types: list[str]) -> Qwen3Config:
    return Qwen3Config(
        num_hidden_layers=len(layer_types),
        layer_types=layer_types,
        use_sliding_window=True,
        sliding_window=8,
    )


@pytest.mark.parametrize(
    "layer_types", [["full_attention"] * 2, ["sliding_attention", "full_attention"]]
)
@pytest.mark.parametrize("prompt_tokens", [1, 2 * decoding.RESERVED_TOKENS])
def test_the_cache_returns_the_same_tensors_as_the_cache_of_transformers(
    layer_types, prompt_tokens
):
    generator = torch.Generator().manual_seed(prompt_tokens)
    caches = decoding.ReservingCache(config(layer_types)), DynamicCache(config=config(layer_types))
    rows, kept_rows = 4, torch.tensor([2, 0, 0])
    for step in range(2 * decoding.RESERVED_TOKENS + 3):
        if step in (1, decoding.RESERVED_TOKENS):  # rows are repeated and removed
            for cache in caches:
                cache.reorder_cache(kept_rows)
            rows = len(kept_rows)
        tokens = prompt_tokens if step == 0 else 1
        for layer in range(len(layer_types)):
            new = torch.randn(2, rows, 3, tokens, 5, generator=generator)
            states = [cache.update(*new, layer) for cache in caches]
            for reserving, plain in zip(*states, strict=True):
                assert torch.equal(reserving, plain)
        lengths = {cache.get_seq_length(len(layer_types) - 1) for cache in caches}
        assert lengths == {prompt_tokens + step}


def test_the_memory_of_removed_rows_is_freed():
    cache, states = decoding.ReservingCache(config(["full_attention"])), torch.zeros(8, 3, 5, 4)
    cache.update(states, states, 0)
    cache.reorder_cache(torch.tensor([0]))
    (layer,) = cache.layers
    assert layer.memory is None
    assert layer.keys.untyped_storage().nbytes() == states[:1].numel() * states.element_size()


def test_a_frozen_output_layer_is_not_copied_for_each_row():
    """A model with an adapter has a frozen output layer. In bf16 on a CPU, torch copied this layer
    once per row: 0.6 GB here, and 19 GB for a model of half a billion weights."""
    program = (
        "import resource, torch\n"
        "from transformers import Qwen3Config, Qwen3ForCausalLM\n"
        "from hardgrpo.sampling import decoding\n"
        "config = Qwen3Config(vocab_size=20_000, hidden_size=256, intermediate_size=8, num_hidden_layers=1,\n"
        "    num_attention_heads=1, num_key_value_heads=1, head_dim=8)\n"
        "model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval().requires_grad_(False)\n"
        "def peak_mib():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "def decode(rows, tokens):\n"
        "    ids = torch.arange(rows * 8).reshape(rows, 8)\n"
        "    sampler = decoding.SeededSampling(list(range(rows)), [1.0] * rows, tokens, ids.device, False)\n"
        "    with torch.inference_mode():\n"
        "        decoding.decode(model, ids, torch.ones_like(ids), [0], tokens, sampler)\n"
        "decode(1, 2)\n"
        "before = peak_mib()\n"
        "decode(64, 2)\n"
        "print(peak_mib() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 256, (
        "decoding 64 rows with 20,000 scores each must raise the peak memory by less than 256 MiB"
    )
