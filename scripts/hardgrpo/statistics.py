"""Estimates and intervals of a study. Arrays are pass rates by problem: runs `(S, N)` seeds x problems, base `(N,)`.

Intervals follow the sum of squared half-widths (Banerjee 1960) of a t term over seeds and a normal term over problems,
with the two-way correction of Cameron, Gelbach and Miller (2011). They cover *target B*: new problems and new seeds.
Bootstraps and naive binomial intervals cover far too little with three seeds.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """A point estimate and its 95 % interval; low and high are nan where the design cannot give one."""

    estimate: float
    low: float
    high: float


def mean_interval(values: np.ndarray) -> Estimate:
    """Mean of `values` (S, N) with its 95 % interval: gains, paired differences, or their finishing and correctness parts.

    h^2 = t^2(.975, S-1) Vs + 1.96^2 max(Vp - Vx, 0) for new problems and new seeds. With one seed nothing is known of the
    seeds: the interval is then over problems for *this* run, and the caller must say so.
    """
    values = np.asarray(values, dtype=float)
    seeds, problems = values.shape
    estimate = float(values.mean())
    if problems < 2:
        return Estimate(estimate, np.nan, np.nan)
    over_problems = values.mean(axis=0).var(ddof=1) / problems
    if seeds == 1:
        half = float(1.96 * np.sqrt(over_problems))
        return Estimate(estimate, estimate - half, estimate + half)
    over_seeds = values.mean(axis=1).var(ddof=1) / seeds
    residuals = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + estimate
    interaction = (residuals**2).sum() / ((problems - 1) * (seeds - 1)) / (problems * seeds)
    t = stats.t.ppf(0.975, seeds - 1)
    half = float(np.sqrt(t**2 * over_seeds + 1.96**2 * max(over_problems - interaction, 0.0)))
    return Estimate(estimate, estimate - half, estimate + half)


def seeds_interval(values: np.ndarray) -> Estimate:
    """Mean over seeds with a t interval, for figures that have no problems (learnable %); nan with one seed."""
    values = np.asarray(values, dtype=float)
    estimate = float(values.mean())
    if len(values) < 2:
        return Estimate(estimate, np.nan, np.nan)
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(estimate, estimate - half, estimate + half)


def decompose(base_answered: float, base_correct: float, answered: float, correct: float) -> tuple[float, float]:
    """Split a gain in accuracy exactly into (finishing, correctness).

    With s the share answered and a the accuracy when answered: finishing = (s1 - s0)(a0 + a1)/2 and
    correctness = (a1 - a0)(s0 + s1)/2, which add up to s1 a1 - s0 a0. Where nothing is answered a is undefined; it is
    taken to be the other side's, so that the whole gain is finishing.
    """
    a0 = base_correct / base_answered if base_answered else None
    a1 = correct / answered if answered else None
    a0, a1 = (a1 or 0.0) if a0 is None else a0, (a0 or 0.0) if a1 is None else a1
    finishing = (answered - base_answered) * (a0 + a1) / 2
    correctness = (a1 - a0) * (base_answered + answered) / 2
    return finishing, correctness


def decompose_by_problem(
    base_answered: np.ndarray, base_correct: np.ndarray, answered: np.ndarray, correct: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The linearised contribution of every (seed, problem) to the two parts: arrays (S, N) whose means are the parts.

    The parts are smooth functions f(s0, c0, s1, c1) of four means, so x_is = f + gradient . (cell - means) has the
    parts' sampling variance to first order (delta method) and their means exactly. The two arrays add up to the gains.
    """
    answered, correct = np.atleast_2d(answered), np.atleast_2d(correct)
    means = np.array([base_answered.mean(), base_correct.mean(), answered.mean(), correct.mean()])
    cells = np.broadcast_arrays(base_answered, base_correct, answered, correct)
    finishing, _ = decompose(*means)
    s0, c0, s1, c1 = means
    if s0 == 0 or s1 == 0:
        gains = cells[3] - cells[1]  # see `decompose`: undefined accuracy makes the whole gain finishing
        return gains, np.zeros_like(gains)
    # finishing = (s1 - s0)(c0/s0 + c1/s1)/2
    level, width = (c0 / s0 + c1 / s1) / 2, (s1 - s0) / 2
    gradient = np.array([-level - width * c0 / s0**2, width / s0, level - width * c1 / s1**2, width / s1])
    parts = finishing + sum(g * (cell - mean) for g, cell, mean in zip(gradient, cells, means))
    return parts, (cells[3] - cells[1]) - parts


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased pass@k from n samples of which `correct` are right: 1 - C(n-c, k)/C(n, k) (Chen et al., arXiv 2107.03374)."""
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs at least {k} samples, there are {n}")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def r_squared(x: np.ndarray, y: np.ndarray) -> Estimate:
    """R^2 of a least-squares line with a 95 % interval by Fisher's z of the correlation; nan with too few points."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Estimate(np.nan, np.nan, np.nan)
    r = float(stats.pearsonr(x, y).statistic)
    if len(x) < 4 or abs(r) > 1 - 1e-12:
        return Estimate(r**2, np.nan, np.nan)
    half = 1.96 / np.sqrt(len(x) - 3)
    low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    ends = sorted((low**2, high**2))
    return Estimate(r**2, 0.0 if low < 0 < high else ends[0], ends[1])
