"""How chosen prompts behave in new samples, by the number of samples per prompt that determine the
choice."""

import numpy as np

from hardgrpo.analysis import count_tables
from hardgrpo.report import plotting
from hardgrpo.selection import probe_sizes as probes

MARKED_SIZES = (1, 2, 4, 8, 16, 32)
PANELS = [
    ("mixed", "groups that are mixed"),
    ("pass_rate", "pass rate"),
    ("never_solved", "prompts never solved"),
]


def draw(probe_sizes):
    """A panel for each entry of PANELS: a line for each rule, with a large mark at the sufficient
    number of samples (if more samples help), and a dotted horizontal line for a random choice."""
    rows = probe_sizes[probe_sizes.file == count_tables.ALL]
    rules = list(dict.fromkeys(rows.rule))
    sufficient = probes.sufficient_sizes(rows.to_dict("records"))
    figure, axes = plotting.panels(len(PANELS), columns=3, height=2.6)
    for axis, (name, text) in zip(axes, PANELS):
        for rule in rules:
            line, look = rows[rows.rule == rule], plotting.style(rule, rules)
            if rule == "random":
                axis.axhline(100 * line[name].iloc[0], label=rule, **look | {"marker": ""})
                continue
            marked_places = np.flatnonzero(line.samples.isin(MARKED_SIZES)).tolist()
            look |= {"label": rule, "markersize": 2.5, "markevery": marked_places}
            axis.plot(line.samples, 100 * line[name], **look)
            point = line[line.samples == sufficient.get(rule)]
            look = plotting.style(rule, rules) | {"linestyle": "none", "markersize": 6}
            axis.plot(point.samples, 100 * point[name], **look)
        axis.set_xscale("log", base=2)
        ticks = [size for size in (1, 2, 4, 8, 16, 32, 64, 128) if size <= rows.samples.max()]
        axis.set_xticks(ticks, ticks)
        axis.set_ylim(-4, 104)
        plotting.title(axis, text)
    plotting.outer_labels(axes, "samples per prompt", "of the chosen prompts (%)")
    plotting.legend(figure, axes)
    return figure, rows
