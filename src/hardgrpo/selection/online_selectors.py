"""Selectors: they decide during training which prompts the next rollouts are sampled for.

A run is a sequence of sampling steps. Each samples `group_size` rollouts for each of `prompts_per_update` prompts,
so that runs of one length generate equally many rollouts whatever their selector. The trainer asks the selector for prompts (`ask`)
and tells it the share of each group's rollouts that was rewarded (`told`). A selector depends on the seed and on what it was told
alone: it derives its random numbers from the seed and its place in the run, so a checkpoint needs only its `state`. The pool of a
selector is the run's subset.

Formulas are those of the papers named. Where a paper leaves a point open, the docstring says what is done here.
"""

import math
import random
from dataclasses import dataclass

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import selector_settings

RIDGE = 0.05  # ridge penalty on the slope of `calibrated`, per reference, as in predicted.py; our choice


@dataclass(frozen=True)
class Asked:
    """Prompts to sample next. `trains`: whether an update may train on their groups; otherwise the rollouts only measure."""

    ids: list[str]
    trains: bool = True


@dataclass(frozen=True)
class Pool:
    """The prompts that a selector may draw, and what it may know of them. `measures`: id -> tier or pass rate, for a curriculum.
    `embeddings` (prompts, width), in the order of `ids`, for a selector that predicts."""

    ids: list[str]
    measures: dict[str, float] | None = None
    embeddings: np.ndarray | None = None


def make(recipe: dict, pool: Pool, seed: int) -> "Selector":
    """The selector that a recipe names."""
    chosen = selector_settings.with_defaults(recipe)
    if chosen["kind"] == "targeted":
        check_reference(chosen, len(pool.ids))
    return KINDS[chosen["kind"]](chosen | {"group_size": recipe["group_size"]}, pool, recipe["updates"], seed)


def check_reference(chosen: dict, prompts: int) -> None:
    """Raise a `UserError` if `targeted` wants more references than the pool has prompts."""
    if chosen["reference"] > prompts:
        raise UserError(
            f"recipe: selector.reference is {chosen['reference']}, but the pool has {prompts} prompts; lower it, or choose more"
            " prompts with the policy"
        )


class Selector:
    """The interface of all kinds. `make` calls KIND(the recipe's selector and group_size, pool, steps of the run, seed)."""

    def ask(self, step: int, room: int) -> Asked:
        """1 to `room` ids of the pool to sample next; the same seed and history give the same ids. Steps count from 1. The trainer
        asks again until the step's room is filled."""
        raise NotImplementedError

    def told(self, step: int, asked: Asked, shares: list[float]) -> None:
        """After each `ask`: the share of each group's rollouts that was rewarded, in the order of `asked.ids`."""

    def state(self) -> dict:
        """All that `ask` needs of the history, as JSON, for a checkpoint."""
        return {}

    def restore(self, state: dict) -> None:
        """Continue from a `state`."""


class Epochs:
    """Prompts one after the other, in shuffled epochs of the pool. State: how many have been taken."""

    def __init__(self, ids: list[str], seed: int):
        self.ids, self.seed, self.taken, self.shuffled = ids, seed, 0, (None, [])

    def take(self) -> str:
        epoch, place = divmod(self.taken, len(self.ids))
        if self.shuffled[0] != epoch:
            order = list(self.ids)
            random.Random(f"epoch:{self.seed}:{epoch}").shuffle(order)
            self.shuffled = (epoch, order)
        self.taken += 1
        return self.shuffled[1][place]


class Dynamic(Selector):
    """Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): sample on, drop groups that are all right or all wrong, until an update
    is full. DAPO samples 1,536 prompts at a time for an update of 512, and throws away the groups that are left over."""

    def __init__(self, chosen: dict, pool: Pool, steps: int, seed: int):
        self.epochs = Epochs(pool.ids, seed)

    def ask(self, step: int, room: int) -> Asked:
        return Asked([self.epochs.take() for _ in range(room)])

    def state(self) -> dict:
        return {"taken": self.epochs.taken}

    def restore(self, state: dict) -> None:
        self.epochs.taken = state["taken"]


