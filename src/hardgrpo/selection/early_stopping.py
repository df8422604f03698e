"""Stop probing early: sample only until a policy's subset is decided, and choose exactly the subset that full probing chooses.

Each prompt is sampled in order, 0 to K-1, every sample with a fixed seed. After d samples, c of them right, full probing will count
between c (*low*) and c + K - d (*high*) right ones. The subset is decided as soon as these bounds decide the membership of every
prompt:

- a rule with a threshold (base_wrong, base_right, base_right_matched) looks at each prompt alone;
- a rule with a rank (hard, easy, hard_solvable) needs a *cut* in the pool's order by (count, tie-break): every prompt is certainly
  before the cut or certainly behind it, and the wanted number of members is before it.

`Stopper` takes counts and returns the samples to draw next: those that a proof certainly or probably needs. To find the probable ones,
it draws the remaining samples several times from their posterior; `fewest` finds the cheapest proof for each draw.
With a confidence below 1, it draws the same samples in the same order, but stops as soon as the expected precision and recall of a
guess reach the confidence. Decisions depend on the counts alone, so a probe can be resumed. This module knows neither engines nor
graders.
"""

import math
from dataclasses import dataclass

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies

RULES = [name for name, rule in policies.RULES.items() if rule.by_bounds]
SPLIT = [name for name in RULES if policies.RULES[name].needs == ("threshold",)]
DRAWS = 24  # of all remaining samples from the posterior, for each batch
DRAWS_FOR_CONFIDENCE = 400  # the same, for the probability of membership
LIKELY = 0.5  # a sample is taken if the proof needs it in at least this share of draws
FORCED, LEADING = 2.0, 0.1  # added to that share, see `urgent`
RATES = np.linspace(0, 1, 41)  # support of the prior of pass rates


