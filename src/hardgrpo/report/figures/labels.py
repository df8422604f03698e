"""Gain against the labels that somebody had to give for it, with 95 % intervals."""

import pandas as pd

from hardgrpo.report import plotting

KEYS = ["model", "task", "policy", "recipe"]


def draw(gains, spent, lines):
    """`lines` names the line of each policy: policies that differ in the budget alone share one. In the rows drawn, `labels` counts the
    answers that a run needed, to choose its prompts and to train on them."""
    gains = gains[(gains.decoding == "sampled") & (gains.eval_task == gains.task)].drop(columns=["eval_task", "decoding"])
    points = gains.merge(spent[[*KEYS, "labels"]], on=KEYS)
    line = points.policy.map(lines)
    points = points.assign(line=line.where(points.arm == points.policy, line + ", " + points.recipe))
    names, models, drawn = list(dict.fromkeys(points.line)), points.model.nunique(), []
    groups = plotting.groups(points, ["model", "task"])
    figure, axes = plotting.panels(len(groups), height=2.8, sharey=True)
    for axis, ((model, task), group) in zip(axes, groups):
        counts = sorted(group.labels.unique())
        least = min((count for count in counts if count > 0), default=1.0)
        # Points at the same count stand side by side: offset by a factor, because the axis is logarithmic. `least / 4` stands for none.
        group = group.assign(order=group.line.map(names.index)).sort_values(["order", "labels"], kind="stable")
        same = group.groupby("labels").labels
        offset = 1.09 ** (same.cumcount() - (same.transform("size") - 1) / 2)
        group["place"] = group.labels.where(group.labels > 0, least / 4) * offset
        for name in dict.fromkeys(group.line):
            rows = group[group.line == name]
            joined = {} if rows.labels.is_unique else {"linestyle": "none"}  # no line: all budgets cost the whole pool's labels
            plotting.series(axis, rows.place, rows, "gain", label=name, **plotting.style(name, names) | joined)
            drawn.append(rows)
        axis.set_xscale("log")
        axis.set_xticks([count or least / 4 for count in counts], [f"{count:,.0f}" if count else "none" for count in counts])
        axis.set_xticks([], minor=True)
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
    plotting.outer_labels(axes, "labels bought (log scale)", "gain in accuracy (points)")
    plotting.legend(figure, axes)
    columns = ["model", "task", "line", "policy", "recipe", "labels", "step", "gain", "gain_low", "gain_high", "problems", "seeds"]
    return figure, pd.concat(drawn, ignore_index=True)[columns]
