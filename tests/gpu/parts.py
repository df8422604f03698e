"""Parts of the GPU checks that need torch, each in a process of its own.

    python parts.py make_model FOLDER SHAPE.json    # random weights, and a tokenizer of random words
    python parts.py compare_loss_kernel cuda 1024 2560 151936
    python parts.py checksum MODEL bf16             # of the weights, as a training records it
    python parts.py add_noise ADAPTER OUTPUT        # an adapter that changes completions noticeably

The last line of the output is the result.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from hardgrpo.runtime import environments, errors, files, provenance

GPUS = int(os.environ.get("GPU_CHECK_GPUS", "0"))
TOKENS_IN_FLOAT64 = 256  # a copy of the weights in float64 takes 3 GB
TILE = 32_768  # words of a tile, as in TRL


def make_model(folder: str, shape_path: str) -> None:
    """Save a model with random weights. Of completions of `tokens` random words, about one half
    contains a number, which the grader `final_number` accepts as an answer."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, Phi3Config, PreTrainedTokenizerFast, Qwen3Config

    shape = files.read_json(shape_path)
    common = {
        "vocab_size": shape["vocabulary"], "hidden_size": shape["hidden_size"], "num_hidden_layers": shape["layers"],
        "intermediate_size": shape["intermediate_size"], "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["key_value_heads"], "tie_word_embeddings": shape["tied"],
        "eos_token_id": 0, "pad_token_id": 1, "bos_token_id": None, "max_position_embeddings": 4096,
    }  # fmt: skip
    config = (
        Phi3Config(**common)
        if shape.get("fused")
        else Qwen3Config(head_dim=shape["head_size"], **common)
    )
    torch.manual_seed(0)
    with torch.device("cuda" if GPUS else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():  # logits with a standard deviation of about 2
        model.get_output_embeddings().weight.mul_(2)
    model.save_pretrained(folder)
    numbers_apart = max(2, round(shape["tokens"] / 0.69))
    letters = lambda number: "".join(chr(ord("a") + int(digit)) for digit in str(number))
    words = {
        str(i) if i % numbers_apart == 0 else letters(i): i for i in range(2, shape["vocabulary"])
    }
    words |= {"<end>": 0, "<pad>": 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<end>",
        pad_token="<pad>",
        chat_template="{% for message in messages %}{{ message.content }} {% endfor %}",
    ).save_pretrained(folder)
    provenance.write_manifest(folder)


def compare_loss_kernel(device: str, tokens: int, width: int, vocabulary: int) -> dict:
    """Compare the Triton kernel of TRL's loss with TRL's code for devices without Triton, and with
    float64: the largest difference of a log-probability, its mean difference to float64, and
    differences of the gradients relative to the gradients' norm."""
    import torch
    from trl.kernels import chunked_logprob

    def compute(has_triton: bool) -> tuple[torch.Tensor, torch.Tensor]:
        x = hidden.clone().requires_grad_()
        usual, chunked_logprob._TRITON_AVAILABLE = chunked_logprob._TRITON_AVAILABLE, has_triton
        try:
            logps, *_ = chunked_logprob.ChunkedLogProbFunction.apply(
                x, weights, None, targets, 1.0, TILE, None, 1.0, ("entropy",)
            )
            (logps * upstream).sum().backward()
        finally:
            chunked_logprob._TRITON_AVAILABLE = usual
        return logps.detach(), x.grad.float()

    relative = lambda gradient, expected: ((gradient - expected).norm() / expected.norm()).item()
    torch.manual_seed(0)
    hidden = torch.randn(tokens, width, device=device, dtype=torch.bfloat16)
    # logits with a standard deviation of 4
    weights = (torch.randn(vocabulary, width, device=device) * 4 / width**0.5).to(torch.bfloat16)
    targets = torch.randint(0, vocabulary, (tokens,), device=device)
    upstream = torch.randn(tokens, device=device)
    logps, gradient = compute(chunked_logprob._TRITON_AVAILABLE)
    torch_logps, torch_gradient = compute(False)
    rows = slice(0, TOKENS_IN_FLOAT64)
    exact_hidden = hidden[rows].double().requires_grad_()
    scores = torch.log_softmax(exact_hidden @ weights.double().T, dim=-1)
    exact_logps = scores.gather(1, targets[rows, None])[:, 0]
    (exact_logps * upstream[rows]).sum().backward()
    return {
        "logp_to_torch": (logps - torch_logps).abs().max().item(),
        "gradient_to_torch": relative(gradient, torch_gradient),
        "logp_to_float64": (logps[rows] - exact_logps).abs().mean().item(),
        "gradient_to_float64": relative(gradient[rows], exact_hidden.grad),
    }


def checksum(model: str, base: str) -> str:
    from transformers import AutoModelForCausalLM

    from hardgrpo.training import base_weights, recipes

    arguments = recipes.model_arguments({"base": base})
    return base_weights.checksum(AutoModelForCausalLM.from_pretrained(model, **arguments))


def add_noise(folder: str, output: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, output, dirs_exist_ok=True)
    path, generator = Path(output) / "adapter_model.safetensors", torch.Generator().manual_seed(0)
    weights = load_file(path)
    noisy_weights = {
        name: value + torch.randn(value.shape, generator=generator) * 0.03
        for name, value in weights.items()
        if ".lora_B" in name
    }
    path.unlink()  # `weights` may be mapped from the file, so the file must not be overwritten
    save_file(weights | noisy_weights, path)


def main() -> None:
    name, *arguments = sys.argv[1:]
    environments.use(gpus=GPUS)
    if name == "compare_loss_kernel":
        arguments[1:] = map(int, arguments[1:])
    print(json.dumps(globals()[name](*arguments)))


if __name__ == "__main__":
    errors.run(main)
