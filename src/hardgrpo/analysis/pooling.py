"""The mean lead of a way of choosing over a random choice, pooled over cases.

Cases may share pretrained base models (a kind of base model and a seed), which are trained in
several cases. Their leads are then correlated. The covariances are estimated from the paired leads
of the base models.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from hardgrpo.analysis.statistics import Estimate


@dataclass(frozen=True)
class PooledLead:
    """`mean`: the mean lead over cases with its 95 % interval. `new_case`: the ends of the 90 %
    prediction interval of the lead in a new case. `cases`: the number of cases."""

    mean: Estimate
    new_case: tuple[float, float]
    cases: int


def pool_leads(leads: list[dict[tuple, float]]) -> PooledLead:
    """Pool the leads of C cases. `leads` has for each case {base model: lead}, in shares.

    The lead of case c is y_c = mean + u_c + e_c: u_c varies between cases with variance τ², and the
    errors e_c have the covariance matrix S (`covariances`). By the method of moments, the sample
    variance of y_c has the expectation τ² + mean(S_cc) - mean(S_cd, c ≠ d), and τ² is at least 0.
    The variance of the mean is τ² / C + the mean of all elements of S, and that of a new case is τ²
    more. Both intervals have t quantiles with C - 1 degrees of freedom (Higgins, Thompson and
    Spiegelhalter 2009 take C - 2 for a new case). With fewer than three cases, there are no
    intervals.
    """
    mean_leads = np.array([np.mean(list(case.values())) for case in leads])
    count, mean = len(leads), float(mean_leads.mean())
    if count < 3:
        unknown = float("nan")
        return PooledLead(Estimate.around(mean, unknown), (unknown, unknown), count)
    covariance = covariances(leads)
    mean_variance = np.trace(covariance) / count
    mean_covariance = (covariance.sum() - np.trace(covariance)) / (count * (count - 1))
    sample_variance = float(np.var(mean_leads, ddof=1))
    between_cases = max(sample_variance - mean_variance + mean_covariance, 0.0)
    variance_of_mean = max(between_cases / count + float(covariance.mean()), 0.0)
    half_width = stats.t.ppf(0.975, count - 1) * np.sqrt(variance_of_mean)
    half_of_new_case = float(
        stats.t.ppf(0.95, count - 1) * np.sqrt(between_cases + variance_of_mean)
    )
    return PooledLead(
        Estimate.around(mean, float(half_width)),
        (mean - half_of_new_case, mean + half_of_new_case),
        count,
    )


def covariances(leads: list[dict[tuple, float]]) -> np.ndarray:
    """(C, C) covariance matrix of the cases' mean leads, from the base models that two cases share.
    Cases that share fewer than two base models count as independent; a case with a single base
    model has variance 0 here, so that its error counts as variance between cases."""
    matrix = np.zeros((len(leads), len(leads)))
    for first, first_leads in enumerate(leads):
        for second, second_leads in enumerate(leads[: first + 1]):
            bases = sorted(first_leads.keys() & second_leads.keys())
            if len(bases) > 1:
                values = [[case[base] for base in bases] for case in (first_leads, second_leads)]
                covariance = np.cov(values)[0, 1] * len(bases)
                matrix[first, second] = covariance / (len(first_leads) * len(second_leads))
                matrix[second, first] = matrix[first, second]
    return matrix
