"""The mean lead of a way of choosing over a random choice, pooled over cases.

Cases may share base models: the same base model (a kind and a replicate) is trained in several
cases. Their leads are then correlated. The covariances are estimated from the paired leads of the
replicates.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from hardgrpo.analysis.statistics import Estimate


@dataclass(frozen=True)
class Pooled:
    """`mean`: the mean lead with its 95 % interval. `new_case`: the ends between which nine of ten
    new cases fall."""

    mean: Estimate
    new_case: tuple[float, float]
    cases: int


def pooled(leads: list[dict[tuple, float]]) -> Pooled:
    """Pool the leads of C cases. `leads` has for each case {base model: lead}, in shares.

    The lead y_c of a case is the mean over its base models, with the covariances S_cd of these
    means. y_c = mean + u_c + e_c, where u_c varies between cases with variance t² and e has
    covariance S. Method of moments: the variance of y over cases has the expectation
    t² + mean(S_cc) - mean(S_cd, c ≠ d); t² is at least 0. The variance of the mean is t² / C + the
    mean of all elements of S; its interval and that of a new case (variance t² + this variance)
    have t quantiles with C - 1 degrees of freedom (Higgins, Thompson and Spiegelhalter 2009 for a
    new case). With fewer than three cases, there are no intervals.
    """
    means = np.array([np.mean(list(case.values())) for case in leads])
    count = len(means)
    if count < 3:
        unknown = float("nan")
        return Pooled(Estimate.around(means.mean(), unknown), (unknown, unknown), count)
    covariance = covariances(leads)
    own = np.trace(covariance) / count
    shared = (covariance.sum() - np.trace(covariance)) / (count * (count - 1))
    between = max(float(np.var(means, ddof=1) - own + shared), 0.0)
    of_mean = max(between / count + float(covariance.mean()), 0.0)
    half = stats.t.ppf(0.975, count - 1) * np.sqrt(of_mean)
    reach = stats.t.ppf(0.95, count - 1) * np.sqrt(between + of_mean)
    mean = float(means.mean())
    return Pooled(
        Estimate.around(mean, float(half)),
        (mean - float(reach), mean + float(reach)),
        count,
    )


def covariances(leads: list[dict[tuple, float]]) -> np.ndarray:
    """(C, C) covariances of the cases' mean leads, from the base models that two cases share. Cases
    that share fewer than two base models count as independent."""
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
