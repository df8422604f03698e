"""Gains split into finishing and correctness, by arm, with 95 % intervals. A line marks each
gain."""

from hardgrpo.analysis.columns import CELL, interval
from hardgrpo.report import arm_rows, plotting

COLUMNS = [*CELL, "step", "gain"]
COLUMNS += [column for part, *_ in plotting.PARTS for column in interval(part)]
COLUMNS += ["base_answered", "answered", "base_accuracy", "accuracy", "problems", "seeds"]


def draw(parts):
    return arm_rows.parts_figure(parts, plotting.PARTS, answered), parts[COLUMNS]


def answered(group) -> str:
    after = [f"{100 * share:.1f}" for share in (group.answered.min(), group.answered.max())]
    return (
        f"answered {100 * group.base_answered.iloc[0]:.1f} → {' to '.join(dict.fromkeys(after))} %"
    )
