"""Selection policies: choose the prompts of a pool to train on, given the base model's pass rates
or another measure. `RULES` holds every rule.

The *order* of a pool is by ascending pass rate, ties by a hash of (seed, id).
"""

import functools
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import quantiles

from hardgrpo.runtime.errors import UserError

# measured without reference answers: signals.py
SIGNALS = ("agreement", "entropy", "answered_share", "mean_tokens", "log_probability")
# measures in 0..1, by which `nearest_half` can choose
SHARES = ("pass_rate", "predicted", "agreement", "answered_share")
MEASURES = ("pass_rate", "predicted", *SIGNALS)

LOW, HIGH = 0.2, 0.8  # the default band of pass rates


@dataclass(frozen=True)
class Subset:
    """Chosen ids in the order in which the rule takes them, and the number of tied candidates:
    those whose measure equals that of a chosen prompt at a boundary of the choice, unless all of
    them are chosen. If a rule chooses at random, all candidates are tied."""

    ids: list[str]
    tied: int
    tied_chosen: int  # number of tied candidates that were chosen


@dataclass(frozen=True)
class Pool:
    """The input of a rule: the prompts that have a measure, and the values of the policy's keys."""

    measures: dict[str, float]  # id -> pass rate, or another measure, in the order of the dataset
    seed: int
    size: int  # number of prompts that the budget pays for; 0 without a budget
    tiers: dict[str, float | None]
    threshold: float | None = None
    highest_tier: float | None = None
    low: float = LOW  # the band of pass rates
    high: float = HIGH
    order: str | None = None

    @functools.cached_property
    def ids(self) -> list[str]:
        """Ids by ascending measure. `tie_break` orders ties."""
        return _sorted_by(self.measures.__getitem__, self.measures, self.seed)


@dataclass(frozen=True)
class Rule:
    """A rule of a policy: an entry of `RULES`."""

    choose: Callable[[Pool], Subset]
    family: str  # rules of a family have one colour in all figures
    description: str  # describes the chosen prompts in docs/configuration.md
    needs: tuple[str, ...] = ("budget",)  # required keys of a policy with this rule
    accepts: tuple[str, ...] = ()  # optional keys
    needs_measure: bool = True  # whether the rule needs pass rates or a signal
    by_bounds: bool = False  # whether bounds of the pass rates can decide, see early_stopping.py
    is_released: bool = False  # whether ties are those of HE's released code, equal for all seeds


