"""Recipes: how a model is trained."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study import selector as selectors
from hardgrpo.study.strict import Count, PositiveNumber, Share, Strict

ADAM_BETA2 = 0.999  # the default of `adam_beta2`
# Keys that every GRPO recipe needs and no other recipe may have.
GRPO_KEYS = (
    "group_size",
    "temperature",
    "reward",
    "advantage",
    "loss",
    "beta",
    "epsilon",
    "generation",
)
# Further keys that only GRPO recipes may have.
OPTIONAL_GRPO_KEYS = ("ratio", "epsilon_high", "selector", "process")


class Process(Strict):
    """PRIME (arXiv 2502.01456): a reward model, initially a copy of the base model, is trained on
    the outcomes together with the model, and rewards every token
    (src/hardgrpo/online/process_rewards.py). The paper's values: weight 1, beta 0.05, a learning
    rate twice the model's, max_grad_norm 1."""

    weight: Annotated[float, Field(ge=0)]
    """Weight of the process reward in an advantage; the outcome has weight 1. With weight 0, the
    model is trained as without process rewards."""

    beta: Annotated[float, Field(gt=0)]
    """The reward of a token is β log(probability under the reward model / probability under the
    base model)."""

    learning_rate: Annotated[float, Field(gt=0)]
    """Learning rate of the reward model (AdamW)."""

    max_grad_norm: Annotated[float, Field(gt=0)]
    """Largest norm of the reward model's gradient."""


class Adapter(Strict):
    rank: Count
    """Rank of the adapter (r)."""

    alpha: PositiveNumber
    """The adapter's output is multiplied by alpha / rank."""

    dropout: Share
    """Dropout on the adapter's input."""


