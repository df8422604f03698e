"""Accuracy before and after training, and gain, by the tier of the problems, with 95 % intervals.

With more than four combinations of model, task, test and recipe, or with many arms, the figure
shows only gains. The figure's CSV always has both accuracy and gain.
"""

import pandas as pd

from hardgrpo.analysis.columns import CELL, interval
from hardgrpo.report import arm_rows, plotting
from hardgrpo.report.table_columns import with_several_tiers

COLUMNS = [*CELL, "tier", "step", "base_accuracy", *interval("accuracy"), *interval("gain")]
COLUMNS += ["problems", "seeds"]


def draw(tiers):
    """Tests whose problems have one tier are left out, unless there are no other tests."""
    several_tiers = with_several_tiers(tiers)
    tiers = tiers if several_tiers.empty else several_tiers
    figure = draw_rows(tiers) if arm_rows.are_many(tiers) else draw_points(tiers)
    return figure, tiers[COLUMNS]


def draw_points(tiers: pd.DataFrame):
    """Panels for each model, task, test and recipe; tiers along the x axis."""
    models, policies = tiers.model.nunique(), list(dict.fromkeys(tiers.policy))
    groups = plotting.groups(tiers, ["model", "task", "eval_task", "recipe"])
    has_accuracy = len(groups) <= 4
    columns = len(groups) if has_accuracy else 3 if len(groups) <= 9 else 4
    figure, axes = plotting.panels(
        (2 if has_accuracy else 1) * len(groups),
        columns=columns,
        sharey="row" if has_accuracy else False,
    )
    for index, ((model, task, test, _), group) in enumerate(groups):
        names = list(dict.fromkeys(group.tier))
        panel_policies = list(dict.fromkeys(group.policy))
        for column, axis in zip(
            ["accuracy", "gain"] if has_accuracy else ["gain"], axes[index :: len(groups)]
        ):
            for number, policy in enumerate(panel_policies):
                rows = group[group.policy == policy]
                places = [
                    names.index(tier) + plotting.spread(number, len(panel_policies), 0.7)
                    for tier in rows.tier
                ]
                plotting.series(
                    axis,
                    places,
                    rows,
                    column,
                    label=policy,
                    share=column == "accuracy",
                    **plotting.style(policy, policies) | {"linestyle": "none"},
                )
            base = group.drop_duplicates("tier")
            if column == "accuracy":
                look = {
                    "color": "0.88",
                    "edgecolor": "0.6",
                    "linewidth": 0.5,
                    "label": "base model",
                }
                axis.bar(range(len(names)), 100 * base.base_accuracy, 0.9, **look)
            else:
                axis.axhline(0, color="black", linewidth=0.6)
            axis.set_xticks(range(len(names)), names)
            axis.set_xlim(-0.6, len(names) - 0.4)
            axis.grid(axis="x", visible=False)
        problems = " + ".join(map(str, base.problems))
        plotting.title(
            axes[index],
            plotting.panel_title(model, task, test, models, group),
            f"{problems} problems, {plotting.seeds(group)}",
        )
    plotting.outer_labels(axes, "tier of the problem", "gain (points)")
    if has_accuracy:
        axes[0].set_ylabel("accuracy (%)")
    plotting.legend(figure, axes)
    return figure


def draw_rows(tiers: pd.DataFrame):
    """A panel for each model, task, test and tier, a row for each arm."""
    models = tiers.model.nunique()
    groups = plotting.groups(tiers, ["model", "task", "eval_task", "tier"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    columns = min(4, tiers.tier.nunique())
    figure, axes, places = arm_rows.panels(names, columns, row=0.125, order=arm_rows.order(tiers))
    for axis, place, ((model, task, test, tier), group) in zip(axes, places, groups):
        axis.axvline(0, color="black", linewidth=0.6)
        arm_rows.dots(axis, group.assign(place=group.arm.map(place)), "gain")
        title = plotting.panel_title(model, task, test, models)
        base = f"tier {tier}: base {100 * group.base_accuracy.iloc[0]:.0f} %"
        plotting.title(axis, title, base, f"{int(group.problems.max())} problems")
    figure.supxlabel("gain in accuracy (points)", fontsize=8)
    return figure
