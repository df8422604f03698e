"""Numbers about the fall of greedy accuracy on arithmetic, for the section on study
`mini_rates` in docs/results.md."""

from hardgrpo.analysis import statistics
from hardgrpo.analysis.formats import change, change_interval
from pages.committed import LABELS, RATES

import pandas as pd


def contrast(mcnemar: pd.DataFrame) -> str:
    """The greedy gain of `random` with recipe `mini_100_quarter` minus the greedy gain with
    `mini_100`: the comparison that the study named before its runs. The interval is for new base
    models on the same problems."""
    rows = mcnemar.query(
        "policy == 'random' and minus == 'random' and recipe == 'mini_100' and minus_recipe == 'mini_100_quarter'"
    )
    estimate = statistics.seeds_interval(-rows.difference.to_numpy())
    return change_interval(estimate.estimate, estimate.low, estimate.high)


def gains_by_model(labels: pd.DataFrame) -> dict[str, dict[str, str]]:
    """{model: {decoding: gain}} of a random tenth on arithmetic by recipe `mini_50`. `misled` is
    pretrained on arithmetic alone, `tiny` on arithmetic and swaps."""
    rows = labels.query(
        "task == 'arithmetic' and eval_task == task and policy == 'random' and recipe == 'mini_50'"
    )
    return {
        model: {row.decoding: change(row.gain) for row in group.itertuples()}
        for model, group in rows.groupby("model")
    }


def values(studies: dict[str, dict[str, pd.DataFrame]]) -> dict:
    """The values about greedy accuracy that the template of docs/results.md shows."""
    return {
        "greedy_contrast": contrast(studies[RATES]["mcnemar"]),
        "rates_bases": int(studies[RATES]["gains"].seeds.max()),
        "gains_by_model": gains_by_model(studies[LABELS]["gains"]),
    }
