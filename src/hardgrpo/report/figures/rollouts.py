"""Gain at equal rollouts and at earlier checkpoints: a row for each arm, in the order of the labels
that the arms needed."""

import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting

EARLY_COLOR, LAST_COLOR = "0.8", "#D55E00"


def draw(accuracy, gains, spent):
    """In the rows drawn, `rollouts` counts the rollouts until the checkpoint and `labels` the
    labels of the whole run, both means over seeds. Only the last checkpoint has an interval."""
    curves, ends = own_test_samples(accuracy), own_test_samples(gains)
    bases = curves[curves.step == 0].set_index(RUNS).accuracy
    final = ends.set_index(RUNS)[["step", "gain_low", "gain_high"]].rename(columns={"step": "end"})
    costs = spent.set_index(RUNS)[["rollouts", "labels"]]
    points = (
        curves[curves.step > 0]
        .join(bases.rename("base"), on=RUNS)
        .join(final, on=RUNS)
        .join(costs, on=RUNS)
    )
    points["gain"] = points.accuracy - points.base
    # all sampling steps of an arm sample equally many rollouts
    points["rollouts"] *= points.step / points.end
    points.loc[points.step < points.end, ["gain_low", "gain_high"]] = None
    arm_rows = points.drop_duplicates(RUNS)  # a row for each arm and panel
    order = list(arm_rows.groupby("arm", sort=False).labels.mean().sort_values(kind="stable").index)
    points["place"] = [-order.index(name) for name in points.arm]
    points = points.sort_values(["place", "step"], ascending=[False, True], kind="stable")

    models, drawn_rows = points.model.nunique(), []
    groups = plotting.groups(points, ["model", "task"])
    figure, axes = plotting.panels(
        len(groups), height=0.9 + 0.17 * len(order), columns=min(2, len(groups)), sharey=True
    )
    for axis, ((model, task), group) in zip(axes, groups):
        early, end = group[group.step < group.end], group[group.step == group.end]
        axis.axvline(0, color="black", linewidth=0.6)
        for place, line in group.groupby("place"):
            axis.plot(
                100 * line.gain, [place] * len(line), color=EARLY_COLOR, linewidth=0.8, zorder=1
            )
        shades = [f"{0.85 - 0.6 * part:.2f}" for part in early.step / early.end]
        axis.scatter(
            100 * early.gain,
            early.place,
            s=9,
            c=shades,
            zorder=2,
            label="at earlier checkpoints (darker: later)",
        )
        look = {"fmt": "o", "color": LAST_COLOR, "markersize": 4, "elinewidth": 0.9, "zorder": 3}
        axis.errorbar(
            100 * end.gain,
            end.place,
            xerr=plotting.bars(end, "gain"),
            label="when all rollouts are used",
            **look,
        )
        axis.set_yticks([-number for number in range(len(order))], order)
        axis.set_ylim(0.6 - len(order), 0.6)
        right_axis = axis.secondary_yaxis("right")
        right_axis.set_yticks(list(end.place), [f"{count:,.0f}" for count in end.labels])
        right_axis.tick_params(length=0)
        if axis.get_subplotspec().is_last_col():
            right_axis.set_ylabel("labels that it needed")
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
        drawn_rows.append(group)
    plotting.outer_labels(axes, "gain (points)", "")
    plotting.legend(figure, axes)
    columns = [
        *RUNS,
        "labels",
        "step",
        "rollouts",
        "gain",
        "gain_low",
        "gain_high",
        "problems",
        "seeds",
    ]
    return figure, pd.concat(drawn_rows, ignore_index=True)[columns]
