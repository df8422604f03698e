"""Gains split into finishing, sharpening and new solving, by arm, with 95 % intervals. The line
is the gain, the diamond the greedy gain."""

from hardgrpo.analysis.columns import CELL, interval
from hardgrpo.report import arm_rows, plotting

COLUMNS = [*CELL, "step", "reach_samples", "out_of_reach", *interval("gain")]
COLUMNS += [column for part, *_ in plotting.KINDS for column in interval(part)]
COLUMNS += [*interval("greedy_gain"), "problems", "seeds"]
DIAMOND = {
    "fmt": "D",
    "markersize": 3.6,
    "color": "black",
    "markerfacecolor": "white",
    "capsize": 0,
}


def draw(kinds):
    frame = kinds[kinds.tier.isna()]
    return arm_rows.parts_figure(frame, plotting.KINDS, out_of_reach, greedy_gain), frame[COLUMNS]


def out_of_reach(group) -> str:
    return f"out of reach in {int(group.reach_samples.min())} samples: {100 * group.out_of_reach.mean():.1f} %"


def greedy_gain(axis, group) -> None:
    if group.greedy_gain.notna().any():
        lengths = plotting.bars(group, "greedy_gain")
        look = DIAMOND | {"elinewidth": 0.8, "label": "greedy gain"}
        axis.errorbar(100 * group.greedy_gain, group.place + 0.45, xerr=lengths, **look)
        axis.set_ylim(bottom=axis.get_ylim()[0] + 0.3)  # space for the last diamond
