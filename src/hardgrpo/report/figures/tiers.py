"""Accuracy and gain by the problems' own difficulty (their tier), with 95 % intervals, before and after training.

Where there are more than four tests, gains alone are drawn: the rows beside the figure have both.
"""

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "eval_task", "policy", "tier", "step", "base_accuracy"]
COLUMNS += [f"{name}{end}" for name in ("accuracy", "gain") for end in ("", "_low", "_high")] + ["problems", "seeds"]


def draw(tiers):
    frame = tiers
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task"])
    both = len(groups) <= 4
    columns = len(groups) if both else 3 if len(groups) <= 9 else 4
    figure, axes = plotting.panels((2 if both else 1) * len(groups), columns=columns, sharey="row" if both else False)
    for index, ((model, task, test), group) in enumerate(groups):
        tiers = list(dict.fromkeys(group.tier))
        shown = list(dict.fromkeys(group.policy))
        for column, axis in zip(["accuracy", "gain"] if both else ["gain"], axes[index :: len(groups)]):
            for number, policy in enumerate(shown):
                rows = group[group.policy == policy]
                places = [tiers.index(tier) + plotting.spread(number, len(shown), 0.7) for tier in rows.tier]
                look = plotting.style(policy, policies) | {"linestyle": "none"}
                axis.errorbar(places, 100 * rows[column], yerr=plotting.bars(rows, column), elinewidth=0.8, label=policy, **look)
            base = group.drop_duplicates("tier")
            if column == "accuracy":
                axis.bar(
                    range(len(tiers)),
                    100 * base.base_accuracy,
                    0.9,
                    color="0.88",
                    edgecolor="0.6",
                    linewidth=0.5,
                    label="base model",
                )
            else:
                axis.axhline(0, color="black", linewidth=0.6)
            axis.set_xticks(range(len(tiers)), tiers)
            axis.set_xlim(-0.6, len(tiers) - 0.4)
            axis.grid(axis="x", visible=False)
        name = plotting.where(model, task, test, models)
        problems = " + ".join(map(str, base.problems))
        plotting.title(axes[index], name, f"{problems} problems, {plotting.seeds(group)}")
    plotting.outer_labels(axes, "tier", "gain (points)")
    if both:
        axes[0].set_ylabel("accuracy (%)")
    plotting.legend(figure, axes)
    return figure, frame[COLUMNS]
