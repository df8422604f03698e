"""Mean completion length, and the share of completions cut off at the limit, over training, by policy."""

from hardgrpo.report import plotting

SHOWN = [("tokens_mean", 1, "completion length\n(tokens)"), ("truncated_share", 100, "cut off (%)")]
COLUMNS = ["model", "task", "policy", "first", "step"]
COLUMNS += [f"{name}{end}" for name, *_ in SHOWN for end in ("", "_low", "_high")] + ["seeds"]


def draw(curves):
    """Two panels, one above the other, for each model and task."""
    models, policies = curves.model.nunique(), list(dict.fromkeys(curves.policy))
    groups = plotting.groups(curves, ["model", "task"])
    columns = len(groups) if len(groups) <= 3 else 2 if len(groups) == 4 else 3 if len(groups) <= 6 else 4
    bands = -(-len(groups) // columns)
    figure, axes = plotting.panels(2 * columns * bands, height=1.9, columns=columns)
    used = []
    for index, ((model, task), group) in enumerate(groups):
        above = 2 * columns * (index // columns) + index % columns
        pair = [axes[above], axes[above + columns]]
        for axis, (name, scale, text) in zip(pair, SHOWN):
            for number, policy in enumerate(shown := list(dict.fromkeys(group.policy))):
                line = group[group.policy == policy].sort_values("step")
                step = group.step.max() / max(line.step.nunique(), 1)
                places = line.step + plotting.spread(number, len(shown), 0.6 * step)
                look = plotting.style(policy, policies) | {"markersize": 3, "capsize": 0}
                plotting.series(axis, places, line, name, scale, 0.5, label=policy, **look)
            if index % columns == 0:
                axis.set_ylabel(text)
        # The t interval of a share near 0 may reach below 0. The panel ends at 0; the CSV has the whole interval.
        pair[1].set_ylim(bottom=-0.04 * pair[1].get_ylim()[1])
        pair[1].set_xlabel("GRPO updates")
        plotting.title(pair[0], plotting.where(model, task, task, models), plotting.seeds(group))
        used += pair
    for axis in axes:
        if axis not in used:
            axis.remove()
    plotting.legend(figure, used)
    return figure, curves[COLUMNS]
