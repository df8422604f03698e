"""Estimates, intervals and tests of a study. There are S seeds, N problems, and m sampled
completions per problem.

Values are accuracies, gains or paired differences by seed and problem, as shares (not percent).
docs/statistics.md has the formulas and their sources. Functions of arrays `(..., S, N)` accept many
studies at once, for simulations.
"""

from dataclasses import dataclass
from functools import cache
from math import comb, hypot

import numpy as np
from scipy import optimize, stats

from hardgrpo.analysis.decomposition import decompose

Z = stats.norm.ppf(0.975)


@dataclass(frozen=True)
class Estimate:
    """A point estimate and its 95 % interval; low and high are nan if the design gives no
    interval."""

    estimate: float
    low: float
    high: float

    @classmethod
    def around(cls, estimate: float, half: float) -> "Estimate":
        return cls(float(estimate), float(estimate - half), float(estimate + half))


UNKNOWN = Estimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Components:
    """The mean of values (..., S, N) and the two parts of the variance of the mean, each of shape
    (...); see `components`."""

    estimate: np.ndarray
    over_seeds: np.ndarray  # Vs: includes the interaction and each run's own sampling noise
    over_problems: np.ndarray  # max(Vp - Vx, 0)
    seeds: int
    problems: int


def components(values: np.ndarray) -> Components:
    """Variances of the mean of gains or paired differences (..., S, N). With one seed, Vx is
    undefined, `over_problems` is Vp and `over_seeds` nan. With one problem, `over_problems` is nan.
    """
    values = np.asarray(values, dtype=float)
    seeds, problems = values.shape[-2:]
    mean = values.mean(axis=(-2, -1))
    undefined = np.full_like(mean, np.nan)
    seed_means, problem_means = values.mean(axis=-1), values.mean(axis=-2)
    over_problems = problem_means.var(axis=-1, ddof=1) / problems if problems > 1 else undefined
    if seeds == 1:
        return Components(mean, undefined, over_problems, seeds, problems)
    over_seeds = seed_means.var(axis=-1, ddof=1) / seeds
    if problems == 1:
        return Components(mean, over_seeds, undefined, seeds, problems)
    # Residual sum of squares = total - between seeds - between problems, without an array of
    # residuals.
    total = ((values - mean[..., None, None]) ** 2).sum(axis=(-2, -1))
    residual = (
        total
        - seeds * (seeds - 1) * problems * over_seeds
        - problems * (problems - 1) * seeds * over_problems
    )
    interaction = np.maximum(residual, 0.0) / ((problems - 1) * (seeds - 1)) / (problems * seeds)
    return Components(
        mean, over_seeds, np.maximum(over_problems - interaction, 0.0), seeds, problems
    )


def half_width(parts: Components) -> np.ndarray:
    """Half-width of a 95 % interval for new problems and new seeds; nan with one problem, over
    problems only with one seed."""
    problems_term = _t(parts.problems - 1) ** 2 * parts.over_problems
    if parts.seeds == 1:
        return np.sqrt(problems_term)
    return np.sqrt(_t(parts.seeds - 1) ** 2 * parts.over_seeds + problems_term)


def _t(df: float) -> float:
    return float(stats.t.ppf(0.975, df)) if df > 0 else np.nan


def mean_interval(values: np.ndarray) -> Estimate:
    """Mean of `values` (S, N) with its 95 % interval (`half_width`). `values` are gains, paired differences, or parts of gains or differences."""
    parts = components(values)
    return Estimate.around(parts.estimate, half_width(parts))


def contrast_interval(minuend: np.ndarray, subtrahend: np.ndarray) -> Estimate:
    """Mean of `minuend` (S, N) minus the mean of `subtrahend` (S, M), with a 95 % interval
    for new problems and new seeds. Both arrays have the same seeds and disjoint problems."""
    seeds, parts = len(minuend), [components(values) for values in (minuend, subtrahend)]
    squared = sum(_t(part.problems - 1) ** 2 * part.over_problems for part in parts)
    if seeds > 1:
        seed_differences = minuend.mean(axis=1) - subtrahend.mean(axis=1)
        squared += _t(seeds - 1) ** 2 * seed_differences.var(ddof=1) / seeds
    return Estimate.around(parts[0].estimate - parts[1].estimate, np.sqrt(squared))


