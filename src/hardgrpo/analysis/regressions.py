"""Summary tables that regress gains on learnable share, on completion length, or on both.

The regressions are descriptive. They have neither intervals nor p, because cells share base models,
problems and seeds. Intervals that assume independent points would be too narrow.
"""

from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.summary_tables import table


@table("task predictor adjusted_for r_squared slope cells")
def regressions(gains: list[dict], learnable: list[dict], accuracy: list[dict]) -> list[dict]:
    """Regress the gain on the learnable share, on the mean completion length after training
    (another possible explanation of the gain), and on both.

    Each regression is over all tasks ("all") or within a task. If there are fewer than three
    points, or if any value of a point is missing, all three regressions are left out. In a
    regression on both predictors, `slope` is the coefficient of `predictor`, `adjusted_for` is the
    other predictor, and `r_squared` is the partial R^2 given the other predictor. The row `both`
    has the R^2 of both predictors together. A slope is the gain (a share) per unit of learnable
    share (0 to 1), or per token. `cells` is the number of points. A point is a model, task, policy
    and recipe.
    """
    lengths = {
        (*_key(row), row["step"]): row["tokens_mean"] for row in accuracy if _is_own_test(row)
    }
    points = [
        (row["task"], share, lengths[(*_key(row), row["step"])], row["gain"])
        for row, share in _points(gains, learnable)
    ]
    rows = []
    for task, task_points in _by_task(points):
        if np.isnan(task_points).any():
            continue
        shares, tokens, gain = task_points.T
        columns = {"task": task, "cells": len(task_points)}
        joint_coefficients = statistics.coefficients(task_points[:, :2], gain)
        pairs = (("learnable", "tokens", shares, tokens), ("tokens", "learnable", tokens, shares))
        for (name, rival, x, z), adjusted in zip(pairs, joint_coefficients):
            (alone,) = statistics.coefficients(x[:, None], gain)
            r_squared = (
                statistics.r_squared(x, gain).estimate,
                statistics.partial_r_squared(gain, x, z),
            )
            for (slope, _), explained, adjusted_for in zip(
                (alone, adjusted), r_squared, (None, rival)
            ):
                rows.append(
                    columns
                    | {
                        "predictor": name,
                        "adjusted_for": adjusted_for,
                        "r_squared": explained,
                        "slope": slope.estimate,
                    }
                )
        joint = statistics.joint_r_squared(task_points[:, :2], gain)
        rows.append(
            columns
            | {"predictor": "both", "adjusted_for": None, "r_squared": joint, "slope": np.nan}
        )
    return rows


def _key(row: dict) -> tuple:
    return row["model"], row["task"], row["policy"], row["recipe"]


def _is_own_test(row: dict) -> bool:
    return row["eval_task"] == row["task"] and row["decoding"] == "sampled"


def _points(gain_rows: list[dict], learnable_rows: list[dict]) -> list[tuple[dict, float]]:
    """[(row of `gains` for sampled completions on the task's own test, learnable share)]."""
    shares = {_key(row): row["learnable"] for row in learnable_rows}
    return [
        (row, shares[_key(row)]) for row in gain_rows if _is_own_test(row) and _key(row) in shares
    ]


def _by_task(points: list[tuple]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (task, points): first for all tasks together ("all"), then for each task. A pair
    with fewer than three points is skipped."""
    for task in [None, *dict.fromkeys(point[0] for point in points)]:
        task_points = np.array(
            [point[1:] for point in points if task in (None, point[0])], dtype=float
        )
        if len(task_points) >= 3:
            yield task or "all", task_points
