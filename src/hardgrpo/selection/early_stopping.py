"""Probe only until a subset is decided, and choose exactly the subset that full probing would
choose.

Full probing draws K samples of each prompt. Rule `hard` takes the prompts with the fewest right
samples, ties in a fixed order; rule `easy` does the same with wrong samples. `Scan` orders the
prompts by the counts so far, which are lower bounds. If the first prompts, as many as are chosen,
have all their samples, they are the subset. Until then, `Scan` draws one more sample of the first
prompts that lack samples, among those with at most the count of the last of the first prompts.

A rule with a threshold separates the prompts with at most `level` right samples from all others:
a prompt is sampled until it has more, or cannot have more.
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
        tie_order = np.argsort([policies.tie_break(prompt, seed) for prompt in ids])
        self.tie_ranks = np.argsort(tie_order) * (-1 if self.counts_wrong else 1)
        self.size, self.level = None, 0  # number of chosen prompts: None with a threshold
        if "threshold" in policies.RULES[rule].needs:
            is_below = [count / samples < policy["threshold"] for count in range(samples + 1)]
            self.level = sum(is_below) - 1
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
        """Up to `batch` samples to draw next, as (prompt, number of the sample). Empty when the
        subset is decided and the chosen prompts have all their samples."""
        missing = self.samples - self.drawn
        order = np.lexsort((self.tie_ranks, self.counts))
        if self.size is not None:
            chosen = order[: self.size]
            waiting = (missing > 0) & (self.counts <= self.counts[chosen[-1]])
            waiting &= missing[chosen].any()
        else:
            waiting = (self.counts <= self.level) & (self.level < self.counts + missing)
            if not waiting.any():
                chosen = set(self.subset().ids)
                waiting = np.array([prompt in chosen for prompt in self.ids]) & (missing > 0)
        prompts = order[waiting[order]][: self.batch]
        return list(zip(prompts.tolist(), self.drawn[prompts].tolist()))

    def subset(self) -> policies.Subset:
        """The subset, once `ask` has found nothing to draw but samples of its prompts. Any counts
        that are possible give this subset; these are the smallest."""
        shares = self.counts / self.samples
        rates = 1 - shares if self.counts_wrong else shares
        return policies.select(dict(zip(self.ids, rates.tolist())), seed=self.seed, **self.policy)
