"""TRL's GRPOTrainer without work that cannot change what it computes.

- Rollouts by `decoding.decode`: prompts once a group, no rows that have ended; the tokens that `generate` would have drawn.
- A micro-batch without any advantage (groups all right or all wrong) has the gradient zero where nothing else adds to the loss: it is
  not computed. Where an update has several micro-batches, such rows are put together, the others stand by length, and
  padding that only a longer row of another micro-batch needs is left out.

An update in one piece has the bits of TRL's; in several, its gradient but for rounding. What TRL logs of each micro-batch beside
the loss (entropy, clip ratios) is a mean over those that were computed.
"""

import torch
from trl import GRPOTrainer
from trl.models.utils import unwrap_model_for_generation
from trl.trainer.utils import pad, split_tensor_dict

from hardgrpo.sampling import decoding


class Trainer(GRPOTrainer):
    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        # Under FSDP every process must take as many forward passes as the others; dropout is drawn for rows that are left out here.
        if self.use_vllm or self.is_fsdp_enabled or has_dropout(self.model):
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
            # As PEFT's `generate`: not by the adapter's own `forward`, which accelerate has put under autocast.
            model = model.get_base_model() if hasattr(model, "get_base_model") else model
            sampled = decoding.decode(model, ids, mask, self.eos_token_ids, self.max_completion_length, draw)
        return [tokens for tokens, _ in sampled], None

    def _prepare_inputs(self, generation_batch):
        fresh = self._step % self.args.steps_per_generation == 0 or self._buffered_inputs is None
        inputs = super()._prepare_inputs(generation_batch)
        if not fresh or self.args.steps_per_generation == 1 or not self.model.training:
            return inputs
        # Each micro-batch has a mean of its own with a KL term (as it is logged), bnpo or a router (as a loss): there rows stay
        # where TRL has put them.
        if self.beta == 0 and self.loss_type != "bnpo" and not self.aux_loss_enabled:
            self._buffered_inputs = regrouped(self._buffered_inputs)
        self._buffered_inputs = [without_padding(batch) for batch in self._buffered_inputs]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _compute_loss(self, model, inputs):
        more = self.beta != 0 or self.aux_loss_enabled or self._entropy_bonus_enabled
        # One of several processes cannot leave out what the others wait for.
        if more or self.accelerator.num_processes > 1 or inputs["advantages"].any():
            return super()._compute_loss(model, inputs)
        for weights in model.parameters():
            if weights.requires_grad and weights.grad is None:
                weights.grad = torch.zeros_like(weights)  # the optimiser's momentum goes on, as after a backward pass of zeros
        return torch.zeros((), device=self.accelerator.device, requires_grad=True)


def has_dropout(model) -> bool:
    return any(isinstance(module, torch.nn.Dropout) and module.p for module in model.modules())


def regrouped(batches: list[dict]) -> list[dict]:
    """The rows of micro-batches in as many of the same size: those with an advantage first, and by length."""
    rows = {name: torch.cat([batch[name] for batch in batches]) if by_row(value) else value for name, value in batches[0].items()}
    lengths = rows["completion_mask"].sum(dim=1)
    idle = (rows["advantages"] == 0).long()
    order = torch.argsort(idle * (int(lengths.max()) + 1) - lengths, stable=True)
    ordered = {name: value[order] if by_row(value) else value for name, value in rows.items()}
    return split_tensor_dict(ordered, len(batches))


def by_row(value: torch.Tensor | None) -> bool:
    """Whether it holds something for each row; `num_items_in_batch` is one number for all."""
    return value is not None and value.ndim > 0


def without_padding(batch: dict) -> dict:
    """Without the columns that none of its rows uses: prompts are padded on the left, completions, and what is known of each of their
    tokens, on the right."""
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
