"""The page "Was it worth it?": for each arm of a study, the gain, the lead over a random choice, and
the cost."""

import pandas as pd

from hardgrpo.analysis import random_choice
from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.formats import (
    MINUS,
    UNKNOWN,
    integer,
    is_known,
    points,
    round_parts,
    signed,
    signed_interval,
)
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report import web

YES, ACCURACY_FELL, NOT_SHOWN = "yes", "no, accuracy fell", "not shown"
GREEDY_FELL, WORSE_THAN_RANDOM, NOT_BETTER = (
    "no, greedy accuracy fell",
    "no, worse than random",
    "no difference from random shown",
)
UNKNOWN_WORTH = "cannot be said"


def page(study: dict, tables: dict[str, pd.DataFrame], prices: dict) -> str:
    """The page of a study. `study` comes from designs.design, `tables` are those of registry.WORTH,
    `prices` come from designs.prices."""
    groups = entries_by_model_and_task(**tables, prices=prices)
    return web.template("worth.html").render(
        title=study["title"], own_bases=study["own_bases"], groups=groups
    )


def entries_by_model_and_task(
    gains: pd.DataFrame,
    parts: pd.DataFrame,
    spent: pd.DataFrame,
    against_random: pd.DataFrame,
    contamination: pd.DataFrame,
    prices: dict,
) -> list[dict]:
    """The page's entries for each model and task."""
    own_parts = own_test_rows(parts).drop(columns=["eval_task", "gain", "arm"])
    rows = own_test_samples(gains).merge(own_parts, on=RUNS, suffixes=("", "_of_parts"))
    # recorded runs have no costs
    rows = rows.merge(spent[[*RUNS, "labels", "tokens", "seconds"]], on=RUNS, how="left")
    greedy = own_test_rows(gains)
    greedy = greedy[greedy.decoding == "greedy"]
    greedy_columns = {
        name: f"greedy_{name}" for name in ("base_accuracy", "gain", "gain_low", "gain_high")
    }
    rows = rows.merge(
        greedy[[*RUNS, *greedy_columns]].rename(columns=greedy_columns), on=RUNS, how="left"
    )
    lead_columns = {"difference": "lead", "low": "lead_low", "high": "lead_high"}
    lead_columns |= {"verdict": "lead_verdict"}
    rows = rows.merge(
        against_random[[*RUNS, *lead_columns]].rename(columns=lead_columns), on=RUNS, how="left"
    )
    groups = []
    for (model, task), group in rows.groupby(["model", "task"], sort=False):
        arms = [arm(row, prices) for row in group.itertuples()]
        groups.append(
            {
                "model": model,
                "task": task,
                "problems": integer(group.problems.max()),
                "runs": int(group.seeds.max()),
                "overlap": overlap(contamination, task),
                "answer": answer(arms),
                "has_greedy": any(entry["greedy"] != UNKNOWN for entry in arms),
                "has_random": any(entry["lead"] != UNKNOWN for entry in arms),
                "arms": arms,
            }
        )
    return groups


def overlap(contamination: pd.DataFrame, task: str) -> dict | None:
    """Numbers of test questions that equal or are near a question of the task's pool, and of
    repeated questions of the pool; None if unknown."""
    rows = contamination[(contamination.task == task) & (contamination.eval_task == task)]
    return (
        {name: int(rows.iloc[0][name]) for name in ("equal", "near", "repeated")}
        if len(rows)
        else None
    )


