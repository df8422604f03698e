"""The page "Was it worth it?": the gain with its interval, the parts of the gain and the cost, for each arm of a study."""

import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.formats import MINUS, UNKNOWN, integer, is_known, points, round_parts, signed_interval
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report import web


def page(
    study: dict, gains: pd.DataFrame, parts: pd.DataFrame, spent: pd.DataFrame, contamination: pd.DataFrame, prices: dict
) -> str:
    """`study` comes from settings.study_design, `prices` from settings.prices."""
    own_parts = own_test_rows(parts).drop(columns=["eval_task", "gain", "arm"])
    rows = own_test_samples(gains).merge(own_parts, on=RUNS, suffixes=("", "_of_parts"))
    rows = rows.merge(spent[[*RUNS, "labels", "tokens", "seconds"]], on=RUNS)
    groups = [
        {
            "model": model,
            "task": task,
            "problems": integer(group.problems.max()),
            "overlap": overlap(contamination, task),
            "arms": [arm(row, prices) for row in group.itertuples()],
        }
        for (model, task), group in rows.groupby(["model", "task"], sort=False)
    ]
    return web.template("worth.html").render(title=study["title"], own_bases=study["own_bases"], groups=groups)


def overlap(contamination: pd.DataFrame, task: str) -> dict | None:
    """Numbers of test questions that equal or are near a question of the task's pool, and of repeated questions; None if
    unknown."""
    rows = contamination[(contamination.task == task) & (contamination.eval_task == task)]
    return {name: int(rows.iloc[0][name]) for name in ("equal", "near", "repeated")} if len(rows) else None


def arm(row, prices: dict) -> dict:
    """The page's entries for one arm. `row` joins the tables `gains`, `parts` and `spent`."""
    finishing, correctness = round_parts(row.gain, [row.finishing, row.correctness])
    hours = row.seconds * row.seeds / 3600
    gpus_by_recipe, price = prices["gpus"][row.model], prices["label"].get(row.policy)
    gpus = gpus_by_recipe.get(row.recipe, 0)  # 0 for recorded runs
    return {
        "name": row.arm,
        "worth_it": worth_it(row.gain_low, row.gain_high),
        "before": points(row.base_accuracy),
        "after": f"{printed_points(row.base_accuracy) + printed_points(row.gain):.1f}",  # the sum of the printed numbers
        "gain": signed_interval(row.gain, row.gain_low, row.gain_high),
        "detectable": points(row.mdd),
        "finishing": signed_interval(finishing, row.finishing_low, row.finishing_high),
        "correctness": signed_interval(correctness, row.correctness_low, row.correctness_high),
        "labels": integer(row.labels),
        "label_cost": UNKNOWN if price is None else f"{row.labels * price:,.2f}",
        "labels_per_point": integer(row.labels / (100 * row.gain)) if row.gain_low > 0 else UNKNOWN,
        "runs": int(row.seeds),
        "hours": UNKNOWN if not is_known(hours) else f"{hours * gpus:.2f} GPU-hours" if gpus else f"{hours:.2f} hours on a CPU",
        "training_cost": f"{hours * gpus * prices['gpu_hour']:,.2f}" if gpus and is_known(hours) else UNKNOWN,
    }


def printed_points(share: float) -> float:
    """A share in points, rounded as in print."""
    return float(points(share).replace(MINUS, "-"))


def worth_it(low: float, high: float) -> str:
    """The answer for an arm: whether the gain's 95 % interval excludes zero, and on which side."""
    if not is_known(low, high) or low == high:
        return "cannot be said"
    return "yes" if low > 0 else "no, it got worse" if high < 0 else "not shown"
