"""Gain against the number of labels that a run buys, with 95 % intervals. If there are more than
`plotting.MOST_ARMS` arms, each arm is a row; the arm with the fewest labels is at the top."""

import pandas as pd

from hardgrpo.analysis.columns import RUNS, interval
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import arm_rows, plotting


def draw(gains, spent, lines):
    """`lines` maps each policy to its line: policies that differ only in the budget share a line.
    In the drawn rows, `labels` counts the labels for choosing the prompts and for training on
    them."""
    gains = own_test_samples(gains).drop(columns=["eval_task", "decoding"])
    points = gains.merge(spent[[*RUNS, "labels"]], on=RUNS)
    line = points.policy.map(lines)
    points = points.assign(
        line=line.where(points.arm == points.policy, line + ", " + points.recipe)
    )
    columns = ["model", "task", "line", "policy", "recipe", "labels", "step", *interval("gain")]
    columns += ["problems", "seeds"]
    figure = draw_rows(points) if arm_rows.are_many(points) else draw_lines(points)
    return figure, points[columns]


def draw_rows(points: pd.DataFrame):
    """A panel for each model and task, a row for each arm."""
    models, groups = points.model.nunique(), plotting.groups(points, ["model", "task"])
    by_labels = points.groupby("arm", sort=False).labels.mean().sort_values(kind="stable")
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    figure, axes, places = arm_rows.panels(names, order=list(by_labels.index))
    for axis, place, ((model, task), group) in zip(axes, places, groups):
        rows = group.assign(place=group.arm.map(place))
        axis.axvline(0, color="black", linewidth=0.6)
        arm_rows.dots(axis, rows, "gain")
        arm_rows.numbers_beside(axis, rows.place, rows.labels, "labels bought")
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
    figure.supxlabel("gain in accuracy (points)", fontsize=8)
    return figure


def draw_lines(points: pd.DataFrame):
    """A panel for each model and task. A line connects the arms that differ only in the budget."""
    names, models = list(dict.fromkeys(points.line)), points.model.nunique()
    groups = plotting.groups(points, ["model", "task"])
    figure, axes = plotting.panels(len(groups), height=2.8, sharey=True)
    for axis, ((model, task), group) in zip(axes, groups):
        counts = sorted(group.labels.unique())
        smallest = min((count for count in counts if count > 0), default=1.0)
        # Points at the same count stand side by side, offset by a factor, because the axis is
        # logarithmic. Zero is drawn at `smallest / 4`.
        group = group.assign(order=group.line.map(names.index)).sort_values(
            ["order", "labels"], kind="stable"
        )
        same_count = group.groupby("labels").labels
        offset = 1.09 ** (same_count.cumcount() - (same_count.transform("size") - 1) / 2)
        group["place"] = group.labels.where(group.labels > 0, smallest / 4) * offset
        for name in dict.fromkeys(group.line):
            rows = group[group.line == name]
            # A policy that needs the labels of the whole pool buys equally many labels at every
            # budget; no line connects such points.
            no_line = {} if rows.labels.is_unique else {"linestyle": "none"}
            plotting.series(
                axis, rows.place, rows, "gain", label=name, **plotting.style(name, names) | no_line
            )
        axis.set_xscale("log")
        axis.set_xticks(
            [count or smallest / 4 for count in counts],
            [f"{count:,.0f}" if count else "none" for count in counts],
        )
        axis.set_xticks([], minor=True)
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
    plotting.outer_labels(axes, "labels bought (log scale)", "gain in accuracy (points)")
    plotting.legend(figure, axes)
    return figure
