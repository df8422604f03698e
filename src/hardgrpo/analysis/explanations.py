"""Summary tables of what may explain gains and leads: regressions of the lead of `hard` on properties
of the base model, and of gains on the learnable share and on the completion length.

The regressions are descriptive, because points share base models, problems and seeds. In a
regression of leads, a point is a replicate if each replicate has its own base model, otherwise a
model (the mean over its seeds).
"""

import itertools

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, estimates, families
from hardgrpo.analysis.columns import CELL, RUNS
from hardgrpo.analysis.pools import read_prompts
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.analysis.summary_tables import CELL_KEYS, table
from hardgrpo.study import paths
from hardgrpo.study.model import own_base

LEADING = "hard"
# In figures, tables and texts, this name stands for the model of a regression whose points are
# models. A regression over the replicates of one model has the name of this model.
OTHER_MODELS = "other models"
PREDICTORS = {  # {column: label in figures and tables}
    "base_accuracy": "accuracy of the base",
    "greedy_gap": "greedy minus sampled",
    "zero_share": "pool never solved",
    "mixed_share": "pool solved sometimes",
}
# values of these columns for a recorded model without completions of the pool
UNPROBED = {"zero_share": np.nan, "mixed_share": np.nan}


def leads(cells: list[Cell], difficulty_files: list[str]) -> list[dict]:
    """The lead of `hard` over each other policy with the same seeds at the last checkpoint, by
    replicate, with properties of the base model.

    `base_accuracy` and `greedy_gap` (greedy minus sampled accuracy) are measured on the test.
    `zero_share` is the share of the pool with a pass rate of 0, and `mixed_share` the share with a
    pass rate strictly between 0 and 1. Seeds that share a base model have one row with their mean.
    """
    pools = {paths.pair_of(path): _pool(path) for path in difficulty_files}
    rows = []
    for leader, rival in itertools.chain.from_iterable(map(_leading, families(cells))):
        # (S,) lead of each seed at the last checkpoint
        lead = (leader.rates(leader.last_step) - rival.rates(rival.last_step)).mean(axis=1)
        has_own_bases = (own_base(leader.model, leader.seeds[0]), leader.task) in pools
        for index, seed in enumerate(leader.seeds if has_own_bases else [None]):
            base = own_base(leader.model, seed) if has_own_bases else leader.model
            row = leader.keys | {"minus": rival.policy, "seed": seed}
            row["lead"] = lead[index] if has_own_bases else lead.mean()
            rows.append(row | _base(leader, index) | pools.get((base, leader.task), UNPROBED))
    return rows


def _base(cell: Cell, index: int) -> dict:
    accuracy = cell.base_rates()[index].mean()
    greedy = (
        cell.base_rates(decoding="greedy")[index].mean() if "greedy" in cell.decodings() else np.nan
    )
    return {"base_accuracy": accuracy, "greedy_gap": greedy - accuracy}


def _pool(path: str) -> dict:
    rates = read_prompts(path).pass_rate
    return {"zero_share": (rates == 0).mean(), "mixed_share": ((rates > 0) & (rates < 1)).mean()}


def _leading(family: list[Cell]) -> list[tuple[Cell, Cell]]:
    """[(cell of `hard`, cell of another policy)] of the study's first recipe, with the same
    seeds."""
    cells = [cell for cell in family if cell.is_first_recipe]
    return [
        (leader, rival)
        for leader in cells
        for rival in cells
        if leader.policy == LEADING and rival is not leader and rival.seeds == leader.seeds
    ]


@table(f"{CELL_KEYS} minus predictor slope± r_squared± p points")
def lead_regressions(leads: list[dict]) -> list[dict]:
    """A least-squares line of the lead on each of PREDICTORS: slope (lead per unit of the
    predictor), R squared, p.

    `model` is empty if the points are models. Fewer than four points give no row. p is not corrected
    for the four lines per lead, and the predictors are correlated.
    """
    if not leads:
        return []
    frame = pd.DataFrame(leads)
    frame["model"] = frame.model.where(frame.seed.notna(), None)
    rows = []
    for keys, group in frame.groupby([*CELL, "minus"], sort=False, dropna=False):
        for predictor in PREDICTORS:
            points = group[["lead", predictor]].dropna()
            if len(points) < 4:
                continue
            x, y = points[predictor].to_numpy(), points.lead.to_numpy()
            slope, p = statistics.coefficients(x[:, None], y)[0]
            rows.append(
                dict(zip((*CELL, "minus"), keys))
                | {"predictor": predictor}
                | estimates(slope=slope, r_squared=statistics.r_squared(x, y))
                | {"p": p, "points": len(points)}
            )
    return rows


# --- gains


@table("task predictor adjusted_for r_squared slope cells")
def regressions(gains: list[dict], learnable: list[dict], accuracy: list[dict]) -> list[dict]:
    """Regress the gain on the learnable share, on the mean completion length after training
    (another possible explanation of the gain), and on both.

    There are no intervals, because those that assume independent points would be too narrow. Each
    regression is over all tasks ("all") or within a task. If there are fewer than three
    points, or if any value of a point is missing, all three are left out. With `adjusted_for`, the
    other predictor, `slope` is the coefficient in the regression on both and `r_squared` the partial
    R^2. The row `both` has the R^2 of both together. A slope is the gain (a share) per unit of
    learnable share (0 to 1), or per token. A point is a model, task, policy and recipe.
    """
    own_gains, own_accuracy = (
        own_test_samples(pd.DataFrame(rows, columns=[*CELL, "decoding", "step", name]))
        for rows, name in ((gains, "gain"), (accuracy, "tokens_mean"))
    )
    points = own_gains.merge(pd.DataFrame(learnable, columns=[*RUNS, "learnable"]), on=RUNS)
    points = points.merge(own_accuracy, on=[*CELL, "decoding", "step"])
    rows = []
    for task, group in [("all", points), *points.groupby("task", sort=False)]:
        values = group[["learnable", "tokens_mean", "gain"]]
        task_points = np.ascontiguousarray(values, dtype=float)
        if len(task_points) < 3 or np.isnan(task_points).any():
            continue
        shares, tokens, gain = task_points.T
        columns = {"task": task, "cells": len(task_points)}
        joint_coefficients = statistics.coefficients(task_points[:, :2], gain)
        pairs = (("learnable", "tokens", shares, tokens), ("tokens", "learnable", tokens, shares))
        for (name, rival, x, z), adjusted in zip(pairs, joint_coefficients):
            (alone,) = statistics.coefficients(x[:, None], gain)
            r_squared = statistics.r_squared(x, gain).estimate
            partial = statistics.partial_r_squared(gain, x, z)
            for (slope, _), explained, other in (
                (alone, r_squared, None),
                (adjusted, partial, rival),
            ):
                row = {"predictor": name, "adjusted_for": other, "r_squared": explained}
                rows.append(columns | row | {"slope": slope.estimate})
        joint = statistics.joint_r_squared(task_points[:, :2], gain)
        rows.append(
            columns
            | {"predictor": "both", "adjusted_for": None, "r_squared": joint, "slope": np.nan}
        )
    return rows
