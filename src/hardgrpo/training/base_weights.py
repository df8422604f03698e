"""The base weights under an adapter: copies with the adapter added, for vLLM, and their checksum. Imports torch and PEFT.

TRL adds the adapter to the base's own weights before it sends them to vLLM, and subtracts it afterwards. In bf16 the subtraction does not
restore what the addition rounded off, so that the base would drift with every update (huggingface/trl#6688): the reference policy of
the KL term, and the model that the adapter is tested on, would no longer be the base.
"""

import hashlib
from collections.abc import Iterator

import torch
from peft.tuners.lora import LoraLayer


def with_adapter(model) -> Iterator[tuple[str, torch.Tensor]]:
    """(name without an adapter, weights with the adapter added) of each of a PEFT model's base parameters, in their own precision. The
    model's weights do not change. Only one sum exists at a time."""
    layers = {f"{name}.base_layer.weight": layer for name, layer in model.named_modules() if isinstance(layer, LoraLayer)}
    for name, weights in _base(model):
        yield _plain(name), _sum(weights, layers[name]) if name in layers else weights.data


def checksum(model) -> str:
    """SHA-256 of the names, types and values of a model's base parameters. A model with an adapter has the checksum of the model without."""
    digest = hashlib.sha256()
    for name, weights in sorted((_plain(name), weights) for name, weights in _base(model)):
        digest.update(f"{name} {weights.dtype} {tuple(weights.shape)}\0".encode())
        digest.update(weights.detach().contiguous().flatten().view(torch.uint8).cpu().numpy())
    return digest.hexdigest()


def train_in_float32(model) -> None:
    """Hold all weights that are trained in float32, whatever the precision of the base. An update is often smaller than a step of bf16,
    and would be lost."""
    for weights in model.parameters():
        if weights.requires_grad:
            weights.data = weights.data.float()


def _base(model) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, weights) for name, weights in model.named_parameters() if ".lora_" not in name)


def _plain(name: str) -> str:
    return name.removeprefix("base_model.model.").replace(".base_layer", "")


@torch.no_grad()
def _sum(weights: torch.Tensor, layer: LoraLayer) -> torch.Tensor:
    total = weights.float() if weights.dtype != torch.float32 else weights.clone()
    for adapter in layer.active_adapters:
        total += layer.get_delta_weight(adapter)
    return total.to(weights.dtype)
