"""Tables and numbers about the fall of greedy accuracy on arithmetic, for the section on study
`mini_rates` in docs/results.md."""

from hardgrpo.analysis import statistics
from hardgrpo.analysis.formats import change, change_interval
from hardgrpo.study import paths
from pages.committed import LABELS, RATES

from pathlib import Path

import pandas as pd

# (policy, recipe); ("", "") is the base model
ARMS = [("", ""), ("random", "mini_100"), ("random", "mini_100_quarter")]


def gains(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    lines = []
    for (policy, recipe), rows in tables["gains"].groupby(["policy", "recipe"], sort=False):
        sampled, greedy = (
            rows[rows.decoding == decoding].iloc[0] for decoding in ("sampled", "greedy")
        )
        lines.append(
            {
                "policy": policy,
                "recipe": recipe,
                "base % (greedy %)": f"{100 * sampled.base_accuracy:.1f} ({100 * greedy.base_accuracy:.1f})",
                "gain": text_of(sampled),
                "greedy gain": text_of(greedy),
            }
        )
    return pd.DataFrame(lines)


def text_of(row) -> str:
    return change_interval(row.gain, row.gain_low, row.gain_high)


def contrast(mcnemar: pd.DataFrame) -> str:
    """The greedy gain of `random` with recipe `mini_100_quarter` minus the greedy gain with
    `mini_100`: the comparison that the study named before its runs. The interval is for new base
    models on the same problems."""
    rows = mcnemar.query(
        "policy == 'random' and minus == 'random' and recipe == 'mini_100' and minus_recipe == 'mini_100_quarter'"
    )
    estimate = statistics.seeds_interval(-rows.difference.to_numpy())
    return change_interval(estimate.estimate, estimate.low, estimate.high)


def margins(root: Path) -> pd.DataFrame:
    path = root / paths.reference(RATES) / "margins.csv"
    rows = pd.read_csv(path, keep_default_na=False).query("study == @RATES")
    lines = []
    for operation, group in rows.groupby("operation", sort=False):
        by_arm = group.set_index(["policy", "recipe"])
        base, trained, quarter = (by_arm.loc[arm] for arm in ARMS)
        lines.append(
            {
                "operation": operation.replace("*", "×").replace("/", "÷").replace("-", "−"),
                "median margin, base": f"{100 * base.margin_median:.0f}",
                "right result is most probable, %: base": f"{100 * base.right_is_first:.0f}",
                "right result is most probable, %: `mini_100`": f"{100 * trained.right_is_first:.0f}",
                "right result is most probable, %: `mini_100_quarter`": f"{100 * quarter.right_is_first:.0f}",
                "probability of the right result, %: base": f"{100 * base.right_probability:.0f}",
                "probability of the right result, %: `mini_100`": f"{100 * trained.right_probability:.0f}",
            }
        )
    return pd.DataFrame(lines)


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