class Skip(Dynamic):
    """GRESO (arXiv 2506.02177): dynamic sampling that skips a prompt whose last z groups were all right, or all wrong, with
    probability 1 - max(p^z, least). All-right and all-wrong groups each have their own p, which starts at `explore`. After the
    first epoch, each sampling step in which at least the share `easy` (`hard`) of the groups were all right (all wrong) lowers p by `step`,
    and each other step raises it by `step`, within LIMITS. (The released code moves p once per update instead. The paper also
    adapts how many prompts it samples at a time; here a step samples equally many, as with every selector.)"""

    LIMITS = 0.05, 0.95  # of p, in the released code

    def __init__(self, chosen: dict, pool: Pool, steps: int, seed: int):
        super().__init__(chosen, pool, steps, seed)
        self.chosen, self.seed = chosen, seed
        self.explore = {"right": chosen["explore"], "wrong": chosen["explore"]}
        self.idle: dict[str, list] = {}  # id -> [right or wrong, how many groups in a row]

    def ask(self, step: int, room: int) -> Asked:
        rng, ids = random.Random(f"skip:{self.seed}:{step}:{self.epochs.taken}"), []
        while len(ids) < room:
            prompt = self.epochs.take()
            kind, times = self.idle.get(prompt, ("right", 0))
            if rng.random() < max(self.explore[kind] ** times, self.chosen["least"]):
                ids.append(prompt)
        return Asked(ids)

    def told(self, step: int, asked: Asked, shares: list[float]) -> None:
        for prompt, share in zip(asked.ids, shares):
            if 0 < share < 1:
                self.idle.pop(prompt, None)
                continue
            kind = "right" if share == 1 else "wrong"
            before, times = self.idle.get(prompt, (kind, 0))
            self.idle[prompt] = [kind, times + 1 if before == kind else 1]
        if self.epochs.taken <= len(self.epochs.ids):
            return
        least, most = self.LIMITS
        for kind, extreme, aim in (("right", 1, self.chosen["easy"]), ("wrong", 0, self.chosen["hard"])):
            found = sum(share == extreme for share in shares) / len(shares)
            moved = self.explore[kind] + (-self.chosen["step"] if found >= aim else self.chosen["step"])
            self.explore[kind] = min(most, max(least, moved))

    def state(self) -> dict:
        return super().state() | {"explore": self.explore, "idle": self.idle}

    def restore(self, state: dict) -> None:
        super().restore(state)
        self.explore, self.idle = dict(state["explore"]), {prompt: list(seen) for prompt, seen in state["idle"].items()}


class Beta(Selector):
    """MoPPS (arXiv 2507.04632): each prompt's pass rate has a Beta(a, b) posterior, first Beta(1, 1). Draw a pass rate for every
    prompt of the pool from it (Thompson sampling) and take those nearest to `target`. After a group of n rollouts with share s
    rewarded: a = discount * a + (1 - discount) + n s, b = discount * b + (1 - discount) + n (1 - s). The paper considers a random
    part of the pool, eight times the size of an update; here all of it."""

    def __init__(self, chosen: dict, pool: Pool, steps: int, seed: int):
        self.chosen, self.ids, self.seed = chosen, pool.ids, seed
        self.place = {prompt: i for i, prompt in enumerate(pool.ids)}
        self.a, self.b = np.ones(len(pool.ids)), np.ones(len(pool.ids))

    def ask(self, step: int, room: int) -> Asked:
        rng = np.random.Generator(np.random.PCG64(number(self.seed, "beta", step)))
        distance = np.abs(rng.beta(self.a, self.b) - self.chosen["target"])
        return Asked([self.ids[i] for i in repeated(np.argsort(distance, kind="stable"), room)])

    def told(self, step: int, asked: Asked, shares: list[float]) -> None:
        keep, size = self.chosen["discount"], self.chosen["group_size"]
        for prompt, share in zip(asked.ids, shares):
            i = self.place[prompt]
            self.a[i] = keep * self.a[i] + (1 - keep) + size * share
            self.b[i] = keep * self.b[i] + (1 - keep) + size * (1 - share)

    def state(self) -> dict:
        seen = np.flatnonzero((self.a != 1) | (self.b != 1))
        return {"seen": {self.ids[i]: [self.a[i], self.b[i]] for i in seen}}

    def restore(self, state: dict) -> None:
        for prompt, (a, b) in state["seen"].items():
            self.a[self.place[prompt]], self.b[self.place[prompt]] = a, b


class Targeted(Selector):
    """Difficulty-targeted selection (Sun et al., arXiv 2506.05316): every `every` steps sample `reference` random prompts. The pass rate
    of each prompt is predicted by attention over the references, softmax(q . r / sqrt(width)) weighting their pass rates, with
    the embeddings of the untrained model; it is calibrated (`calibrated`), and prompts are drawn without replacement with probability
    proportional to exp(-|predicted - 1/2| / sharpness) until the next references.

    The paper embeds with another model and a head that was trained on pass rates measured beforehand; here the embedding is the mean of
    the model's own last hidden states, standardised over the pool. References only measure: no update trains on them."""

    def __init__(self, chosen: dict, pool: Pool, steps: int, seed: int):
        self.chosen, self.ids, self.seed = chosen, pool.ids, seed
        self.place = {prompt: i for i, prompt in enumerate(pool.ids)}
        self.embeddings = pool.embeddings
        self.references: list[int] = []  # of this cycle
        self.shares: list[float] = []  # of those that were sampled
        self.predicted: np.ndarray | None = None

    def ask(self, step: int, room: int) -> Asked:
        cycle, place = divmod(step - 1, self.chosen["every"])
        if place == 0 and not self.references:
            drawn = random.Random(f"reference:{self.seed}:{cycle}").sample(range(len(self.ids)), self.chosen["reference"])
            self.references, self.shares = drawn, []
        missing = self.references[len(self.shares) :][:room]
        if missing:
            return Asked([self.ids[i] for i in missing], trains=False)
        if self.predicted is None:
            self.predicted = predict(self.embeddings, np.array(self.references), np.array(self.shares))
        rng = np.random.Generator(np.random.PCG64(number(self.seed, "targeted", step)))
        # Gumbel's trick: the largest of log-weight + Gumbel noise are a draw without replacement in proportion to the weights.
        scores = -np.abs(self.predicted - 0.5) / self.chosen["sharpness"] + rng.gumbel(size=len(self.ids))
        return Asked([self.ids[i] for i in repeated(np.argsort(-scores, kind="stable"), room)])

    def told(self, step: int, asked: Asked, shares: list[float]) -> None:
        if not asked.trains:
            self.shares += shares
            self.predicted = None
        elif step % self.chosen["every"] == 0:  # the next step begins a cycle
            self.references = []

    def state(self) -> dict:
        return {"references": self.references, "shares": self.shares}

    def restore(self, state: dict) -> None:
        self.references, self.shares, self.predicted = list(state["references"]), list(state["shares"]), None


