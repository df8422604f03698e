"""Selection policies: which prompts of a pool are worth training on, given the base model's pass rates or another measure.

The *order* of a pool is by ascending pass rate, and ties are broken by a hash of (seed, id). `hard` takes its beginning and
`easy` its end, so they are disjoint if the pool is large enough for both. `rule` and the other keys come from config/policies.yaml:

    hard, easy, middle, random, hard_solvable, nearest_half   need `budget`: a share, a number of prompts, or money
    hard_by_order, easy_by_order, middle_by_rank, random_42   the same, as the first paper's released code chooses: ties in the
                                                              order of the dataset, the same subset for all seeds
    base_wrong, base_right, base_right_matched                need `threshold`: wrong means pass rate < threshold
    lowest, highest                                           need `budget` and `by`, a measure of signals.py; nearest_half may have `by`
    low_tiers, low_tiers_matched                              need `highest_tier`: low means a tier up to that one
    all                                                       needs nothing
    annotated                                                 needs nothing: the prompts that somebody has given answers to
"""

import functools
import hashlib
import math
from dataclasses import dataclass
from statistics import median, quantiles

from hardgrpo.runtime.errors import UserError

RELEASED = ("hard_by_order", "easy_by_order", "middle_by_rank", "random_42")
BY_MEASURE = ("lowest", "highest", "nearest_half")
RANKED = ("hard", "easy", "middle", "random", "hard_solvable", *BY_MEASURE, *RELEASED)
SPLIT = ("base_wrong", "base_right", "base_right_matched")
TIERED = ("low_tiers", "low_tiers_matched")
RULES = (*RANKED, *SPLIT, *TIERED, "all", "annotated")
BY_BOUNDS = ("hard", "easy", "hard_solvable", *SPLIT)  # bounds of the pass rates can decide these, see early_stopping.py
# These need no measure of the prompts, and so no answers before the choice.
UNSEEING = ("random", "random_42", *TIERED, "all", "annotated")
SIGNALS = ("agreement", "entropy", "answered_share", "mean_tokens", "log_probability")  # measured without answers: signals.py
SHARES = ("pass_rate", "predicted", "agreement", "answered_share")  # measures in 0..1: one can be nearest to one half
MEASURES = ("pass_rate", "predicted", *SIGNALS)
NEEDS = (
    dict.fromkeys(RANKED, {"budget"})
    | dict.fromkeys(("lowest", "highest"), {"budget", "by"})
    | dict.fromkeys(SPLIT, {"threshold"})
    | dict.fromkeys(TIERED, {"highest_tier"})
)

A_BUDGET = "expected a share of the pool in (0, 1], {prompts: 50}, or {money: 100, label_price: 2}"


@dataclass(frozen=True)
class Subset:
    """Chosen ids in order, and how many candidates tied at the last chosen pass rate."""

    ids: list[str]
    tied: int  # candidates with that pass rate; 0 if all of them were chosen, so that chance decided nothing
    tied_chosen: int  # how many of them were chosen


