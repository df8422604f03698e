"""Compare probe sizes: how prompts that are chosen by a probe of K completions per prompt behave in
new completions.

Each prompt has n graded completions, at least K + the group size. The probe is a random sample of K
of them, and a new group a random sample of the remaining n - K. The numbers of correct completions
in both are hypergeometric, so results are computed from formulas.
"""

import numpy as np
from scipy import special, stats

from hardgrpo.selection import policies

COLUMNS = ["rule", "samples", "prompts", "labels"]  # labels: answers that a run needs
COLUMNS += ["mixed", "pass_rate", "never_solved", "unmixed_prompts"]
# rule -> rank of a prompt with c of K completions correct. Prompts with lower ranks are chosen
# first; prompts with rank nan are never chosen.
RULES = {
    "hard": lambda c, samples: c.astype(float),
    "hard_solvable": lambda c, samples: np.where(c > 0, c, np.nan),
    "nearest_half": lambda c, samples: np.round(np.abs(c / samples - 0.5), 12),
    "easy": lambda c, samples: -c.astype(float),
    "random": lambda c, samples: np.zeros(len(c)),
}
# RULES and `middle`, in the order of tables
ORDER = ("hard", "hard_solvable", "nearest_half", "middle", "easy", "random")
# a larger probe is worthwhile if it raises the share of mixed groups by more than this value
LEAST_IMPROVEMENT = 0.01


def by_correct(
    correct: np.ndarray, totals: np.ndarray, samples: int, group: int
) -> dict[str, np.ndarray]:
    """Behaviour (K + 1,) of prompts with c correct completions in a probe of K = `samples`, for c =
    0..K, from the numbers of correct and of all completions of each prompt (N,).

    `share`: expected share of prompts with c correct completions. The others are means over these
    prompts, nan if there are none: `mixed`, the probability that a new group of `group` completions
    is neither all correct nor all wrong; `pass_rate` outside the probe; `never_solved`, the share
    of prompts without any correct completion.
    """
    count_pairs, prompt_counts = np.unique(np.stack([correct, totals]), axis=1, return_counts=True)
    pair_correct, pair_total = count_pairs[:, :, None]  # (P, 1) each, for P distinct pairs
    c = np.arange(samples + 1)
    # (P, K + 1) expected numbers of prompts
    weight = prompt_counts[:, None] * stats.hypergeom.pmf(c, pair_total, pair_correct, samples)
    remaining = pair_total - samples
    remaining_correct = np.clip(pair_correct - c, 0, remaining)  # impossible counts have weight 0
    equal_groups = special.binom(remaining_correct, group) + special.binom(
        remaining - remaining_correct, group
    )
    mixed = 1 - equal_groups / special.binom(remaining, group)
    expected = weight.sum(axis=0)
    with np.errstate(invalid="ignore"):
        means = {
            name: (weight * values).sum(axis=0) / expected
            for name, values in (
                ("mixed", mixed),
                ("pass_rate", remaining_correct / remaining),
                ("never_solved", pair_correct == 0),
            )
        }
    return {"share": expected / len(correct), **means}


def compare(
    correct: np.ndarray, totals: np.ndarray, budget: float, sizes: list[int], group: int
) -> list[dict]:
    """Rows of COLUMNS for each rule and probe size K: the behaviour of the chosen prompts, as in
    `by_correct`. `budget` is the share of the pool that is chosen. A rule has no row if fewer
    prompts qualify.

    If the budget covers only a part of the tied prompts, the means are expectations over a random
    choice among them. The number of prompts with c correct completions is replaced by its
    expectation, so the results are approximate in pools of a few dozen prompts.
    """
    rows, prompts = [], policies.subset_size(budget, len(correct))
    for rule in ORDER:
        for samples in [0] if rule == "random" else sizes:
            behaviour = by_correct(correct, totals, samples, group)
            ranks = class_ranks(rule, samples, behaviour["share"])
            chosen_shares = choose_shares(behaviour["share"], ranks, prompts / len(correct))
            if chosen_shares is None:
                continue
            labels = prompts if rule == "random" else len(correct)
            row = {"rule": rule, "samples": samples, "prompts": prompts, "labels": labels}
            for name in ("mixed", "pass_rate", "never_solved"):
                row[name] = float(np.nansum(chosen_shares * behaviour[name]) / chosen_shares.sum())
            rows.append(row | {"unmixed_prompts": prompts * (1 - row["mixed"])})
    return rows


def class_ranks(rule: str, samples: int, shares: np.ndarray) -> np.ndarray:
    """Ranks (K + 1,), as in RULES, of the classes of prompts with c of K = `samples` completions
    correct. For rule `middle`: the distance of c from the median, nan outside of the quartiles."""
    c = np.arange(samples + 1)
    if rule != "middle":
        return RULES[rule](c, samples)
    first_quartile, median, third_quartile = (
        _quantile(shares, level) for level in (0.25, 0.5, 0.75)
    )
    return np.where((first_quartile <= c) & (c <= third_quartile), np.abs(c - median), np.nan)


def _quantile(shares: np.ndarray, level: float) -> float:
    """The class at which the cumulative share reaches `level`; if it equals `level` there, the mean
    of this class and the next class that is not empty."""
    cumulative = np.cumsum(shares)
    lower, upper = (int(np.searchsorted(cumulative, level + margin)) for margin in (-1e-9, 1e-9))
    return (lower + min(upper, len(shares) - 1)) / 2


def choose_shares(shares: np.ndarray, ranks: np.ndarray, budget: float) -> np.ndarray | None:
    """The chosen part of each class, as a share of the pool: classes in ascending order of `ranks`
    up to a total of `budget`. None if the classes with a rank hold less than `budget`."""
    chosen_shares, remaining_budget = np.zeros(len(shares)), budget
    for rank in np.unique(ranks[~np.isnan(ranks)]):
        tied = ranks == rank
        available = shares[tied].sum()
        part = min(1.0, remaining_budget / available) if available > 0 else 0.0
        chosen_shares[tied] = part * shares[tied]
        remaining_budget -= part * available
    return None if remaining_budget > 1e-9 else chosen_shares


def sufficient_sizes(rows: list[dict]) -> dict[str, int]:
    """{rule: smallest size such that no larger size in `rows` has a share of mixed groups that is
    higher by more than LEAST_IMPROVEMENT}, of the rules whose share does not fall."""
    sizes = {}
    for rule in dict.fromkeys(row["rule"] for row in rows if row["samples"]):
        rule_rows = sorted(
            (row for row in rows if row["rule"] == rule), key=lambda row: row["samples"]
        )
        if rule_rows[-1]["mixed"] < rule_rows[0]["mixed"]:
            continue
        sizes[rule] = next(
            row["samples"]
            for index, row in enumerate(rule_rows)
            if max(larger["mixed"] for larger in rule_rows[index:]) - row["mixed"]
            <= LEAST_IMPROVEMENT
        )
    return sizes