def arm(row, prices: dict) -> dict:
    """The page's entries for one arm. `row` joins the tables `gains` (sampled and greedy), `parts`
    and `spent` with the comparisons of random_choice."""
    finishing, correctness = round_parts(row.gain, [row.finishing, row.correctness])
    hours = row.seconds * row.seeds / 3600
    gpus_by_recipe, price = prices["gpus"][row.model], prices["label"].get(row.policy)
    gpus = gpus_by_recipe.get(row.recipe, 0)  # 0 for recorded runs
    points_per_label = (
        row.gain / row.labels if is_known(row.labels) and row.labels else float("nan")
    )
    worth = worth_it(row)
    return {
        "name": row.arm,
        "worth_it": worth,
        "mark": {YES: "yes"}.get(worth, "no" if worth.startswith("no,") else "open"),
        "before": points(row.base_accuracy),
        # the sum of the rounded numbers, so that the printed numbers add up
        "after": f"{printed_points(row.base_accuracy) + printed_points(row.gain):.1f}",
        "gain": signed_interval(row.gain, row.gain_low, row.gain_high),
        "gain_alone": signed(row.gain),
        "greedy": with_interval(row.greedy_gain, row.greedy_gain_low, row.greedy_gain_high),
        "lead": with_interval(row.lead, row.lead_low, row.lead_high),
        "lead_alone": signed(row.lead) if is_known(row.lead) else UNKNOWN,
        "detectable": points(row.mdd),
        "finishing": signed_interval(finishing, row.finishing_low, row.finishing_high),
        "correctness": signed_interval(correctness, row.correctness_low, row.correctness_high),
        "labels": integer(row.labels),
        "label_cost": UNKNOWN if price is None else f"{row.labels * price:,.2f}",
        "per_100_labels": f"{100 * 100 * points_per_label:+.2f}".replace("-", MINUS)
        if is_known(points_per_label)
        else UNKNOWN,
        "runs": int(row.seeds),
        "time": UNKNOWN
        if not is_known(hours)
        else f"{hours * gpus:.2f} GPU-hours"
        if gpus
        else duration(hours),
        "training_cost": f"{hours * gpus * prices['gpu_hour']:,.2f}"
        if gpus and is_known(hours)
        else UNKNOWN,
    }


def with_interval(share: float, low: float, high: float) -> str:
    return signed_interval(share, low, high) if is_known(share) else UNKNOWN


def duration(hours: float) -> str:
    """A time on a CPU in hours, or in minutes if the time is shorter than an hour."""
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def printed_points(share: float) -> float:
    """A share in points, rounded as in print."""
    return float(points(share).replace(MINUS, "-"))


def worth_it(row) -> str:
    """The answer for an arm. The answer is YES if sampled accuracy rose and greedy accuracy was not
    shown to fall. If the study compares the arm with a random choice of as many prompts, YES also
    needs to be better than this choice (see `random_choice`)."""
    if not is_known(row.gain_low, row.gain_high) or row.gain_low == row.gain_high:
        return UNKNOWN_WORTH
    if row.gain_high < 0:
        return ACCURACY_FELL
    if is_known(row.greedy_gain_high) and row.greedy_gain_high < 0:
        return GREEDY_FELL
    if row.lead_verdict == random_choice.WORSE:
        return WORSE_THAN_RANDOM
    if row.gain_low <= 0:
        return NOT_SHOWN
    return NOT_BETTER if row.lead_verdict == random_choice.OPEN else YES


def answer(arms: list[dict]) -> str:
    """The page's first sentence about a model and a task."""
    worth = [entry for entry in arms if entry["worth_it"] == YES]
    if not worth:
        fell = sum(entry["worth_it"] == GREEDY_FELL for entry in arms)
        reason = (
            f"; greedy accuracy, but not sampled accuracy, fell in {fell} of {len(arms)} arms"
            if fell
            else ""
        )
        return f"no way of choosing was shown to be worth its labels{reason}."
    sentence = "; ".join(map(sentence_part, worth))
    # an arm that is compared with a random choice is worth it only if its lead was shown
    is_shown = any(entry["lead"] != UNKNOWN for entry in worth)
    if not is_shown and any(entry["lead"] != UNKNOWN for entry in arms):
        sentence += "; no way of choosing was shown to beat a random choice"
    return f"{sentence}."


def sentence_part(entry: dict) -> str:
    part = f"{entry['name']}: {entry['gain_alone']} points"
    if entry["labels"] != UNKNOWN:
        part += f" for {entry['labels']} labels"
    if entry["lead"] != UNKNOWN:
        part += f", {entry['lead_alone']} points more than a random choice"
    return part
