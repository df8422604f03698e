"""The page "Was it worth it?": for each arm of a study, the gain, the lead over a random choice, and
the cost."""

import pandas as pd

from hardgrpo.analysis import random_choice
from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.formats import (
    MINUS,
    integer,
    is_known,
    points,
    round_parts,
    signed,
    signed_interval,
)
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report import web

TABLES = ["gains", "parts", "spent", "against_random", "contamination"]
YES, ACCURACY_FELL, NOT_SHOWN = "yes", "no, accuracy fell", "not shown"
GREEDY_FELL, WORSE_THAN_RANDOM, NOT_BETTER = (
    "no, greedy accuracy fell",
    "no, worse than random",
    "no difference from random shown",
)
UNKNOWN_WORTH = "cannot be said"


def page(study: dict, tables: dict[str, pd.DataFrame], prices: dict) -> str:
    """The page of a study. `study` comes from designs.design, `tables` are those of TABLES,
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
    prices: dict | None = None,
) -> list[dict]:
    """The page's entries for each model and task; without `prices`, without money and GPUs."""
    prices = prices or {"label": {}, "gpus": {model: {} for model in gains.model}}
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
        heads = [name for name in arms[0]["cells"] if any(arm["cells"][name] for arm in arms)]
        both = (contamination.task == task) & (contamination.eval_task == task)
        groups.append(
            {
                "model": model,
                "task": task,
                "problems": integer(group.problems.max()),
                "runs": int(group.seeds.max()),
                "overlap": contamination[both].to_dict("records")[:1],
                "answer": answer(arms),
                "heads": heads,
                "arms": arms,
            }
        )
    return groups


def arm(row, prices: dict) -> dict:
    """The page's entries for one arm: its name, its verdict, its `cells` {head of the column: text,
    or "" if unknown}, and the numbers of the page's first sentence. `row` joins the tables `gains`
    (sampled and greedy), `parts` and `spent` with the comparisons of random_choice."""
    finishing, correctness = round_parts(row.gain, [row.finishing, row.correctness])
    hours, price = row.seconds * row.seeds / 3600, prices["label"].get(row.policy)
    gpus = prices["gpus"][row.model].get(row.recipe, 0)  # 0 for recorded runs
    labels = integer(row.labels) if is_known(row.labels) else ""
    time = f"{hours * gpus:.2f} GPU-hours" if gpus else duration(hours)
    worth = worth_it(row)
    return {
        "name": row.arm,
        "worth_it": worth,
        "mark": {YES: "yes"}.get(worth, "no" if worth.startswith("no,") else "open"),
        "gain": signed(row.gain),
        "lead": signed(row.lead) if is_known(row.lead) else "",
        "lead_verdict": row.lead_verdict if is_known(row.lead) else "",
        "labels": labels,
        "cells": {
            "gain, sampled": signed_interval(row.gain, row.gain_low, row.gain_high),
            "gain, greedy": with_interval(
                row.greedy_gain, row.greedy_gain_low, row.greedy_gain_high
            ),
            "minus random": with_interval(row.lead, row.lead_low, row.lead_high),
            "labels of a run": labels,
            "their price": f"{row.labels * price:,.2f}" if price is not None else "",
            "points per 100 labels": f"{100 * 100 * row.gain / row.labels:+.2f}".replace("-", MINUS)
            if is_known(row.labels) and row.labels
            else "",
            "training of all runs": time if is_known(hours) else "",
            "its price": f"{hours * gpus * prices['gpu_hour']:,.2f}"
            if gpus and is_known(hours)
            else "",
            "before (%)": points(row.base_accuracy),
            "finishing": signed_interval(finishing, row.finishing_low, row.finishing_high),
            "correctness": signed_interval(correctness, row.correctness_low, row.correctness_high),
            "detectable gain": points(row.mdd),
        },
    }


def with_interval(share: float, low: float, high: float) -> str:
    return signed_interval(share, low, high) if is_known(share) else ""


def duration(hours: float) -> str:
    """A time on a CPU in hours, or in minutes if the time is shorter than an hour."""
    return f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


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
    is_shown = any(entry["lead"] for entry in worth)
    if not is_shown and any(entry["lead"] for entry in arms):
        sentence += "; no way of choosing was shown to beat a random choice"
    return f"{sentence}."


def sentence_part(entry: dict) -> str:
    part = f"{entry['name']}: {entry['gain']} points"
    if entry["labels"]:
        part += f" for {entry['labels']} labels"
    if entry["lead"]:
        part += f", {entry['lead']} points more than a random choice"
    return part
