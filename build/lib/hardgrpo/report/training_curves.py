"""Figures of training curves."""

import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.report import plotting


def first_and_last(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of each arm's first and last stretch of updates, with the new column `stretch`:
    "first" or "last"."""
    runs = curves.groupby(["model", "task", "policy", "recipe"]).step
    is_first, is_last = (
        curves.step == ends for ends in (runs.transform("min"), runs.transform("max"))
    )
    return pd.concat(
        [curves[is_first].assign(stretch="first"), curves[is_last].assign(stretch="last")]
    ).sort_index(kind="stable")


def draw(curves, series: list[tuple[str, float, str]]):
    """(figure, drawn rows, {column of `curves`: axes of its panels}). An entry of `series` is
    (column of `curves`, scale, label of the axis). The figure has a stack of panels for each model,
    task and recipe, with a panel for each entry."""
    columns_drawn = drawn_columns([name for name, *_ in series])
    models, policies = curves.model.nunique(), list(dict.fromkeys(curves.policy))
    groups = plotting.groups(curves, ["model", "task", "recipe"])
    columns = (
        len(groups) if len(groups) <= 3 else 2 if len(groups) == 4 else 3 if len(groups) <= 6 else 4
    )
    rows = -(-len(groups) // columns)
    figure, axes = plotting.panels(
        len(series) * columns * rows, height=1.9 if len(series) < 3 else 1.6, columns=columns
    )
    panels = {name: [] for name, *_ in series}
    for index, ((model, task, _), group) in enumerate(groups):
        first_axis = len(series) * columns * (index // columns) + index % columns
        stack = [axes[first_axis + row * columns] for row in range(len(series))]
        for axis, (name, scale, text) in zip(stack, series):
            for number, policy in enumerate(panel_policies := list(dict.fromkeys(group.policy))):
                line = group[group.policy == policy].sort_values("step")
                step = group.step.max() / max(line.step.nunique(), 1)
                places = line.step + plotting.spread(number, len(panel_policies), 0.6 * step)
                look = plotting.style(policy, policies) | {"markersize": 3, "capsize": 0}
                look |= {"label": policy, "share": name.endswith("_share")}
                plotting.series(axis, places, line, name, scale, 0.5, **look)
            axis.locator_params(axis="x", integer=True)  # updates are whole numbers
            if index % columns == 0:
                axis.set_ylabel(text)
            panels[name].append(axis)
        stack[-1].set_xlabel("GRPO updates")
        plotting.title(
            stack[0], plotting.panel_title(model, task, task, models, group), plotting.seeds(group)
        )
    axes_drawn = [axis for column_axes in panels.values() for axis in column_axes]
    for axis in axes:
        if axis not in axes_drawn:
            axis.remove()
    plotting.legend(figure, axes_drawn)
    return figure, curves[columns_drawn], panels


def drawn_columns(names: list[str]) -> list[str]:
    """The columns of the CSV file of a figure that draws the estimates `names`."""
    estimates = [column for name in names for column in interval(name)]
    return ["model", "task", "policy", "recipe", "first", "step", *estimates, "seeds"]
