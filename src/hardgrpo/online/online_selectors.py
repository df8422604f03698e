"""Selectors choose, during training, the prompts for which rollouts are sampled next (ask and
tell).

The trainer asks for prompts (`ask`) and reports the share of rewarded rollouts of each group
(`tell`). A selector's choices depend only on the seed and the earlier calls, so a run resumes by
repeating these calls (`replay`). The pool of a selector is the run's subset.
"""

import math
import random
from dataclasses import dataclass

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection.predicted import logistic_regression
from hardgrpo.study import selector as selectors


@dataclass(frozen=True)
class PromptBatch:
    """Ids of prompts to sample next. Without `trains`, their rollouts only measure pass rates."""

    ids: list[str]
    trains: bool = True


@dataclass(frozen=True)
class Pool:
    """The prompts that a selector chooses from. `measures`: id -> tier or pass rate, for a
    curriculum. `embeddings` (prompts, width), in the order of `ids`, for `targeted`."""

    ids: list[str]
    measures: dict[str, float] | None = None
    embeddings: np.ndarray | None = None


def make(recipe: dict, pool: Pool, seed: int) -> "Selector":
    """The selector of a recipe for a pool. Raise a `UserError` if the pool is too small."""
    settings = selectors.with_defaults(recipe)
    if settings.get("reference", 0) > len(pool.ids):
        raise UserError(
            f"recipe: selector.reference is {settings['reference']}, but the pool has {len(pool.ids)} prompts; lower reference, or let the"
            " policy choose more prompts"
        )
    return KINDS[settings["kind"]](
        settings | {"group_size": recipe["group_size"]}, pool, recipe["updates"], seed
    )


class Selector:
    """The interface of all selectors."""

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        """1 to `max_prompts` ids of the pool to sample next; steps are counted from 1. The trainer
        calls `ask` again until the step has enough prompts."""
        raise NotImplementedError

    def tell(self, step: int, prompts: PromptBatch, shares: list[float]) -> None:
        """Receive the share of rewarded rollouts of each prompt, in the order of `prompts.ids`."""


def replay(selector: Selector, calls: list[tuple[int, int, list[float]]]) -> None:
    """Bring a new selector into the state after earlier calls: (step, `max_prompts` of `ask`,
    shares of `tell`)."""
    for step, max_prompts, shares in calls:
        selector.tell(step, selector.ask(step, max_prompts), shares)


class Epochs:
    """Takes prompts one by one, in shuffled epochs of the pool."""

    def __init__(self, ids: list[str], seed: int):
        self.ids, self.seed, self.order = ids, seed, list(ids)
        self.position = 0  # number of prompts taken

    def take(self) -> str:
        """The id of the next prompt."""
        epoch, place = divmod(self.position, len(self.ids))
        if place == 0:
            self.order = list(self.ids)
            random.Random(f"epoch:{self.seed}:{epoch}").shuffle(self.order)
        self.position += 1
        return self.order[place]


class Dynamic(Selector):
    """Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): the trainer drops groups that are all
    right or all wrong, and samples until there are enough groups for an update. Difference: for an
    update of 512 groups, DAPO samples 1,536 prompts at a time."""

    def __init__(self, settings: dict, pool: Pool, steps: int, seed: int):
        self.epochs = Epochs(pool.ids, seed)

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        return PromptBatch([self.epochs.take() for _ in range(max_prompts)])


class Skip(Dynamic):
    """GRESO (arXiv 2506.02177): dynamic sampling that skips prompts. If the last z groups of a
    prompt were all right, or all wrong, the prompt is skipped with probability 1 - max(p^z, least).
    All-right and all-wrong groups each have a p, which starts at `explore`. After the first epoch,
    each step lowers p by `step` if at least the share `easy` (`hard`) of its groups was all right
    (all wrong), and otherwise raises p, within LIMITS. Difference: the released code changes p once
    per update."""

    LIMITS = 0.05, 0.95  # lowest and highest p, as in the released code

    def __init__(self, settings: dict, pool: Pool, steps: int, seed: int):
        super().__init__(settings, pool, steps, seed)
        self.settings, self.seed = settings, seed
        self.explore = {"right": settings["explore"], "wrong": settings["explore"]}
        self.streaks: dict[str, list] = {}  # id -> [right or wrong, number of such groups in a row]

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        rng, ids = random.Random(f"skip:{self.seed}:{step}:{self.epochs.position}"), []
        while len(ids) < max_prompts:
            prompt = self.epochs.take()
            outcome, length = self.streaks.get(prompt, ("right", 0))
            if rng.random() < max(self.explore[outcome] ** length, self.settings["least"]):
                ids.append(prompt)
        return PromptBatch(ids)

    def tell(self, step: int, prompts: PromptBatch, shares: list[float]) -> None:
        for prompt, share in zip(prompts.ids, shares):
            if 0 < share < 1:
                self.streaks.pop(prompt, None)
                continue
            outcome = "right" if share == 1 else "wrong"
            previous, length = self.streaks.get(prompt, (outcome, 0))
            self.streaks[prompt] = [outcome, length + 1 if previous == outcome else 1]
        if self.epochs.position <= len(self.epochs.ids):
            return
        lowest, highest = self.LIMITS
        for outcome, extreme, threshold in (
            ("right", 1, self.settings["easy"]),
            ("wrong", 0, self.settings["hard"]),
        ):
            extreme_share = sum(share == extreme for share in shares) / len(shares)
            probability = self.explore[outcome] + (
                -self.settings["step"] if extreme_share >= threshold else self.settings["step"]
            )
            self.explore[outcome] = min(highest, max(lowest, probability))


