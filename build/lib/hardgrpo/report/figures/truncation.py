"""Gains by arm, for models trained under a tight or an ample completion limit. The same completions
are graded under both limits."""

import pandas as pd

from hardgrpo.analysis.formats import points
from hardgrpo.report import plotting
from hardgrpo.report.figures.parts import COLUMNS
from hardgrpo.runtime.errors import UserError


def draw(parts, limits: dict[str, int]):
    """Draw a row of panels for each model and training task that was tested on all tests in
    `limits` ({test: completion limit}), and a column for each test."""
    tests = sorted(limits, key=limits.get)
    frame = parts[parts.eval_task.isin(tests)]
    if frame.empty:
        raise UserError(
            f"parts.csv: no rows tested on {' or '.join(tests)}; run the study that this table summarises"
        )
    models = frame.model.nunique()
    rows = [
        key
        for key, group in plotting.groups(frame, ["model", "task"])
        if set(tests) <= set(group.eval_task)
    ]
    # a shared y axis, so that gains under the two limits can be compared
    figure, axes = plotting.panels(
        len(tests) * len(rows), height=2.4, columns=len(tests), sharey=True
    )
    drawn_rows = []
    for index, axis in enumerate(axes):
        (model, task), test = rows[index // len(tests)], tests[index % len(tests)]
        group = frame[(frame.model == model) & (frame.task == task) & (frame.eval_task == test)]
        part_bars(axis, group)
        for place, row in enumerate(group.itertuples()):
            ends = [end for end in (row.finishing_high, row.correctness_high) if not pd.isna(end)]
            top = 100 * max(0, row.gain, *ends)
            axis.annotate(
                points(row.gain, "+"),
                (place, top),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
        name = task if models == 1 else f"{model}, {task}"
        base = f"base: accuracy {100 * group.base_accuracy.iloc[0]:.1f} %, answered {100 * group.base_answered.iloc[0]:.1f} %"
        axis.margins(y=0.12)
        plotting.title(
            axis, f"trained on {name}, tested at {limits[test]} tokens", base, plotting.sizes(group)
        )
        drawn_rows.append(group[COLUMNS])
    plotting.outer_labels(axes, "", "gain in accuracy (points)")
    plotting.same_ticks_once(axes)
    plotting.legend(figure, axes)
    return figure, pd.concat(drawn_rows, ignore_index=True)


def part_bars(axis, group: pd.DataFrame) -> None:
    """Draw the parts of each gain side by side, in points, with intervals, and a line at the
    gain."""
    width = 0.8 / len(plotting.PARTS)
    for number, (part, color, hatch) in enumerate(plotting.PARTS):
        places = [
            index + plotting.spread(number, len(plotting.PARTS), 0.8) for index in range(len(group))
        ]
        look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
        axis.bar(places, 100 * group[part], 0.95 * width, label=part, **look)
        look = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8}
        axis.errorbar(places, 100 * group[part], yerr=plotting.bars(group, part), **look)
    ends = ([i + end for i in range(len(group))] for end in (-0.42, 0.42))
    axis.hlines(100 * group.gain, *ends, color="black", label="gain (their sum)")
    axis.axhline(0, color="black", linewidth=0.6)
    margin = max(0.6, 1.6 - 0.6 * len(group))
    axis.set_xlim(-margin, len(group) - 1 + margin)
    plotting.policy_ticks(axis, list(group.arm))
