"""Decode a batch of prompts token by token with a causal model of transformers, for probes, evaluations and rollouts.

`transformers.generate` computes every copy of a prompt, and continues every row until the last row has ended. `decode` computes
equal consecutive prompts once, and drops rows that have ended from the batch.
"""

from collections.abc import Callable

import numpy as np
import torch
from transformers import DynamicCache

from hardgrpo.runtime.errors import UserError


def decode(
    model, ids: torch.Tensor, mask: torch.Tensor, ends: list[int], max_tokens: int, draw: Callable
) -> list[tuple[list[int], bool]]:
    """(token ids, whether it reached one of `ends`) for each row of a left-padded batch of prompts; ids and mask are (rows, width).

    `draw(scores, rows, step)` returns the next tokens (n,) of the rows (n,), from their scores (n, vocabulary).
    """
    count, ends = len(ids), torch.tensor(ends, device=ids.device)
    tokens = torch.zeros(count, max_tokens, dtype=torch.long, device=ids.device)
    lengths = torch.full((count,), max_tokens, device=ids.device)
    ended = torch.zeros(count, dtype=torch.bool, device=ids.device)
    alive = torch.arange(count, device=ids.device)  # rows still in the batch
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
        if not scores.amax(dim=-1).isfinite().all():  # a vocabulary may have entries of minus infinity
            raise UserError(
                f"the scores of {type(model).__name__} are no numbers (NaN or infinity): its weights are damaged, or training has diverged;"
                " lower the recipe's learning_rate, or take other weights"
            )
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
        # Dropping rows copies the cache, so wait until an eighth of the batch has ended.
        if len(going) <= 0.875 * len(alive):
            alive, ids, mask, positions = alive[going], ids[going], mask[going], positions[going]
            cache.reorder_cache(going)
        ids, positions = ids.unsqueeze(1), positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    return [(row[:length], end) for row, length, end in zip(tokens.tolist(), lengths.tolist(), ended.tolist())]


class SeededSampling:
    """Inverse-CDF sampling with one uniform number per (row, step), drawn beforehand from the row's seed. Greedy at temperature 0.

    If requested, `log_probabilities` (rows, max_tokens) holds the log-probability of each drawn token at temperature 1, in nats.
    """

    def __init__(
        self,
        seeds: list[int],
        temperatures: list[float],
        max_tokens: int,
        device: torch.device | str = "cpu",
        log_probabilities: bool = False,
    ):
        draws = [np.random.Generator(np.random.PCG64(seed)).random(max_tokens) for seed in seeds]
        self.uniform = torch.from_numpy(np.stack(draws)).to(device)
        self.temperature = torch.tensor(temperatures, dtype=torch.float64, device=device)
        self.log_probabilities = torch.zeros(len(seeds), max_tokens, device=device) if log_probabilities else None

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        """Token ids (n,) from scores (n, vocabulary) of `rows` at `step`. Either all rows of a batch are greedy or none."""
        tokens = self._draw(scores, rows, step)
        if self.log_probabilities is not None:
            scores = scores.float()
            self.log_probabilities[rows, step] = scores.gather(1, tokens.unsqueeze(1)).squeeze(1) - scores.logsumexp(dim=-1)
        return tokens

    def _draw(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        if self.temperature[0] == 0:
            return scores.argmax(dim=-1)
        cumulative = torch.softmax(scores.double() / self.temperature[rows].unsqueeze(1), dim=-1).cumsum(dim=-1)
        # By rounding the last sum may be below one: scale the draw, so that it stays within the vocabulary.
        target = self.uniform[rows, step].unsqueeze(1) * cumulative[:, -1:]
        return torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=scores.shape[-1] - 1)


class GlobalSampling:
    """Draw the same tokens as torch.multinomial, and so as `transformers.generate`, from torch's global random numbers.

    For one sample per row, ATen divides each probability by an exponential random number and takes the largest quotient. This class
    draws these numbers for all rows, including those that have left the batch, because `generate` does so.

    With `max_tokens`, `log_probabilities` (rows, max_tokens) holds that of each drawn token at `temperature`, in nats.
    """

    def __init__(self, rows: int, temperature: float, max_tokens: int = 0, device: torch.device | str = "cpu"):
        self.rows, self.temperature = rows, temperature
        self.log_probabilities = torch.zeros(rows, max_tokens, device=device) if max_tokens else None

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        scores = scores.float()
        probabilities = torch.softmax(scores if self.temperature == 1 else scores / self.temperature, dim=-1)
        noise = torch.empty(self.rows, scores.shape[-1], device=scores.device).exponential_(1)
        tokens = (probabilities / noise[rows]).argmax(dim=-1)
        if self.log_probabilities is not None:
            self.log_probabilities[rows, step] = probabilities.gather(1, tokens.unsqueeze(1)).squeeze(1).log()
        return tokens
