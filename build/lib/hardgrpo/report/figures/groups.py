"""Groups of rollouts by outcome (all right, learnable, all wrong): the share of each outcome over
training, a line for each arm. With many arms, each arm instead has a row of stacked shares for the
first updates and one for the last updates."""

import pandas as pd

from hardgrpo.report import arm_rows, plotting, training_curves

SERIES = [
    ("all_right_share", 100, "all right (%)"),
    ("learnable_share", 100, "learnable (%)"),
    ("all_wrong_share", 100, "all wrong (%)"),
]
SHARES = [
    ("all_right_share", "all right", {"color": "0.85", "edgecolor": "0.6", "hatch": "...."}),
    ("learnable_share", "learnable", {"color": "0.25", "edgecolor": "0.25"}),
    ("all_wrong_share", "all wrong", {"color": "white", "edgecolor": "0.6", "hatch": "////"}),
]


def draw(curves):
    if arm_rows.are_many(curves):
        return draw_shares(training_curves.first_and_last(curves))
    figure, rows, panels = training_curves.draw(
        curves, [entry for entry in SERIES if curves[entry[0]].notna().any()]
    )
    for axis in [axis for axes in panels.values() for axis in axes]:
        axis.set_ylim(-4, 104)
    return figure, rows


def draw_shares(ends: pd.DataFrame):
    """A panel for each model, task and stretch (first and last updates), a row for each arm."""
    models, groups = ends.model.nunique(), plotting.groups(ends, ["model", "task", "stretch"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    shares = [entry for entry in SHARES if ends[entry[0]].notna().any()]
    figure, axes, places = arm_rows.panels(names, columns=2, order=arm_rows.order(ends))
    for axis, place, ((model, task, stretch), group) in zip(axes, places, groups):
        left = pd.Series(0.0, group.index)
        for name, label, look in shares:
            width = 100 * group[name].fillna(0)
            axis.barh(group.arm.map(place), width, 0.75, left, label=label, linewidth=0.4, **look)
            left += width
        axis.set_xlim(0, 100)
        name = plotting.panel_title(model, task, task, models)
        plotting.title(axis, f"{name}, {stretch} updates", plotting.seeds(group))
    figure.supxlabel("groups of rollouts (%)", fontsize=8)
    plotting.legend(figure, axes)
    columns = training_curves.drawn_columns([name for name, *_ in shares])
    return figure, ends[columns]
