"""Accuracy by checkpoint and policy, with 95 % intervals."""

from hardgrpo.report import plotting

COLUMNS = [
    "model",
    "task",
    "eval_task",
    "policy",
    "recipe",
    "step",
    "accuracy",
    "accuracy_low",
    "accuracy_high",
]
COLUMNS += ["problems", "samples", "seeds"]


def draw(accuracy):
    frame = accuracy[accuracy.decoding == "sampled"]
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task", "recipe"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test, _), group) in zip(axes, groups):
        panel_policies = list(dict.fromkeys(group.policy))
        span = group.step.max() - group.step.min()
        for index, policy in enumerate(panel_policies):
            line = group[group.policy == policy].sort_values("step")
            # Bars side by side: bands of several policies would hide each other.
            steps = line.step + plotting.spread(index, len(panel_policies), 0.05 * span) * (
                line.step > 0
            )
            plotting.series(
                axis,
                steps,
                line,
                "accuracy",
                bar_width=0.7,
                label=policy,
                **plotting.style(policy, policies),
            )
        plotting.title(
            axis, plotting.panel_title(model, task, test, models, group), plotting.sizes(group)
        )
        if group.step.nunique() < 7:
            axis.set_xticks(sorted(group.step.unique()))
        axis.set_xlim(group.step.min() - 0.04 * span, group.step.max() + 0.06 * span)
    plotting.outer_labels(axes, "updates", "accuracy (%)")
    plotting.legend(figure, axes)
    return figure, frame[COLUMNS]
