"""Decode a batch of prompts token by token with a causal model of transformers, for probes,
evaluations and rollouts. Unlike `transformers.generate`, `decode` computes equal consecutive prompts
once and removes ended rows from the batch.
"""

from collections.abc import Callable

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from hardgrpo.runtime.errors import UserError

RESERVED_TOKENS = 32  # later tokens for which a layer reserves memory when its memory is full


class ReservingCache(DynamicCache):
    """A cache that reserves memory for later tokens. The layers of `DynamicCache` would copy all
    earlier keys and values for each new token."""

    def __init__(self, config):
        super().__init__(config=config)
        self.layers = [
            ReservingLayer() if type(layer) is DynamicLayer else layer for layer in self.layers
        ]


class ReservingLayer(DynamicLayer):
    """A layer of full attention whose `keys` and `values` (rows, heads, tokens, head size) are
    views of reserved memory."""

    memory: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        """Append the keys and values of new tokens. Return those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        # other methods, such as `batch_select_indices`, replace the views by copies
        is_view = self.memory is not None and self.keys.data_ptr() == self.memory[0].data_ptr()
        if not is_view or end > self.memory[0].shape[-2]:
            self.memory = tuple(
                new.new_empty(*new.shape[:2], end + RESERVED_TOKENS, new.shape[-1])
                for new in (key_states, value_states)
            )
            if start:
                for memory, earlier in zip(self.memory, (self.keys, self.values)):
                    memory[:, :, :start] = earlier
        for memory, new in zip(self.memory, (key_states, value_states)):
            memory[:, :, start:end] = new
        self.keys, self.values = (memory[:, :, :end] for memory in self.memory)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Keep copies of the rows `beam_idx`, and free the reserved memory. Every layer would
        otherwise hold its old and its new cache until the next `update`."""
        super().reorder_cache(beam_idx)
        self.memory = None


