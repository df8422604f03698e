"""pass@k of the base models and of the trained ones, by k, with 95 % intervals."""

from hardgrpo.report import plotting

COLUMNS = [
    "model",
    "task",
    "eval_task",
    "policy",
    "k",
    "step",
    "base",
    "base_reach",
    "pass",
    "pass_low",
    "pass_high",
    "problems",
    "seeds",
]


def draw(pass_at_k):
    frame = pass_at_k
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        base = group[group.policy == group.policy.iloc[0]]
        known = base.base_reach.where(base.base_reach.notna(), base.base)
        axis.plot(base.k, 100 * known, color="0.5", linewidth=2.5, label="base")
        for policy in dict.fromkeys(group.policy):
            one = group[(group.policy == policy) & group["pass"].notna()]
            plotting.series(axis, one.k, one, "pass", label=policy, **plotting.style(policy, policies))
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted(set(group.k)), [str(k) for k in sorted(set(group.k))])
        plotting.title(axis, plotting.where(model, task, test, models), plotting.sizes(group))
    plotting.outer_labels(axes, "k", "pass@k, %")
    plotting.legend(figure, axes)
    return figure, frame[COLUMNS]
