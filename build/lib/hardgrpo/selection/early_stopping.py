"""Stop probing early: sample only until a subset is decided, and choose exactly the subset that
full probing would choose.

Full probing draws K samples of each prompt. The samples 0 to K-1 of a prompt are drawn in order,
each with a fixed seed. After d samples of a prompt, of which c are right, full probing will count
between c (*low*) and c + K - d (*high*) right samples. The subset is decided as soon as these
bounds decide the membership of every prompt:

- For a rule with a threshold (base_wrong, base_right, base_right_matched), every prompt must be
  certainly below or certainly not below the threshold.
- A rule with a rank (hard, easy, hard_solvable) needs a *cut* in the pool's order by (count,
  tie-break): every prompt is certainly before or certainly behind the cut, and the required number
  of members is before the cut.

A *proof* is a set of further samples after which the subset is decided. `Stopper` receives counts
and returns the samples to draw next: samples that a proof certainly or probably needs. To estimate
the probability that a proof needs a sample, `Stopper` draws the outcomes of the remaining samples
several times from their posterior, and `cheapest_proof` gives the cheapest proof for each draw.
With a confidence below 1, `Stopper` chooses samples in the same way, but a target needs no more
samples as soon as the expected precision and recall of a guess of its subset reach the confidence.
Decisions depend only on the counts, so a probe can be resumed.
"""

import math
from dataclasses import dataclass

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies

STOPPABLE_RULES = [name for name, rule in policies.RULES.items() if rule.by_bounds]
THRESHOLD_RULES = [name for name in STOPPABLE_RULES if policies.RULES[name].needs == ("threshold",)]
DRAWS = 24  # draws of all remaining samples from the posterior, for each batch
# draws of all remaining samples from the posterior, for the probability of membership
DRAWS_FOR_CONFIDENCE = 400
# a batch takes the samples with at least this priority (`_sample_priorities`), and at least one
MIN_NEED_SHARE = 0.5
FORCED, LEADING = 2.0, 0.1  # added to the share of draws that need a sample, see `priorities`
RATES = np.linspace(0, 1, 41)  # support of the prior of pass rates


