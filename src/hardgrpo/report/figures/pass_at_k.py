"""pass@k of base and trained models, by k, with 95 % intervals."""

import pandas as pd

from hardgrpo.report import plotting


def draw(pass_at_k, base_pass_at_k):
    models, policies = pass_at_k.model.nunique(), list(dict.fromkeys(pass_at_k.policy))
    groups = plotting.groups(pass_at_k, ["model", "task", "eval_task", "recipe"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test, _), group) in zip(axes, groups):
        base = base_pass_at_k[(base_pass_at_k.model == model) & (base_pass_at_k.eval_task == test)]
        plotting.series(axis, base.k, base, "pass", label="base", color="0.5", linewidth=2.0)
        if base["sound"].notna().any():
            plotting.series(
                axis,
                base.k,
                base,
                "sound",
                label="base, every step right",
                color="0.5",
                linestyle="--",
            )
        for policy in dict.fromkeys(group.policy):
            rows = group[group.policy == policy]
            plotting.series(
                axis, rows.k, rows, "pass", label=policy, **plotting.style(policy, policies)
            )
        axis.set_xscale("log", base=2)
        marks = sorted({*group.k, *base.k})
        axis.set_xticks(marks, [str(int(k)) for k in marks])
        plotting.title(
            axis, plotting.panel_title(model, task, test, models, group), plotting.sizes(group)
        )
    plotting.outer_labels(axes, "k", "pass@k, %")
    plotting.legend(figure, axes)
    return figure, pd.concat([pass_at_k, base_pass_at_k.assign(policy="base")], ignore_index=True)
