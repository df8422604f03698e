"""Summary tables of what explains the gains: learnable share, completion length, or both."""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import as_columns


def fit(gain_rows: list[dict], learnable_rows: list[dict]) -> list[dict]:
    """R^2 of learnable share against gain over the policies of all tasks, and within each task."""
    shares = {(r["model"], r["task"], r["policy"]): r["learnable"] for r in learnable_rows}
    cells = [
        (r["task"], shares[r["model"], r["task"], r["policy"]], r["gain"])
        for r in gain_rows
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled" and (r["model"], r["task"], r["policy"]) in shares
    ]
    rows = []
    for task in [None, *dict.fromkeys(cell[0] for cell in cells)]:
        kept = [cell for cell in cells if task in (None, cell[0])]
        if len(kept) >= 3:
            x, y = np.array([c[1] for c in kept]), np.array([c[2] for c in kept])
            slope = float(np.polyfit(x, y, 1)[0]) if np.ptp(x) else np.nan
            rows.append(
                {"task": task or "all"} | as_columns("r_squared", statistics.r_squared(x, y)) | {"slope": slope, "cells": len(kept)}
            )
    return rows


def regressions(gain_rows: list[dict], learnable_rows: list[dict], accuracy_rows: list[dict]) -> list[dict]:
    """Gain against learnable share, against mean completion length after training (the rival explanation), and against both.

    Over the policies of all tasks, and within each task. `adjusted_for` names the other predictor of a regression on both: the slope
    is then its coefficient there, and r_squared what it explains of the rest (partial R^2). The row `both` has the R^2 of the two
    together. Slopes are per 100 points of learnable share, and per token. `cells` is the number of points, one a model, task and
    policy: not runs, and not independent, since policies share a base model, test problems and seeds.
    """
    shares = {(r["model"], r["task"], r["policy"]): r["learnable"] for r in learnable_rows}
    lengths = {
        (r["model"], r["task"], r["policy"], r["step"]): r["tokens_mean"]
        for r in accuracy_rows
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled"
    }
    points = []
    for r in gain_rows:
        key = (r["model"], r["task"], r["policy"])
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled" and key in shares:
            points.append((r["task"], shares[key], lengths[(*key, r["step"])], r["gain"]))
    rows = []
    for task in [None, *dict.fromkeys(point[0] for point in points)]:
        kept = np.array([point[1:] for point in points if task in (None, point[0])], dtype=float)
        if len(kept) < 3 or np.isnan(kept).any():
            continue
        learned, tokens, gain = kept.T
        facts = {"task": task or "all", "cells": len(kept)}
        both = statistics.coefficients(kept[:, :2], gain)
        for i, (name, other, x, z) in enumerate(
            (("learnable", "tokens", learned, tokens), ("tokens", "learnable", tokens, learned))
        ):
            ((slope, p),) = statistics.coefficients(x[:, None], gain)
            alone = {"predictor": name, "adjusted_for": None} | as_columns("r_squared", statistics.r_squared(x, gain))
            rows.append(facts | alone | as_columns("slope", slope) | {"p": p})
            slope, p = both[i]
            adjusted = {"predictor": name, "adjusted_for": other} | as_columns(
                "r_squared", statistics.partial_r_squared(gain, x, z)
            )
            rows.append(facts | adjusted | as_columns("slope", slope) | {"p": p})
        unknown = statistics.Estimate(np.nan, np.nan, np.nan)
        joint = {"predictor": "both", "adjusted_for": None} | as_columns("r_squared", statistics.joint_r_squared(kept[:, :2], gain))
        rows.append(facts | joint | as_columns("slope", unknown) | {"p": np.nan})
    return rows
