"""Gain against the learnable share of groups, and against another possible explanation, the mean
completion length after training.

A point is a model, task, policy and recipe. The colour shows the arm, the fill the task, and the
shape the model if there are several. Lines and R^2, over all points and within each task, come from
the table `regressions`.
"""

import itertools

import numpy as np
import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting

GAINS = [*RUNS, "arm", "step", "gain", "gain_low", "gain_high", "seeds"]
SHARES = [*RUNS, "learnable", "learnable_low", "learnable_high"]
PANELS = [
    ("learnable", 100, "learnable share of groups (%)"),
    ("tokens", 1, "mean completion length after training (tokens)"),
]


def draw(gains, learnable, accuracy, regressions):
    """In the rows drawn, `drawn` is 'point' (x is a share or in tokens), 'line' or 'text'."""
    points = own_test_samples(gains)[GAINS].merge(learnable[SHARES], on=RUNS)
    lengths = own_test_samples(accuracy)[[*RUNS, "step", "tokens_mean"]].rename(
        columns={"tokens_mean": "tokens"}
    )
    points = points.merge(lengths, on=[*RUNS, "step"])
    fits = regressions[regressions.adjusted_for.isna()]
    panels = [panel for panel in PANELS if points[panel[0]].notna().any()]
    arms, tasks, models = (list(dict.fromkeys(points[name])) for name in ("arm", "task", "model"))
    models = models if len(models) > 1 else []
    figure, axes = plotting.panels(len(panels), height=3.2, sharey=True)
    drawn_rows = []
    for axis, (name, scale, text) in zip(axes, panels):
        x = points.assign(
            x=points[name],
            x_low=points.get(f"{name}_low", np.nan),
            x_high=points.get(f"{name}_high", np.nan),
        )
        x = x[x.x.notna()]
        for index in range(len(x)):
            row = x.iloc[[index]]
            shape = models.index(row.model.iloc[0]) if models else None
            look = plotting.mark(row.arm.iloc[0], arms, tasks.index(row.task.iloc[0]), shape)
            bars = {"xerr": plotting.bars(row, "x", scale), "yerr": plotting.bars(row, "gain")}
            axis.errorbar(scale * row.x, 100 * row.gain, elinewidth=0.6, **bars, **look)
        # HE draws one line over all cells. The lines within each task show how the tasks differ.
        lines = []
        within = zip(tasks if len(tasks) > 1 else [], itertools.cycle(["--", ":", "-."]))
        for task, dashes in [("all", "-"), *within]:
            task_points = x if task == "all" else x[x.task == task]
            for fit in fits[(fits.task == task) & (fits.predictor == name)].itertuples():
                ends = np.array([task_points.x.min(), task_points.x.max()])
                heights = task_points.gain.mean() + fit.slope * (ends - task_points.x.mean())
                scope = "all points" if task == "all" else f"within {task}"
                look = {"color": "0.4", "linestyle": dashes, "linewidth": 0.9}
                lines += axis.plot(
                    scale * ends, 100 * heights, label=f"{scope}: {format_fit(fit)}", **look
                )
        if lines:
            axis.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.22))
        axis.axhline(0, color="0.6", linewidth=0.6)
        axis.set_xlabel(text)
        drawn_rows += [
            x.assign(drawn="point", panel=name),
            fits[fits.predictor == name].assign(drawn="line", panel=name),
        ]
    axes[0].set_ylabel("gain in accuracy (points)")
    joint_fits = fits[(fits.predictor == "both") & (fits.task == "all")]
    for fit in joint_fits.itertuples() if len(panels) == 2 else ():
        figure.supxlabel(f"both together, all points: {format_fit(fit)}", fontsize=7)
        drawn_rows.append(joint_fits.assign(drawn="text", panel="both"))
    plotting.marks_legend(figure, axes[0], arms, tasks, models)
    columns = [
        "drawn",
        "panel",
        *RUNS,
        "x",
        "x_low",
        "x_high",
        "gain",
        "gain_low",
        "gain_high",
        "seeds",
    ]
    columns += ["r_squared", "slope", "cells"]
    return figure, pd.concat(drawn_rows, ignore_index=True).reindex(columns=columns)


def format_fit(fit) -> str:
    return f"$R^2$ = {fit.r_squared:.2f}, {int(fit.cells)} points"
