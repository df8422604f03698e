"""Accuracy before and after training, and gain, by the tier of the problems, with 95 % intervals.

With more than four tests the figure shows only gains; its CSV has both.
"""

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "eval_task", "policy", "recipe", "tier", "step", "base_accuracy"]
COLUMNS += [f"{name}{end}" for name in ("accuracy", "gain") for end in ("", "_low", "_high")] + [
    "problems",
    "seeds",
]


def draw(tiers):
    models, policies = tiers.model.nunique(), list(dict.fromkeys(tiers.policy))
    groups = plotting.groups(tiers, ["model", "task", "eval_task", "recipe"])
    has_accuracy = len(groups) <= 4
    columns = len(groups) if has_accuracy else 3 if len(groups) <= 9 else 4
    figure, axes = plotting.panels(
        (2 if has_accuracy else 1) * len(groups),
        columns=columns,
        sharey="row" if has_accuracy else False,
    )
    for index, ((model, task, test, _), group) in enumerate(groups):
        names = list(dict.fromkeys(group.tier))
        panel_policies = list(dict.fromkeys(group.policy))
        for column, axis in zip(
            ["accuracy", "gain"] if has_accuracy else ["gain"], axes[index :: len(groups)]
        ):
            for number, policy in enumerate(panel_policies):
                rows = group[group.policy == policy]
                places = [
                    names.index(tier) + plotting.spread(number, len(panel_policies), 0.7)
                    for tier in rows.tier
                ]
                plotting.series(
                    axis,
                    places,
                    rows,
                    column,
                    label=policy,
                    **plotting.style(policy, policies) | {"linestyle": "none"},
                )
            base = group.drop_duplicates("tier")
            if column == "accuracy":
                look = {
                    "color": "0.88",
                    "edgecolor": "0.6",
                    "linewidth": 0.5,
                    "label": "base model",
                }
                axis.bar(range(len(names)), 100 * base.base_accuracy, 0.9, **look)
            else:
                axis.axhline(0, color="black", linewidth=0.6)
            axis.set_xticks(range(len(names)), names)
            axis.set_xlim(-0.6, len(names) - 0.4)
            axis.grid(axis="x", visible=False)
        problems = " + ".join(map(str, base.problems))
        plotting.title(
            axes[index],
            plotting.panel_title(model, task, test, models, group),
            f"{problems} problems, {plotting.seeds(group)}",
        )
    plotting.outer_labels(axes, "tier", "gain (points)")
    if has_accuracy:
        axes[0].set_ylabel("accuracy (%)")
    plotting.legend(figure, axes)
    return figure, tiers[COLUMNS]
