"""Outcomes of groups of rollouts over a recorded training run, by policy."""

from hardgrpo.analysis.columns import interval
from hardgrpo.report import plotting

SERIES = [("mixed", "learnable"), ("all_wrong", "all wrong"), ("all_right", "all right")]
COLUMNS = ["model", "task", "policy", "stretch", "begin", "end"]
COLUMNS += [column for name, _ in SERIES for column in interval(name)]
COLUMNS += ["epochs", "prompts", "seeds"]


def draw(trajectories):
    """A panel for each model, task and entry of SERIES. A policy chooses prompts by their pass
    rates in the first epochs. The later epochs are divided into equal stretches; a point is the
    mean share of groups in a stretch, drawn at the middle of the stretch with an offset for each
    policy."""
    stretches = trajectories[trajectories.stretch.notna()]
    models, policies = stretches.model.nunique(), list(dict.fromkeys(stretches.policy))
    groups = plotting.groups(stretches, ["model", "task"])
    figure, axes = plotting.panels(3 * len(groups), columns=3, height=2.6, sharey=True)
    for index, ((model, task), group) in enumerate(groups):
        for axis, (name, text) in zip(axes[3 * index :], SERIES):
            for number, policy in enumerate(panel_policies := list(dict.fromkeys(group.policy))):
                line = group[group.policy == policy].sort_values("begin")
                width = 100 * (line.end - line.begin).min()
                places = 50 * (line.begin + line.end) + plotting.spread(
                    number, len(panel_policies), 0.5 * width
                )
                look = plotting.style(policy, policies) | {"markersize": 3, "capsize": 0}
                plotting.series(axis, places, line, name, 100, 0.5, True, label=policy, **look)
            plotting.title(
                axis,
                text,
                *([plotting.panel_title(model, task, task, models)] if models > 1 else []),
            )
    axes[0].set_ylim(-4, 104)
    plotting.outer_labels(axes, "epochs after the choice (%)", "groups (%)")
    plotting.legend(figure, axes)
    return figure, stretches[COLUMNS]
