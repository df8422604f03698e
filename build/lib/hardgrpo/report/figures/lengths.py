"""Mean completion length, and the share of completions truncated at the limit, over training, by
arm. With many arms, each arm is a row with two points instead of a line: one point for the first
and one for the last updates."""

import pandas as pd

from hardgrpo.report import arm_rows, plotting, training_curves

SERIES = [
    ("tokens_mean", 1, "completion length\n(tokens)"),
    ("truncated_share", 100, "truncated (%)"),
]


def draw(curves):
    if arm_rows.are_many(curves):
        return draw_rows(training_curves.first_and_last(curves))
    figure, rows, panels = training_curves.draw(curves, SERIES)
    for axis in panels["truncated_share"]:
        top = max(1.0, axis.get_ylim()[1])
        axis.set_ylim(-0.04 * top, top)
    return figure, rows


def draw_rows(ends: pd.DataFrame):
    """A panel for each model, task and entry of SERIES, a row for each arm."""
    models, groups = ends.model.nunique(), plotting.groups(ends, ["model", "task"])
    panels = [(key, group, *entry) for key, group in groups for entry in SERIES]
    names = [list(dict.fromkeys(group.arm)) for _, group, *_ in panels]
    figure, axes, places = arm_rows.panels(names, columns=2, order=arm_rows.order(ends))
    for axis, place, ((model, task), group, name, scale, text) in zip(axes, places, panels):
        part = (group.stretch == "last").astype(float)
        rows = group.assign(place=group.arm.map(place), part=part)
        arm_rows.early_dots(axis, rows, name, "first updates", scale)
        is_share = name.endswith("_share")
        arm_rows.dots(axis, rows[part == 1], name, scale, is_share, label="last updates")
        # an x axis shorter than one unit would show only rounding
        low, high = axis.get_xlim()
        if is_share:
            axis.set_xlim(-0.04 * max(1.0, high), max(1.0, high))
        elif high - low < 1:
            axis.set_xlim(low - 1, high + 1)
        words = text.replace("\n", " ")
        plotting.title(axis, plotting.panel_title(model, task, task, models), words)
    plotting.legend(figure, axes)
    return figure, ends[training_curves.drawn_columns([name for name, *_ in SERIES])]