def decode(
    model,
    ids: torch.Tensor,
    mask: torch.Tensor,
    end_token_ids: list[int],
    max_tokens: int,
    sampler: Callable,
) -> list[tuple[list[int], bool]]:
    """(token ids, whether the last token is an end token) for each row of left-padded prompts;
    `ids` and `mask` have the shape (rows, width). `sampler(scores, rows, step)` returns the next
    token ids (n,) for `rows` (n,), given `scores` (n, vocabulary). Raise a `UserError` if the model
    has no cache of keys and values, or if its scores are not finite."""
    rows, end_token_ids = len(ids), torch.tensor(end_token_ids, device=ids.device)
    tokens = torch.zeros(rows, max_tokens, dtype=torch.long, device=ids.device)
    lengths = torch.full((rows,), max_tokens, device=ids.device)
    is_ended = torch.zeros(rows, dtype=torch.bool, device=ids.device)
    active = torch.arange(rows, device=ids.device)  # rows that are still in the batch
    cache = ReservingCache(model.config)

    unique_prompts, copy_of = torch.unique_consecutive(
        torch.cat([ids, mask], dim=1), dim=0, return_inverse=True
    )
    ids, mask = unique_prompts.split(ids.shape[1], dim=1)
    positions = (mask.cumsum(dim=-1) - 1).clamp(min=0)
    # an index tensor for `logits_to_keep`: with the number 1, the hidden states are not contiguous, and
    # torch on a CPU in bf16 copies a frozen output layer's weights once for each row
    last_position = torch.tensor([-1], device=ids.device)
    for step in range(max_tokens):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=last_position,
        )
        if getattr(output, "past_key_values", None) is None:
            raise UserError(
                f"{type(model).__name__} returns no keys and values of earlier tokens (past_key_values); set the model's engine to vllm, or take another"
                " model"
            )
        scores = output.logits[:, -1]
        if not scores.amax(dim=-1).isfinite().all():  # single entries may be minus infinity
            raise UserError(
                f"the scores of {type(model).__name__} are not finite (NaN or infinity): its weights are damaged, or training has diverged;"
                " lower the recipe's learning_rate, or take other weights"
            )
        if step == 0 and len(unique_prompts) < rows:
            scores, mask, positions = scores[copy_of], mask[copy_of], positions[copy_of]
            cache.reorder_cache(copy_of)
        ids = sampler(scores, active, step)
        tokens[active, step] = ids
        has_ended = torch.isin(ids, end_token_ids) & ~is_ended[active]
        lengths[active[has_ended]] = step + 1
        is_ended[active[has_ended]] = True
        remaining = (~is_ended[active]).nonzero().squeeze(1)
        if len(remaining) == 0:
            break
        # Removing rows copies the cache, so ended rows are removed only when they are at least an
        # eighth of the batch.
        if len(remaining) <= 0.875 * len(active):
            active, ids = active[remaining], ids[remaining]
            mask, positions = mask[remaining], positions[remaining]
            cache.reorder_cache(remaining)
        ids, positions = ids.unsqueeze(1), positions[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
    return [
        (row[:length], end)
        for row, length, end in zip(tokens.tolist(), lengths.tolist(), is_ended.tolist())
    ]


class SeededSampling:
    """Inverse-CDF sampling with one uniform number per (row, step) from a generator with the row's
    seed; greedy at temperature 0. `log_probabilities` (rows, max_tokens), if wanted, are those of
    the drawn tokens at temperature 1, in nats."""

    def __init__(
        self,
        seeds: list[int],
        temperatures: list[float],
        max_tokens: int,
        device: torch.device | str = "cpu",
        log_probabilities: bool = False,
    ):
        uniforms = [np.random.Generator(np.random.PCG64(seed)).random(max_tokens) for seed in seeds]
        self.uniform = torch.from_numpy(np.stack(uniforms)).to(device)
        self.temperature = torch.tensor(temperatures, dtype=torch.float64, device=device)
        self.log_probabilities = (
            torch.zeros(len(seeds), max_tokens, device=device) if log_probabilities else None
        )

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        """Token ids (n,) from scores (n, vocabulary) of `rows` at `step`. A batch must not mix
        greedy and sampled rows."""
        tokens = self._draw(scores, rows, step)
        if self.log_probabilities is not None:
            scores = scores.float()
            drawn_scores = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
            self.log_probabilities[rows, step] = drawn_scores - scores.logsumexp(dim=-1)
        return tokens

    def _draw(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        if self.temperature[0] == 0:
            return scores.argmax(dim=-1)
        scaled_scores = scores.double()
        if (self.temperature != 1).any():
            scaled_scores = scaled_scores / self.temperature[rows].unsqueeze(1)
        cumulative = torch.softmax(scaled_scores, dim=-1).cumsum(dim=-1)
        # rounding may leave the last sum below one
        targets = self.uniform[rows, step].unsqueeze(1) * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, targets, right=True).squeeze(1)
        return tokens.clamp(max=scores.shape[-1] - 1)


class GlobalSampling:
    """Draw the same tokens as torch.multinomial, and thus as `transformers.generate`, from torch's
    global random numbers: for one sample per row, torch.multinomial divides each probability by an
    exponential random number and takes the largest quotient. With `max_tokens`, `log_probabilities`
    (rows, max_tokens) are those of the drawn tokens at `temperature`, in nats."""

    def __init__(
        self, rows: int, temperature: float, max_tokens: int = 0, device: torch.device | str = "cpu"
    ):
        self.rows, self.temperature = rows, temperature
        self.log_probabilities = (
            torch.zeros(rows, max_tokens, device=device) if max_tokens else None
        )

    def __call__(self, scores: torch.Tensor, rows: torch.Tensor, step: int) -> torch.Tensor:
        scores = scores.float()
        probabilities = torch.softmax(
            scores if self.temperature == 1 else scores / self.temperature, dim=-1
        )
        # also for rows that have left the batch
        noise = torch.empty(self.rows, scores.shape[-1], device=scores.device).exponential_(1)
        tokens = (probabilities / noise[rows]).argmax(dim=-1)
        if self.log_probabilities is not None:
            self.log_probabilities[rows, step] = (
                probabilities.gather(1, tokens.unsqueeze(1)).squeeze(1).log()
            )
        return tokens
