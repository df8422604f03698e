"""Print checksums of the results of operations that training uses, to compare the rounding of two
machines.

    python scripts/maintenance/rounding.py
    python scripts/maintenance/rounding.py --exact    # with the kernels for small models
    qemu-x86_64 -cpu Haswell .venv/bin/python scripts/maintenance/rounding.py --exact

Each line after the first holds an operation and the checksum of its result. docs/reproduce.md says
which computations of a study are equal on different processors.
"""

from hardgrpo.runtime import environments, errors, exact_products

import argparse
import hashlib

# (rows, inner size, columns) of matrix products
SHAPES = ((200, 96, 256), (640, 96, 96), (640, 256, 96), (96, 640, 256), (16, 96, 64), (1, 96, 96))
ELEMENTWISE = ("exp", "log", "sqrt", "rsqrt", "cos", "sin", "tanh", "sigmoid")
UPDATES, TOKENS = 6, 30


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="compute with the kernels of hardgrpo.runtime.exact_products",
    )
    if parser.parse_args().exact:
        environments.prepare_exact()
        exact_products.install()
    import torch

    torch.set_num_threads(1)
    print(f"# torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    for name, value in (
        operations() | train("training, AdamW") | train("training, fused AdamW", fused=True)
    ).items():
        print(
            name,
            hashlib.sha256(value.detach().contiguous().numpy().tobytes()).hexdigest()[:16],
            sep=": ",
            flush=True,
        )


def operations() -> dict:
    """Results of single operations on random numbers, as tensors."""
    import torch
    from torch.nn import functional

    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    results = {f"matrix product {m}x{k}x{n}": draw(m, k) @ draw(k, n) for m, k, n in SHAPES}
    results |= {
        f"linear layer {m}x{k}x{n}": functional.linear(draw(m, k), draw(n, k)) for m, k, n in SHAPES
    }
    heads = [draw(4, 4, 40, 24).requires_grad_() for _ in range(3)]
    results["attention"] = functional.scaled_dot_product_attention(*heads, is_causal=True)
    (results["attention, gradient"],) = torch.autograd.grad(results["attention"].sum(), heads[:1])
    values = draw(64, 200)
    results |= {name: getattr(torch, name)(values.abs()) for name in ELEMENTWISE}
    results |= {
        "silu": functional.silu(values),
        "softmax": values.softmax(-1),
        "log_softmax": values.log_softmax(-1),
        "logsumexp": values.logsumexp(-1),
        "softmax, double precision": values.double().softmax(-1),
        "random exponentials": torch.empty(64, 200).exponential_(generator=generator),
    }
    return results | {
        "sum": values.sum(),
        "mean by row": values.pow(2).mean(-1),
        "norm": values.norm(),
    }


def train(name: str, **options) -> dict:
    """The weights of a small model after a few updates, and tokens that it samples."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=64, hidden_size=96, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        head_dim=24, max_position_embeddings=128,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)
    text = torch.randint(0, 64, (16, 40))
    for _ in range(UPDATES):
        model(input_ids=text, labels=text).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    weights = torch.cat([weight.flatten() for weight in model.parameters()])
    model.eval()
    sampled_tokens = model.generate(
        text[:, :8], do_sample=True, max_new_tokens=TOKENS, pad_token_id=0, eos_token_id=63
    )
    return {f"{name}: weights": weights, f"{name}: sampled tokens": sampled_tokens}


if __name__ == "__main__":
    errors.run(main)