class ImportanceCorrection(Strict):
    """Corrects the loss by the ratio of the trainer's probability to vLLM's probability."""

    mode: Literal["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
    """token: each token has a ratio of its own. sequence: all tokens have the ratio of the whole
    sequence. truncate: a ratio above the limit becomes the limit. mask: a ratio above the limit
    becomes 0."""

    limit: Annotated[float, Field(gt=1)]
    """The largest ratio."""


class Recipe(Strict):
    """How a model is trained, by GRPO or on worked solutions. A recipe has no settings of data."""

    nullable = frozenset(["adapter", "importance_correction"])

    objective: Literal["grpo", "sft"] | None = None
    """grpo (the default): sample rollouts and reward them. sft: supervised fine-tuning on the worked solutions of the
    chosen prompts, without the keys that GRPO needs."""

    updates: Count
    """Updates (optimiser steps) per run. With a selector, `updates`, checkpoint_every,
    warmup_share and the schedule count sampling steps."""

    prompts_per_update: Count
    """Prompts per update; with a selector, prompts per sampling step."""

    group_size: Annotated[int, Field(ge=2)] | None = None
    """Required for GRPO: rollouts per prompt (G), at least 2, because with 1 rollout every advantage is 0."""

    temperature: Annotated[float, Field(gt=0)] | None = None
    """Required for GRPO: sampling temperature of the rollouts."""

    reward: Literal["correct", "finished", "majority"] | None = None
    """Required for GRPO. correct: 1 for a right answer, else 0. finished: 1 for any answer that
    the grader can read. majority: 1 for the most frequent answer of the group, without
    reference answers."""

    majority_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """This share of each update's prompts, rounded to whole prompts, is taken from outside the
    subset. Their rollouts are rewarded by majority vote, which needs no labels."""

    advantage: Literal["centred", "standardised"] | None = None
    """Required for GRPO. centred: the reward minus the group's mean. standardised: the centred reward divided by the
    group's standard deviation."""

    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo", "cispo"] | None = None
    """Required for GRPO: the model's loss (TRL's loss_type). grpo, dapo, dr_grpo and bnpo average the losses of tokens in
    different ways; cispo clips the weight of a token instead of its loss (arXiv 2506.13585)."""

    beta: Annotated[float, Field(ge=0)] | None = None
    """Required for GRPO: weight of the KL term (β). With 0 no reference policy is loaded and no KL is logged."""

    epsilon: Annotated[float, Field(gt=0)] | None = None
    """Required for GRPO: clipping range of the probability ratio."""

    epsilon_high: Annotated[float, Field(gt=0)] | None = None
    """Upper clipping range of the probability ratio (DAPO: 0.28). With loss cispo: the largest
    ratio itself (TRL recommends 5). The default is epsilon."""

    ratio: Literal["token", "sequence"] | None = None
    """token (the default): the probability ratio of each token. sequence: the geometric mean of the ratios of a
    completion's tokens (GSPO, arXiv 2507.18071)."""

    selector: selectors.Selector | None = None
    """The method that selects, during training, the prompts of the next rollouts from the
    subset. The default is a fixed schedule in shuffled epochs. A run has `updates` sampling
    steps of prompts_per_update x group_size rollouts, no matter how many rollouts are trained
    on."""

    process: Process | None = None

    optimiser: Literal["adamw", "paged_adamw_8bit"]
    """The optimiser. paged_adamw_8bit is from bitsandbytes and needs a GPU."""

    learning_rate: Annotated[float, Field(gt=0)]
    """Peak learning rate of AdamW."""

    schedule: Literal["constant", "cosine", "linear"]
    """Schedule of the learning rate."""

    warmup_share: Share
    """Share of the updates in which the learning rate rises."""

    weight_decay: Annotated[float, Field(ge=0)]
    """Weight decay of AdamW."""

    adam_beta2: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of AdamW's second moment. The default is 0.999."""

    max_grad_norm: Annotated[float, Field(gt=0)]
    """Largest norm of a gradient. Larger gradients are scaled down to this norm."""

    base: Literal["fp32", "bf16"]
    """Precision of the base model's weights in memory. bf16 is for adapters."""

    precision: Literal["fp32", "bf16"]
    """Precision of the arithmetic."""

    adapter: Adapter | None = None
    """A LoRA adapter on every linear layer except the output. null (the default) trains every weight."""

    generation: Literal["transformers", "vllm"] | None = None
    """Required for GRPO: the software that samples rollouts. vllm runs on the GPUs of the trainer."""

    importance_correction: ImportanceCorrection | None = None
    """Only with generation: vllm. The losses of rollouts are multiplied by the ratio of the
    trainer's probability to vLLM's probability, because the two differ slightly (see updates.csv).
    null (the default): the losses are not multiplied."""

    checkpoint_every: Count
    """Updates (with a selector: sampling steps) between two checkpoints. `updates` must be a
    multiple of this number."""

    @property
    def is_supervised(self) -> bool:
        return self.objective == "sft"

    @property
    def is_online(self) -> bool:
        """Whether prompts are selected, or a reward model is trained, during training."""
        return bool(self.selector or self.process)

    @property
    def scores_before_update(self) -> bool:
        """Whether TRL computes log-probabilities of vLLM's rollouts in a pass of its own."""
        replay = getattr(self.selector, "replay", None)
        return self.generation == "vllm" and bool(self.importance_correction or replay)

    @property
    def texts_per_update(self) -> int:
        """The rollouts of an update's prompts, or their worked solutions."""
        return self.prompts_per_update * (1 if self.is_supervised else self.group_size)

    def differences(self, first: "Recipe") -> dict:
        """{key: this recipe's value or None} of keys with another value in `first`."""
        return {
            key: self.entry.get(key)
            for key in sorted(self.entry | first.entry)
            if self.entry.get(key) != first.entry.get(key)
        }

    def contradictions(self) -> Iterator[tuple[str, str]]:
        if self.updates % self.checkpoint_every:
            yield (
                "checkpoint_every",
                f"{self.checkpoint_every} does not divide updates ({self.updates}); change one",
            )
        if self.loss == "cispo" and self.epsilon_high is None:
            yield "epsilon_high", "loss cispo needs this limit; add it, e.g. epsilon_high: 5.0"
        yield from self._precision_contradictions()
        yield from self._objective_contradictions()
        yield from self._majority_share_contradictions()
        yield from self._process_contradictions()
        if self.selector and not self.is_supervised:
            yield from self._selector_contradictions()
        if self.importance_correction and self.generation != "vllm":
            yield "importance_correction", "belongs to generation: vllm; remove it"

    def _precision_contradictions(self) -> Iterator[tuple[str, str]]:
        if self.base == "bf16" and not self.adapter:
            yield (
                "base",
                "trained weights need 32 bits, because bf16 rounds most updates away; choose fp32, or add an adapter",
            )
        if self.base != "fp32" and self.precision == "fp32":
            yield "precision", f"weights held as {self.base} need bf16; choose it, or base: fp32"

    def _objective_contradictions(self) -> Iterator[tuple[str, str]]:
        if self.is_supervised:
            for key in (*GRPO_KEYS, *OPTIONAL_GRPO_KEYS):
                if key in self.model_fields_set:
                    yield key, "belongs to GRPO, not to objective: sft; remove it"
            return
        for key in GRPO_KEYS:
            if key not in self.model_fields_set:
                yield "", f"'{key}' is missing, which GRPO needs; add it, or set objective: sft"

    def _majority_share_contradictions(self) -> Iterator[tuple[str, str]]:
        share, prompts = self.majority_share, self.prompts_per_update
        if not share:
            return
        if self.reward != "correct":
            yield "majority_share", "belongs to GRPO with reward: correct; remove it"
        elif not 0 < round(share * prompts) < prompts:
            yield (
                "majority_share",
                f"{share} of {prompts} prompts is {round(share * prompts)} after rounding; leave one with a label and one without",
            )
        for key in ("selector", "process"):
            if getattr(self, key):
                yield "majority_share", f"cannot be combined with {key}; remove one of them"

    def _process_contradictions(self) -> Iterator[tuple[str, str]]:
        if not self.process:
            return
        if self.temperature != 1:
            yield "process", "token rewards need the model's own probabilities; set temperature: 1"
        if self.reward == "majority":
            yield "process", "the reward model learns from right answers; set reward: correct"
        if self.adapter and self.adapter.dropout:
            yield "process", "dropout would change token rewards by chance; set adapter.dropout: 0"

    def _selector_contradictions(self) -> Iterator[tuple[str, str]]:
        selector = selectors.with_defaults(self.entry)
        prompts = self.prompts_per_update
        if (
            selector["kind"] in selectors.KINDS_WITH_MIXED_GROUPS_ONLY
            and selector["groups"] > prompts * selector["most_steps"]
        ):
            yield (
                "selector.groups",
                f"{selector['most_steps']} sampling steps of {prompts} prompts are too few for {selector['groups']} groups; lower it",
            )
        if selector["kind"] == "targeted":
            if selector["reference"] >= prompts * selector["every"]:
                yield (
                    "selector.reference",
                    f"{selector['every']} sampling steps of {prompts} prompts hold only the {selector['reference']} anchor prompts; lower it",
                )
            if (
                selector["replay"]
                and self.generation != "vllm"
                and self.adapter
                and self.adapter.dropout
            ):
                yield (
                    "selector.replay",
                    "replay needs sampling probabilities, which change with dropout; set adapter.dropout: 0",
                )
            if selector["replay"] > selector["buffer"]:
                yield (
                    "selector.replay",
                    f"a buffer of {selector['buffer']} groups cannot supply {selector['replay']} groups; raise buffer",
                )