@dataclass(frozen=True)
class TargetSubset:
    """A subset that the samples must decide. Prompts are indices into `ids`."""

    ids: list[str]
    samples: int  # K
    policy: dict
    seed: int
    # count wrong instead of right samples and reverse ties, so that the easiest prompts come first
    counts_wrong: bool
    order: np.ndarray  # prompts in tie-break order
    rank: np.ndarray  # rank of each prompt in `order`
    min_count: int  # smallest count of a member: 1 for the rule hard_solvable, else 0
    # number of members before the cut; None for a rule with a threshold. If rule hard or easy takes
    # more than half of the pool, the members are the prompts that the rule leaves out.
    size: int | None
    max_count: int | None  # largest count below the threshold; None for a rule with a rank

    def bounds(self, correct: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(smallest, largest) count that full probing can give for each prompt, if `correct` of
        `drawn` samples are right."""
        low = drawn - correct if self.counts_wrong else correct
        return low, low + self.samples - drawn


def target_subset(ids: list[str], samples: int, policy: dict, seed: int) -> TargetSubset:
    """The target subset of a policy (rule, and budget or threshold) in a pool with `samples` = K
    samples per prompt.

    Raise a `UserError` if the policy needs all samples, if its values are invalid, or if its subset
    would always be empty.
    """
    rule = policy["rule"]
    if rule not in STOPPABLE_RULES:
        raise UserError(
            f"policy rule {rule} needs every pass rate, so its probe cannot stop early; take `stop` out of the task's probe, or choose"
            f" one of {', '.join(STOPPABLE_RULES)}"
        )
    needs = set(policies.RULES[rule].needs)
    if set(policy) != {"rule", *needs}:
        raise UserError(
            f"policy rule {rule}: expected the policy's key {', '.join(needs)}, found {', '.join(set(policy) - {'rule'}) or 'no key'}"
        )
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserError(f"policy rule {rule}: seed is {seed!r}, expected an integer; correct it")
    pool, counts_wrong, size, max_count = len(ids), rule == "easy", None, None
    if rule in THRESHOLD_RULES:
        max_count = _largest_count_below(rule, policy["threshold"], samples)
    else:
        size = _ranked_size(rule, policy["budget"], pool)
        # deciding the complement needs fewer samples
        if rule != "hard_solvable" and size > pool / 2:
            counts_wrong, size = not counts_wrong, pool - size
    order = sorted(
        range(pool), key=lambda prompt: policies.tie_break(ids[prompt], seed), reverse=counts_wrong
    )
    rank = np.empty(pool, dtype=int)
    rank[order] = np.arange(pool)
    return TargetSubset(
        ids,
        samples,
        policy,
        seed,
        counts_wrong,
        np.array(order, dtype=int),
        rank,
        int(rule == "hard_solvable"),
        size,
        max_count,
    )


def _ranked_size(rule: str, budget: object, pool: int) -> int:
    if not policies.is_budget(budget):
        raise UserError(
            f"policy rule {rule}: budget is {budget!r}, {policies.BUDGET_FORMS}; correct it"
        )
    size = policies.subset_size(budget, pool)
    if size < 1:
        raise policies.small_budget_error(rule, budget, pool)
    return size


def _largest_count_below(rule: str, threshold: object, samples: int) -> int:
    """The largest count of right samples whose pass rate is below the threshold; -1 if none is."""
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not math.isfinite(threshold):
        raise UserError(
            f"policy rule {rule}: threshold is {threshold!r}, expected a pass rate; correct it"
        )
    below = [count for count in range(samples + 1) if count / samples < threshold]
    if (rule != "base_right" and not below) or (rule != "base_wrong" and len(below) > samples):
        raise UserError(
            f"policy rule {rule}: the subset would be empty ({'every' if below else 'no'} pass rate is below threshold"
            f" {threshold}); choose a threshold in (0, 1]"
        )
    return len(below) - 1


# --- proofs ---


def is_undecided(low: np.ndarray, high: np.ndarray, min_count: int, max_count: int) -> np.ndarray:
    """True for each prompt whose bounds leave open whether its count is in min_count..max_count.
    False for all prompts if this range is empty."""
    return ~(
        ((low >= min_count) & (high <= max_count)) | (low > max_count) | (high < min_count)
    ) & (max_count >= min_count)


def is_decided(target: TargetSubset, correct: np.ndarray, drawn: np.ndarray) -> bool:
    """Whether the subset is certain after `drawn` (prompts,) samples of each prompt, of which
    `correct` (prompts,) are right."""
    low, high = target.bounds(correct, drawn)
    if target.size is None:
        return not is_undecided(low, high, target.min_count, target.max_count).any()
    levels = range(-1, target.samples + 1)
    open_prompts = np.stack([is_undecided(low, high, target.min_count, level) for level in levels])[
        None
    ]
    members = np.stack([(low >= target.min_count) & (high <= level) for level in levels])[None]
    return bool(
        (
            (_sums_at_cuts(open_prompts, target) == 0)
            & _valid_cuts(_sums_at_cuts(members, target), target)
        ).any()
    )


def cheapest_proof(
    target: TargetSubset, correct: np.ndarray, drawn: np.ndarray, remaining: np.ndarray
) -> np.ndarray:
    """Number (draws, prompts) of further samples of each prompt in the cheapest proof, given the
    outcomes of the remaining samples.

    `correct` and `drawn` have the shape (prompts,). In `remaining` (draws, prompts, K),
    the entry [draw, prompt, s] is whether the prompt's sample number drawn[prompt] + s is right.
    Entries whose sample number would be K or larger are ignored.
    """
    draws, prompts, samples = remaining.shape
    start = target.bounds(correct, drawn)[0].astype(np.int16)
    remaining_counts = (samples - drawn).astype(np.int16)
    # The sample axis is the first axis, because sums over a short last axis are slow.
    step = np.arange(samples, dtype=np.int16)[:, None, None]
    is_remaining = step < remaining_counts
    outcomes = np.moveaxis(~remaining if target.counts_wrong else remaining, 2, 0) & is_remaining
    sums = np.cumsum(outcomes, axis=0, dtype=np.int16)
    low = start + np.concatenate([np.zeros((1, draws, prompts), np.int16), sums[:-1]])
    high = low + remaining_counts - step
    final = start + sums[-1]

    def samples_needed(max_count: int) -> np.ndarray:
        return (is_undecided(low, high, target.min_count, max_count) & is_remaining).sum(
            axis=0, dtype=np.int16
        )

    if target.size is None:
        return samples_needed(target.max_count)
    levels = range(-1, samples + 1)
    needs = np.stack([samples_needed(level) for level in levels], axis=1)  # (draws, K + 2, prompts)
    members = np.stack([(final >= target.min_count) & (final <= level) for level in levels], axis=1)
    costs = np.where(
        _valid_cuts(_sums_at_cuts(members, target), target),
        _sums_at_cuts(needs, target),
        np.iinfo(np.int64).max,
    )
    level, rank_limit = np.divmod(costs.reshape(draws, -1).argmin(axis=1), prompts + 1)
    level_index = np.where(target.rank < rank_limit[:, None], level[:, None] + 1, level[:, None])
    return np.take_along_axis(needs, level_index[:, None, :], axis=1)[:, 0]


def _sums_at_cuts(values: np.ndarray, target: TargetSubset) -> np.ndarray:
    """The sum of `values` over all prompts for every cut, with the shape (draws, levels 0 to K,
    rank limits 0 to prompts).

    The prompts before the cut (level, rank limit) are prompts with a count of at most `level` whose
    rank by tie-break is below the limit, and all prompts with a count of at most `level` - 1. So
    prompts with a rank below the limit contribute their value at `level`, all other prompts their
    value at `level` - 1. `values` (draws, K + 2, prompts) holds each prompt's value at levels -1 to
    K.
    """
    draws, levels, prompts = values.shape
    sums = np.zeros((draws, levels, prompts + 1), dtype=np.int64)
    np.cumsum(values[:, :, target.order], axis=2, out=sums[:, :, 1:])
    return sums[:, 1:] + sums[:, :-1, -1:] - sums[:, :-1]


def _valid_cuts(members: np.ndarray, target: TargetSubset) -> np.ndarray:
    """Whether each cut has the required number of members, or is the last cut and has fewer."""
    valid = members == target.size
    valid[:, -1, -1] |= members[:, -1, -1] < target.size
    return valid


def oracle_samples(
    target: TargetSubset, outcomes: np.ndarray, already_drawn: np.ndarray | None = None
) -> int:
    """The smallest number of samples that decides the subset, given all outcomes (prompts, K).

    `already_drawn` (prompts,) is the number of samples that each prompt already has, K or 0. These
    samples are not counted.
    """
    outcomes = np.asarray(outcomes, dtype=bool)
    drawn = np.zeros(len(outcomes), dtype=int) if already_drawn is None else already_drawn
    return int(
        cheapest_proof(
            target, np.where(drawn > 0, outcomes.sum(axis=1), 0), drawn, outcomes[None]
        ).sum()
    )


def priorities(target: TargetSubset, correct: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Priority (prompts,) of each prompt's next sample: FORCED if the bounds alone show that every
    proof needs the sample, LEADING if the bounds only suggest this, else 0.

    For a rule with a threshold, undecided prompts are forced. For a rule with a rank, the cut lies
    between the `size`-th lowest `low` and the (`size` + 1)-th lowest `high`. A prompt is forced if
    it is among the first `size` prompts by `low` but not by `high`. If no prompt is forced, the
    first `size` prompts are the same by `low` and by `high`. Of these prompts, a prompt is leading
    if its `high` is at least the (`size` + 1)-th lowest `low`.
    """
    low, high = target.bounds(correct, drawn)
    if target.size is None:
        return FORCED * is_undecided(low, high, target.min_count, target.max_count)
    prompt_count = len(drawn)
    if target.size == prompt_count:
        return FORCED * (drawn < target.samples)
    behind_all = target.samples + 1  # for prompts that cannot be members
    min_count = target.min_count
    low, high = (
        np.where(high < min_count, behind_all, np.maximum(low, min_count)),
        np.where(low < min_count, behind_all, high),
    )
    low, high = low * prompt_count + target.rank, high * prompt_count + target.rank
    order = np.argsort(low)
    is_first = np.zeros(prompt_count, dtype=bool)
    is_first[order[: target.size]] = drawn[order[: target.size]] < target.samples
    is_forced = is_first & (high >= np.partition(high, target.size)[target.size])
    return (
        FORCED * is_forced
        if is_forced.any()
        else LEADING * (is_first & (high >= low[order[target.size]]))
    )


# --- subsets ---


def choose(
    target: TargetSubset, correct: np.ndarray, drawn: np.ndarray, confidence: float = 1.0
) -> tuple[policies.Subset, bool] | None:
    """(the subset that full probing chooses, True) if the subset is decided, (a guess of this
    subset, False) if the guess reaches the confidence, else None.

    With a confidence below 1 and at least one sample of each prompt, a guess is returned if its
    expected precision (share of the guess that full probing chooses) and its expected recall (share
    of full probing's choice that is in the guess) both reach the confidence. Raise a `UserError` if
    full probing certainly chooses no prompt.
    """
    counts = correct + np.rint((target.samples - drawn) * correct / np.maximum(drawn, 1)).astype(
        int
    )
    if is_decided(target, correct, drawn):  # any counts within the bounds give the same subset
        rates = {
            prompt: count / target.samples for prompt, count in zip(target.ids, counts.tolist())
        }
        return policies.select(rates, seed=target.seed, **target.policy), True
    if confidence >= 1 or not drawn.all():
        return None
    chances = member_chances(target, correct, drawn)
    size = round(chances.sum())
    if target.size is not None:
        size = policies.subset_size(target.policy["budget"], len(drawn))
    guess = np.lexsort((target.rank, -chances))[:size]
    expected_members = chances[guess].sum()
    if not size or expected_members < confidence * max(size, chances.sum()):
        return None
    if target.policy["rule"] == "base_right_matched":
        members = set(guess.tolist())
        return policies.Subset(
            [target.ids[prompt] for prompt in matched_order(target) if prompt in members], 0, 0
        ), False
    ids = policies.sort_by_pass_rate(
        {target.ids[prompt]: counts[prompt] for prompt in guess}, target.seed
    )
    return policies.Subset(ids[::-1] if target.policy["rule"] == "easy" else ids, 0, 0), False


def member_chances(target: TargetSubset, correct: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Probability (prompts,) that full probing chooses each prompt: the share of draws that choose
    the prompt. A draw with too few members for a subset chooses no prompt."""
    low, _ = target.bounds(correct, drawn)
    remaining = draw_remaining(correct, drawn, target.samples, DRAWS_FOR_CONFIDENCE)
    is_remaining = np.arange(target.samples) < (target.samples - drawn)[:, None]
    final = low + ((~remaining if target.counts_wrong else remaining) & is_remaining).sum(axis=2)
    if target.size is None:
        below_threshold = final <= target.max_count
        members = below_threshold if target.policy["rule"] == "base_wrong" else ~below_threshold
        if target.policy["rule"] == "base_right_matched":
            order, size = matched_order(target), below_threshold.sum(axis=1, keepdims=True)
            members[:, order] &= members[:, order].cumsum(axis=1) <= size
            members &= members.sum(axis=1, keepdims=True) == size
        return members.mean(axis=0)
    prompt_count = len(drawn)
    keys = (
        np.where(final >= target.min_count, final, target.samples + 1) * prompt_count + target.rank
    )
    last_key = (
        np.partition(keys, target.size - 1, axis=1)[:, target.size - 1 : target.size]
        if target.size
        else np.full((1, 1), -1)
    )
    members = (keys <= last_key) & (final >= target.min_count)
    members &= members.sum(axis=1, keepdims=True) == target.size
    return (members != (target.counts_wrong != (target.policy["rule"] == "easy"))).mean(axis=0)


def matched_order(target: TargetSubset) -> list[int]:
    """Prompts in the order in which the rule base_right_matched takes them."""
    return sorted(
        range(len(target.ids)),
        key=lambda prompt: policies.tie_break(target.ids[prompt], target.seed, "matched"),
    )


# --- the choice of the next samples ---


class Stopper:
    """Choose batches of (prompt, sample) until every target is decided or, with a confidence below
    1, guessed: `while batch := stopper.ask(): ... stopper.tell(...)`.

    A pool may have several targets (policies, seeds). With `completes_subset` and a confidence of
    1, the chosen prompts also get their remaining samples, so that their pass rates and order are
    those of full probing. With a confidence below 1, they get no remaining samples, because these
    samples would change a guess and cost more than early stopping saves.
    """

    def __init__(
        self,
        targets: list[TargetSubset],
        batch: int,
        confidence: float = 1.0,
        completes_subset: bool = False,
    ):
        self.targets, self.batch = targets, batch
        self.confidence, self.completes_subset = confidence, completes_subset
        prompts, self.samples = len(targets[0].ids), targets[0].samples
        self.correct, self.drawn = np.zeros(prompts, dtype=int), np.zeros(prompts, dtype=int)

    def tell(self, prompt: int, correct: int, drawn: int) -> None:
        """Record that `correct` of the `drawn` samples of a prompt are right."""
        self.correct[prompt], self.drawn[prompt] = correct, drawn

    def ask(self) -> list[tuple[int, int]]:
        """At most `batch` samples to draw, as (prompt, sample), most needed first. Empty when all
        targets are decided or guessed, and no subset has to be completed."""
        open_targets, incomplete = [], np.zeros(len(self.drawn), dtype=bool)
        for target in self.targets:
            try:
                decision = choose(target, self.correct, self.drawn, self.confidence)
            except UserError:
                continue  # the target is decided: its subset is empty
            if decision is None:
                open_targets.append(target)
            elif self.completes_subset and self.confidence >= 1:
                incomplete |= np.isin(target.ids, decision[0].ids) & (self.drawn < self.samples)
        is_remaining = np.arange(self.samples) < (self.samples - self.drawn)[:, None]
        if open_targets:
            need_shares = self._sample_priorities(open_targets) * is_remaining
        elif incomplete.any():
            need_shares = incomplete[:, None] * is_remaining * 1.0
        else:
            return []
        prompt, step = np.nonzero(need_shares > 0)
        if not len(prompt):
            policies_of_targets = [target.policy for target in open_targets]
            raise RuntimeError(
                f"a subset is undecided, but no sample would help to decide it: {policies_of_targets}"
            )
        needs = need_shares[prompt, step]
        # Samples with equal priorities are ordered by step, then by tie-break, so that successive
        # batches complete the same few prompts. A guess needs complete prompts, because one sample
        # per prompt does not show how pass rates are distributed.
        order = np.lexsort(
            (open_targets[0].rank[prompt] if open_targets else prompt, step, -needs)
        )[: self.batch]
        batch = order[: max(1, int((needs[order] >= MIN_NEED_SHARE).sum()))]
        return [
            (int(prompt[index]), int(self.drawn[prompt[index]] + step[index])) for index in batch
        ]

    def _sample_priorities(self, targets: list[TargetSubset]) -> np.ndarray:
        """Priorities (prompts, K) of the next samples. Entry [prompt, s] is the share of draws in
        which the cheapest proof of a target needs more than s further samples of the prompt. The
        prompt's `priorities` are added to entry [prompt, 0]."""
        remaining = draw_remaining(self.correct, self.drawn, self.samples, DRAWS)
        needs, priority = np.zeros((DRAWS, len(self.drawn)), dtype=int), 0
        for target in targets:
            needs = np.maximum(needs, cheapest_proof(target, self.correct, self.drawn, remaining))
            priority = np.maximum(priority, priorities(target, self.correct, self.drawn))
        need_shares = (needs[:, :, None] > np.arange(self.samples)).mean(axis=0)
        need_shares[:, 0] += priority
        return need_shares


def draw_remaining(correct: np.ndarray, drawn: np.ndarray, samples: int, draws: int) -> np.ndarray:
    """Draw outcomes (draws, prompts, K) of the remaining samples, with pass rates drawn from their
    posteriors.

    The random numbers depend only on the counts, so that a resumed probe makes the same decisions
    as an uninterrupted probe.
    """
    rng = np.random.default_rng([len(drawn), samples, int(drawn.sum()), int(correct.sum())])
    edges = posteriors(correct, drawn).cumsum(axis=1)[:, :-1]
    quantiles = rng.random((draws, len(drawn)), dtype=np.float32)
    part = max(1, 2**20 // edges.size)  # draws at once, to limit memory
    rate_indices = [
        (quantiles[i : i + part, :, None] > edges).sum(axis=2) for i in range(0, draws, part)
    ]
    rates = RATES[np.concatenate(rate_indices)].astype(np.float32)
    return rng.random((draws, len(drawn), samples), dtype=np.float32) < rates[:, :, None]


def posteriors(correct: np.ndarray, drawn: np.ndarray, steps: int = 50) -> np.ndarray:
    """Posterior probabilities (prompts, RATES) of the pass rates RATES. The prior is estimated by
    EM (empirical Bayes).

    A uniform component with the weight of one prompt keeps every rate possible. Early stopping does
    not change the likelihood, because the numbers of samples depend only on the counts.
    """
    count_pairs, pair_of_prompt, sizes = np.unique(
        np.stack([correct, drawn]), axis=1, return_inverse=True, return_counts=True
    )
    correct_counts = count_pairs[0][:, None]
    wrong_counts = count_pairs[1][:, None] - correct_counts
    likelihood = RATES**correct_counts * (1 - RATES) ** wrong_counts  # 0 ** 0 is 1
    weights = sizes * (count_pairs[1] > 0)
    prior = np.full(len(RATES), 1 / len(RATES))
    for _ in range(steps):
        prior = (prior * (weights / (likelihood @ prior) @ likelihood) + 1 / len(RATES)) / (
            weights.sum() + 1
        )
    joint = likelihood * prior
    return (joint / joint.sum(axis=1, keepdims=True))[pair_of_prompt.reshape(-1)]


def simulate(stopper: Stopper, outcomes: np.ndarray) -> int:
    """Simulate early-stopped probing with given outcomes (prompts, K), and return the number of
    batches."""
    batches = 0
    while batch := stopper.ask():
        batches += 1
        counts: dict[int, int] = {}
        for prompt, sample in batch:
            counts[prompt] = max(counts.get(prompt, 0), sample + 1)
        for prompt, count in counts.items():
            stopper.tell(prompt, int(outcomes[prompt, :count].sum()), count)
    return batches
