"""Selection policies: which prompts of a pool are worth training on, given the base model's pass rates or another measure.

The *order* of a pool is by ascending pass rate, and ties are broken by a hash of (seed, id). `hard` takes its beginning and
`easy` its end, so they are disjoint if the pool is large enough for both. `RULES` has every rule; `rule` and the other keys of a policy come
from the configuration.
"""

import functools
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

from hardgrpo.runtime.errors import UserError

SIGNALS = ("agreement", "entropy", "answered_share", "mean_tokens", "log_probability")  # measured without answers: signals.py
SHARES = ("pass_rate", "predicted", "agreement", "answered_share")  # measures in 0..1: one can be nearest to one half
MEASURES = ("pass_rate", "predicted", *SIGNALS)

A_BUDGET = "expected a share of the pool in (0, 1], {prompts: 50}, or {money: 100, label_price: 2}"


@dataclass(frozen=True)
class Subset:
    """Chosen ids in order, and how many candidates tied at the last chosen pass rate."""

    ids: list[str]
    tied: int  # candidates with that pass rate; 0 if all of them were chosen, so that chance decided nothing
    tied_chosen: int  # how many of them were chosen


@dataclass(frozen=True)
class Pool:
    """What a rule chooses from: the prompts whose measure is known, and the keys of the policy."""

    measures: dict[str, float]  # id -> pass rate, or another measure, in the order of the dataset
    seed: int
    size: int  # prompts that the budget pays for; 0 without a budget
    budget: float | dict | None
    threshold: float | None
    highest_tier: float | None
    tiers: dict[str, float | None]

    @functools.cached_property
    def ids(self) -> list[str]:
        """By ascending measure, ties in the seed's order."""
        return ordered(self.measures, self.seed)


@dataclass(frozen=True)
class Rule:
    """A rule of a policy. A new rule is one entry of `RULES`."""

    choose: Callable[[Pool], Subset]
    takes: str  # a description of the prompts that it takes, for docs/configuration.md
    needs: tuple[str, ...] = ("budget",)  # keys of a policy
    accepts_by: bool = False  # whether a policy may say `by` which measure
    needs_measure: bool = True  # False: chooses without any measure, and so before anything is sampled or annotated
    by_bounds: bool = False  # whether bounds of the pass rates can decide it, see early_stopping.py
    is_released: bool = False  # chooses as HE's released code: ties in the order of the dataset, the same for all seeds


