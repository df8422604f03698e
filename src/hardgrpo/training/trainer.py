"""TRL's GRPOTrainer with the corrections that several processes and vLLM need, and with the decoding
of probes: `decoding.decode` draws the same tokens as `generate`, but computes each prompt once per
group and drops rows that have ended.
"""

import torch
from accelerate.utils import is_peft_model, set_seed
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from typing_extensions import override  # comes with torch

from hardgrpo.runtime import replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import decoding
from hardgrpo.training import base_weights, outputs, processes


@processes.sum_in_float32
@replacements.check_overrides
class Trainer(GRPOTrainer):
    """`applies_correction`: whether the losses of vLLM's rollouts are multiplied by importance
    ratios. The difference between vLLM's and the trainer's log-probabilities is logged from the
    log-probabilities that the loss computes anyway."""

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

    def _weights_for_vllm(self):
        self.has_sent_weights = True
        return base_weights.merged_weights(self.model)

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
        inputs = self._tokenizer.pad(
            {"input_ids": prompt_ids}, padding_side="left", return_tensors="pt"
        ).to(self.accelerator.device)
        sampler = self._sampler(len(prompt_ids))
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
                inputs["input_ids"],
                inputs["attention_mask"],
                self.eos_token_ids,
                self.max_completion_length,
                sampler,
            )
        completions = [tokens for tokens, _ in outputs]
        if sampler.log_probabilities is None:
            return completions, None
        logps = zip(sampler.log_probabilities.tolist(), completions)
        return completions, [row[: len(tokens)] for row, tokens in logps]

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
            # TRL computes these probabilities for importance_correction in batches of other shapes, so
            # rounding could move the ratio of the loss, which is 1 without them, beyond a clipping limit.
            batch.pop("old_per_token_logps", None)
        return batch

    def _sampler(self, rows: int) -> decoding.GlobalSampling:
        return decoding.GlobalSampling(rows, self.temperature)

    @override
    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        if self.use_vllm and not self.vllm_importance_sampling_correction:
            differences = self.policy_logps - inputs["sampling_per_token_logps"]
            self.logp_differences.append(differences[inputs["completion_mask"].bool()])
        return loss

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
        """Log what TRL logs with importance_correction. vLLM gives a token without log-probability
        the value NaN; its ratio counts as 1."""
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
