"""Predict pass rates from signals, with a model fitted on a small annotated random sample of the
pool: a logistic regression of pass rates on the signals, standardised over the pool, with a ridge
penalty. Signals with missing values are omitted, except the entropy: a missing entropy (no
completion gives an answer) counts as 0."""

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection.policies import SIGNALS, sample_size, tie_break

RIDGE = 0.05  # weight of the ridge penalty on the slopes, relative to the mean log-likelihood


def draw_sample(ids: list[str], share: float, seed: int) -> list[str]:
    """Ids of the prompts to annotate for the fit: a random `share` of the pool."""
    return sorted(ids, key=lambda prompt: tie_break(prompt, seed, "calibration"))[
        : sample_size(share, len(ids))
    ]


def predict_pass_rates(
    signals: dict[str, dict], sample_rates: dict[str, float]
) -> dict[str, float]:
    """{id: predicted pass rate} of every prompt, from {id: values of SIGNALS} of all prompts and
    {id: pass rate} of the annotated prompts. Raise a `UserError` if these pass rates are all 1 or
    all 0."""
    targets = np.array(list(sample_rates.values()))
    if targets.min() == targets.max() and targets[0] in (0, 1):
        raise UserError(
            f"calibrated_on: all completions of the {len(sample_rates)} annotated prompts are {'right' if targets[0] else 'wrong'}; annotate more prompts,"
            " or draw others with another seed"
        )
    features = _standardised_features(signals)
    index_of_prompt = {name: index for index, name in enumerate(signals)}
    sample_features = features[[index_of_prompt[name] for name in sample_rates]]
    coefficients = logistic_regression(targets, sample_features)
    return dict(zip(signals, 1 / (1 + np.exp(-features @ coefficients))))


def logistic_regression(rates: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Coefficients (features,) of the logistic regression of `rates` (prompts,), from 0 to 1, on
    `features` (prompts, features). RIDGE penalises all but the first, the intercept."""
    import statsmodels.api as sm  # imported late: takes a second, and few policies need it

    penalty = np.array([0.0] + [RIDGE] * (features.shape[1] - 1))
    model = sm.GLM(rates, features, family=sm.families.Binomial())
    return model.fit_regularized(alpha=penalty, L1_wt=0.0).params


def _standardised_features(signals: dict[str, dict]) -> np.ndarray:
    """(prompts, 1 + signals): the intercept, and the standardised signals that vary and are never
    missing."""
    columns = [np.ones(len(signals))]
    for name in SIGNALS:
        values = [row[name] for row in signals.values()]
        if name == "entropy":
            values = [value or 0.0 for value in values]
        if None not in values and np.std(values) > 1e-12:
            columns.append((np.array(values) - np.mean(values)) / np.std(values))
    return np.stack(columns, axis=1)
