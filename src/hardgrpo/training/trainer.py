"""TRL's GRPOTrainer without computation that cannot change the result.

- `decoding.decode` samples the rollouts. It draws the same tokens as `generate`, but computes each
  prompt once per group and drops rows that have ended.
- In a run with one process, the forward and backward pass of a micro-batch are skipped if all
  advantages are zero (groups all right or all wrong) and the loss has no other terms, because the
  gradient is then zero.
- With several micro-batches per update, rows with zero advantage are placed last and the other rows
  are sorted by length, unless the loss or the logged KL is an average over a micro-batch. In either
  case, the padding of each micro-batch is trimmed.

With one micro-batch per update, the updated weights equal TRL's bit by bit. With several
micro-batches, the gradient equals TRL's up to rounding. Metrics that TRL logs per micro-batch
(entropy, clip ratios) are means over the computed micro-batches.

The difference between vLLM's and the trainer's log-probabilities is logged without a pass of its
own, from the log-probabilities that the loss computes anyway.
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
from hardgrpo.training import base_weights, outputs, processes

replacements.replace(grpo_trainer, "prepare_fsdp", processes.shard_reference)


@replacements.check_overrides
class Trainer(GRPOTrainer):
    """`applies_correction`: whether the losses of vLLM's rollouts are multiplied by importance
    ratios (the recipe's importance_correction)."""

    # whether an update may train on rollouts that were sampled with weights of an earlier update
    is_off_policy = False
    has_sent_weights = False  # whether vLLM has the weights of `_weights_for_vllm`
    policy_logps: torch.Tensor  # result of the last `_get_per_token_logps_and_entropies`

    def __init__(self, *args, applies_correction: bool = True, **kwargs):
        super().__init__(*args, **kwargs)
        self.applies_correction = applies_correction
        # for each micro-batch of an update: the trainer's minus vLLM's log-probability of each token
        self.logp_differences: list[torch.Tensor] = []
        rank = self.accelerator.process_index
        # Seed again: vLLM has replaced the seed by the rank, and TRL's seeds (seed + rank) of
        # different runs may be equal.
        if self.use_vllm or rank:
            set_seed(processes.process_seed(self.args.seed, rank))
        if self.use_vllm and is_peft_model(self.model):
            replacements.replace(self.vllm_generation, "_iter_named_params", self._weights_for_vllm)
        if self.is_fsdp_enabled and self.ref_model is not None:
            processes.check_sharded(self.ref_model)

    def _weights_for_vllm(self):
        self.has_sent_weights = True
        return base_weights.merged_weights(self.model)

    @override
    def _build_accelerator_args(self, **kwargs):
        return super()._build_accelerator_args(**kwargs) | processes.sharding_arguments(
            self.args.bf16
        )

    @override
    def _load_rng_state(self, checkpoint):
        super()._load_rng_state(checkpoint)
        rank = self.accelerator.process_index
        name = f"rng_state_{rank}.pth" if self.accelerator.num_processes > 1 else "rng_state.pth"
        if checkpoint is not None and not (Path(checkpoint) / name).exists():
            # A different number of processes saved the checkpoint. Without a new seed, this process
            # would repeat the random numbers of the first updates.
            set_seed(processes.process_seed(self.args.seed, rank, self.state.global_step))

    @override
    def _generate_single_turn(
        self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False
    ):
        # Use TRL's method with vLLM, with FSDP (which needs equally many forward passes in all
        # processes), and with dropout (whose random numbers TRL also draws for ended rows).
        if self.use_vllm or self.is_fsdp_enabled or has_active_dropout(self.model):
            outputs = super()._generate_single_turn(
                prompt_ids, images, multimodal_fields, num_generations, has_tool_images
            )
            if self.use_vllm and is_peft_model(self.model) and not self.has_sent_weights:
                problem = "sends vLLM its weights without _iter_named_params"
                raise UserError(replacements.message(self.vllm_generation, problem))
            return outputs
        prompts = [
            torch.tensor(input_ids, device=self.accelerator.device) for input_ids in prompt_ids
        ]
        input_ids = pad(prompts, padding_value=self._tokenizer.pad_token_id, padding_side="left")
        attention_mask = pad(
            [torch.ones_like(prompt) for prompt in prompts], padding_value=0, padding_side="left"
        )
        sampler = self._sampler(len(prompts))
        checkpointing = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(
                self.model_wrapped, self.accelerator, gradient_checkpointing_kwargs=checkpointing
            ) as model,
            torch.no_grad(),
        ):
            # Call PEFT's inner model, which contains the adapter's layers, as PEFT's `generate`
            # does: accelerate has wrapped the outer `forward` in autocast.
            model = model.get_base_model() if hasattr(model, "get_base_model") else model
            outputs = decoding.decode(
                model,
                input_ids,
                attention_mask,
                self.eos_token_ids,
                self.max_completion_length,
                sampler,
            )
        completions = [tokens for tokens, _ in outputs]
        if sampler.log_probabilities is None:
            return completions, None
        return completions, [
            row[: len(tokens)]
            for row, tokens in zip(sampler.log_probabilities.tolist(), completions)
        ]

    @override
    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        if "importance_sampling_ratio" in batch:
            ratios = batch["importance_sampling_ratio"]  # (rollouts, tokens) or (rollouts, 1)
            if not self.applies_correction:
                ratios = batch["importance_sampling_ratio"] = torch.ones_like(ratios)
            weights = ratios if ratios.shape[1] == 1 else ratios[batch["completion_mask"].bool()]
            masked = self.accelerator.gather((weights == 0).float().mean())
            self._metrics["train"]["masked_share"].append(masked.mean().item())
        if not self.is_off_policy:
            # For importance_correction, TRL computes the probabilities of vLLM's rollouts before the
            # update, in batches of other shapes, so rounding could move the ratio beyond a narrow
            # clipping limit. Without these probabilities the ratio is 1, as with transformers.
            batch.pop("old_per_token_logps", None)
        return batch

    def _sampler(self, rows: int) -> decoding.GlobalSampling:
        return decoding.GlobalSampling(rows, self.temperature)

    @override
    def _prepare_inputs(self, generation_batch):
        is_new_batch = (
            self._step % self.args.steps_per_generation == 0 or self._buffered_inputs is None
        )
        inputs = super()._prepare_inputs(generation_batch)
        if not is_new_batch or self.args.steps_per_generation == 1 or not self.model.training:
            return inputs
        # The logged KL, the loss "bnpo" and a router loss are averages over a micro-batch, so rows
        # must stay in their micro-batch.
        if self.beta == 0 and self.loss_type != "bnpo" and not self.aux_loss_enabled:
            self._buffered_inputs = regroup(self._buffered_inputs)
        self._buffered_inputs = [trim_padding(batch) for batch in self._buffered_inputs]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @override
    def _compute_loss(self, model, inputs):
        has_other_terms = self.beta != 0 or self.aux_loss_enabled or self._entropy_bonus_enabled
        # With several processes, a process must not skip a pass, because the other processes would
        # wait for it.
        if has_other_terms or self.accelerator.num_processes > 1 or inputs["advantages"].any():
            loss = super()._compute_loss(model, inputs)
            if self.use_vllm and not self.vllm_importance_sampling_correction:
                differences = self.policy_logps - inputs["sampling_per_token_logps"]
                self.logp_differences.append(differences[inputs["completion_mask"].bool()])
            return loss
        for weights in model.parameters():
            if weights.requires_grad and weights.grad is None:
                weights.grad = torch.zeros_like(weights)  # the optimiser still applies its momentum
        return torch.zeros((), device=self.accelerator.device, requires_grad=True)

    @override
    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        logps, *others = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self.policy_logps = logps.detach()
        return logps, *others

    @override
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self.logp_differences:
            self._log_logp_differences()
        super().log(logs, start_time)

    def _log_logp_differences(self) -> None:
        """Log what TRL logs if it computes the importance ratios before the update. vLLM gives a
        token without log-probability the value NaN; its ratio counts as 1."""
        differences = torch.cat(self.logp_differences)
        self.logp_differences = []
        gather, metrics = self.accelerator.gather, self._metrics["train"]
        ratios = differences.nan_to_num().exp()
        for column, value in {
            "logp_difference_mean": gather(differences.abs().nanmean()).mean(),
            "logp_difference_max": gather(differences.abs().nan_to_num().max()).max(),
            "importance_ratio_mean": gather(ratios.mean()).mean(),
            "masked_share": torch.zeros(()),
        }.items():
            metrics[outputs.VLLM_COLUMNS[column]].append(value.item())


