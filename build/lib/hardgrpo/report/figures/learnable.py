"""Gain against the learnable share of groups, and against another possible explanation of the gain:
the mean completion length after training.

A point is a model, task, policy and recipe. Its colour shows the family of the rule, its shape the
model (if there are several), and its fill whether the recipe is the study's first recipe. Lines and
R^2 are within a task and come from the table `regressions`.
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis.columns import RUNS, interval
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting

GAINS = [*RUNS, "arm", "step", *interval("gain"), "seeds"]
SHARES = [*RUNS, *interval("learnable")]
PANELS = [
    ("learnable", 100, "learnable share of groups (%)"),
    ("tokens", 1, "mean completion length\nafter training (tokens)"),
]
LEAST_POINTS = 10  # with fewer points, no line is drawn
# panels with a smaller spread of x are left out, because they would show only rounding
LEAST_SPREAD = {"learnable": 0.01, "tokens": 1.0}
COLUMNS = ["drawn", "panel", *RUNS, *interval("x"), *interval("gain")]
COLUMNS += ["seeds", "r_squared", "slope", "cells"]


def draw(gains, learnable, accuracy, regressions):
    """In the drawn rows, `drawn` is 'point' or 'line'. `x` of a point is a share or a number of
    tokens, as `panel` says."""
    points = own_test_samples(gains)[GAINS].merge(learnable[SHARES], on=RUNS)
    lengths = own_test_samples(accuracy)[[*RUNS, "step", "tokens_mean"]].rename(
        columns={"tokens_mean": "tokens"}
    )
    points = points.merge(lengths, on=[*RUNS, "step"])
    fits = regressions[regressions.adjusted_for.isna() & (regressions.cells >= LEAST_POINTS)]
    values = {
        (task, *panel): group[panel[0]].dropna()
        for task, group in points.groupby("task", sort=False)
        for panel in PANELS
        if group[panel[0]].notna().any()
    }
    panels = [panel for panel in values if np.ptp(values[panel]) >= LEAST_SPREAD[panel[1]]]
    panels = panels or list(values)  # x has no spread in a study of one arm
    points["name"] = points.policy  # in the legend; with many policies, the rule's family
    if points.policy.nunique() > plotting.MOST_ARMS:
        points["name"] = points.policy.map(plotting.family)
    names, models = (list(dict.fromkeys(points[column])) for column in ("name", "model"))
    models = models if len(models) > 1 else []
    figure, axes = plotting.panels(len(panels), height=2.7, columns=min(2, len(panels)))
    drawn_rows = []
    for axis, (task, name, scale, text) in zip(axes, panels):
        ends = {f"x_{end}": points.get(f"{name}_{end}", np.nan) for end in ("low", "high")}
        rows = points.assign(x=points[name], **ends)
        rows = rows[rows.x.notna() & (rows.task == task)]
        for index in range(len(rows)):
            draw_point(axis, rows.iloc[[index]], scale, name, names, models)
        line = fits[(fits.task == task) & (fits.predictor == name)]
        for fit in line.itertuples():
            places = np.array([rows.x.min(), rows.x.max()])
            heights = rows.gain.mean() + fit.slope * (places - rows.x.mean())
            axis.plot(scale * places, 100 * heights, color="0.4", linewidth=0.9, zorder=1)
        axis.axhline(0, color="0.6", linewidth=0.6)
        axis.set_xlabel(text)
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("gain (points)")
        plotting.title(axis, task, *map(format_fit, line.itertuples()))
        drawn_rows += [
            rows.assign(drawn="point", panel=name),
            line.assign(drawn="line", panel=name),
        ]
    plotting.marks_legend(figure, axes[0], names, [], models)
    return figure, pd.concat(drawn_rows, ignore_index=True).reindex(columns=COLUMNS)


def draw_point(axis, row: pd.DataFrame, scale: float, name: str, names, models) -> None:
    """Draw one row with its intervals. The marker is hollow if the recipe is not the study's first
    recipe. The size of the marker shows the budget."""
    arm = row.iloc[0]
    look = plotting.mark(arm["name"], names, 0, models.index(arm.model) if models else None)
    look["markersize"] = plotting.style(arm.policy, [arm.policy])["markersize"]
    hollow = {} if arm.arm == arm.policy else {"markerfacecolor": "white"}
    bars = {
        "xerr": plotting.bars(row, "x", scale, share=name == "learnable"),
        "yerr": plotting.bars(row, "gain"),
    }
    axis.errorbar(scale * row.x, 100 * row.gain, elinewidth=0.6, capsize=0, **bars, **look | hollow)


def format_fit(fit) -> str:
    return f"$R^2$ = {fit.r_squared:.2f}, {int(fit.cells)} points"