def halved(budget: float | dict) -> float | dict:
    """Half of a budget, rounded down where it is a number of prompts."""
    if not isinstance(budget, dict):
        return budget / 2
    return budget | ({"prompts": max(1, budget["prompts"] // 2)} if "prompts" in budget else {"money": budget["money"] / 2})


def labels_before(policy: dict) -> str:
    """Whose answers must be known before a policy can choose: those of the `pool`, of a `sample` or of `none`."""
    if policy["rule"] in UNSEEING:
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
    if rule in RANKED and not is_budget(budget):
        raise UserError(f"policy rule {rule}: budget is {budget}, {A_BUDGET}; correct it")
    if rule in SPLIT and threshold is None:
        raise UserError(f"policy rule {rule}: threshold is missing; say below which pass rate a prompt counts as wrong")
    if rule in TIERED and highest_tier is None:
        raise UserError(f"policy rule {rule}: highest_tier is missing; say up to which tier a prompt counts as low")
    whole = len(pass_rates)
    pass_rates = {i: value for i, value in pass_rates.items() if value is not None}
    pool = ordered(pass_rates, seed)
    rate = pass_rates.__getitem__
    if rule == "all":
        return _checked(Subset(pool, 0, 0), rule, "the pool is empty")
    if rule in SPLIT:
        wrong = [i for i in pool if rate(i) < threshold]
        right = [i for i in pool if rate(i) >= threshold]
        if rule == "base_wrong":
            return _checked(Subset(wrong, 0, 0), rule, f"no pass rate is below {threshold}")
        if rule == "base_right":
            return _checked(Subset(right, 0, 0), rule, f"no pass rate reaches {threshold}")
        if len(wrong) > len(right):
            raise UserError(
                f"policy rule base_right_matched: {len(wrong)} prompts are wrong but only {len(right)} right at threshold"
                f" {threshold}; a subset of the same size cannot be had: lower the threshold"
            )
        matched = _shuffled(right, seed, "matched")[: len(wrong)]
        return _checked(Subset(matched, len(right), len(matched)), rule, f"no pass rate is below {threshold}")

    if rule in TIERED:
        known = {i: (tiers or {}).get(i) for i in pool}
        if all(tier is None for tier in known.values()):
            raise UserError(f"policy rule {rule}: the problems have no tiers; choose a task that has, or another rule")
        low = [i for i in pool if known[i] is not None and known[i] <= highest_tier]
        why = f"no tier is {highest_tier} or lower"
        if rule == "low_tiers":
            return _checked(Subset(low, 0, 0), rule, why)
        return _checked(Subset(_shuffled(pool, seed, "matched")[: len(low)], len(pool), len(low)), rule, why)

    size = subset_size(budget, whole)
    why = _less_than_one(budget, whole)
    if rule in RELEASED:
        return _checked(_as_released(pass_rates, rule, size), rule, why)
    if rule == "random":
        return _checked(Subset(_shuffled(pool, seed, "random")[:size], len(pool), size), rule, why)
    if rule in ("hard", "lowest"):
        candidates, key = pool, rate
    elif rule in ("easy", "highest"):
        candidates, key = pool[::-1], lambda i: -rate(i)
    elif rule == "hard_solvable":
        candidates, key = [i for i in pool if rate(i) > 0], rate
    elif rule == "nearest_half":
        key = lambda i: abs(rate(i) - 0.5)
        # Rounded, so that 0.4 and 0.6 tie: their distances differ in the last bit.
        distances = {value: round(abs(value - 0.5), 12) for value in set(pass_rates.values())}
        candidates = sorted(pool, key=lambda i: (distances[rate(i)], tie_break(i, seed)))
    elif rule == "middle":
        centre, low, high = _quartiles(list(pass_rates.values()))
        key = lambda i: abs(rate(i) - centre)
        candidates = sorted((i for i in pool if low <= rate(i) <= high), key=lambda i: (key(i), tie_break(i, seed)))
    else:
        raise UserError(f"unknown policy rule '{rule}'; expected one of {', '.join(RULES)}")
    if size and len(candidates) < size:
        raise UserError(
            f"policy rule {rule}: budget {budget} asks for {size} prompts, but only {len(candidates)} qualify; lower the budget"
        )
    chosen = candidates[:size]
    tied = tied_chosen = 0
    if 0 < size < len(candidates) and math.isclose(key(candidates[size]), key(chosen[-1]), abs_tol=1e-12):
        at_boundary = [math.isclose(key(i), key(chosen[-1]), abs_tol=1e-12) for i in candidates]
        tied, tied_chosen = sum(at_boundary), sum(at_boundary[:size])
    return _checked(Subset(chosen, tied, tied_chosen), rule, why)


def _as_released(pass_rates: dict[str, float], rule: str, size: int) -> Subset:
    """The first paper's later code: stable sorts of the dataset, the central ranks, and `shuffle(seed=42)` of `datasets`.

    No seed decides anything; `tied` counts the prompts at the edges of the choice that the dataset's order chose among.
    """
    import numpy as np  # here, because every dry-run reads this module

    pool, rate = list(pass_rates), pass_rates.__getitem__
    if rule == "random_42":
        return Subset([pool[i] for i in np.random.default_rng(42).permutation(len(pool))[:size]], len(pool), size)
    by_rate = sorted(pool, key=rate if rule != "easy_by_order" else lambda i: -rate(i))
    start = (len(pool) - size) // 2 if rule == "middle_by_rank" else 0
    chosen = by_rate[start : start + size]
    edges = {rate(i) for i in (chosen[:1] if start else []) + chosen[-1:]}
    tied = [i for i in pool if rate(i) in edges]
    tied_chosen = sum(rate(i) in edges for i in chosen)
    return Subset(chosen, len(tied), tied_chosen) if tied_chosen < len(tied) else Subset(chosen, 0, 0)


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
        _checked(Subset([], 0, 0), rule, _less_than_one(budget, pool))
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


def _checked(subset: Subset, rule: str, why: str) -> Subset:
    if not subset.ids:
        raise UserError(
            f"policy rule {rule}: the subset would be empty ({why}); raise the budget, the threshold or the highest tier"
        )
    return subset
