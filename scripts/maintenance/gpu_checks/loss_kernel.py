"""Compare the Triton kernel of TRL's loss with TRL's code for devices without Triton on the same GPU,
and with float64. Print the differences as JSON. The shape is that of Qwen3-4B.

    python loss_kernel.py
"""

import json

import torch
from trl.kernels import chunked_logprob

TOKENS, WIDTH, VOCABULARY = 1024, 2560, 151_936
TOKENS_IN_FLOAT64 = 256  # a copy of the weights in float64 takes 3 GB
CHUNK = 32_768  # words of a tile, as in TRL


def compare(device: str, tokens: int, width: int, vocabulary: int) -> dict[str, float]:
    """Largest difference of a log-probability, its mean difference to float64, and differences of
    the gradients relative to the gradients' norm."""
    torch.manual_seed(0)
    hidden = torch.randn(tokens, width, device=device, dtype=torch.bfloat16)
    # logits with a standard deviation of 4
    weights = (torch.randn(vocabulary, width, device=device) * 4 / width**0.5).to(torch.bfloat16)
    targets = torch.randint(0, vocabulary, (tokens,), device=device)
    upstream = torch.randn(tokens, device=device)
    logps, gradient = _compute(hidden, weights, targets, upstream)
    has_triton = chunked_logprob._TRITON_AVAILABLE
    chunked_logprob._TRITON_AVAILABLE = False
    try:
        torch_logps, torch_gradient = _compute(hidden, weights, targets, upstream)
    finally:
        chunked_logprob._TRITON_AVAILABLE = has_triton
    rows = slice(0, TOKENS_IN_FLOAT64)
    exact_hidden = hidden[rows].double().requires_grad_()
    scores = torch.log_softmax(exact_hidden @ weights.double().T, dim=-1)
    exact_logps = scores.gather(1, targets[rows, None])[:, 0]
    (exact_logps * upstream[rows]).sum().backward()
    exact_gradient = exact_hidden.grad
    return {
        "logp_to_torch": (logps - torch_logps).abs().max().item(),
        "gradient_to_torch": _relative(gradient, torch_gradient),
        "logp_to_float64": (logps[rows] - exact_logps).abs().mean().item(),
        "gradient_to_float64": _relative(gradient[rows], exact_gradient),
    }


def _compute(hidden, weights, targets, upstream) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probabilities of the targets, gradient of `hidden`)."""
    hidden = hidden.clone().requires_grad_()
    logps, *_ = chunked_logprob.ChunkedLogProbFunction.apply(
        hidden, weights, None, targets, 1.0, CHUNK, None, 1.0, ("entropy",)
    )
    (logps * upstream).sum().backward()
    return logps.detach(), hidden.grad.float()


def _relative(gradient: torch.Tensor, expected: torch.Tensor) -> float:
    return ((gradient - expected).norm() / expected.norm()).item()


if __name__ == "__main__":
    print(json.dumps(compare("cuda", TOKENS, WIDTH, VOCABULARY)))
