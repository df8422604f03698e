"""Pass rates predicted from signals that need no answers, by a model fitted on a small random sample of prompts that was annotated.

The model is a logistic regression of right answers on the signals (signals.py), standardised over the pool. It has a ridge penalty,
because a small sample may be separated perfectly. Signals that are unknown for some prompt of the pool are left out, except for the
entropy, which counts as 0 where no completion gives an answer.
"""

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection.policies import SIGNALS, sample_size, tie_break

RIDGE = 0.05  # penalty on each standardised slope, per prompt of the sample; our choice


def sample(ids: list[str], share: float, seed: int) -> list[str]:
    """The prompts to annotate for the fit: a random `share` of the pool, decided by the seed alone."""
    return sorted(ids, key=lambda i: tie_break(i, seed, "calibration"))[: sample_size(share, len(ids))]


def pass_rates(signals: dict[str, dict], known: dict[str, float]) -> dict[str, float]:
    """The predicted pass rate of every prompt. `signals` has a row of SIGNALS by id, `known` the pass rates of the sample.

    Raise a `UserError` where the sample is all right or all wrong: it tells nothing about the others.
    """
    import statsmodels.api as sm  # here, because it takes a second and few choices need it

    measured = np.array(list(known.values()))
    if measured.min() == measured.max() and measured[0] in (0, 1):
        raise UserError(
            f"calibrated_on: the {len(known)} prompts that were annotated are all {'right' if measured[0] else 'wrong'};"
            " they tell nothing about the others: annotate more, or another seed's"
        )
    features = _standardised(signals)
    rows = {name: number for number, name in enumerate(signals)}
    chosen = features[[rows[name] for name in known]]
    penalty = np.array([0.0] + [RIDGE] * (features.shape[1] - 1))
    fitted = sm.GLM(measured, chosen, family=sm.families.Binomial()).fit_regularized(alpha=penalty, L1_wt=0.0)
    return dict(zip(signals, 1 / (1 + np.exp(-features @ fitted.params))))


def _standardised(signals: dict[str, dict]) -> np.ndarray:
    """(prompts, 1 + signals): an intercept, and the signals that are known of all prompts and differ between them."""
    columns = [np.ones(len(signals))]
    for name in SIGNALS:
        values = [row[name] for row in signals.values()]
        if name == "entropy":
            values = [value or 0.0 for value in values]
        if None not in values and np.std(values) > 1e-12:
            columns.append((np.array(values) - np.mean(values)) / np.std(values))
    return np.stack(columns, axis=1)
