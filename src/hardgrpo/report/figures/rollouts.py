"""Gain at equal rollouts and at earlier checkpoints, a row for each arm, in the order of the labels that it needed."""

import pandas as pd

from hardgrpo.report import plotting

KEYS = ["model", "task", "policy", "recipe"]
EARLY, LAST = "0.8", "#D55E00"


def draw(accuracy, gains, spent):
    """In the rows drawn, `rollouts` counts those sampled up to the checkpoint, `labels` those needed in all; both are means over seeds.
    Only the last checkpoint has an interval."""
    own = lambda frame: frame[(frame.decoding == "sampled") & (frame.eval_task == frame.task)]
    curves, ends = own(accuracy), own(gains)
    bases = curves[curves.step == 0].set_index(KEYS).accuracy
    last = ends.set_index(KEYS)[["step", "gain_low", "gain_high"]].rename(columns={"step": "end"})
    used = spent.set_index(KEYS)[["rollouts", "labels"]]
    points = curves[curves.step > 0].join(bases.rename("base"), on=KEYS).join(last, on=KEYS).join(used, on=KEYS)
    points["gain"] = points.accuracy - points.base
    points["rollouts"] *= points.step / points.end  # every sampling step of an arm samples equally many
    points.loc[points.step < points.end, ["gain_low", "gain_high"]] = None
    each = points.drop_duplicates(KEYS)  # one row per arm and panel
    order = list(each.groupby("arm", sort=False).labels.mean().sort_values(kind="stable").index)
    points["place"] = [-order.index(name) for name in points.arm]
    points = points.sort_values(["place", "step"], ascending=[False, True], kind="stable")

    models, drawn = points.model.nunique(), []
    groups = plotting.groups(points, ["model", "task"])
    figure, axes = plotting.panels(len(groups), height=0.9 + 0.17 * len(order), columns=min(2, len(groups)), sharey=True)
    for axis, ((model, task), group) in zip(axes, groups):
        early, end = group[group.step < group.end], group[group.step == group.end]
        axis.axvline(0, color="black", linewidth=0.6)
        for place, line in group.groupby("place"):
            axis.plot(100 * line.gain, [place] * len(line), color=EARLY, linewidth=0.8, zorder=1)
        shades = [f"{0.85 - 0.6 * part:.2f}" for part in early.step / early.end]
        axis.scatter(100 * early.gain, early.place, s=9, c=shades, zorder=2, label="at earlier checkpoints (darker: later)")
        look = {"fmt": "o", "color": LAST, "markersize": 4, "elinewidth": 0.9, "zorder": 3}
        axis.errorbar(100 * end.gain, end.place, xerr=plotting.bars(end, "gain"), label="when all rollouts are used", **look)
        axis.set_yticks([-number for number in range(len(order))], order)
        axis.set_ylim(0.6 - len(order), 0.6)
        beside = axis.secondary_yaxis("right")
        beside.set_yticks(list(end.place), [f"{count:,.0f}" for count in end.labels])
        beside.tick_params(length=0)
        if axis.get_subplotspec().is_last_col():
            beside.set_ylabel("labels that it needed")
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
        drawn.append(group)
    plotting.outer_labels(axes, "gain (points)", "")
    plotting.legend(figure, axes)
    columns = [*KEYS, "labels", "step", "rollouts", "gain", "gain_low", "gain_high", "problems", "seeds"]
    return figure, pd.concat(drawn, ignore_index=True)[columns]
