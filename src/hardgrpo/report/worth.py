"""A page that answers one question for each arm of a study: was it worth it? The gain with its interval, what it is made of, what it cost."""

import pandas as pd

from hardgrpo.analysis.formats import MINUS, UNKNOWN, adding_up, known, points, signed_interval, whole
from hardgrpo.report import web

KEYS = ["model", "task", "policy", "recipe"]


def page(
    study: dict, gains: pd.DataFrame, parts: pd.DataFrame, spent: pd.DataFrame, contamination: pd.DataFrame, prices: dict
) -> str:
    """`study` comes from settings.study_design, `prices` from settings.prices."""
    home = gains[(gains.decoding == "sampled") & (gains.task == gains.eval_task)]
    rows = home.merge(
        parts[parts.task == parts.eval_task].drop(columns=["eval_task", "gain", "arm"]), on=KEYS, suffixes=("", "_of_parts")
    )
    rows = rows.merge(spent[[*KEYS, "labels", "tokens", "seconds"]], on=KEYS)
    groups = [
        {
            "model": model,
            "task": task,
            "problems": whole(group.problems.max()),
            "overlap": overlap(contamination, task),
            "arms": [arm(row, prices) for row in group.itertuples()],
        }
        for (model, task), group in rows.groupby(["model", "task"], sort=False)
    ]
    return web.template("worth.html").render(title=study["title"], own_bases=study["own_bases"], groups=groups)


def overlap(contamination: pd.DataFrame, task: str) -> dict | None:
    """How many test questions of a task stand in its pool, or are near one; None where that is not known (recorded models)."""
    rows = contamination[(contamination.task == task) & (contamination.eval_task == task)]
    return {name: int(rows.iloc[0][name]) for name in ("equal", "near", "repeated")} if len(rows) else None


def arm(row, prices: dict) -> dict:
    """The page's entries for one arm. `row` joins gains, parts and spent."""
    finishing, correctness = adding_up(row.gain, [row.finishing, row.correctness])
    hours = row.seconds * row.seeds / 3600
    of_model, price = prices["gpus"][row.model], prices["label"].get(row.policy)
    gpus = of_model.get(row.recipe, 0)  # none for recorded runs
    return {
        "name": row.arm,
        "worth_it": worth_it(row.gain_low, row.gain_high),
        "before": points(row.base_accuracy),
        "after": f"{shown(row.base_accuracy) + shown(row.gain):.1f}",  # as a reader of the page adds it up
        "gain": signed_interval(row.gain, row.gain_low, row.gain_high),
        "detectable": points(row.mdd),
        "finishing": signed_interval(finishing, row.finishing_low, row.finishing_high),
        "correctness": signed_interval(correctness, row.correctness_low, row.correctness_high),
        "labels": whole(row.labels),
        "label_cost": UNKNOWN if price is None else f"{row.labels * price:,.2f}",
        "labels_per_point": whole(row.labels / (100 * row.gain)) if row.gain_low > 0 else UNKNOWN,
        "runs": int(row.seeds),
        "hours": UNKNOWN if not known(hours) else f"{hours * gpus:.2f} GPU-hours" if gpus else f"{hours:.2f} hours on a CPU",
        "training_cost": f"{hours * gpus * prices['gpu_hour']:,.2f}" if gpus and known(hours) else UNKNOWN,
    }


def shown(share: float) -> float:
    """A share in points, rounded as it is printed."""
    return float(points(share).replace(MINUS, "-"))


def worth_it(low: float, high: float) -> str:
    """Whether the gain's 95 % interval leaves zero out, and on which side."""
    if not known(low, high) or low == high:
        return "cannot be said"
    return "yes" if low > 0 else "no, it got worse" if high < 0 else "not shown"
