"""Policies: how prompts are chosen."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.selection import policies
from hardgrpo.study.strict import Number, Strict

RuleName = Literal[tuple(policies.RULES)]


class NumberOfPrompts(Strict):
    prompts: Annotated[int, Field(ge=1)]
    """Number of prompts to choose."""


class Money(Strict):
    money: Annotated[float, Field(gt=0)]
    """The largest sum that labels may cost, in any currency."""

    label_price: Annotated[float, Field(gt=0)]
    """The price of one label, in the same currency."""


class Policy(Strict):
    """A selection policy chooses which prompts of the pool to train on, with most rules by the base
    model's completions."""

    rule: RuleName
    """How prompts are chosen. The section "What a rule takes" of docs/configuration.md lists the rules and the keys that
    each rule needs."""

    budget: Annotated[float, Field(gt=0, le=1)] | NumberOfPrompts | Money | None = None
    """The size of the subset: a share of the pool in (0, 1]; {prompts: 50}; or {money: 100,
    label_price: 2}, only for policies that choose without the reference answers of the whole pool."""

    threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    """A prompt counts as wrong if its pass rate is below this threshold."""

    highest_tier: Number | None = None
    """The rule low_tiers takes the prompts whose tier is at most this number; low_tiers_matched
    takes as many prompts as low_tiers."""

    low: Annotated[float, Field(ge=0, lt=1)] = policies.LOW
    """The lowest pass rate that the rules band and band_matched accept. The default is 0.2."""

    high: Annotated[float, Field(gt=0, le=1)] = policies.HIGH
    """The highest pass rate that the rules band and band_matched accept. The default is 0.8."""

    order: Literal["random"] | None = None
    """With `budget`, the rule band draws the prompts of the band at random. The default is to take
    the pass rates that are nearest to one half."""

    by: (
        Literal[
            "pass_rate",
            "predicted",
            "agreement",
            "entropy",
            "answered_share",
            "mean_tokens",
            "log_probability",
        ]
        | None
    ) = None
    """The measure by which the rules lowest, highest and nearest_half choose. Required for lowest
    and highest; the default of nearest_half is pass_rate. nearest_half accepts only shares:
    pass_rate, predicted, agreement and answered_share.
    predicted is the pass rate that a model predicts from signals, fitted on the prompts of
    calibrated_on. agreement, entropy, answered_share, mean_tokens and log_probability are
    signals, measured from the samples alone (src/hardgrpo/selection/signals.py)."""

    calibrated_on: Annotated[float, Field(gt=0, lt=1)] | None = None
    """With `by: predicted`: the share of the pool, drawn at random, that is annotated for the fit. These prompts are
    part of the budget and of the subset. The annotation is simulated: the task needs answers for its whole pool, and
    the policy reads only those of the sample. A pool without answers (`labelled: false`) cannot be chosen from by
    `predicted`."""

    rounds: Literal[2] | None = None
    """Annotate in two rounds: half of the budget is chosen from the base model's completions
    and, after half of the updates, the other half from completions of the partly trained model.
    Optimiser and schedule restart in the second round. Only for policies that choose by a signal,
    and for GRPO recipes that train all weights with beta 0 and have no selector, process or
    majority_share. Half of `updates` must be a multiple of checkpoint_every."""

    probed_on: str | None = None
    """The task on which the model is probed for the choice: a task with the same problems, but for
    example another completion limit or fewer samples. The default is the trained task."""

    probed_by: str | None = None
    """The model that is probed for the choice, so that a small model can choose for a large model.
    The default is the trained model. If the probing model has a base model for each seed, the base
    model with the run's seed is probed."""

    @property
    def has_rounds(self) -> bool:
        return self.rounds is not None

    @property
    def measure(self) -> str:
        return self.by or "pass_rate"

    def choice(self, *, whole_budget: bool = False) -> dict:
        """The keys that the programs of scripts/subsets read. With `rounds`, the budget is that of
        the first round, or of both (`whole_budget`)."""
        chosen = {
            key: value
            for key, value in self.entry.items()
            if key not in ("probed_on", "probed_by", "rounds")
        }
        if self.has_rounds and not whole_budget:
            chosen["budget"] = policies.halve_budget(chosen["budget"])
        return chosen

    def contradictions(self) -> Iterator[tuple[str, str]]:
        rule, keys = policies.RULES[self.rule], self.model_fields_set
        for key in sorted(set(rule.needs) - keys):
            example = {"budget": 0.1, "threshold": 0.25, "highest_tier": 3, "by": "agreement"}[key]
            yield "", f"rule '{self.rule}' needs '{key}'; add it, e.g. {key}: {example}"
        by = (self.by or "pass_rate") if "by" in rule.needs + rule.accepts else None
        allowed = {"rule", "probed_on", "probed_by", *rule.needs, *rule.accepts}
        allowed |= ({"calibrated_on"} if by == "predicted" else set()) | (
            {"rounds"} if by in policies.SIGNALS else set()
        )
        for key in sorted(keys - allowed):
            choice = f"rule '{self.rule}'" + (f" with by: {by}" if by else "")
            yield key, f"{choice} does not use '{key}'; remove it"
        if self.low >= self.high:
            yield "low", f"{self.low} is not below high ({self.high}); lower low or raise high"
        if self.order and self.budget is None:
            yield "order", "a random draw needs 'budget'; add it, e.g. budget: 0.1"
        if by == "predicted" and self.calibrated_on is None:
            yield "", "by: predicted needs 'calibrated_on'; add it, e.g. calibrated_on: 0.02"
        for key in ("probed_on", "probed_by"):
            if self.rounds and key in keys:
                yield key, "the second round probes the trained model on its own task; remove it"
        if (
            isinstance(self.budget, Money)
            and policies.labels_before(self.model_dump(exclude_unset=True)) == "pool"
        ):
            yield (
                "budget",
                "this policy needs the answers of the whole pool, so money cannot limit the labels; give a share or a number of prompts",
            )
        if (
            by == "predicted"
            and isinstance(self.budget, float | int)
            and (self.calibrated_on or 0) >= self.budget
        ):
            yield (
                "calibrated_on",
                f"{self.calibrated_on} is not below the budget ({self.budget}); lower it",
            )
        if self.rule == "nearest_half" and by not in policies.SHARES:
            yield "by", f"{by} is not a share; choose rule lowest or highest"