def halved(budget: float | dict) -> float | dict:
    """Half of a budget, rounded down where it is a number of prompts."""
    if not isinstance(budget, dict):
        return budget / 2
    return budget | ({"prompts": max(1, budget["prompts"] // 2)} if "prompts" in budget else {"money": budget["money"] / 2})


def labels_before(policy: dict) -> str:
    """Whose answers must be known before a policy can choose: those of the `pool`, of a `sample` or of `none`."""
    if not RULES[policy["rule"]].needs_measure:
        return "none"
    return {"pass_rate": "pool", "predicted": "sample"}.get(policy.get("by", "pass_rate"), "none")


def labels(policy: dict, recipe: dict, pool: int, sample: int, chosen: int, sampled: int | None = None) -> int:
    """How many prompts' answers a run needs: to choose (the pool's, those of a `sample`, or none) and to train (those of the `chosen`
    prompts, or none where the reward is not `correct`). A prompt that needs its answer for both counts once.

    A run with a selector, or a short one on all prompts, samples only some of the prompts, `sampled`, and needs the answers of these."""
    before = {"pool": pool, "sample": sample, "none": 0}[labels_before(policy)]
    if (recipe.get("selector") or {}).get("by") == "pass_rate":
        before = pool  # the curriculum sorts by pass rates
    if recipe.get("reward", "correct") != "correct":
        return before
    if sampled is not None and 0 < before < chosen:
        return min(chosen, before + sampled)  # at most: nobody knows how many of the sample were drawn again
    return max(before, chosen if sampled is None else sampled)


def select(
    pass_rates: dict[str, float | None],
    rule: str,
    seed: int,
    budget: float | dict | None = None,
    threshold: float | None = None,
    highest_tier: float | None = None,
    tiers: dict[str, float | None] | None = None,
) -> Subset:
    """Choose a subset of the pool `pass_rates` (id -> share correct, or another measure). Raise a `UserError` if it would be empty.

    Prompts whose measure is unknown (None) count in the pool and are never chosen. Rules by tier need `tiers` (id -> difficulty by the
    problem's own structure).
    """
    if rule not in RULES:
        raise UserError(f"unknown policy rule '{rule}'; expected one of {', '.join(RULES)}")
    needs = RULES[rule].needs
    if "budget" in needs and not is_budget(budget):
        raise UserError(f"policy rule {rule}: budget is {budget}, {A_BUDGET}; correct it")
    if "threshold" in needs and threshold is None:
        raise UserError(f"policy rule {rule}: threshold is missing; say below which pass rate a prompt counts as wrong")
    if "highest_tier" in needs and highest_tier is None:
        raise UserError(f"policy rule {rule}: highest_tier is missing; say up to which tier a prompt counts as low")
    size = subset_size(budget, len(pass_rates)) if "budget" in needs else 0
    measures = {i: value for i, value in pass_rates.items() if value is not None}
    pool = Pool(measures, seed, size, budget, threshold, highest_tier, tiers or {})
    if "highest_tier" in needs and all(pool.tiers.get(i) is None for i in measures):
        raise UserError(f"policy rule {rule}: the problems have no tiers; choose a task that has, or another rule")
    if "budget" in needs and not size:
        raise _empty(rule, _less_than_one(budget, len(pass_rates)), "raise the budget")
    try:
        subset = RULES[rule].choose(pool)
    except TooFew as error:
        raise UserError(f"policy rule {rule}: {error}") from None
    if not subset.ids:
        if "threshold" in needs:
            reason, remedy = ("no pass rate reaches", "lower") if rule == "base_right" else ("no pass rate is below", "raise")
            raise _empty(rule, f"{reason} {threshold}", f"{remedy} the threshold")
        if "highest_tier" in needs:
            raise _empty(rule, f"no tier is {highest_tier} or lower", "raise highest_tier")
        raise _empty(rule, "the pool is empty", "give it prompts")
    return subset


class TooFew(Exception):
    """Fewer prompts qualify than a rule is to choose."""


def _first(pool: Pool, candidates: list[str], key: Callable[[str], float]) -> Subset:
    """As many candidates as the budget pays for, from candidates by ascending `key`."""
    if len(candidates) < pool.size:
        raise TooFew(f"budget {pool.budget} asks for {pool.size} prompts, but only {len(candidates)} qualify; lower the budget")
    chosen = candidates[: pool.size]
    tied = tied_chosen = 0
    if pool.size < len(candidates) and math.isclose(key(candidates[pool.size]), key(chosen[-1]), abs_tol=1e-12):
        at_boundary = [math.isclose(key(i), key(chosen[-1]), abs_tol=1e-12) for i in candidates]
        tied, tied_chosen = sum(at_boundary), sum(at_boundary[: pool.size])
    return Subset(chosen, tied, tied_chosen)


def _lowest(pool: Pool) -> Subset:
    return _first(pool, pool.ids, pool.measures.__getitem__)


def _highest(pool: Pool) -> Subset:
    return _first(pool, pool.ids[::-1], lambda i: -pool.measures[i])


def _lowest_above_zero(pool: Pool) -> Subset:
    return _first(pool, [i for i in pool.ids if pool.measures[i] > 0], pool.measures.__getitem__)


def _nearest_half(pool: Pool) -> Subset:
    # Rounded, so that 0.4 and 0.6 tie: their distances differ in the last bit.
    distances = {value: round(abs(value - 0.5), 12) for value in set(pool.measures.values())}
    candidates = sorted(pool.ids, key=lambda i: (distances[pool.measures[i]], tie_break(i, pool.seed)))
    return _first(pool, candidates, lambda i: abs(pool.measures[i] - 0.5))


def _middle(pool: Pool) -> Subset:
    if not pool.ids:
        return _first(pool, [], pool.measures.__getitem__)
    centre, low, high = _quartiles(list(pool.measures.values()))
    distance = lambda i: abs(pool.measures[i] - centre)
    within = [i for i in pool.ids if low <= pool.measures[i] <= high]
    return _first(pool, sorted(within, key=lambda i: (distance(i), tie_break(i, pool.seed))), distance)


def _random(pool: Pool) -> Subset:
    return Subset(_shuffled(pool.ids, pool.seed, "random")[: pool.size], len(pool.ids), pool.size)


def _wrong(pool: Pool) -> Subset:
    return Subset([i for i in pool.ids if pool.measures[i] < pool.threshold], 0, 0)


def _right(pool: Pool) -> Subset:
    return Subset([i for i in pool.ids if pool.measures[i] >= pool.threshold], 0, 0)


def _right_matched(pool: Pool) -> Subset:
    wrong, right = _wrong(pool).ids, _right(pool).ids
    if len(wrong) > len(right):
        raise TooFew(
            f"{len(wrong)} prompts are wrong but only {len(right)} right at threshold {pool.threshold}; a subset of the same size"
            " cannot be had: lower the threshold"
        )
    return Subset(_shuffled(right, pool.seed, "matched")[: len(wrong)], len(right), len(wrong))


def _low_tiers(pool: Pool) -> Subset:
    tier = pool.tiers.get
    return Subset([i for i in pool.ids if tier(i) is not None and tier(i) <= pool.highest_tier], 0, 0)


def _low_tiers_matched(pool: Pool) -> Subset:
    size = len(_low_tiers(pool).ids)
    return Subset(_shuffled(pool.ids, pool.seed, "matched")[:size], len(pool.ids), size)


def _all(pool: Pool) -> Subset:
    return Subset(pool.ids, 0, 0)


def _random_42(pool: Pool) -> Subset:
    """`shuffle(seed=42)` of `datasets`."""
    import numpy as np  # here, because every dry-run reads this module

    ids = list(pool.measures)
    return Subset([ids[i] for i in np.random.default_rng(42).permutation(len(ids))[: pool.size]], len(ids), pool.size)


def _by_order(pool: Pool, sign: int = 1, from_centre: bool = False) -> Subset:
    """Stable sorts of the dataset, as in the first paper's later code. No seed decides anything; `tied` counts the prompts at the edges of
    the choice that the dataset's order chose among."""
    ids = list(pool.measures)
    by_measure = sorted(ids, key=lambda i: sign * pool.measures[i])
    start = (len(ids) - pool.size) // 2 if from_centre else 0
    chosen = by_measure[start : start + pool.size]
    edges = {pool.measures[i] for i in (chosen[:1] if start else []) + chosen[-1:]}
    tied = sum(pool.measures[i] in edges for i in ids)
    tied_chosen = sum(pool.measures[i] in edges for i in chosen)
    return Subset(chosen, tied, tied_chosen) if tied_chosen < tied else Subset(chosen, 0, 0)


_AS_RELEASED = "ties in the order of the dataset: the same for all seeds, as HE's released code"
RULES: dict[str, Rule] = {
    "hard": Rule(_lowest, "the lowest pass rates", by_bounds=True),
    "easy": Rule(_highest, "the highest pass rates", by_bounds=True),
    "middle": Rule(_middle, "pass rates nearest to the median, within the quartiles"),
    "random": Rule(_random, "a random choice, another for each seed", needs_measure=False),
    "hard_solvable": Rule(_lowest_above_zero, "the lowest pass rates above 0", by_bounds=True),
    "lowest": Rule(_lowest, "the lowest values of the measure `by`", ("budget", "by"), accepts_by=True),
    "highest": Rule(_highest, "the highest values of the measure `by`", ("budget", "by"), accepts_by=True),
    "nearest_half": Rule(
        _nearest_half,
        "values nearest to 0.5 of the measure `by`, which is the pass rate unless it says otherwise",
        accepts_by=True,
    ),
    "hard_by_order": Rule(_by_order, f"as `hard`, with {_AS_RELEASED}", is_released=True),
    "easy_by_order": Rule(functools.partial(_by_order, sign=-1), f"as `easy`, with {_AS_RELEASED}", is_released=True),
    "middle_by_rank": Rule(
        functools.partial(_by_order, from_centre=True), f"the middle ranks of the pool, with {_AS_RELEASED}", is_released=True
    ),
    "random_42": Rule(
        _random_42,
        "a random choice by NumPy's generator with seed 42: the same for all seeds, as HE's released code",
        needs_measure=False,
        is_released=True,
    ),
    "base_wrong": Rule(_wrong, "every pass rate below `threshold`", ("threshold",), by_bounds=True),
    "base_right": Rule(_right, "every pass rate of `threshold` or above", ("threshold",), by_bounds=True),
    "base_right_matched": Rule(
        _right_matched, "of those of `base_right` as many as `base_wrong` takes, at random", ("threshold",), by_bounds=True
    ),
    "low_tiers": Rule(_low_tiers, "every problem of a tier up to `highest_tier`", ("highest_tier",), needs_measure=False),
    "low_tiers_matched": Rule(
        _low_tiers_matched, "as many of the whole pool as `low_tiers` takes, at random", ("highest_tier",), needs_measure=False
    ),
    "all": Rule(_all, "the whole pool", (), needs_measure=False),
    "annotated": Rule(_all, "the prompts of a task with `labelled: false` that have been annotated", (), needs_measure=False),
}


def is_by_tier(rule: str) -> bool:
    return "highest_tier" in RULES[rule].needs


def ordered(pass_rates: dict[str, float], seed: int) -> list[str]:
    """Ids by ascending pass rate, ties in the seed's order."""
    return sorted(pass_rates, key=lambda i: (pass_rates[i], tie_break(i, seed)))


def is_budget(budget: object) -> bool:
    """Whether this is a share of the pool in (0, 1], a number of prompts ({prompts: 50}), or money with the price of a label
    ({money: 100, label_price: 2})."""
    known = lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not isinstance(budget, dict):
        return known(budget) and 0 < budget <= 1
    if set(budget) == {"prompts"}:
        return type(budget["prompts"]) is int and budget["prompts"] > 0
    return set(budget) == {"money", "label_price"} and all(known(value) and value > 0 for value in budget.values())


def subset_size(budget: float | dict, pool: int) -> int:
    """How many prompts of the pool a budget pays for. A share pays for floor(budget * pool), as in the paper; the product is
    rounded first, because 0.29 * 100 is 28.999... Raise a `UserError` for more prompts than the pool has."""
    if not isinstance(budget, dict):
        return math.floor(round(budget * pool, 9))
    size = prompts_of(budget)
    if size > pool:
        raise UserError(
            f"the budget ({said(budget)}) pays for {size} prompts, and the pool has {pool}; lower it, or choose rule all"
        )
    return size


def prompts_of(budget: dict) -> int:
    """How many prompts a budget of prompts or money asks for."""
    return budget["prompts"] if "prompts" in budget else math.floor(round(budget["money"] / budget["label_price"], 9))


def _less_than_one(budget: float | dict, pool: int) -> str:
    return f"the budget, {said(budget)}, is less than one of {pool} prompts"


def check_pool(place: str, policy: dict, task: str, pool: int, exact: bool = True) -> None:
    """Raise a `UserError`, which starts with `place`, if no measure of the prompts lets a policy of the configuration choose from a
    task's pool of this size. If the size is not `exact`, the pool may be smaller, and only one that is too small in any case is refused."""
    try:
        _check_size(policy, pool, exact)
    except UserError as error:
        raise UserError(f"{place}: task '{task}': {error}") from None


def _check_size(policy: dict, pool: int, exact: bool) -> None:
    if "budget" not in policy:
        return
    budget, rule = policy["budget"], policy["rule"]
    size = subset_size(budget, pool)
    if size < 1:
        raise _empty(rule, _less_than_one(budget, pool), "raise the budget")
    if "rounds" in policy:
        first = subset_size(halved(budget), pool)
        if not 0 < first < size:
            raise UserError(f"policy rule {rule}: {size} prompts of {pool} cannot be annotated in two rounds; raise the budget")
    if "calibrated_on" in policy and exact:
        sample = sample_size(policy["calibrated_on"], pool)
        if sample >= size:
            raise UserError(spent_on_sample(budget, sample))


def sample_size(share: float, pool: int) -> int:
    """How many prompts are annotated to predict pass rates. Raise a `UserError` for fewer than two."""
    size = subset_size(share, pool)
    if size < 2:
        raise UserError(f"calibrated_on: {share} of {pool} prompts is {size}; a line needs at least two, so raise it")
    return size


def spent_on_sample(budget: float | dict, sample: int) -> str:
    """The message about a budget that is spent before the choice."""
    return (
        f"the budget, {said(budget)}, is spent on the {sample} prompts that were annotated before; raise it, or lower calibrated_on"
    )


def said(budget: float | dict) -> str:
    """A budget in words."""
    if not isinstance(budget, dict):
        return f"{budget} of the pool"
    if "prompts" in budget:
        return f"{budget['prompts']} prompts"
    return f"{budget['money']:g} at {budget['label_price']:g} a label"


@functools.lru_cache(maxsize=2**16)  # a jackknife chooses from nearly the same pool again and again
def tie_break(identity: str, seed: int, salt: str = "tie") -> str:
    """A pseudo-random key of (seed, salt, id); it does not depend on the pool."""
    return hashlib.sha256(f"{seed}:{salt}:{identity}".encode()).hexdigest()


def _shuffled(ids: list[str], seed: int, salt: str) -> list[str]:
    return sorted(ids, key=lambda i: tie_break(i, seed, salt))


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    """Median and first and third quartile (linear interpolation, as numpy)."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return median(values), low, high


def _empty(rule: str, reason: str, remedy: str) -> UserError:
    return UserError(f"policy rule {rule}: the subset would be empty ({reason}); {remedy}")