def unpaired(minuend: tuple, subtrahend: tuple) -> tuple[float, float, float]:
    """(unpaired difference of two estimates with their intervals, low, high). The squared half-width
    is the sum of the squared half-widths of the intervals. The difference's interval is conservative
    if both estimates have the same problems or the same base model."""
    half = hypot(*((high - low) / 2 for _, low, high in (minuend, subtrahend)))
    estimate = minuend[0] - subtrahend[0]
    return estimate, estimate - half, estimate + half


def pooled_over_seeds(values: np.ndarray, differences: bool) -> tuple[np.ndarray, int]:
    """(Vs (...), degrees of freedom) with one variance over seeds, estimated from all P arms of
    `values` (..., P, S, N).

    For a gain, Vs is the mean of the arms' Vs, with P(S-1) degrees of freedom. For the difference
    of two arms, Vs is twice the residual mean square of the arms x seeds layout / S, with
    (P-1)(S-1) degrees of freedom.
    """
    means = np.asarray(values, dtype=float).mean(axis=-1)
    policies, seeds = means.shape[-2:]
    if not differences:
        return means.var(axis=-1, ddof=1).mean(axis=-1) / seeds, policies * (seeds - 1)
    residuals = (
        means
        - means.mean(axis=-1, keepdims=True)
        - means.mean(axis=-2, keepdims=True)
        + means.mean(axis=(-2, -1), keepdims=True)
    )
    df = (policies - 1) * (seeds - 1)
    return 2 * (residuals**2).sum(axis=(-2, -1)) / df / seeds, df


def p_value(parts: Components) -> np.ndarray:
    """Two-sided p (...) of the hypothesis 'the mean is 0' by inverting `half_width` with bisection:
    p < 0.05 exactly if the interval excludes 0; nan with one problem."""
    over_seeds, over_problems = np.nan_to_num(parts.over_seeds), parts.over_problems
    # bounds of log p; the lower bound is p = 1e-100
    low, high = np.full(parts.estimate.shape, -230.0), np.zeros(parts.estimate.shape)
    for _ in range(60):
        middle = (low + high) / 2
        tail = np.exp(middle) / 2
        reach = stats.t.isf(tail, max(parts.problems - 1, 1)) ** 2 * over_problems
        if parts.seeds > 1:
            reach = reach + stats.t.isf(tail, parts.seeds - 1) ** 2 * over_seeds
        # the interval of level 1 - exp(middle) does not reach 0, so p is smaller than exp(middle)
        excludes_zero = reach < parts.estimate**2
        high, low = np.where(excludes_zero, middle, high), np.where(excludes_zero, low, middle)
    constant_p = np.where(parts.estimate == 0, 1.0, 0.0)  # p if both variances are 0
    return np.where(
        np.isnan(over_problems),
        np.nan,
        np.where(over_seeds + over_problems == 0, constant_p, np.exp(high)),
    )


def holm(p_values) -> np.ndarray:
    """p-values corrected for the number of comparisons (Holm 1979). nan stays nan and does not
    count as a comparison.

    statsmodels' multipletests gives the same result, but takes 0.2 s a call, because it runs
    Python's garbage collector.
    """
    p_values = np.asarray(p_values, dtype=float)
    corrected, (defined,) = np.full(p_values.shape, np.nan), np.nonzero(~np.isnan(p_values))
    ascending = defined[np.argsort(p_values[defined])]
    corrected[ascending] = np.minimum(
        np.maximum.accumulate(p_values[ascending] * np.arange(len(ascending), 0, -1)), 1
    )
    return corrected