@dataclass(frozen=True)
class Wanted:
    """A subset that the samples must decide. Prompts are numbered as in `ids`."""

    ids: list[str]
    samples: int  # K
    policy: dict
    seed: int
    mirrored: bool  # count wrong samples instead of right ones and reverse ties, so that the easiest prompts come first
    order: np.ndarray  # prompts by tie-break
    rank: np.ndarray  # of each prompt in that order
    least: int  # members are the prompts before the cut or threshold with at least this count
    size: int | None  # number of members before the cut; None for a rule with a threshold
    most: int | None  # largest count before the threshold; None for a rule with a rank

    def bounds(self, correct: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest count that full probing can give, after `correct` of `drawn` samples."""
        low = drawn - correct if self.mirrored else correct
        return low, low + self.samples - drawn


def wanted(ids: list[str], samples: int, policy: dict, seed: int) -> Wanted:
    """The subset that a policy (rule, and budget or threshold) wants from a pool with `samples` = K per prompt.

    Raise a `UserError` if the policy needs all samples, if its values are invalid, or if no pass rates give it a subset.
    """
    rule = policy["rule"]
    if rule not in RULES:
        raise UserError(
            f"policy rule {rule} needs every pass rate, so its probe cannot stop early; take `stop` out of the task's probe, or choose"
            f" one of {', '.join(RULES)}"
        )
    need = set(policies.RULES[rule].needs)
    if set(policy) != {"rule", *need}:
        raise UserError(
            f"policy rule {rule}: expected {', '.join(need)} beside it, found {', '.join(set(policy) - {'rule'}) or 'nothing'}"
        )
    ranked, pool, size = rule not in SPLIT, len(ids), None
    mirrored = rule == "easy"
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserError(f"policy rule {rule}: seed is {seed!r}, expected an integer; correct it")
    if ranked and not policies.is_budget(policy["budget"]):
        raise UserError(f"policy rule {rule}: budget is {policy['budget']!r}, {policies.A_BUDGET}; correct it")
    if not ranked and not _is_number(policy["threshold"]):
        raise UserError(f"policy rule {rule}: threshold is {policy['threshold']!r}, expected a pass rate; correct it")
    if ranked:
        size = policies.subset_size(policy["budget"], pool)
        if size < 1:
            raise UserError(
                f"policy rule {rule}: the subset would be empty (the budget, {policies.said(policy['budget'])}, is less than one of {pool}"
                " prompts); raise the budget"
            )
        if rule != "hard_solvable" and size > pool / 2:  # proving which prompts are left out is cheaper
            mirrored, size = not mirrored, pool - size
    order = sorted(range(pool), key=lambda i: policies.tie_break(ids[i], seed), reverse=mirrored)
    rank = np.empty(pool, dtype=int)
    rank[order] = np.arange(pool)
    most = None if ranked else max((n for n in range(samples + 1) if n / samples < policy["threshold"]), default=-1)
    if not ranked and (rule != "base_right" and most < 0 or rule != "base_wrong" and most == samples):
        raise UserError(
            f"policy rule {rule}: the subset would be empty (threshold {policy['threshold']} leaves {'no' if most < 0 else 'every'} pass"
            " rate below it); choose a threshold in (0, 1]"
        )
    return Wanted(ids, samples, policy, seed, mirrored, np.array(order, dtype=int), rank, int(rule == "hard_solvable"), size, most)


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- proofs --------------------------------------------------------------------------------------------------------


def undecided(low: np.ndarray, high: np.ndarray, least: int, most: int) -> np.ndarray:
    """Whether the bounds leave open if a count is in least..most."""
    return ~(((low >= least) & (high <= most)) | (low > most) | (high < least)) & (most >= least)


def proven(want: Wanted, correct: np.ndarray, drawn: np.ndarray) -> bool:
    """Whether the subset is certain after `drawn` samples of each prompt, `correct` of them right (both (prompts,))."""
    low, high = want.bounds(correct, drawn)
    if want.size is None:
        return not undecided(low, high, want.least, want.most).any()
    levels = range(-1, want.samples + 1)
    gaps = np.stack([undecided(low, high, want.least, most) for most in levels])[None]
    members = np.stack([(low >= want.least) & (high <= most) for most in levels])[None]
    return bool(((_at_cuts(gaps, want) == 0) & _valid(_at_cuts(members, want), want)).any())


def fewest(want: Wanted, correct: np.ndarray, drawn: np.ndarray, remaining: np.ndarray) -> np.ndarray:
    """How many more samples each prompt needs in the cheapest proof, if the remaining samples are known: (draws, prompts).

    `correct` and `drawn` are (prompts,). `remaining` (draws, prompts, K) says whether sample drawn + s is right; samples beyond K are
    ignored.
    """
    draws, prompts, samples = remaining.shape
    start = want.bounds(correct, drawn)[0].astype(np.int16)
    left = (samples - drawn).astype(np.int16)
    # Samples are the first axis: sums over a short last axis took most of the time.
    step = np.arange(samples, dtype=np.int16)[:, None, None]
    going = step < left
    counted = np.cumsum(np.moveaxis(~remaining if want.mirrored else remaining, 2, 0) & going, axis=0, dtype=np.int16)
    low = start + np.concatenate([np.zeros((1, draws, prompts), np.int16), counted[:-1]])
    high = low + left - step
    final = start + counted[-1]

    def needed(most: int) -> np.ndarray:
        return (undecided(low, high, want.least, most) & going).sum(axis=0, dtype=np.int16)

    if want.size is None:
        return needed(want.most)
    levels = range(-1, samples + 1)
    needs = np.stack([needed(most) for most in levels], axis=1)  # (draws, K + 2, prompts)
    members = np.stack([(final >= want.least) & (final <= most) for most in levels], axis=1)
    cost = np.where(_valid(_at_cuts(members, want), want), _at_cuts(needs, want), np.iinfo(np.int64).max)
    level, place = np.divmod(cost.reshape(draws, -1).argmin(axis=1), prompts + 1)
    row = np.where(want.rank < place[:, None], level[:, None] + 1, level[:, None])
    return np.take_along_axis(needs, row[:, None, :], axis=1)[:, 0]


def _at_cuts(values: np.ndarray, want: Wanted) -> np.ndarray:
    """Sums over the pool at every cut: (draws, levels 0 to K, places 0 to prompts).

    `values` (draws, K + 2, prompts) holds each prompt's value at levels -1 to K. Before the cut (level, place) are the prompts with
    a count of at most `level` among the first `place` by tie-break, and those with at most level - 1 among the others.
    """
    draws, levels, prompts = values.shape
    sums = np.zeros((draws, levels, prompts + 1), dtype=np.int64)
    np.cumsum(values[:, :, want.order], axis=2, out=sums[:, :, 1:])
    return sums[:, 1:] + sums[:, :-1, -1:] - sums[:, :-1]


def _valid(members: np.ndarray, want: Wanted) -> np.ndarray:
    """Cuts with the wanted number of members before them. If the pool has fewer members, the last cut is valid, too."""
    valid = members == want.size
    valid[:, -1, -1] |= members[:, -1, -1] < want.size
    return valid


def oracle(want: Wanted, outcomes: np.ndarray, given: np.ndarray | None = None) -> int:
    """The fewest samples that prove the subset, if all outcomes (prompts, K) are known beforehand.

    `given` (prompts,) is the number of samples that each prompt already has, all K or none; they do not count.
    """
    outcomes, drawn = np.asarray(outcomes, dtype=bool), np.zeros(len(outcomes), dtype=int) if given is None else given
    return int(fewest(want, np.where(drawn > 0, outcomes.sum(axis=1), 0), drawn, outcomes[None]).sum())


def urgent(want: Wanted, correct: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Whether the bounds alone show that a proof needs the next sample of a prompt: FORCED, LEADING or 0, (prompts,).

    For a rule with a rank, the cut lies between the `size`-th lowest low and the next highest high. Prompts whose bounds span both are
    forced. If there are none, the same prompts come first by low and by high; those that overlap with the next prompt are leading.
    """
    low, high = want.bounds(correct, drawn)
    if want.size is None:
        return FORCED * undecided(low, high, want.least, want.most)
    prompts = len(drawn)
    never = want.samples + 1  # stands for the count of a prompt that cannot be a member: behind all others
    low = np.where(high < want.least, never, np.maximum(low, want.least)) * prompts + want.rank
    high = np.where(want.bounds(correct, drawn)[0] < want.least, never, high) * prompts + want.rank
    order = np.argsort(low)
    if want.size == prompts:
        return FORCED * (drawn < want.samples)
    first = np.zeros(prompts, dtype=bool)
    first[order[: want.size]] = drawn[order[: want.size]] < want.samples
    forced = first & (high >= np.partition(high, want.size)[want.size])
    return FORCED * forced if forced.any() else LEADING * (first & (high >= low[order[want.size]]))


# --- subsets -------------------------------------------------------------------------------------------------------


def choose(want: Wanted, correct: np.ndarray, drawn: np.ndarray, confidence: float = 1.0) -> tuple[policies.Subset, bool] | None:
    """(the subset of full probing, whether it is certain), or None while it is undecided.

    With a confidence below 1 and at least one sample of each prompt, a guess is enough if its expected precision (share of the guess
    that full probing chooses) and expected recall (share of full probing's choice that is in the guess) both reach the confidence.
    Raise a `UserError` if full probing certainly chooses nothing.
    """
    counts = correct + np.rint((want.samples - drawn) * correct / np.maximum(drawn, 1)).astype(int)
    if proven(want, correct, drawn):  # any counts within the bounds give the same subset
        rates = {identity: count / want.samples for identity, count in zip(want.ids, counts.tolist())}
        return policies.select(rates, seed=want.seed, **want.policy), True
    if confidence >= 1 or not drawn.all():
        return None
    chance = member_chances(want, correct, drawn)
    size = round(chance.sum())
    if want.size is not None:
        size = policies.subset_size(want.policy["budget"], len(drawn))
    likeliest = np.lexsort((want.rank, -chance))[:size]
    caught = chance[likeliest].sum()
    if not size or caught < confidence * max(size, chance.sum()):
        return None
    if want.policy["rule"] == "base_right_matched":
        chosen = set(likeliest.tolist())
        return policies.Subset([want.ids[i] for i in matching(want) if i in chosen], 0, 0), False
    ids = policies.ordered({want.ids[i]: counts[i] for i in likeliest}, want.seed)
    return policies.Subset(ids[::-1] if want.policy["rule"] == "easy" else ids, 0, 0), False


def member_chances(want: Wanted, correct: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (prompts,) that full probing chooses each prompt. Draws without a subset count as choosing none."""
    low, _ = want.bounds(correct, drawn)
    remaining = draw_remaining(correct, drawn, want.samples, DRAWS_FOR_CONFIDENCE)
    going = np.arange(want.samples) < (want.samples - drawn)[:, None]
    final = low + ((~remaining if want.mirrored else remaining) & going).sum(axis=2)
    if want.size is None:
        wrong = final <= want.most
        members = wrong if want.policy["rule"] == "base_wrong" else ~wrong
        if want.policy["rule"] == "base_right_matched":
            order, size = matching(want), wrong.sum(axis=1, keepdims=True)
            members[:, order] &= members[:, order].cumsum(axis=1) <= size
            members &= members.sum(axis=1, keepdims=True) == size
        return members.mean(axis=0)
    prompts = len(drawn)
    key = np.where(final >= want.least, final, want.samples + 1) * prompts + want.rank
    edge = np.partition(key, want.size - 1, axis=1)[:, want.size - 1 : want.size] if want.size else np.full((1, 1), -1)
    members = (key <= edge) & (final >= want.least)
    members &= members.sum(axis=1, keepdims=True) == want.size
    return (members != (want.mirrored != (want.policy["rule"] == "easy"))).mean(axis=0)


def matching(want: Wanted) -> list[int]:
    """Prompts in the order in which base_right_matched takes them."""
    return sorted(range(len(want.ids)), key=lambda i: policies.tie_break(want.ids[i], want.seed, "matched"))


# --- what to draw next ---------------------------------------------------------------------------------------------


class Stopper:
    """`while batch := stopper.next(): ... stopper.tell(...)`: batches of (prompt, sample) until every wanted subset is decided.

    One pool may have several wanted subsets (policies, seeds). With `in_full`, the prompts that are certainly chosen then get the rest
    of their samples, so that their pass rates and order are those of full probing. A guess (confidence below 1) is not completed: more
    samples would change the guess and cost more than early stopping saves.
    """

    def __init__(self, wants: list[Wanted], batch: int, confidence: float = 1.0, in_full: bool = False):
        self.wants, self.batch, self.confidence, self.in_full = wants, batch, confidence, in_full
        prompts, self.samples = len(wants[0].ids), wants[0].samples
        self.correct, self.drawn = np.zeros(prompts, dtype=int), np.zeros(prompts, dtype=int)

    def tell(self, prompt: int, correct: int, drawn: int) -> None:
        """Record that `correct` of the `drawn` samples of a prompt are right."""
        self.correct[prompt], self.drawn[prompt] = correct, drawn

    def next(self) -> list[tuple[int, int]]:
        """At most `batch` samples to draw, the most needed first; empty when everything is decided."""
        is_open, rest = [], np.zeros(len(self.drawn), dtype=bool)
        for want in self.wants:
            try:
                found = choose(want, self.correct, self.drawn, self.confidence)
            except UserError:
                continue  # decided: there is no such subset
            if found is None:
                is_open.append(want)
            elif self.in_full and self.confidence >= 1:
                rest |= np.isin(want.ids, found[0].ids) & (self.drawn < self.samples)
        left = np.arange(self.samples) < (self.samples - self.drawn)[:, None]
        if is_open:
            share = self._needed(is_open) * left
        elif rest.any():
            share = rest[:, None] * left * 1.0
        else:
            return []
        prompt, step = np.nonzero(share > 0)
        if not len(prompt):
            raise RuntimeError(f"a subset is open, but no sample would help to decide it: {[want.policy for want in is_open]}")
        need = share[prompt, step]
        # Equal needs are ordered by tie-break, which completes few prompts instead of starting many. A guess needs them: one sample per
        # prompt does not show how pass rates are distributed.
        by_need = np.lexsort((is_open[0].rank[prompt] if is_open else prompt, step, -need))[: self.batch]
        chosen = by_need[: max(1, int((need[by_need] >= LIKELY).sum()))]
        return [(int(prompt[i]), int(self.drawn[prompt[i]] + step[i])) for i in chosen]

    def _needed(self, wants: list[Wanted]) -> np.ndarray:
        """By (prompt, s): the share of draws for which the cheapest proof needs more than s further samples, plus `urgent`."""
        remaining = draw_remaining(self.correct, self.drawn, self.samples, DRAWS)
        needs, first = np.zeros((DRAWS, len(self.drawn)), dtype=int), 0
        for want in wants:
            needs = np.maximum(needs, fewest(want, self.correct, self.drawn, remaining))
            first = np.maximum(first, urgent(want, self.correct, self.drawn))
        share = (needs[:, :, None] > np.arange(self.samples)).mean(axis=0)
        share[:, 0] += first
        return share


def draw_remaining(correct: np.ndarray, drawn: np.ndarray, samples: int, draws: int) -> np.ndarray:
    """Draw the remaining samples, (draws, prompts, K), with each prompt's pass rate drawn from its posterior (`posteriors`).

    The random numbers depend on the counts alone, so that a resumed probe makes the same decisions as an uninterrupted one.
    """
    rng = np.random.default_rng([len(drawn), samples, int(drawn.sum()), int(correct.sum())])
    edges = posteriors(correct, drawn).cumsum(axis=1)[:, :-1]
    place = rng.random((draws, len(drawn)), dtype=np.float32)
    at_once = max(1, 2**20 // edges.size)  # draws; all of them for a small pool
    passed = [(place[i : i + at_once, :, None] > edges).sum(axis=2) for i in range(0, draws, at_once)]
    rates = RATES[np.concatenate(passed)].astype(np.float32)
    return rng.random((draws, len(drawn), samples), dtype=np.float32) < rates[:, :, None]


def posteriors(correct: np.ndarray, drawn: np.ndarray, steps: int = 50) -> np.ndarray:
    """Posterior probability of each of RATES for each prompt, (prompts, RATES). The prior is estimated from the pool (empirical Bayes, EM).

    A uniform component with the weight of one prompt keeps every rate possible. Early stopping does not change the likelihood, because
    the numbers of samples were decided from the counts alone.
    """
    kinds, kind, sizes = np.unique(np.stack([correct, drawn]), axis=1, return_inverse=True, return_counts=True)
    right, wrong = kinds[0][:, None], (kinds[1] - kinds[0])[:, None]
    likelihood = RATES**right * (1 - RATES) ** wrong  # 0 ** 0 is 1
    seen = sizes * (kinds[1] > 0)
    prior = np.full(len(RATES), 1 / len(RATES))
    for _ in range(steps):
        prior = (prior * (seen / (likelihood @ prior) @ likelihood) + 1 / len(RATES)) / (seen.sum() + 1)
    joint = likelihood * prior
    return (joint / joint.sum(axis=1, keepdims=True))[kind.reshape(-1)]


def replay(stopper: Stopper, outcomes: np.ndarray) -> int:
    """Run early-stopped probing on known outcomes (prompts, K) and return the number of batches."""
    batches = 0
    while batch := stopper.next():
        batches += 1
        counts: dict[int, int] = {}
        for prompt, sample in batch:
            counts[prompt] = max(counts.get(prompt, 0), sample + 1)
        for prompt, count in counts.items():
            stopper.tell(prompt, int(outcomes[prompt, :count].sum()), count)
    return batches
