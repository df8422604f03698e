"""Figure 2: accuracy on the task's test set by checkpoint and policy, with 95 % intervals."""

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "eval_task", "policy", "step", "accuracy", "accuracy_low", "accuracy_high"]
COLUMNS += ["problems", "samples", "seeds"]


def draw(accuracy):
    frame = accuracy[accuracy.decoding == "sampled"][COLUMNS]
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        shown = list(dict.fromkeys(group.policy))
        span = group.step.max() - group.step.min()
        for index, policy in enumerate(shown):
            line = group[group.policy == policy].sort_values("step")
            # Intervals as bars, set side by side: bands of four policies on one another cannot be told apart.
            steps = line.step + plotting.spread(index, len(shown), 0.05 * span) * (line.step > 0)
            look = plotting.style(policy, policies)
            axis.errorbar(steps, 100 * line.accuracy, yerr=plotting.bars(line, "accuracy"), elinewidth=0.7, label=policy, **look)
        plotting.title(axis, plotting.where(model, task, test, models), plotting.sizes(group))
        if group.step.nunique() < 7:
            axis.set_xticks(sorted(group.step.unique()))
        axis.set_xlim(group.step.min() - 0.04 * span, group.step.max() + 0.06 * span)
    plotting.outer_labels(axes, "GRPO updates", "accuracy (%)")
    plotting.legend(figure, axes)
    return figure, frame
