"""Accuracy by checkpoint and arm, with 95 % intervals: a line for each policy, or a row for each
arm if there are more than `plotting.MOST_ARMS` arms."""

import pandas as pd

from hardgrpo.analysis.columns import CELL, interval
from hardgrpo.report import arm_rows, plotting

COLUMNS = [*CELL, "step", *interval("accuracy"), "problems", "samples", "seeds"]


def draw(accuracy):
    frame = accuracy[accuracy.decoding == "sampled"]
    figure = draw_rows(frame) if arm_rows.are_many(frame) else draw_lines(frame)
    return figure, frame[COLUMNS]


def draw_lines(frame: pd.DataFrame):
    """A panel for each model, task, test and recipe, a line for each policy."""
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task", "recipe"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test, _), group) in zip(axes, groups):
        panel_policies = list(dict.fromkeys(group.policy))
        span = group.step.max() - group.step.min()
        for index, policy in enumerate(panel_policies):
            line = group[group.policy == policy].sort_values("step")
            # Points of one update are drawn side by side, so that their error bars do not overlap.
            offset = plotting.spread(index, len(panel_policies), 0.05 * span)
            steps = line.step + offset * (line.step > 0)
            look = plotting.style(policy, policies)
            plotting.series(axis, steps, line, "accuracy", 100, 0.7, True, label=policy, **look)
        plotting.title(
            axis, plotting.panel_title(model, task, test, models, group), plotting.sizes(group)
        )
        if group.step.nunique() < 7:
            axis.set_xticks(sorted(group.step.unique()))
        axis.set_xlim(group.step.min() - 0.04 * span, group.step.max() + 0.06 * span)
    plotting.outer_labels(axes, "updates", "accuracy (%)")
    plotting.legend(figure, axes)
    return figure


def draw_rows(frame: pd.DataFrame):
    """A panel for each model, task and test, a row for each arm."""
    models, groups = frame.model.nunique(), plotting.groups(frame, ["model", "task", "eval_task"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    figure, axes, places = arm_rows.panels(names, order=arm_rows.order(frame))
    for axis, place, ((model, task, test), group) in zip(axes, places, groups):
        ends = group.groupby("arm").step.transform("max")
        rows = group.assign(place=group.arm.map(place), part=group.step / ends)
        base = rows[rows.step == 0].iloc[0]
        arm_rows.base_line(axis, base.accuracy, base.accuracy_low, base.accuracy_high)
        trained = rows[rows.step > 0]
        arm_rows.early_dots(axis, trained, "accuracy", "at earlier checkpoints (darker: later)")
        arm_rows.dots(axis, trained[trained.part == 1], "accuracy", share=True, label="at the end")
        plotting.title(axis, plotting.panel_title(model, task, test, models), plotting.sizes(group))
    figure.supxlabel("accuracy (%)", fontsize=8)
    plotting.legend(figure, axes)
    return figure
