"""PRIME (Cui et al., arXiv 2502.01456): a reward for every token, from an implicit reward model
that is trained together with the model.

The reward model starts as a copy of the base model. The reward of token t is r_t = beta *
log(pi_process / pi_reference), with the token's probabilities under the reward model and under the
base model. Cross-entropy trains sigmoid(sum of r_t) to predict whether the answer is right.

The advantage of token t is the recipe's outcome advantage plus `weight` times the sum over s >= t
of (r_s - b): equation 5 with a discount of 1. The baseline b is the average of the mean token
rewards of the group's other rollouts. (The paper's outcome advantage equals `centred` times group
size / (group size - 1).)

As in the released code (verl, recipe/prime), the reward model is first trained on a batch and then
computes the batch's token rewards, which are divided by the largest absolute suffix sum in the
batch. Difference: in the released code, a completion's last token has the outcome reward, and
advantages are standardised.

The reward model has no modules of its own: during its passes, the modules of the trained model use
its weights.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits


class ProcessRewards:
    """The reward model of a trainer. `recipe` is the value of a recipe's key `process`."""

    def __init__(self, trainer, recipe: dict):
        self.trainer, self.recipe = trainer, recipe
        self.parameters = [p for p in trainer.model.parameters() if p.requires_grad]
        self.weights = [torch.nn.Parameter(p.detach().clone()) for p in self.parameters]
        self.reference = None  # with an adapter, the reference is the model without its adapter
        if not hasattr(trainer.model, "disable_adapter"):
            self.reference = [p.detach().clone() for p in self.parameters]
        self.optimiser = torch.optim.AdamW(
            self.weights,
            lr=recipe["learning_rate"],
            weight_decay=0.0,
            fused=trainer.args.use_cpu or None,  # see `recipes.optimiser`
        )
        self.metrics: dict[str, float] = {}

    def learn(self, batch: dict, rewards: torch.Tensor, group_size: int) -> torch.Tensor:
        """Train the reward model on a batch with `rewards` (rollouts,) of 1 or 0. Return the batch's
        advantages (rollouts, tokens)."""
        mask = batch["completion_mask"]
        with torch.no_grad(), self._use_reference():
            reference_logps = self._log_probabilities(batch, slice(None))
        beta, rollouts = self.recipe["beta"], len(rewards)
        micro_batch = self.trainer.args.per_device_train_batch_size
        total_loss, correct = 0.0, 0
        self._clear_gradients()
        with self._use_weights(self.weights):
            for start in range(0, rollouts, micro_batch):
                rows = slice(start, start + micro_batch)
                with torch.enable_grad():
                    log_ratios = self._log_probabilities(batch, rows) - reference_logps[rows]
                    score = beta * (log_ratios * mask[rows]).sum(dim=1)
                    loss = binary_cross_entropy_with_logits(score, rewards[rows], reduction="sum")
                    loss = loss / rollouts
                    loss.backward()
                total_loss += loss.item()
                correct += ((score > 0) == (rewards[rows] > 0.5)).sum().item()
            for weights, parameter in zip(self.weights, self.parameters):
                weights.grad = parameter.grad
        torch.nn.utils.clip_grad_norm_(self.weights, self.recipe["max_grad_norm"])
        self.optimiser.step()
        self.optimiser.zero_grad()
        self._clear_gradients()
        with torch.no_grad(), self._use_weights(self.weights):
            token_rewards = beta * (self._log_probabilities(batch, slice(None)) - reference_logps)
        self.metrics = {"process_loss": total_loss, "process_accuracy": correct / rollouts}
        outcome_advantages = batch["advantages"][:, None].expand_as(token_rewards)
        process_advantages = token_advantages(token_rewards, mask, group_size)
        return outcome_advantages + self.recipe["weight"] * process_advantages

    def _log_probabilities(self, batch: dict, rows: slice) -> torch.Tensor:
        ids = torch.cat([batch["prompt_ids"][rows], batch["completion_ids"][rows]], dim=1)
        mask = torch.cat([batch["prompt_mask"][rows], batch["completion_mask"][rows]], dim=1)
        tokens = batch["completion_ids"].size(1)
        micro_batch = self.trainer.args.per_device_train_batch_size
        return self.trainer._get_per_token_logps_and_entropies(
            self.trainer.model, ids, mask, tokens, batch_size=micro_batch
        )[0]

    @contextlib.contextmanager
    def _use_weights(self, weights: list[torch.Tensor]) -> Iterator[None]:
        """Let the model's modules compute with `weights`, also in the backward pass, which may
        recompute layers."""
        own_data = [parameter.data for parameter in self.parameters]
        try:
            for parameter, tensor in zip(self.parameters, weights):
                parameter.data = tensor.data
            yield
        finally:
            for parameter, data in zip(self.parameters, own_data):
                parameter.data = data

    def _use_reference(self):
        if self.reference is None:
            return self.trainer.model.disable_adapter()
        return self._use_weights(self.reference)

    def _clear_gradients(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def save(self, path: Path) -> None:
        weights = [weights.data for weights in self.weights]
        torch.save({"weights": weights, "optimiser": self.optimiser.state_dict()}, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True, map_location="cpu")
        for weights, saved_weights in zip(self.weights, state["weights"]):
            weights.data.copy_(saved_weights)
        self.optimiser.load_state_dict(state["optimiser"])


def token_advantages(rewards: torch.Tensor, mask: torch.Tensor, group_size: int) -> torch.Tensor:
    """The process part of PRIME's advantages (equation 5), from token rewards and their mask; all
    have the shape (rollouts, tokens)."""
    reward_mask = mask * (mask.cumsum(dim=1) < mask.sum(dim=1, keepdim=True))
    rewards = rewards * reward_mask
    rewards = rewards / (suffix_sums(rewards).abs().max() + 1e-6)
    rollout_means = (rewards.sum(dim=1) / reward_mask.sum(dim=1).clamp(min=1)).view(-1, group_size)
    sums_of_others = rollout_means.sum(dim=1, keepdim=True) - rollout_means
    baselines = (sums_of_others / (group_size - 1)).view(-1, 1)
    return suffix_sums((rewards - baselines) * reward_mask) * mask


def suffix_sums(values: torch.Tensor) -> torch.Tensor:
    """For each token (rollouts, tokens), the sum of its value and all later values."""
    return values.flip(dims=[1]).cumsum(dim=1).flip(dims=[1])
