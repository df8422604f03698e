"""The lead of `hard` over each other policy against what the base model is like; a point is a replicate with its own base, or a model."""

import numpy as np

from hardgrpo.analysis.leads import LEADING, PREDICTORS
from hardgrpo.report import plotting


def draw(leads):
    frame = leads[leads.task == leads.eval_task]
    tasks, others = list(dict.fromkeys(frame.task)), list(dict.fromkeys(frame.minus))
    figure, axes = plotting.panels(len(tasks) * len(PREDICTORS), height=2.0, columns=len(PREDICTORS), sharey="row")
    for index, axis in enumerate(axes):
        task, predictor = tasks[index // len(PREDICTORS)], list(PREDICTORS)[index % len(PREDICTORS)]
        group = frame[frame.task == task]
        for other in others:
            one = group[group.minus == other].dropna(subset=[predictor])
            look = plotting.style(other, others)
            axis.plot(100 * one[predictor], 100 * one.lead, label=f"{LEADING} − {other}", **look | {"linestyle": "none"})
            if len(one) > 3 and np.ptp(one[predictor]) > 0:
                slope, start = np.polyfit(one[predictor], one.lead, 1)
                ends = np.array([one[predictor].min(), one[predictor].max()])
                axis.plot(100 * ends, 100 * (start + slope * ends), color=look["color"], linestyle=look["linestyle"], linewidth=0.9)
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(axis, task)
        axis.set_xlabel(f"{PREDICTORS[predictor]} ({'points' if predictor == 'greedy_gap' else '%'})")
        if index % len(PREDICTORS) == 0:
            axis.set_ylabel("lead, points")
    plotting.legend(figure, axes)
    return figure, frame
