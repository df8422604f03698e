"""Gain after equally many rollouts in all arms, and at earlier checkpoints. Each arm is a row; the
arm that needed the fewest labels is at the top."""

import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import arm_rows, plotting


def draw(accuracy, gains, spent):
    """In the drawn rows, `rollouts` is the number of rollouts until the checkpoint, and `labels`
    the number of labels of the run; both are means over seeds. Only the last checkpoint has an
    interval."""
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
    runs = points.drop_duplicates(RUNS)  # a row for each arm and panel
    order = list(runs.groupby("arm", sort=False).labels.mean().sort_values(kind="stable").index)
    points["part"] = points.step / points.end
    points = points.sort_values(["part"], kind="stable")

    models, groups = points.model.nunique(), plotting.groups(points, ["model", "task"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    figure, axes, places = arm_rows.panels(names, order=order)
    drawn_rows = []
    for axis, place, ((model, task), group) in zip(axes, places, groups):
        rows = group.assign(place=group.arm.map(place)).sort_values(
            ["place", "step"], kind="stable"
        )
        axis.axvline(0, color="black", linewidth=0.6)
        arm_rows.early_dots(axis, rows, "gain", "at earlier checkpoints (darker: later)")
        end = rows[rows.part == 1]
        arm_rows.dots(axis, end, "gain", label="when all rollouts are used")
        arm_rows.numbers_beside(axis, end.place, end.labels, "labels needed")
        plotting.title(axis, plotting.panel_title(model, task, task, models), plotting.sizes(group))
        drawn_rows.append(rows)
    figure.supxlabel("gain in accuracy (points)", fontsize=8)
    plotting.legend(figure, axes)
    columns = [*RUNS, "labels", "step", "rollouts", "gain", "gain_low", "gain_high"]
    columns += ["problems", "seeds"]
    return figure, pd.concat(drawn_rows, ignore_index=True)[columns]
