"""TRL's GRPOTrainer without the work that cannot change its result: what it computes is TRL's, and so is every number it logs.

- Rollouts by `decoding.decode`: prompts once a group, no rows that have ended; the tokens that `generate` would have drawn.
- A micro-batch without any advantage (groups all right or all wrong) has the gradient zero, where no KL term adds to it: it is not
  computed. Where an update has several micro-batches, such rows are put together, and the others by length, without the padding that
  only a longer row of another micro-batch needs.
"""

import torch
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import pad, split_tensor_dict

from . import decoding


class Trainer(GRPOTrainer):
    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        # Under FSDP every process must take as many forward passes as the others.
        if self.use_vllm or self.is_fsdp_enabled:
            return super()._generate_single_turn(prompt_ids, images, multimodal_fields, num_generations, has_tool_images)
        prompts = [torch.tensor(ids, device=self.accelerator.device) for ids in prompt_ids]
        ids = pad(prompts, padding_value=self._tokenizer.pad_token_id, padding_side="left")
        mask = pad([torch.ones_like(prompt) for prompt in prompts], padding_value=0, padding_side="left")
        draw = decoding.GlobalSampling(len(prompts), self.temperature)
        checkpointing = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(self.model_wrapped, self.accelerator, gradient_checkpointing_kwargs=checkpointing) as model,
            torch.no_grad(),
        ):
            sampled = decoding.decode(model, ids, mask, self.eos_token_ids, self.max_completion_length, draw)
        return [tokens for tokens, _ in sampled], None

    def _prepare_inputs(self, generation_batch):
        fresh = self._step % self.args.steps_per_generation == 0 or self._buffered_inputs is None
        inputs = super()._prepare_inputs(generation_batch)
        if not fresh or self.args.steps_per_generation == 1 or not self.model.training:
            return inputs
        self._buffered_inputs = micro_batches(self._buffered_inputs, kl=self.beta != 0)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _compute_loss(self, model, inputs):
        # One of several processes cannot leave out what the others wait for.
        if self.beta != 0 or self.accelerator.num_processes > 1 or inputs["advantages"].any():
            return super()._compute_loss(model, inputs)
        for weights in model.parameters():
            if weights.requires_grad and weights.grad is None:
                weights.grad = torch.zeros_like(weights)  # the optimiser's momentum goes on, as after a backward pass of zeros
        return torch.zeros((), device=self.accelerator.device, requires_grad=True)


def micro_batches(batches: list[dict], kl: bool) -> list[dict]:
    """The rows of TRL's micro-batches in as many of the same size: those with an advantage (with a KL term, all) first, by length,
    and each without the padding that its own rows do not need."""
    rows = {
        name: value if value is None or value.ndim == 0 else torch.cat([batch[name] for batch in batches])
        for name, value in batches[0].items()
    }
    lengths = rows["completion_mask"].sum(dim=1)
    idle = torch.zeros_like(lengths) if kl else (rows["advantages"] == 0).long()
    order = torch.argsort(idle * (int(lengths.max()) + 1) - lengths, stable=True)
    ordered = {name: value if value is None or value.ndim == 0 else value[order] for name, value in rows.items()}
    return [without_padding(batch) for batch in split_tensor_dict(ordered, len(batches))]


def without_padding(batch: dict) -> dict:
    """Prompts are padded on the left, completions and what is known of each of their tokens on the right."""
    width = batch["completion_ids"].shape[1]
    longest, skipped = (
        int(batch["completion_mask"].sum(dim=1).max()),
        batch["prompt_mask"].shape[1] - int(batch["prompt_mask"].sum(dim=1).max()),
    )
    trimmed = {}
    for name, value in batch.items():
        if name in ("prompt_ids", "prompt_mask"):
            value = value[:, skipped:]
        elif value is not None and value.ndim == 2 and value.shape[1] == width:
            value = value[:, :longest]
        trimmed[name] = value
    return trimmed