class Beta(Selector):
    """MoPPS (arXiv 2507.04632): each prompt's pass rate has a Beta(a, b) posterior, at first
    Beta(1, 1). Take the prompts whose rates, drawn from the posteriors, are nearest to `target`.
    After a group of n rollouts with the rewarded share s, a = discount * a + (1 - discount) + n s,
    and b likewise with 1 - s. Difference: the paper considers a random part of the pool."""

    def __init__(self, settings: dict, pool: Pool, steps: int, seed: int):
        self.settings, self.ids, self.seed = settings, pool.ids, seed
        self.index = {prompt: index for index, prompt in enumerate(pool.ids)}
        self.a, self.b = np.ones(len(pool.ids)), np.ones(len(pool.ids))

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        rng = np.random.Generator(np.random.PCG64(derive_seed(self.seed, "beta", step)))
        distance = np.abs(rng.beta(self.a, self.b) - self.settings["target"])
        return PromptBatch(first_ids(self.ids, distance, max_prompts))

    def tell(self, step: int, prompts: PromptBatch, shares: list[float]) -> None:
        discount, group_size = self.settings["discount"], self.settings["group_size"]
        for prompt, share in zip(prompts.ids, shares):
            index = self.index[prompt]
            self.a[index] = discount * self.a[index] + (1 - discount) + group_size * share
            self.b[index] = discount * self.b[index] + (1 - discount) + group_size * (1 - share)


class Targeted(Selector):
    """Difficulty-targeted selection (Sun et al., arXiv 2506.05316). Each cycle of `every` steps
    first samples `reference` random anchor prompts, on which no update trains. The predicted pass
    rate of a prompt with embedding q is the mean of the anchors' pass rates, weighted by softmax(q
    . r / sqrt(width)) over the anchors' embeddings r, and corrected by `calibrate`. Until the next
    cycle, each step draws prompts from the whole pool, without replacement, with probability
    proportional to exp(-|predicted - 1/2| / sharpness). Difference: the paper embeds with another
    model and a trained head, here with the base model's last hidden states."""

    def __init__(self, settings: dict, pool: Pool, steps: int, seed: int):
        self.settings, self.ids, self.seed = settings, pool.ids, seed
        self.index = {prompt: index for index, prompt in enumerate(pool.ids)}
        self.embeddings = pool.embeddings
        self.anchor_prompts: list[int] = []  # of the current cycle, as indices into the pool
        self.shares: list[float] = []  # pass rates of the anchor prompts sampled so far
        self.predicted: np.ndarray | None = None

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        cycle, offset = divmod(step - 1, self.settings["every"])
        if offset == 0 and not self.anchor_prompts:
            anchor_prompts = random.Random(f"reference:{self.seed}:{cycle}").sample(
                range(len(self.ids)), self.settings["reference"]
            )
            self.anchor_prompts, self.shares = anchor_prompts, []
        unmeasured = self.anchor_prompts[len(self.shares) :][:max_prompts]
        if unmeasured:
            return PromptBatch([self.ids[index] for index in unmeasured], trains=False)
        if self.predicted is None:
            self.predicted = predict_pass_rates(
                self.embeddings, np.array(self.anchor_prompts), np.array(self.shares)
            )
        rng = np.random.Generator(np.random.PCG64(derive_seed(self.seed, "targeted", step)))
        # Gumbel top-k trick: the largest log-weights + Gumbel noise are a draw without replacement
        scores = -np.abs(self.predicted - 0.5) / self.settings["sharpness"] + rng.gumbel(
            size=len(self.ids)
        )
        return PromptBatch(first_ids(self.ids, -scores, max_prompts))

    def tell(self, step: int, prompts: PromptBatch, shares: list[float]) -> None:
        if not prompts.trains:
            self.shares += shares
            self.predicted = None
        elif step % self.settings["every"] == 0:  # the next step begins a cycle
            self.anchor_prompts = []


