"""The lead of `hard` over each other policy against properties of the base model. A point is a base
model. With more than `plotting.MOST_ARMS` policies and LEAST_POINTS points or more, a row for each
policy shows only the slope of the lead against the property."""

import textwrap

import numpy as np
import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.analysis.hard_leads import LEADING, OTHER_MODELS, PREDICTORS
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report import arm_rows, plotting

LEAST_POINTS = 10  # with fewer points, no line and no slope is drawn
COLUMNS = ["model", "task", "predictor", "policy", "recipe", "minus", *interval("slope"), "points"]


def draw(leads, lead_regressions):
    frame = own_test_rows(leads)
    if frame.minus_arm.nunique() > plotting.MOST_ARMS:
        slopes = own_test_rows(lead_regressions)
        slopes = slopes[slopes.points >= LEAST_POINTS]
        if len(slopes):
            return draw_slopes(slopes)
    return draw_points(frame), frame


def draw_points(frame: pd.DataFrame):
    """A row of panels for each model and task, with a panel for each predictor that differs between
    base models. Models whose replicates share a base model are the points of one row of panels."""
    rivals = list(dict.fromkeys(frame.minus))
    frame = frame.assign(model=frame.model.where(frame.seed.notna(), OTHER_MODELS))
    rows = []  # (model, task, points, predictors)
    for (model, task), group in plotting.groups(frame, ["model", "task"]):
        if predictors := [name for name in PREDICTORS if group[name].nunique() > 1]:
            rows.append((model, task, group, predictors))
    columns = max([len(predictors) for *_, predictors in rows], default=0)
    figure, grid = plotting.panels(len(rows) * columns, height=2.0, columns=columns, sharey=False)
    axes, panels = [], []
    for number, (model, task, group, predictors) in enumerate(rows):
        row_axes = grid[number * columns : (number + 1) * columns]
        axes += row_axes[: len(predictors)]
        for axis in row_axes[len(predictors) :]:
            axis.remove()
        title = plotting.panel_title(model, task, task, frame.model.nunique())
        panels += [(title, group, predictor) for predictor in predictors]
    for axis, (title, group, predictor) in zip(axes, panels):
        for rival in rivals:
            points = group[group.minus == rival].dropna(subset=[predictor])
            look = plotting.style(rival, rivals)
            label = f"{LEADING} − {rival}"
            x = 100 * points[predictor]
            axis.plot(x, 100 * points.lead, label=label, **look | {"linestyle": "none"})
            if len(points) >= LEAST_POINTS and np.ptp(points[predictor]) > 0:
                slope, intercept = np.polyfit(points[predictor], points.lead, 1)
                ends = np.array([points[predictor].min(), points[predictor].max()])
                line = {key: look[key] for key in ("color", "linestyle")} | {"linewidth": 0.9}
                axis.plot(100 * ends, 100 * (intercept + slope * ends), **line)
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(axis, title)
        unit = "points" if predictor == "greedy_gap" else "%"
        axis.set_xlabel(textwrap.fill(f"{PREDICTORS[predictor]} ({unit})", 20))
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("lead (points)")
    plotting.legend(figure, axes)
    return figure


def draw_slopes(slopes: pd.DataFrame):
    """A panel for each model, task and predictor, a row for each arm with which `hard` is
    compared."""
    slopes = slopes.fillna({"model": OTHER_MODELS})  # a regression over models
    models = slopes.model.nunique()
    groups = plotting.groups(slopes, ["model", "task", "predictor"])
    names = [list(dict.fromkeys(group.minus_arm)) for _, group in groups]
    order = arm_rows.order(slopes, "minus_arm")
    columns = min(4, slopes.predictor.nunique())
    figure, axes, places = arm_rows.panels(names, columns, row=0.125, order=order)
    for axis, place, ((model, task, predictor), group) in zip(axes, places, groups):
        axis.axvline(0, color="black", linewidth=0.6)
        rows = group.assign(place=group.minus_arm.map(place), policy=group.minus)
        arm_rows.dots(axis, rows, "slope", scale=1)
        name = plotting.panel_title(model, task, task, models)
        plotting.title(axis, name, PREDICTORS[predictor], f"{int(group.points.max())} base models")
    figure.supxlabel(
        f"slope of the lead of {LEADING} (points per point of the measure)", fontsize=8
    )
    return figure, slopes[COLUMNS]
