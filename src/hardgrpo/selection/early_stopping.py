"""Probe only until a subset is decided, and choose exactly the subset that full probing would
choose.

Full probing draws K samples of each prompt. Rule `hard` takes the prompts with the fewest right
samples, ties in a fixed order; rule `easy` does the same with wrong samples; a rule with a
threshold separates the prompts with at most so many right samples from all others. At level 0,
`Scan` samples each prompt, in the order of ties, until a sample is right or all are wrong. If these
are too few prompts, it goes on at level 1 (two right samples, or so many wrong ones that no more
than one can be right), and so on. A rule with a threshold needs one level only.
"""

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies

STOPPABLE_RULES = [name for name, rule in policies.RULES.items() if rule.by_bounds]


class Scan:
    """`while batch := scan.ask(): ... scan.tell(...)` decides the subset of a policy. Prompts are
    indices into `ids`, the pool in the order of the dataset; `samples` is K. Raise a `UserError` if
    the policy needs all samples, or chooses no prompt."""

    def __init__(self, ids: list[str], samples: int, policy: dict, seed: int, batch: int = 1):
        rule = policy["rule"]
        if rule not in STOPPABLE_RULES:
            raise UserError(
                f"policy rule {rule} needs every pass rate, so its probe cannot stop early; take `stop` out of the task's probe, or choose"
                f" one of {', '.join(STOPPABLE_RULES)}"
            )
        self.ids, self.samples, self.policy, self.seed = ids, samples, policy, seed
        self.batch = batch
        # rule easy takes the prompts with the fewest wrong samples, and the last of tied prompts
        self.counts_wrong = rule == "easy"
        ties = [policies.tie_break(prompt, seed) for prompt in ids]
        self.order = np.array(
            sorted(range(len(ids)), key=ties.__getitem__, reverse=self.counts_wrong), dtype=int
        )
        # the number of prompts to find (None for a rule with a threshold), and the level
        self.size, self.level = None, 0
        if "threshold" in policies.RULES[rule].needs:
            threshold = policy["threshold"]
            self.level = sum(count / samples < threshold for count in range(samples + 1)) - 1
        else:
            # The number of chosen prompts does not depend on the pass rates.
            self.size = len(policies.select(dict.fromkeys(ids, 0.0), seed=seed, **policy).ids)
        self.counts = np.zeros(len(ids), dtype=int)  # right samples, or wrong ones for rule easy
        self.drawn = np.zeros(len(ids), dtype=int)

    def tell(self, prompt: int, correct: int, drawn: int) -> None:
        """Record that `correct` of all `drawn` samples of a prompt so far are right."""
        self.counts[prompt] = drawn - correct if self.counts_wrong else correct
        self.drawn[prompt] = drawn

    def ask(self) -> list[tuple[int, int]]:
        """About `batch` samples to draw next, as (prompt, number of the sample). Empty when the
        subset is decided and the chosen prompts have all their samples."""
        while True:
            most = self.counts + self.samples - self.drawn  # the largest count that is possible
            is_open = (self.counts <= self.level) & (self.level < most)
            if self.size is not None:
                # The lower levels are decided. Behind the last prompt that is needed at this level,
                # nothing has to be known.
                needed = self.size - (most < self.level).sum()
                at_level = np.cumsum((most == self.level)[self.order])
                is_open[self.order[np.searchsorted(at_level, needed) + 1 :]] = False
            if is_open.any():
                least = np.minimum(self.level + 1 - self.counts, most - self.level)
                return self._next_samples(is_open, least)
            if self.size is None or (most <= self.level).sum() >= self.size:
                break
            self.level += 1
        chosen = set(self.subset().ids)
        is_incomplete = np.array([prompt in chosen for prompt in self.ids]) & (
            self.drawn < self.samples
        )
        return self._next_samples(is_incomplete, self.samples - self.drawn)

    def _next_samples(self, prompts: np.ndarray, numbers: np.ndarray) -> list[tuple[int, int]]:
        """The next `numbers[prompt]` samples of the first of `prompts`, a batch in all."""
        asked: list[tuple[int, int]] = []
        for prompt in self.order[prompts[self.order]].tolist():
            first = int(self.drawn[prompt])
            asked += [(prompt, sample) for sample in range(first, first + int(numbers[prompt]))]
            if len(asked) >= self.batch:
                break
        return asked

    def subset(self) -> policies.Subset:
        """The subset, once `ask` has found nothing to draw but samples of its prompts. Any counts
        that are possible give this subset; these are the smallest."""
        shares = self.counts / self.samples
        rates = 1 - shares if self.counts_wrong else shares
        return policies.select(dict(zip(self.ids, rates.tolist())), seed=self.seed, **self.policy)
