"""Summary tables of what explains the gains: learnable share, completion length, or both."""

from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import as_columns


def fit(gain_rows: list[dict], learnable_rows: list[dict]) -> list[dict]:
    """R^2 of learnable share against gain over the policies of all tasks, and within each task."""
    rows = []
    for task, kept in _by_task([(row["task"], share, row["gain"]) for row, share in _points(gain_rows, learnable_rows)]):
        x, y = kept.T
        slope = float(np.polyfit(x, y, 1)[0]) if np.ptp(x) else np.nan
        rows.append({"task": task} | as_columns("r_squared", statistics.r_squared(x, y)) | {"slope": slope, "cells": len(kept)})
    return rows


def regressions(gain_rows: list[dict], learnable_rows: list[dict], accuracy_rows: list[dict]) -> list[dict]:
    """Gain against learnable share, against mean completion length after training (the rival explanation), and against both.

    Over the policies of all tasks, and within each task. `adjusted_for` names the other predictor of a regression on both: `slope` is
    then the coefficient in that regression, and `r_squared` the share explained beyond the other predictor (partial R^2). The row
    `both` has the R^2 of the two together. Slopes are per 100 points of learnable share, and per token. `cells` is the number of
    points, one a model, task and policy. Points are neither runs nor independent: policies share a base model, problems and seeds.
    """
    lengths = {(*_key(row), row["step"]): row["tokens_mean"] for row in accuracy_rows if _on_its_own_test(row)}
    points = [
        (row["task"], share, lengths[(*_key(row), row["step"])], row["gain"]) for row, share in _points(gain_rows, learnable_rows)
    ]
    rows = []
    for task, kept in _by_task(points):
        if np.isnan(kept).any():
            continue
        learned, tokens, gain = kept.T
        facts = {"task": task, "cells": len(kept)}
        both = statistics.coefficients(kept[:, :2], gain)
        pairs = (("learnable", "tokens", learned, tokens), ("tokens", "learnable", tokens, learned))
        for (name, other, x, z), adjusted in zip(pairs, both):
            (alone,) = statistics.coefficients(x[:, None], gain)
            r_squared = statistics.r_squared(x, gain), statistics.partial_r_squared(gain, x, z)
            for (slope, p), explained, adjusted_for in zip((alone, adjusted), r_squared, (None, other)):
                named = facts | {"predictor": name, "adjusted_for": adjusted_for, "p": p}
                rows.append(named | as_columns("r_squared", explained) | as_columns("slope", slope))
        joint = as_columns("r_squared", statistics.joint_r_squared(kept[:, :2], gain))
        rows.append(
            facts | {"predictor": "both", "adjusted_for": None, "p": np.nan} | joint | as_columns("slope", statistics.UNKNOWN)
        )
    return rows


def _key(row: dict) -> tuple:
    return row["model"], row["task"], row["policy"]


def _on_its_own_test(row: dict) -> bool:
    return row["eval_task"] == row["task"] and row["decoding"] == "sampled"


def _points(gain_rows: list[dict], learnable_rows: list[dict]) -> list[tuple[dict, float]]:
    """[(row of gains on the task's own test, learnable share)]."""
    shares = {_key(row): row["learnable"] for row in learnable_rows}
    return [(row, shares[_key(row)]) for row in gain_rows if _on_its_own_test(row) and _key(row) in shares]


def _by_task(points: list[tuple]) -> Iterator[tuple[str, np.ndarray]]:
    """(task, its points) with at least three points, all tasks together ("all") first; a point is (task, *numbers)."""
    for task in [None, *dict.fromkeys(point[0] for point in points)]:
        kept = np.array([point[1:] for point in points if task in (None, point[0])], dtype=float)
        if len(kept) >= 3:
            yield task or "all", kept
