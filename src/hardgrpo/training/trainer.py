"""TRL's GRPOTrainer without the work that cannot change its result.

- `decoding.decode` samples the rollouts: it computes each prompt once per group and drops rows that have ended, and draws the same
  tokens as `generate`.
- A micro-batch in which every advantage is zero (groups all right or all wrong) has a zero gradient, unless the loss has other terms.
  Its forward and backward pass are skipped. If an update has several micro-batches, rows without advantage are put together, the
  others are sorted by length, and padding that a micro-batch does not need is removed.

With one micro-batch an update has the same bits as TRL's; with several, the same gradient up to rounding. What TRL logs per
micro-batch beside the loss (entropy, clip ratios) is a mean over the computed micro-batches.
"""

from pathlib import Path

import torch
from accelerate.utils import is_peft_model, set_seed
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer import grpo_trainer
from trl.trainer.utils import pad, split_tensor_dict
from typing_extensions import override  # comes with torch

from hardgrpo.runtime import replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import decoding
from hardgrpo.training import base_weights, processes

replacements.replace(grpo_trainer, "prepare_fsdp", processes.shard_reference)


@replacements.check_overrides
class Trainer(GRPOTrainer):
    """`corrects`: whether the loss of vLLM's rollouts is weighted, as the recipe's importance_correction says."""

    is_off_policy = False  # whether an update has rollouts that were sampled before an earlier update
    has_sent_weights = False  # whether vLLM has the weights of `_weights_for_vllm`

    def __init__(self, *args, corrects: bool = True, **kwargs):
        super().__init__(*args, **kwargs)
        self.corrects = corrects
        base_weights.train_in_float32(self.model)
        rank = self.accelerator.process_index
        if self.use_vllm or rank:  # vLLM's start has set all generators to the rank, and TRL those of each process to seed + rank
            set_seed(processes.process_seed(self.args.seed, rank))
        if self.use_vllm and is_peft_model(self.model):
            replacements.replace(self.vllm_generation, "_iter_named_params", self._weights_for_vllm)
        if self.is_fsdp_enabled and self.ref_model is not None:
            processes.check_sharded(self.ref_model)

    def _weights_for_vllm(self):
        self.has_sent_weights = True
        return base_weights.with_adapter(self.model)

    @override
    def _build_accelerator_args(self, **kwargs):
        return super()._build_accelerator_args(**kwargs) | processes.sharding(self.args.bf16)

    @override
    def _load_rng_state(self, checkpoint):
        super()._load_rng_state(checkpoint)
        rank = self.accelerator.process_index
        name = f"rng_state_{rank}.pth" if self.accelerator.num_processes > 1 else "rng_state.pth"
        if checkpoint is not None and not (Path(checkpoint) / name).exists():
            # Saved by another number of processes: without new numbers this process would draw those of the first updates again.
            set_seed(processes.process_seed(self.args.seed, rank, self.state.global_step))

    @override
    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        # Not under FSDP, where all processes need equally many forward passes, and not with dropout, which TRL also draws for ended rows.
        if self.use_vllm or self.is_fsdp_enabled or has_dropout(self.model):
            sampled = super()._generate_single_turn(prompt_ids, images, multimodal_fields, num_generations, has_tool_images)
            if self.use_vllm and is_peft_model(self.model) and not self.has_sent_weights:
                raise UserError(replacements.message(self.vllm_generation, "sends vLLM its weights without _iter_named_params"))
            return sampled
        prompts = [torch.tensor(ids, device=self.accelerator.device) for ids in prompt_ids]
        ids = pad(prompts, padding_value=self._tokenizer.pad_token_id, padding_side="left")
        mask = pad([torch.ones_like(prompt) for prompt in prompts], padding_value=0, padding_side="left")
        draw = self._sampling(len(prompts))
        checkpointing = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(self.model_wrapped, self.accelerator, gradient_checkpointing_kwargs=checkpointing) as model,
            torch.no_grad(),
        ):
            # Like PEFT's `generate`, call the base model: accelerate has wrapped the adapter's `forward` in autocast.
            model = model.get_base_model() if hasattr(model, "get_base_model") else model
            sampled = decoding.decode(model, ids, mask, self.eos_token_ids, self.max_completion_length, draw)
        completions = [tokens for tokens, _ in sampled]
        if draw.log_probabilities is None:
            return completions, None
        return completions, [row[: len(tokens)] for row, tokens in zip(draw.log_probabilities.tolist(), completions)]

    @override
    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        if "importance_sampling_ratio" in batch:
            ratios = batch["importance_sampling_ratio"]  # of tokens (rollouts, tokens), or of completions (rollouts, 1)
            if not self.corrects:
                ratios = batch["importance_sampling_ratio"] = torch.ones_like(ratios)
            weights = ratios if ratios.shape[1] == 1 else ratios[batch["completion_mask"].bool()]
            masked = self.accelerator.gather((weights == 0).float().mean())
            self._metrics["train"]["masked_share"].append(masked.mean().item())
        if not self.is_off_policy:
            # TRL computes vLLM's rollouts again before the update, in batches of other shapes. Rounding would take the ratio to these
            # probabilities beyond a narrow limit. Without them the ratio is 1, as in rollouts of transformers.
            batch.pop("old_per_token_logps", None)
        return batch

    def _sampling(self, rows: int) -> decoding.GlobalSampling:
        return decoding.GlobalSampling(rows, self.temperature)

    @override
    def _prepare_inputs(self, generation_batch):
        fresh = self._step % self.args.steps_per_generation == 0 or self._buffered_inputs is None
        inputs = super()._prepare_inputs(generation_batch)
        if not fresh or self.args.steps_per_generation == 1 or not self.model.training:
            return inputs
        # With a KL term (its log), bnpo or a router loss, a micro-batch has a mean of its own, so rows must stay in their micro-batch.
        if self.beta == 0 and self.loss_type != "bnpo" and not self.aux_loss_enabled:
            self._buffered_inputs = regrouped(self._buffered_inputs)
        self._buffered_inputs = [without_padding(batch) for batch in self._buffered_inputs]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @override
    def _compute_loss(self, model, inputs):
        more = self.beta != 0 or self.aux_loss_enabled or self._entropy_bonus_enabled
        # With several processes none may skip a pass that the others wait for.
        if more or self.accelerator.num_processes > 1 or inputs["advantages"].any():
            return super()._compute_loss(model, inputs)
        for weights in model.parameters():
            if weights.requires_grad and weights.grad is None:
                weights.grad = torch.zeros_like(weights)  # a zero gradient, so that the optimiser still applies its momentum
        return torch.zeros((), device=self.accelerator.device, requires_grad=True)


