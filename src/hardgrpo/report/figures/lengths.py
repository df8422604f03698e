"""Mean completion length, and the share of completions cut off at the limit, over training, by
policy."""

from hardgrpo.report import training_curves

SERIES = [
    ("tokens_mean", 1, "completion length\n(tokens)"),
    ("truncated_share", 100, "cut off (%)"),
]


def draw(curves):
    figure, rows, panels = training_curves.draw(curves, SERIES)
    for axis in panels["truncated_share"]:
        # The t interval of a share near 0 may reach below 0. The panel ends at 0; the CSV has the
        # full interval.
        axis.set_ylim(bottom=-0.04 * axis.get_ylim()[1])
    return figure, rows