def mcnemar(grades: np.ndarray, other_grades: np.ndarray) -> tuple[int, int, float]:
    """(number correct only in `grades`, number correct only in `other_grades`, exact two-sided p).
    Grades are 0/1 (N,)."""
    only_first = int(((grades == 1) & (other_grades == 0)).sum())
    only_second = int(((grades == 0) & (other_grades == 1)).sum())
    discordant = only_first + only_second
    p = float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return only_first, only_second, p


@cache
def detectable_factor(seeds: int, comparisons: int = 1) -> float:
    """The smallest difference, in standard errors, that a two-sided t test over `seeds` >= 2 seeds
    finds with power 80 %.

    The level of the test is 5 % divided by the number of comparisons. The power is a mean over
    10,000 quantiles of the estimated standard error, because SciPy's non-central t distribution
    fails far in the tails.
    """
    df = seeds - 1
    reach = stats.t.isf(0.025 / comparisons, df) * np.sqrt(
        stats.chi2.ppf((np.arange(10_000) + 0.5) / 10_000, df) / df
    )
    power = lambda factor: (stats.norm.sf(reach - factor) + stats.norm.cdf(-reach - factor)).mean()
    return float(optimize.brentq(lambda factor: power(factor) - 0.8, 0.0, reach.max() + 5))


def smallest_detectable(
    over_seeds: float, over_problems: float, seeds: int, comparisons: int = 1
) -> float:
    """The smallest effect that a two-sided test at 5 % / `comparisons` finds with power 80 % in
    this design, in the unit of the estimate (minimum detectable effect, Bloom 1995). With one seed,
    only the variance over problems counts, and the result holds for this run only."""
    normal = stats.norm.isf(0.025 / comparisons) + stats.norm.ppf(0.8)
    if seeds == 1:
        return float(normal * np.sqrt(over_problems))
    return float(
        np.sqrt(detectable_factor(seeds, comparisons) ** 2 * over_seeds + normal**2 * over_problems)
    )


def seeds_interval(values: np.ndarray) -> Estimate:
    """Mean of `values` (S,) with Student's t interval over seeds, t(.975, S-1) sd / sqrt(S); no
    interval with one seed."""
    values = np.asarray(values, dtype=float)
    count = len(values)
    half = _t(count - 1) * values.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return Estimate.around(values.mean(), half)


def jackknife(estimate: float, left_out: np.ndarray) -> Estimate:
    """`estimate` with a 95 % interval by the grouped jackknife. `left_out` (G,): the estimates
    without each of G groups of data.

    The variance is (G - 1) / G times the sum of squares of `left_out` about its mean (Efron and
    Tibshirani 1993, ch. 11); t has G - 1 degrees of freedom. There is no interval with fewer than
    two groups, or if all of `left_out` are equal.
    """
    count = len(left_out)
    if count < 2 or np.ptp(left_out) == 0:
        return Estimate.around(estimate, np.nan)
    variance = (count - 1) * np.var(left_out)
    return Estimate.around(estimate, _t(count - 1) * np.sqrt(variance))