def halve_budget(budget: float | dict) -> float | dict:
    """Half of a budget. Half of a number of prompts is rounded down, but is at least 1."""
    if not isinstance(budget, dict):
        return budget / 2
    if "prompts" in budget:
        return {"prompts": max(1, budget["prompts"] // 2)}
    return budget | {"money": budget["money"] / 2}


def labels_before(policy: dict) -> str:
    """The prompts whose reference answers a policy needs before it can choose: `pool`, `sample` or
    `none`."""
    if not RULES[policy["rule"]].needs_measure:
        return "none"
    return {"pass_rate": "pool", "predicted": "sample"}.get(policy.get("by", "pass_rate"), "none")


def labels(
    policy: dict, recipe: dict, pool: int, sample: int, chosen: int, sampled: int | None = None
) -> int:
    """Number of reference answers that a run needs: those that the policy needs to choose, and
    those of the chosen prompts if the reward is `correct`. `pool`, `sample`, `chosen` and `sampled`
    are numbers of prompts. `sampled` is given if the run may sample only some of the chosen prompts
    (a selector, rule `all`); the result is then an upper bound."""
    needed_to_choose = {"pool": pool, "sample": sample, "none": 0}[labels_before(policy)]
    if (recipe.get("selector") or {}).get("by") == "pass_rate":
        needed_to_choose = pool  # the curriculum sorts by pass rates
    if recipe.get("reward", "correct") != "correct":
        return needed_to_choose
    if sampled is not None and 0 < needed_to_choose < chosen:
        return min(chosen, needed_to_choose + sampled)
    return max(needed_to_choose, chosen if sampled is None else sampled)


def select(
    pass_rates: dict[str, float | None],
    rule: str,
    seed: int,
    budget: float | dict | None = None,
    tiers: dict[str, float | None] | None = None,
    **settings,
) -> Subset:
    """Choose a subset of the pool `pass_rates` (id -> share correct, or another measure). Prompts
    without a measure (None) count towards the size of the pool but are never chosen. Rules by tier
    need `tiers`.

    Budget and settings are those of `hardgrpo.study.policy.Policy`, which checks them. Raise a
    `UserError` if too few prompts qualify, or if the subset would be empty.
    """
    uses_budget = "budget" in RULES[rule].needs + RULES[rule].accepts and budget is not None
    measures = {prompt: value for prompt, value in pass_rates.items() if value is not None}
    try:
        size = _size_of_subset(budget, len(pass_rates)) if uses_budget else 0
        subset = RULES[rule].choose(Pool(measures, seed, size, tiers or {}, **settings))
        if len(subset.ids) < size:
            raise UserError(
                f"{size} prompts are to be chosen, but only {len(subset.ids)} qualify; lower the budget"
            )
        if not subset.ids:
            keys = ", ".join(RULES[rule].needs + RULES[rule].accepts) or "the pool"
            raise UserError(f"the subset would be empty: no prompt qualifies; change {keys}")
    except UserError as error:
        raise UserError(f"policy rule {rule}: {error}") from None
    return subset


def _size_of_subset(budget: float | dict, pool: int) -> int:
    size = subset_size(budget, pool)
    if size < 1:
        raise UserError(
            f"the subset would be empty (the budget, {format_budget(budget)}, pays for none of the {pool} prompts); raise the budget"
        )
    return size


def _all_with(pool: Pool, qualifies: Callable[[str], bool]) -> Subset:
    return Subset(list(filter(qualifies, pool.ids)), 0, 0)


def _take(pool: Pool, candidates: list[str], key: Callable[[str], float]) -> Subset:
    """Take the first `pool.size` of the candidates, which are sorted by `key`, and count those that
    are tied with the last one taken."""
    ids = candidates[: pool.size]
    is_tied = [math.isclose(key(prompt), key(ids[-1]), abs_tol=1e-12) for prompt in candidates]
    if not any(is_tied[pool.size :]):
        return Subset(ids, 0, 0)
    return Subset(ids, sum(is_tied), sum(is_tied[: pool.size]))


def _lowest(pool: Pool) -> Subset:
    return _take(pool, pool.ids, pool.measures.__getitem__)


def _highest(pool: Pool) -> Subset:
    return _take(pool, pool.ids[::-1], lambda prompt: -pool.measures[prompt])


def _lowest_above_zero(pool: Pool) -> Subset:
    solvable = [prompt for prompt in pool.ids if pool.measures[prompt] > 0]
    return _take(pool, solvable, pool.measures.__getitem__)


def _middle(pool: Pool) -> Subset:
    """The prompts within the quartiles (linear interpolation, as NumPy's default) that are nearest
    to the median."""
    if len(pool.ids) < 2:  # one prompt has no quartiles
        return _nearest(pool, pool.ids)
    rates = [pool.measures[prompt] for prompt in pool.ids]
    low, median, high = quantiles(rates, n=4, method="inclusive")
    within = [prompt for prompt in pool.ids if low <= pool.measures[prompt] <= high]
    return _nearest(pool, within, median)


def _nearest(pool: Pool, candidates: list[str] | None = None, centre: float = 0.5) -> Subset:
    """The candidates (default: all prompts) whose measures are nearest to `centre`."""
    candidates = pool.ids if candidates is None else candidates
    # The distances of 0.3 and 0.7 from 0.5 differ in the last bit. Rounding makes them equal.
    distance = lambda prompt: round(abs(pool.measures[prompt] - centre), 12)
    return _take(pool, _sorted_by(distance, candidates, pool.seed), distance)


def _random(pool: Pool) -> Subset:
    return _draw(pool, pool.ids, pool.size, "random")


def _draw(pool: Pool, candidates: list[str], size: int, salt: str = "matched") -> Subset:
    ids = sorted(candidates, key=lambda prompt: tie_break(prompt, pool.seed, salt))[:size]
    return Subset(ids, len(candidates), size)


def _matched(pool: Pool, choose: Callable[[Pool], Subset]) -> Subset:
    """A random choice from the whole pool, as many prompts as `choose` takes."""
    return _draw(pool, pool.ids, len(choose(pool).ids))


def _band(pool: Pool) -> Subset:
    margin = 1e-9  # rounding may move a rate that equals a bound
    low, high = pool.low - margin, pool.high + margin
    subset = _all_with(pool, lambda prompt: low <= pool.measures[prompt] <= high)
    if not pool.size:
        return subset
    if pool.order is None:
        return _nearest(pool, subset.ids)
    return _draw(pool, subset.ids, pool.size, "random")


def _wrong(pool: Pool) -> Subset:
    return _all_with(pool, lambda prompt: pool.measures[prompt] < pool.threshold)


def _right(pool: Pool) -> Subset:
    return _all_with(pool, lambda prompt: pool.measures[prompt] >= pool.threshold)


def _right_matched(pool: Pool) -> Subset:
    wrong, right = _wrong(pool).ids, _right(pool).ids
    if len(wrong) > len(right):
        raise UserError(
            f"at threshold {pool.threshold}, {len(wrong)} prompts are wrong but only {len(right)} are right, too few for a subset of the same size;"
            " lower the threshold"
        )
    return _draw(pool, right, len(wrong))


def _low_tiers(pool: Pool) -> Subset:
    tier = pool.tiers.get
    if all(tier(prompt) is None for prompt in pool.ids):
        raise UserError("the problems have no tiers; choose a task with tiers, or another rule")
    is_low = lambda prompt: tier(prompt) is not None and tier(prompt) <= pool.highest_tier
    return _all_with(pool, is_low)


def _all(pool: Pool) -> Subset:
    return Subset(pool.ids, 0, 0)


def _random_42(pool: Pool) -> Subset:
    """The first prompts after `shuffle(seed=42)` of `datasets`."""
    import numpy as np  # slow to import, and every dry-run imports this module

    ids = list(pool.measures)
    order = np.random.default_rng(42).permutation(len(ids))
    return Subset([ids[index] for index in order[: pool.size]], len(ids), pool.size)


def _by_order(pool: Pool, sign: int = 1, from_centre: bool = False) -> Subset:
    """The first prompts (with `from_centre`, the middle prompts) of the dataset after a stable sort
    by `sign` times the measure, as in HE's released code, without a seed."""
    ids = list(pool.measures)
    order = sorted(ids, key=lambda prompt: sign * pool.measures[prompt])
    start = max(0, len(ids) - pool.size) // 2 if from_centre else 0
    subset = order[start : start + pool.size]
    edges = {pool.measures[prompt] for prompt in (subset[:1] if start else []) + subset[-1:]}
    tied = sum(pool.measures[prompt] in edges for prompt in ids)
    tied_chosen = sum(pool.measures[prompt] in edges for prompt in subset)
    return Subset(subset, tied, tied_chosen) if tied_chosen < tied else Subset(subset, 0, 0)


_AS_RELEASED = "ties in the order of the dataset (HE's released code)"
RULES: dict[str, Rule] = {
    "hard": Rule(_lowest, "hard", "the lowest pass rates", by_bounds=True),
    "easy": Rule(_highest, "easy", "the highest pass rates", by_bounds=True),
    "middle": Rule(_middle, "middle", "pass rates nearest to the median, within the quartiles"),
    "random": Rule(
        _random, "random", "a random choice, different for each seed", needs_measure=False
    ),
    "hard_solvable": Rule(_lowest_above_zero, "hard", "the lowest pass rates above 0"),
    "lowest": Rule(_lowest, "lowest", "the lowest values of the measure `by`", ("budget", "by")),
    "highest": Rule(
        _highest, "highest", "the highest values of the measure `by`", ("budget", "by")
    ),
    "nearest_half": Rule(
        _nearest,
        "nearest_half",
        "the values of the measure `by` (default: the pass rate) that are nearest to 0.5",
        accepts=("by",),
    ),
    "band": Rule(
        _band,
        "nearest_half",
        f"every pass rate from `low` (default {LOW}) to `high` (default {HIGH}); with `budget`, those that are nearest to 0.5, or with `order: random` a random choice",
        (),
        accepts=("budget", "low", "high", "order"),
    ),
    "band_matched": Rule(
        functools.partial(_matched, choose=_band),
        "random",
        "a random choice from the whole pool, as many prompts as `band` takes with the same `low`, `high` and `budget`",
        (),
        accepts=("budget", "low", "high"),
    ),
    "hard_by_order": Rule(_by_order, "hard", f"like `hard`, with {_AS_RELEASED}", is_released=True),
    "easy_by_order": Rule(
        functools.partial(_by_order, sign=-1),
        "easy",
        f"like `easy`, with {_AS_RELEASED}",
        is_released=True,
    ),
    "middle_by_rank": Rule(
        functools.partial(_by_order, from_centre=True),
        "middle",
        f"the middle ranks of the pool, with {_AS_RELEASED}",
        is_released=True,
    ),
    "random_42": Rule(
        _random_42,
        "random",
        "a random choice by NumPy's generator with seed 42 (HE's released code)",
        needs_measure=False,
        is_released=True,
    ),
    "base_wrong": Rule(
        _wrong, "hard", "every pass rate below `threshold`", ("threshold",), by_bounds=True
    ),
    "base_right": Rule(
        _right, "easy", "every pass rate of `threshold` or above", ("threshold",), by_bounds=True
    ),
    "base_right_matched": Rule(
        _right_matched,
        "random",
        "a random choice from the prompts of `base_right`, as many as `base_wrong` takes",
        ("threshold",),
        by_bounds=True,
    ),
    "low_tiers": Rule(
        _low_tiers,
        "easy",
        "every problem of a tier up to `highest_tier`",
        ("highest_tier",),
        needs_measure=False,
    ),
    "low_tiers_matched": Rule(
        functools.partial(_matched, choose=_low_tiers),
        "random",
        "a random choice from the whole pool, as many prompts as `low_tiers` takes",
        ("highest_tier",),
        needs_measure=False,
    ),
    "all": Rule(_all, "all", "the whole pool", (), needs_measure=False),
    "annotated": Rule(
        _all,
        "all",
        "the prompts of a task with `labelled: false` that have been annotated",
        (),
        needs_measure=False,
    ),
}


def is_by_tier(rule: str) -> bool:
    """Whether a rule chooses by the tiers of the problems."""
    return "highest_tier" in RULES[rule].needs


def _sorted_by(key: Callable[[str], float], ids: Iterable[str], seed: int) -> list[str]:
    return sorted(ids, key=lambda prompt: (key(prompt), tie_break(prompt, seed)))


def subset_size(budget: float | dict, pool: int) -> int:
    """Number of prompts that a budget pays for. A share pays for floor(budget * pool), as in HE,
    rounded before, because 0.29 * 100 is 28.999... Raise a `UserError` for more prompts than the
    pool has."""
    if not isinstance(budget, dict):
        return math.floor(round(budget * pool, 9))
    size = affordable_prompts(budget)
    if size > pool:
        raise UserError(
            f"the budget ({format_budget(budget)}) pays for {size} prompts, and the pool has {pool}; lower the budget, or choose rule all"
        )
    return size


def affordable_prompts(budget: dict) -> int:
    """Number of prompts that a budget of prompts or money pays for."""
    return (
        budget["prompts"]
        if "prompts" in budget
        else math.floor(round(budget["money"] / budget["label_price"], 9))
    )


def check_pool(place: str, policy: dict, task: str, pool: int) -> None:
    """Raise a `UserError` that starts with `place` if a policy of the configuration cannot choose
    from a pool of size `pool`, whatever the measures are."""
    budget = policy.get("budget")
    if budget is None:
        return
    try:
        size = _size_of_subset(budget, pool)
        if "rounds" in policy and not 0 < subset_size(halve_budget(budget), pool) < size:
            raise UserError(
                f"{size} prompts of {pool} cannot be annotated in two rounds; raise the budget"
            )
        if "calibrated_on" in policy:
            check_rest(budget, size, sample_size(policy["calibrated_on"], pool))
    except UserError as error:
        raise UserError(f"{place}: task '{task}': policy rule {policy['rule']}: {error}") from None


def sample_size(share: float, pool: int) -> int:
    """Number of prompts that are annotated to predict pass rates. Raise a `UserError` below two."""
    size = subset_size(share, pool)
    if size < 2:
        raise UserError(
            f"calibrated_on: {share} of {pool} prompts is {size}; the fit needs at least two, so raise calibrated_on"
        )
    return size


def check_rest(budget: float | dict, size: int, sample: int) -> None:
    """Raise a `UserError` if a budget for `size` prompts is spent on the `sample` that is annotated
    first."""
    if sample >= size:
        raise UserError(
            f"the budget, {format_budget(budget)}, is spent on the {sample} prompts that are annotated before the choice; raise the budget, or lower calibrated_on"
        )


def format_budget(budget: float | dict) -> str:
    """A budget in words."""
    if not isinstance(budget, dict):
        return f"{budget} of the pool"
    if "prompts" in budget:
        return f"{budget['prompts']} prompts"
    return f"{budget['money']:g} at {budget['label_price']:g} a label"


@functools.lru_cache(maxsize=2**16)  # a jackknife repeats nearly identical choices
def tie_break(problem_id: str, seed: int, salt: str = "tie") -> str:
    """A pseudo-random sort key of (seed, salt, id), independent of the pool."""
    return hashlib.sha256(f"{seed}:{salt}:{problem_id}".encode()).hexdigest()