def has_dropout(model) -> bool:
    return any(isinstance(module, torch.nn.Dropout) and module.p for module in model.modules())


def regrouped(batches: list[dict]) -> list[dict]:
    """Distribute the rows of all micro-batches anew: first rows with an advantage, longest first, then the others."""
    rows = {name: torch.cat([batch[name] for batch in batches]) if by_row(value) else value for name, value in batches[0].items()}
    lengths = rows["completion_mask"].sum(dim=1)
    advantages = rows["advantages"].reshape(len(lengths), -1)  # one per rollout, or one per token
    idle = (advantages == 0).all(dim=1).long()
    order = torch.argsort(idle * (int(lengths.max()) + 1) - lengths, stable=True)
    ordered = {name: value[order] if by_row(value) else value for name, value in rows.items()}
    return split_tensor_dict(ordered, len(batches))


def by_row(value: torch.Tensor | None) -> bool:
    """Whether a value has one entry per row. `num_items_in_batch` is a single number."""
    return value is not None and value.ndim > 0


def without_padding(batch: dict) -> dict:
    """Remove columns that are padding in every row: on the left of prompts, on the right of completions and their per-token values."""
    width = batch["completion_ids"].shape[1]
    used = int(batch["completion_mask"].sum(dim=1).max())
    unused = batch["prompt_mask"].shape[1] - int(batch["prompt_mask"].sum(dim=1).max())
    trimmed = {}
    for name, value in batch.items():
        if name in ("prompt_ids", "prompt_mask"):
            value = value[:, unused:]
        elif by_row(value) and value.ndim == 2 and value.shape[1] == width:
            value = value[:, :used]
        trimmed[name] = value
    return trimmed
