"""Gain by the task of training and the test, a matrix for each arm, with 95 % intervals."""

import re

import numpy as np
from matplotlib import colors

from hardgrpo.analysis.columns import CELL
from hardgrpo.analysis.formats import interval, points
from hardgrpo.report import plotting

COLUMNS = [*CELL, "step", "base_accuracy", "gain", "gain_low", "gain_high", "problems", "seeds"]


def draw(gains):
    """A matrix for each model and arm. If each of several models was trained on a single task, the
    models share one matrix for each arm. A number is bold if its interval excludes 0."""
    frame = gains[gains.decoding == "sampled"]
    # models without a transfer test are left out
    frame = frame[frame.model.isin(frame[frame.task != frame.eval_task].model)]
    models = frame.model.nunique()
    models_share_matrix = models > 1 and frame.groupby("model").task.nunique().max() == 1
    groups = plotting.groups(frame, ["arm"] if models_share_matrix else ["model", "arm"])
    # the rows of each matrix: (model, task) if models share a matrix, else (task,)
    row_keys = ["model", "task"] if models_share_matrix else ["task"]
    trained = list(dict.fromkeys(frame[row_keys].itertuples(index=False, name=None)))
    tests = [
        name
        for name in dict.fromkeys([*frame.task, *frame.eval_task])
        if name in set(frame.eval_task)
    ]
    # few panels per line, because the text of an interval is 0.7 inches wide
    columns = min(len(groups), 3 if len(tests) < 3 and len(groups) != 4 else 2)
    figure, axes = plotting.panels(
        len(groups),
        height=0.55 + 0.36 * len(trained) + 0.25,
        columns=columns,
        sharex=True,
        sharey=True,
    )
    # All panels have the same colour scale, with 0 in its middle. In grey print, the sign of the
    # number tells gains from losses.
    largest = 100 * max(frame.gain.abs().max(), 1e-9)
    scale = colors.Normalize(-largest, largest)
    for axis, ((*model, arm), group) in zip(axes, groups):
        cells = np.full((len(trained), len(tests)), np.nan)
        for row in group.itertuples():
            i = trained.index(tuple(getattr(row, key) for key in row_keys))
            j = tests.index(row.eval_task)
            cells[i, j] = 100 * row.gain
            has_interval = not np.isnan(row.gain_low)
            excludes_zero = has_interval and not row.gain_low <= 0 <= row.gain_high
            is_dark = abs(cells[i, j]) > 0.6 * largest
            look = {"ha": "center", "fontsize": 7, "color": "white" if is_dark else "black"}
            weight = "bold" if excludes_zero else "normal"
            axis.text(
                j,
                i - 0.04,
                points(row.gain, "+"),
                va="bottom" if has_interval else "center",
                fontweight=weight,
                **look,
            )
            if has_interval:
                axis.text(j, i + 0.04, interval(row.gain_low, row.gain_high), va="top", **look)
        for i, j in np.argwhere(np.isnan(cells)):
            axis.text(j, i, "not tested", ha="center", va="center", fontsize=7, color="0.45")
        image = axis.imshow(cells, cmap="PuOr_r", norm=scale, aspect="auto")
        row_names = [": ".join(keys) for keys in trained]
        for ticks, names in ((axis.set_xticks, tests), (axis.set_yticks, row_names)):
            ticks(
                range(len(names)),
                [
                    re.sub("(_|: )", r"\1\n", name, count=1) if len(name) > 11 else name
                    for name in names
                ],
            )
            ticks(np.arange(len(names) - 1) + 0.5, minor=True)
        axis.grid(visible=False, which="major")
        axis.grid(which="minor", color="white", linewidth=1.5, alpha=1)
        axis.tick_params(which="both", length=0)
        axis.spines[:].set_visible(False)
        plotting.title(axis, ": ".join([*model, arm]) if models > 1 else arm)
    plotting.outer_labels(axes, "tested on", "trained on")
    figure.colorbar(
        image, ax=axes, label="gain (points)", shrink=0.9, aspect=30, pad=0.02
    ).outline.set_visible(False)
    return figure, frame[COLUMNS]
