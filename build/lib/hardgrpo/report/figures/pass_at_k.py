"""pass@k of base and trained models, by k, with 95 % intervals: a line for each policy. If there
are more than `plotting.MOST_ARMS` arms, a row for each arm shows only the smallest and the largest
k that the base model and the trained models have in common."""

import pandas as pd

from hardgrpo.report import arm_rows, plotting

TEST = ["model", "task", "eval_task"]


def draw(pass_at_k, base_pass_at_k):
    if arm_rows.are_many(pass_at_k):
        # The tables may have different values of k, because the numbers of samples may differ.
        base_keys = base_pass_at_k[["model", "eval_task", "k"]].drop_duplicates()
        pass_at_k = pass_at_k.merge(base_keys)
        k_of_test = pass_at_k.groupby(TEST).k
        ends = k_of_test.transform("min"), k_of_test.transform("max")
        pass_at_k = pass_at_k[(pass_at_k.k == ends[0]) | (pass_at_k.k == ends[1])]
        base_pass_at_k = base_pass_at_k.merge(
            pass_at_k[["model", "eval_task", "k"]].drop_duplicates()
        )
        figure = draw_rows(pass_at_k, base_pass_at_k)
    else:
        figure = draw_lines(pass_at_k, base_pass_at_k)
    return figure, pd.concat([pass_at_k, base_pass_at_k.assign(policy="base")], ignore_index=True)


def draw_lines(pass_at_k: pd.DataFrame, base_pass_at_k: pd.DataFrame):
    """A panel for each model, task, test and recipe, a line for each policy."""
    models, policies = pass_at_k.model.nunique(), list(dict.fromkeys(pass_at_k.policy))
    groups = plotting.groups(pass_at_k, [*TEST, "recipe"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test, _), group) in zip(axes, groups):
        base = base_pass_at_k[(base_pass_at_k.model == model) & (base_pass_at_k.eval_task == test)]
        grey = {"color": "0.5", "share": True}
        plotting.series(axis, base.k, base, "pass", label="base model", linewidth=2.0, **grey)
        if base["sound"].notna().any():
            look = grey | {"label": "base model, every step right", "linestyle": "--"}
            plotting.series(axis, base.k, base, "sound", **look)
        for policy in dict.fromkeys(group.policy):
            rows = group[group.policy == policy]
            look = plotting.style(policy, policies) | {"label": policy, "share": True}
            plotting.series(axis, rows.k, rows, "pass", **look)
        axis.set_xscale("log", base=2)
        marks = sorted({*group.k, *base.k})
        axis.set_xticks(marks, [str(int(k)) for k in marks])
        plotting.title(
            axis, plotting.panel_title(model, task, test, models, group), plotting.sizes(group)
        )
    plotting.outer_labels(axes, "k", "pass@k (%)")
    plotting.legend(figure, axes)
    return figure


def draw_rows(pass_at_k: pd.DataFrame, base_pass_at_k: pd.DataFrame):
    """A panel for each model, task, test and k, a row for each arm."""
    models, groups = pass_at_k.model.nunique(), plotting.groups(pass_at_k, [*TEST, "k"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    figure, axes, places = arm_rows.panels(names, order=arm_rows.order(pass_at_k))
    for axis, place, ((model, task, test, k), group) in zip(axes, places, groups):
        base = base_pass_at_k[
            (base_pass_at_k.model == model)
            & (base_pass_at_k.eval_task == test)
            & (base_pass_at_k.k == k)
        ].iloc[0]
        arm_rows.base_line(axis, base["pass"], base.pass_low, base.pass_high)
        rows = group.assign(place=group.arm.map(place))
        arm_rows.dots(axis, rows, "pass", share=True, label="after training")
        title = f"{plotting.panel_title(model, task, test, models)}, pass@{int(k)}"
        plotting.title(axis, title, plotting.sizes(group))
    figure.supxlabel("pass@k (%)", fontsize=8)
    plotting.legend(figure, axes)
    return figure