class Curriculum(Selector):
    """A curriculum (Parashar et al., arXiv 2506.06632): the pool sorted by tier or by the base model's pass rate, gone through once from
    first to last over the run, ties in random order. The first step takes the first prompts, the last step the last ones, and the
    steps between move on evenly; that paper draws tiers at random, with probabilities that move in the same way."""

    def __init__(self, chosen: dict, pool: Pool, steps: int, seed: int):
        order = list(pool.ids)
        random.Random(f"curriculum:{seed}").shuffle(order)
        # A higher tier is harder, a higher pass rate is easier.
        sign = (1 if chosen["by"] == "tier" else -1) * (1 if chosen["order"] == "easy_first" else -1)
        self.order, self.steps = sorted(order, key=lambda prompt: sign * pool.measures[prompt]), steps

    def ask(self, step: int, room: int) -> Asked:
        first = (step - 1) * max(0, len(self.order) - room) // max(1, self.steps - 1)
        return Asked([self.order[i % len(self.order)] for i in range(first, first + room)])


KINDS = {
    "dynamic": Dynamic,
    "skip": Skip,
    "beta": Beta,
    "targeted": Targeted,
    "curriculum": Curriculum,
}


def number(seed: int, *words) -> int:
    """A random seed that depends on all of the words."""
    return random.Random(":".join(map(str, (seed, *words)))).getrandbits(64)


def repeated(order: np.ndarray, count: int) -> list[int]:
    """The first `count` entries of `order`, which is repeated if it is shorter."""
    return [int(order[i % len(order)]) for i in range(count)]


def predict(embeddings: np.ndarray, references: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The predicted pass rate of every prompt (n,), from the embeddings (n, width) and the pass rates `shares` (k,) of the prompts at the
    places `references` (k,): attention over the references, then `calibrated`."""
    keys = embeddings[references]
    found = attended(embeddings @ keys.T, shares)
    without_itself = keys @ keys.T
    np.fill_diagonal(without_itself, -np.inf)
    return calibrated(found, attended(without_itself, shares) if len(shares) > 1 else shares, shares)


def attended(scores: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """softmax(scores / sqrt(width)) @ shares; `scores` (n, k) are already divided by sqrt(width)."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ shares / weights.sum(axis=1)


def calibrated(predicted: np.ndarray, of_references: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Platt scaling: sigmoid(w logit(predicted) + c), with w and c fitted by logistic regression to the references' pass rates,
    each predicted from the others (`of_references`). The paper computes w and c from the references' mean and standard deviation by
    a small network that was trained beforehand. Every prediction is the references' mean pass rate where there is nothing to fit
    (all pass rates are equal), and where the references do not predict each other (w is not positive: a mean without one reference
    is the higher, the lower that reference is)."""
    if np.ptp(shares) == 0 or np.ptp(of_references) == 0:
        return np.full(len(predicted), shares.mean())
    import statsmodels.api as sm  # here, because it takes a second and few selectors need it

    line = sm.add_constant(logit(of_references), has_constant="add")
    fitted = sm.GLM(shares, line, family=sm.families.Binomial()).fit_regularized(alpha=np.array([0.0, RIDGE]), L1_wt=0.0)
    constant, slope = fitted.params
    if slope <= 0:
        return np.full(len(predicted), shares.mean())
    return 1 / (1 + np.exp(-(constant + slope * logit(predicted))))


def logit(share: np.ndarray) -> np.ndarray:
    clipped = np.clip(share, 0.01, 0.99)
    return np.log(clipped / (1 - clipped))


def standardised(embeddings: np.ndarray) -> np.ndarray:
    """Each column less its mean, divided by its standard deviation; then by the fourth root of the width, so that the product of two rows
    is their attention score q . r / sqrt(width)."""
    spread = embeddings.std(axis=0)
    centred = (embeddings - embeddings.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return centred / math.sqrt(math.sqrt(embeddings.shape[1]))
