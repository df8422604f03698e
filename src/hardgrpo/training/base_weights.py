"""The base weights under an adapter: merged copies for vLLM, and a checksum. Imports torch and
PEFT.

TRL would merge the adapter into the base weights for vLLM and unmerge it afterwards. In bf16, both
operations round the base weights, which would drift with every update (huggingface/trl#6688).
"""

import hashlib
from collections.abc import Iterator

import torch
from peft.tuners.lora import LoraLayer


def merged_weights(model) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name in the base model, weights with the adapter merged) for each base parameter, in
    the parameter's precision. Only one parameter has a merged copy at a time."""
    layers = {
        f"{name}.base_layer.weight": layer
        for name, layer in model.named_modules()
        if isinstance(layer, LoraLayer)
    }
    for name, weights in _base_parameters(model):
        yield _base_name(name), _merge(weights, layers[name]) if name in layers else weights.data


def checksum(model) -> str:
    """SHA-256 of the names, types, shapes and values of a model's base parameters. Adapter weights
    are not included."""
    digest = hashlib.sha256()
    parameters = {_base_name(name): weights for name, weights in _base_parameters(model)}
    for name, weights in sorted(parameters.items()):
        digest.update(f"{name} {weights.dtype} {tuple(weights.shape)}\0".encode())
        digest.update(weights.detach().contiguous().flatten().view(torch.uint8).cpu().numpy())
    return digest.hexdigest()


def _base_parameters(model) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, weights) for name, weights in model.named_parameters() if ".lora_" not in name)


def _base_name(name: str) -> str:
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


@torch.no_grad()
def _merge(weights: torch.Tensor, layer: LoraLayer) -> torch.Tensor:
    merged = weights.float() if weights.dtype != torch.float32 else weights.clone()
    for adapter in layer.active_adapters:
        merged += layer.get_delta_weight(adapter)
    return merged.to(weights.dtype)