def has_active_dropout(model) -> bool:
    """Whether a module drops units with a probability above 0."""
    return any(isinstance(module, torch.nn.Dropout) and module.p for module in model.modules())


def regroup(batches: list[dict]) -> list[dict]:
    """Redistribute the rows of all micro-batches: rows with a nonzero advantage come
    first. Among these rows, and among the other rows, longer completions come first."""
    rows = {
        name: torch.cat([batch[name] for batch in batches]) if has_rows(value) else value
        for name, value in batches[0].items()
    }
    lengths = rows["completion_mask"].sum(dim=1)
    advantages = rows["advantages"].reshape(len(lengths), -1)  # one per rollout, or one per token
    has_no_advantage = (advantages == 0).all(dim=1).long()
    order = torch.argsort(has_no_advantage * (int(lengths.max()) + 1) - lengths, stable=True)
    ordered = {name: value[order] if has_rows(value) else value for name, value in rows.items()}
    return split_tensor_dict(ordered, len(batches))


def has_rows(value: torch.Tensor | None) -> bool:
    """Whether a value has one entry per row. `num_items_in_batch` is a single number."""
    return value is not None and value.ndim > 0


def trim_padding(batch: dict) -> dict:
    """Remove columns that are padding in every row: left of prompts, right of completions and of
    their per-token values."""
    completion_width = batch["completion_ids"].shape[1]
    completion_length = int(batch["completion_mask"].sum(dim=1).max())
    prompt_padding = batch["prompt_mask"].shape[1] - int(batch["prompt_mask"].sum(dim=1).max())
    trimmed = {}
    for name, value in batch.items():
        if name in ("prompt_ids", "prompt_mask"):
            value = value[:, prompt_padding:]
        elif has_rows(value) and value.ndim == 2 and value.shape[1] == completion_width:
            value = value[:, :completion_length]
        trimmed[name] = value
    return trimmed
