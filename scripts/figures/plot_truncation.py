"""The confound at a glance: the same samples judged under a tight limit and with room, by policy and by what was trained under.

python scripts/figures/plot_truncation.py --tables results/summaries/mini_truncation/*.csv --limits '{"swaps_tight": 60, "swaps_ample": 192}' \\
    --output truncation.pdf truncation.png truncation.csv

--limits are the tests to draw, one a column, with their completion limits in tokens: a task that is cut from another, and that other.
"""

import json

import pandas as pd

from hardgrpo.report import plotting
from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError
from plot_parts import COLUMNS


def main() -> None:
    parser = plotting.parser(__doc__)
    parser.add_argument("--limits", required=True, type=json.loads, help="completion limit of each test, JSON")
    args = parser.parse_args()

    path = args.tables["parts"]
    frame = plotting.read_table(path, COLUMNS)
    if frame[frame.eval_task.isin(args.limits)].empty:
        raise UserError(f"{path}: no rows tested on {' or '.join(args.limits)}; run the study that it summarises")
    plotting.save(*draw(frame, args.limits), args.output)


def draw(frame, limits: dict[str, int]):
    """(figure, rows drawn) of the table `parts`: a row of panels for what was trained on, a column for each test in `limits`."""
    tests = sorted(limits, key=limits.get)
    frame = frame[frame.eval_task.isin(tests)]
    models = frame.model.nunique()
    rows = [key for key, group in plotting.groups(frame, ["model", "task"]) if set(tests) <= set(group.eval_task)]
    # One y axis for all: what is large under one limit is to be seen small, or turned round, under the other.
    figure, axes = plotting.panels(len(tests) * len(rows), height=2.4, columns=len(tests), sharey=True)
    drawn = []
    for index, axis in enumerate(axes):
        (model, task), test = rows[index // len(tests)], tests[index % len(tests)]
        group = frame[(frame.model == model) & (frame.task == task) & (frame.eval_task == test)]
        plotting.parts_bars(axis, group)
        for place, row in enumerate(group.itertuples()):
            top = 100 * max(0, row.gain, *(v for v in (row.finishing_high, row.correctness_high) if v == v))
            axis.annotate(
                plotting.points(row.gain), (place, top), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=7
            )
        name = task if models == 1 else f"{model}, {task}"
        base = f"base: accuracy {100 * group.base_accuracy.iloc[0]:.1f} %, answered {100 * group.base_answered.iloc[0]:.1f} %"
        axis.margins(y=0.12)
        plotting.title(axis, f"trained on {name}, tested at {limits[test]} tokens", base, plotting.sizes(group))
        drawn.append(group[COLUMNS])
    plotting.outer_labels(axes, "", "gain in accuracy (points)")
    plotting.same_ticks_once(axes)
    plotting.legend(figure, axes)
    return figure, pd.concat(drawn, ignore_index=True)


if __name__ == "__main__":
    errors.run(main)
