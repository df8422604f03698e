"""PRIME (Cui et al., arXiv 2502.01456): a reward for every token, from an implicit reward model that is trained beside the model.

The reward model starts as a copy of the model. The reward of token t is r_t = beta * log(pi_process / pi_reference), with the
token's probabilities under the reward model and under the untrained model. Cross-entropy trains sigmoid(sum of r_t) to predict
whether the answer is right. A token's advantage is the recipe's advantage of the outcome, plus `weight` times the sum over this and
all later tokens of r_s - (mean over the group's other rollouts of their mean token reward): equation 5 with a discount of 1. (The
paper's outcome advantage is leave-one-out: `centred`, times group size / (group size - 1).)

As in the released code (verl, recipe/prime), a sampling step first trains the reward model and then takes its rewards; it divides them by
the largest absolute value in the step of a token's reward plus all later ones; and a completion's last token, which carries the
outcome, has no process reward. The released code departs from equation 5 where this module does not: it subtracts the mean over the
whole group, times n / (n - 1), and it standardises the advantages. The paper also samples on until an update is full of prompts
whose share of right answers is .2 to .8; here a `selector` can do so.

The reward model has no modules of its own: for a pass the model's modules get its weights. With an adapter these are the adapter's
alone, and the reference is the model without adapter.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import binary_cross_entropy_with_logits


class ProcessRewards:
    """The reward model of a trainer. `recipe` is the recipe's `process`."""

    def __init__(self, trainer, recipe: dict):
        self.trainer, self.recipe = trainer, recipe
        self.own = {name: weights for name, weights in trainer.model.named_parameters() if weights.requires_grad}
        self.weights = {name: torch.nn.Parameter(weights.detach().clone()) for name, weights in self.own.items()}
        with_adapter = hasattr(trainer.model, "disable_adapter")
        self.reference = None if with_adapter else {name: weights.detach().clone() for name, weights in self.own.items()}
        self.optimiser = torch.optim.AdamW(self.weights.values(), lr=recipe["learning_rate"], weight_decay=0.0)
        self.log: dict[str, float] = {}

    def learn(self, batch: dict, rewards: torch.Tensor, size: int) -> torch.Tensor:
        """Train the reward model on a batch whose rollouts were rewarded with `rewards` (rollouts,), 1 or 0, in groups of `size`. Return the
        advantages (rollouts, tokens) of its tokens."""
        mask = batch["completion_mask"]
        with torch.no_grad(), self._as_reference():
            reference = self._log_probabilities(batch, slice(None))
        beta, rows, part = self.recipe["beta"], len(rewards), self.trainer.args.per_device_train_batch_size
        losses, said_right = 0.0, 0
        self._forget_gradients()
        with self._lent(self.weights):
            for start in range(0, rows, part):
                some = slice(start, start + part)
                with torch.enable_grad():
                    score = beta * ((self._log_probabilities(batch, some) - reference[some]) * mask[some]).sum(dim=1)
                    loss = binary_cross_entropy_with_logits(score, rewards[some], reduction="sum") / rows
                    loss.backward()
                losses += loss.item()
                said_right += ((score > 0) == (rewards[some] > 0.5)).sum().item()
            for name, weights in self.weights.items():
                weights.grad = self.own[name].grad
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.recipe["max_grad_norm"])
        self.optimiser.step()
        self.optimiser.zero_grad()
        self._forget_gradients()
        with torch.no_grad(), self._lent(self.weights):
            tokens = beta * (self._log_probabilities(batch, slice(None)) - reference)
        self.log = {"process_loss": losses, "process_accuracy": said_right / rows}
        outcome = batch["advantages"][:, None].expand_as(tokens)
        return outcome + self.recipe["weight"] * token_advantages(tokens, mask, size)

    def _log_probabilities(self, batch: dict, rows: slice) -> torch.Tensor:
        """Log-probabilities (rollouts, tokens) of the completions' tokens under the weights that the modules hold now."""
        ids = torch.cat([batch["prompt_ids"][rows], batch["completion_ids"][rows]], dim=1)
        mask = torch.cat([batch["prompt_mask"][rows], batch["completion_mask"][rows]], dim=1)
        tokens = batch["completion_ids"].size(1)
        part = self.trainer.args.per_device_train_batch_size
        return self.trainer._get_per_token_logps_and_entropies(self.trainer.model, ids, mask, tokens, batch_size=part)[0]

    @contextlib.contextmanager
    def _lent(self, weights: dict[str, torch.Tensor]) -> Iterator[None]:
        """Let the model's modules compute with other weights. A backward pass belongs inside: it may recompute layers."""
        before = {name: own.data for name, own in self.own.items()}
        try:
            for name, own in self.own.items():
                own.data = weights[name].data
            yield
        finally:
            for name, own in self.own.items():
                own.data = before[name]

    def _as_reference(self):
        return self._lent(self.reference) if self.reference is not None else self.trainer.model.disable_adapter()

    def _forget_gradients(self) -> None:
        for weights in self.own.values():
            weights.grad = None

    def save(self, path: Path) -> None:
        tensors = {f"weights.{name}": weights.detach() for name, weights in self.weights.items()}
        for name, weights in self.weights.items():
            for key, value in self.optimiser.state.get(weights, {}).items():
                tensors[f"{key}.{name}"] = value
        save_file({name: value.contiguous().clone() for name, value in tensors.items()}, path)

    def load(self, path: Path) -> None:
        tensors = load_file(path)
        for name, weights in self.weights.items():
            weights.data.copy_(tensors[f"weights.{name}"])
            found = {key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq") if f"{key}.{name}" in tensors}
            if found:
                on_device = {key: value if key == "step" else value.to(weights.device) for key, value in found.items()}
                self.optimiser.state[weights] = on_device


def token_advantages(rewards: torch.Tensor, mask: torch.Tensor, size: int) -> torch.Tensor:
    """The process part of PRIME's advantages (rollouts, tokens), from token rewards of the same shape, in groups of `size`."""
    before_last = mask * (mask.cumsum(dim=1) < mask.sum(dim=1, keepdim=True))
    scaled = rewards * before_last
    scaled = scaled / (and_later(scaled).abs().max() + 1e-6)
    in_groups = (scaled.sum(dim=1) / before_last.sum(dim=1).clamp(min=1)).view(-1, size)
    others = ((in_groups.sum(dim=1, keepdim=True) - in_groups) / (size - 1)).view(-1, 1)
    return and_later((scaled - others) * before_last) * mask


def and_later(values: torch.Tensor) -> torch.Tensor:
    """For each token, the sum of its value and all later ones."""
    return values.flip(dims=[1]).cumsum(dim=1).flip(dims=[1])
