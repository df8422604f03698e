"""What a probe of K completions per prompt buys: how the prompts that it chooses behave in other completions.

Exact for a pool whose prompts have n > K graded completions: the K that choose are a random sample of the n without replacement, so the
number of correct ones among them is hypergeometric, and so is the number in a new group of the others. Nothing is simulated.
"""

import numpy as np
from scipy import special, stats

COLUMNS = ["rule", "samples", "prompts", "labels", "mixed", "pass_rate", "never_solved", "wasted_labels"]
RULES = {  # rule: rank of a prompt with c of K completions correct; lower ranks are chosen first, nan never
    "hard": lambda c, samples: c.astype(float),
    "hard_solvable": lambda c, samples: np.where(c > 0, c, np.nan),
    "nearest_half": lambda c, samples: np.round(np.abs(c / samples - 0.5), 12),
    "easy": lambda c, samples: -c.astype(float),
    "random": lambda c, samples: np.zeros(len(c)),
}
PAYS = 0.01  # a larger probe pays while it raises the share of mixed groups by more than one point


def by_correct(correct: np.ndarray, totals: np.ndarray, samples: int, group: int) -> dict[str, np.ndarray]:
    """How prompts behave by the number of correct completions c = 0..K in a probe of K = `samples`.

    `correct` (N,) and `totals` (N,) count the correct and all completions of each prompt, at least K + `group` of them. Returns arrays
    (K + 1,): `share`, the expected share of prompts with c; and means over these prompts, nan where there is none: `mixed`, the
    probability that a new group of `group` completions is neither all correct nor all wrong; `pass_rate`, of the completions that do not
    choose; `never_solved`, the share that no completion solves, those of the probe included.
    """
    pairs, numbers = np.unique(np.stack([correct, totals]), axis=1, return_counts=True)
    right, total = pairs[:, :, None]  # (P, 1)
    c = np.arange(samples + 1)
    weight = numbers[:, None] * stats.hypergeom.pmf(c, total, right, samples)  # (P, K + 1) expected prompts
    rest_right, rest = np.clip(right - c, 0, None), total - samples
    rest_right = np.minimum(rest_right, rest)  # impossible counts have weight 0
    groups = special.binom(rest, group)
    mixed = 1 - (special.binom(rest_right, group) + special.binom(rest - rest_right, group)) / groups
    expected = weight.sum(axis=0)
    with np.errstate(invalid="ignore"):
        means = {
            name: (weight * values).sum(axis=0) / expected
            for name, values in (("mixed", mixed), ("pass_rate", rest_right / rest), ("never_solved", right == 0))
        }
    return {"share": expected / len(correct), **means}


def compare(correct: np.ndarray, totals: np.ndarray, budget: float, sizes: list[int], group: int) -> list[dict]:
    """Rows of COLUMNS for each rule and probe size K: the behaviour of the chosen prompts, as in `by_correct`.

    `budget` is the share of the pool that is chosen; ties are broken at random. The number of prompts with c correct is replaced by its
    expectation, which matters only for pools of a few dozen prompts. `labels` are the reference answers that a run needs: those of the
    whole pool, because the probe is graded, or of the chosen prompts for a random choice, whose probe is not needed (K = 0).
    `wasted_labels` counts chosen prompts whose group is not mixed, which GRPO learns nothing from. A rule that qualifies fewer prompts
    than the budget has no row.
    """
    rows, prompts = [], int(np.floor(round(budget * len(correct), 9)))
    for rule, rank in RULES.items():
        for samples in [0] if rule == "random" else sizes:
            behaviour = by_correct(correct, totals, samples, group)
            ranks = rank(np.arange(samples + 1), samples)
            taken = take(behaviour["share"], ranks, prompts / len(correct))
            if taken is None:
                continue
            row = {"rule": rule, "samples": samples, "prompts": prompts, "labels": prompts if rule == "random" else len(correct)}
            for name in ("mixed", "pass_rate", "never_solved"):
                row[name] = float(np.nansum(taken * behaviour[name]) / taken.sum())
            rows.append(row | {"wasted_labels": prompts * (1 - row["mixed"])})
    return rows


def take(shares: np.ndarray, ranks: np.ndarray, budget: float) -> np.ndarray | None:
    """How much of each class is chosen, in the order of `ranks` and up to `budget`; None if the classes with a rank hold less."""
    taken, left = np.zeros(len(shares)), budget
    for rank in np.unique(ranks[~np.isnan(ranks)]):
        tied = ranks == rank
        available = shares[tied].sum()
        part = min(1.0, left / available) if available > 0 else 0.0
        taken[tied] = part * shares[tied]
        left -= part * available
    return None if left > 1e-9 else taken


def enough(rows: list[dict]) -> dict[str, int]:
    """{rule: the smallest probe size whose share of mixed groups is at most PAYS below that of every larger size in the rows}."""
    sizes = {}
    for rule in dict.fromkeys(row["rule"] for row in rows if row["samples"]):
        own = sorted((row for row in rows if row["rule"] == rule), key=lambda row: row["samples"])
        sizes[rule] = next(
            row["samples"] for place, row in enumerate(own) if all(later["mixed"] - row["mixed"] <= PAYS for later in own[place:])
        )
    return sizes