class Curriculum(Selector):
    """A curriculum (Parashar et al., arXiv 2506.06632): one even pass over the pool, sorted by tier
    or by the base model's pass rate, ties in random order. Difference: the paper draws tiers at
    random."""

    def __init__(self, settings: dict, pool: Pool, steps: int, seed: int):
        order = list(pool.ids)
        random.Random(f"curriculum:{seed}").shuffle(order)
        # A higher tier is harder, a higher pass rate is easier.
        ascending = (settings["by"] == "tier") == (settings["order"] == "easy_first")
        sign = 1 if ascending else -1
        self.order = sorted(order, key=lambda prompt: sign * pool.measures[prompt])
        self.steps = steps

    def ask(self, step: int, max_prompts: int) -> PromptBatch:
        start = (step - 1) * max(0, len(self.order) - max_prompts) // max(1, self.steps - 1)
        return PromptBatch(
            [self.order[index % len(self.order)] for index in range(start, start + max_prompts)]
        )


KINDS = {
    "dynamic": Dynamic,
    "skip": Skip,
    "beta": Beta,
    "targeted": Targeted,
    "curriculum": Curriculum,
}


def derive_seed(seed: int, *words) -> int:
    """A 64-bit seed derived from the run's seed and `words`."""
    return random.Random(":".join(map(str, (seed, *words)))).getrandbits(64)


def first_ids(ids: list[str], keys: np.ndarray, count: int) -> list[str]:
    """The `count` ids with the lowest keys (ids,), in ascending order; fewer ids are repeated."""
    order = np.argsort(keys, kind="stable")
    return [ids[order[index % len(ids)]] for index in range(count)]


def predict_pass_rates(
    embeddings: np.ndarray, anchor_prompts: np.ndarray, anchor_rates: np.ndarray
) -> np.ndarray:
    """Predicted pass rates (n,) of all prompts: attention over the anchor prompts, then
    `calibrate`. `embeddings` (n, width) are of `standardise`, `anchor_prompts` (k,) indices."""
    keys = embeddings[anchor_prompts]
    predicted = attend(embeddings @ keys.T, anchor_rates)
    if len(anchor_rates) == 1:
        return np.full(len(predicted), anchor_rates[0])
    scores_without_self = keys @ keys.T
    np.fill_diagonal(scores_without_self, -np.inf)
    return calibrate(predicted, attend(scores_without_self, anchor_rates), anchor_rates)


def attend(scores: np.ndarray, anchor_rates: np.ndarray) -> np.ndarray:
    """softmax(scores) @ anchor_rates, (n,); `scores` (n, k) are already divided by sqrt(width)."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ anchor_rates / weights.sum(axis=1)


def calibrate(
    predicted: np.ndarray, leave_one_out: np.ndarray, anchor_rates: np.ndarray
) -> np.ndarray:
    """Platt scaling of `predicted` (n,): sigmoid(w logit(predicted) + c), with w and c of a
    logistic regression of the anchors' pass rates (k,) on their leave-one-out predictions (k,).
    Difference: in arXiv 2506.05316 a trained network computes w and c from the anchors' pass rates.

    The result is the anchors' mean pass rate if all their pass rates or all leave-one-out
    predictions are equal, or if w is not positive, as where anchors do not predict each other.
    """
    if np.ptp(anchor_rates) > 0 and np.ptp(leave_one_out) > 0:
        features = np.column_stack([np.ones(len(leave_one_out)), logit(leave_one_out)])
        intercept, slope = logistic_regression(anchor_rates, features)
        if slope > 0:
            return 1 / (1 + np.exp(-(intercept + slope * logit(predicted))))
    return np.full(len(predicted), anchor_rates.mean())


def logit(share: np.ndarray) -> np.ndarray:
    """Log-odds of shares, clipped to 0.01..0.99."""
    clipped = np.clip(share, 0.01, 0.99)
    return np.log(clipped / (1 - clipped))


def standardise(embeddings: np.ndarray) -> np.ndarray:
    """Embeddings (prompts, width) with columns of mean 0 and standard deviation 1, divided by the
    fourth root of the width, so that a dot product of rows is q . r / sqrt(width)."""
    deviation = embeddings.std(axis=0)
    centred = (embeddings - embeddings.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return centred / math.sqrt(math.sqrt(embeddings.shape[1]))
