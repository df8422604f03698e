"""Summary tables that regress gains on learnable share, on completion length, or on both.

The regressions are descriptive. They have neither intervals nor p, because cells share base models,
problems and seeds. Intervals that assume independent points would be too narrow.
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.columns import CELL, RUNS
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.analysis.summary_tables import table


@table("task predictor adjusted_for r_squared slope cells")
def regressions(gains: list[dict], learnable: list[dict], accuracy: list[dict]) -> list[dict]:
    """Regress the gain on the learnable share, on the mean completion length after training
    (another possible explanation of the gain), and on both.

    Each regression is over all tasks ("all") or within a task. If there are fewer than three
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
