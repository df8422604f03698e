"""Decoding a batch of prompts token by token, for probing, evaluation and the rollouts of training, with a causal model of transformers.

`transformers.generate` computes a prompt as often as it is asked for, and goes on with every row until the last has ended. Here
prompts that follow one another and are equal are computed once, and rows that have ended leave the batch.
"""

from collections.abc import Callable

import numpy as np
import torch
from transformers import DynamicCache

from hardgrpo.runtime.errors import UserError


def decode(
    model, ids: torch.Tensor, mask: torch.Tensor, ends: list[int], max_tokens: int, draw: Callable
) -> list[tuple[list[int], bool]]:
    """(token ids, whether one of `ends` was reached) of each row of a left-padded batch of prompts, ids and mask (rows, width).

    `draw(scores, rows, step)` gives the tokens (n,) that follow scores (n, vocabulary) in the rows (n,) of the batch.
    """
    count, ends = len(ids), torch.tensor(ends, device=ids.device)
    tokens = torch.zeros(count, max_tokens, dtype=torch.long, device=ids.device)
    lengths = torch.full((count,), max_tokens, device=ids.device)
    ended = torch.zeros(count, dtype=torch.bool, device=ids.device)
    alive = torch.arange(count, device=ids.device)  # rows that are still computed
    cache = DynamicCache(config=model.config)

    different, copies = torch.unique_consecutive(torch.cat([ids, mask], dim=1), dim=0, return_inverse=True)
    ids, mask = different.split(ids.shape[1], dim=1)
    positions = (mask.cumsum(dim=-1) - 1).clamp(min=0)
    for step in range(max_tokens):
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        if getattr(output, "past_key_values", None) is None:
            raise UserError(
                f"{type(model).__name__} keeps no keys and values of earlier tokens (past_key_values), so it cannot be sampled with"
                " transformers here; set the model's engine to vllm, or take a model with attention"
            )
        scores = output.logits[:, -1]
        if step == 0 and len(different) < count:
            scores, mask, positions = scores[copies], mask[copies], positions[copies]
            cache.reorder_cache(copies)
        ids = draw(scores, alive, step)
        tokens[alive, step] = ids
        over = torch.isin(ids, ends) & ~ended[alive]
        lengths[alive[over]] = step + 1
        ended[alive[over]] = True
        going = (~ended[alive]).nonzero().squeeze(1)
        if len(going) == 0:
            break
        # Leaving costs a copy of the cache, so it waits until an eighth of the batch has ended.
        if len(going) <= 0.875 * len(alive):
            alive, ids, mask, positions = alive[going], ids[going], mask[going], positions[going]
            cache.reorder_cache(going)
        ids, positions = ids.unsqueeze(1), positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    return [(row[:length], end) for row, length, end in zip(tokens.tolist(), lengths.tolist(), ended.tolist())]


class SeededSampling:
    """Inverse-CDF sampling with one uniform number a (row, step), drawn beforehand from the row's own seed; at temperature 0 greedy."""

    def __init__(self, seeds: list[int], temperatures: list[float], max_tokens: int, device: torch.device | str = "cpu"):
        draws = [np.random.Generator(np.random.PCG64(seed)).random(max_tokens) for seed in seeds]
        self.uniform = torch.from_numpy(np.stack(draws)).to(device)
        self.temperature = torch.tensor(temperatures, dtype=torch.float64, device=device)

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        """Token ids (n,) from scores (n, vocabulary) of `rows` at `step`; all of one batch sample or none does."""
        if self.temperature[0] == 0:
            return scores.argmax(dim=-1)
        cumulative = torch.softmax(scores.double() / self.temperature[rows].unsqueeze(1), dim=-1).cumsum(dim=-1)
        # The last sum may fall short of one by rounding: scale the draw instead of running off the end.
        target = self.uniform[rows, step].unsqueeze(1) * cumulative[:, -1:]
        return torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=scores.shape[-1] - 1)


class GlobalSampling:
    """The tokens that torch.multinomial, and so `transformers.generate`, draws with torch's global random numbers.

    It divides each probability by an exponential number and takes the largest (ATen's path for one sample a row). The numbers are drawn for
    all rows, those that have left the batch too, as `generate` does, so that the rows that go on get the same.
    """

    def __init__(self, rows: int, temperature: float):
        self.rows, self.temperature = rows, temperature

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        scores = scores.float()
        probabilities = torch.softmax(scores if self.temperature == 1 else scores / self.temperature, dim=-1)
        noise = torch.empty(self.rows, scores.shape[-1], device=scores.device).exponential_(1)
        return (probabilities / noise[rows]).argmax(dim=-1)
