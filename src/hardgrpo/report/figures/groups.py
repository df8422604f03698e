"""Groups of rollouts over training, by policy: all right, learnable, all wrong."""

from hardgrpo.report import training_curves

SERIES = [
    ("all_right_share", 100, "all right (%)"),
    ("learnable_share", 100, "learnable (%)"),
    ("all_wrong_share", 100, "all wrong (%)"),
]


def draw(curves):
    figure, rows, panels = training_curves.draw(
        curves, [entry for entry in SERIES if curves[entry[0]].notna().any()]
    )
    for axis in [axis for axes in panels.values() for axis in axes]:
        # A t interval may exceed 0 to 100 %. The axis truncates it; the CSV has the full interval.
        axis.set_ylim(-4, 104)
    return figure, rows