def decompose_by_problem(
    base_answered: np.ndarray, base_correct: np.ndarray, answered: np.ndarray, correct: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Linearised contributions of each seed and problem to finishing and correctness: two arrays
    (S, N) whose means are the parts.

    Rates have the shape (S, N), or (N,) or (1, N) for a base model that all seeds share. The values
    are f + gradient . (rates - means), where f(s0, c0, s1, c1) is a part as a function of four
    means (delta method). The two arrays add up to the gains.
    """
    rates = np.broadcast_arrays(
        *map(np.atleast_2d, (base_answered, base_correct, answered, correct))
    )
    means = np.array([rate.mean() for rate in rates])
    finishing, _ = decompose(*means)
    s0, c0, s1, c1 = means
    if s0 == 0 or s1 == 0:
        # see `decompose`: with an undefined accuracy, the whole gain is finishing
        gains = rates[3] - rates[1]
        return gains, np.zeros_like(gains)
    # finishing = (s1 - s0)(c0/s0 + c1/s1)/2
    level, width = (c0 / s0 + c1 / s1) / 2, (s1 - s0) / 2
    gradient = np.array(
        [-level - width * c0 / s0**2, width / s0, level - width * c1 / s1**2, width / s1]
    )
    parts = finishing + sum(g * (rate - mean) for g, rate, mean in zip(gradient, rates, means))
    return parts, (rates[3] - rates[1]) - parts


def ratio_of_means(part: np.ndarray, total: np.ndarray) -> float:
    """The mean of `part` divided by the mean of `total`; nan if the mean of `total` is 0."""
    return float(part.mean() / total.mean()) if total.mean() else np.nan


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased pass@k from `n` samples, of which c = `correct` are right: 1 - C(n-c, k)/C(n, k)
    (Chen et al., arXiv 2107.03374)."""
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs at least {k} samples, there are {n}")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def r_squared(x: np.ndarray, y: np.ndarray) -> Estimate:
    """R^2 of a least-squares line of `y` (n,) on `x` (n,), with a 95 % interval by Fisher's z of
    the correlation. All values are nan with fewer than three points, or if x or y is constant."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return UNKNOWN
    r, n = float(stats.pearsonr(x, y).statistic), len(x)
    if n < 4 or abs(r) > 1 - 1e-12:
        return Estimate(r**2, np.nan, np.nan)
    half = Z / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    ends = sorted((low**2, high**2))
    # an interval of r that includes 0 gives one of r squared that begins at 0
    return Estimate(r**2, 0.0 if low < 0 < high else ends[0], ends[1])


def _regression(y: np.ndarray, x: np.ndarray):
    """statsmodels' results of the least-squares regression of `y` (n,) on `x` (n,) or (n, k) with
    an intercept."""
    # imported late: it takes half a second, and only regressions need it
    from statsmodels.regression.linear_model import OLS
    from statsmodels.tools import add_constant

    return OLS(y, add_constant(x, has_constant="add")).fit()


def partial_r_squared(y: np.ndarray, x: np.ndarray, control: np.ndarray) -> float:
    """Partial R^2: the squared correlation of the residuals of `y` (n,) and of `x` (n,) from their
    least-squares lines on `control` (n,). nan if an array is constant or if all residuals of `x` or
    `y` are zero."""
    if min(np.ptp(x), np.ptp(control), np.ptp(y)) == 0:
        return np.nan
    residuals = lambda v: _regression(v, control).resid
    x_residuals, y_residuals = residuals(x), residuals(y)
    if min(np.ptp(x_residuals), np.ptp(y_residuals)) < 1e-12:
        return np.nan
    return float(stats.pearsonr(x_residuals, y_residuals).statistic ** 2)


def joint_r_squared(x: np.ndarray, y: np.ndarray) -> float:
    """R^2 of a least-squares regression of `y` (n,) on all columns of `x` (n, k); nan with fewer
    than k + 2 points, or if `y` is constant."""
    n, k = x.shape
    return float(_regression(y, x).rsquared) if n >= k + 2 and np.ptp(y) else np.nan


def coefficients(x: np.ndarray, y: np.ndarray) -> list[tuple[Estimate, float]]:
    """(slope with Student's t interval, p) of each column of `x` (n, k) in a least-squares
    regression of `y` (n,) on all columns.

    All values are nan with fewer than k + 2 points, or if columns are collinear.
    """
    n, k = x.shape
    if n < k + 2 or np.linalg.matrix_rank(np.column_stack([np.ones(n), x])) < k + 1:
        return [(UNKNOWN, np.nan)] * k
    fit = _regression(y, x)
    columns = zip(fit.params, fit.conf_int(), fit.pvalues)
    return [
        (Estimate(float(slope), float(low), float(high)), float(p))
        for slope, (low, high), p in columns
    ][1:]  # without the intercept
