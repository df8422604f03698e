"""The lead of `hard` over each other policy against properties of the base model. A point is a
replicate with its own base model, or a model."""

import numpy as np

from hardgrpo.analysis.hard_leads import LEADING, PREDICTORS
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report import plotting


def draw(leads):
    frame = own_test_rows(leads)
    tasks, rivals = list(dict.fromkeys(frame.task)), list(dict.fromkeys(frame.minus))
    predictors = [name for name in PREDICTORS if varies(frame, name)]
    figure, axes = plotting.panels(
        len(tasks) * len(predictors), height=2.0, columns=max(1, len(predictors)), sharey="row"
    )
    for index, axis in enumerate(axes):
        task, predictor = tasks[index // len(predictors)], predictors[index % len(predictors)]
        group = frame[frame.task == task]
        for rival in rivals:
            points = group[group.minus == rival].dropna(subset=[predictor])
            look = plotting.style(rival, rivals)
            axis.plot(
                100 * points[predictor],
                100 * points.lead,
                label=f"{LEADING} − {rival}",
                **look | {"linestyle": "none"},
            )
            if len(points) > 3 and np.ptp(points[predictor]) > 0:
                slope, start = np.polyfit(points[predictor], points.lead, 1)
                ends = np.array([points[predictor].min(), points[predictor].max()])
                axis.plot(
                    100 * ends,
                    100 * (start + slope * ends),
                    color=look["color"],
                    linestyle=look["linestyle"],
                    linewidth=0.9,
                )
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(axis, task)
        axis.set_xlabel(
            f"{PREDICTORS[predictor]} ({'points' if predictor == 'greedy_gap' else '%'})"
        )
        if index % len(predictors) == 0:
            axis.set_ylabel("lead, points")
    plotting.legend(figure, axes)
    return figure, frame


def varies(frame, predictor: str) -> bool:
    """Whether a predictor differs between the replicates of a task."""
    return bool((frame.groupby("task")[predictor].nunique() > 1).any())
