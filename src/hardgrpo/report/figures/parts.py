"""Gains split into finishing and correctness, by policy, with 95 % intervals; the line is the gain."""

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "eval_task", "policy", "step", "gain"]
COLUMNS += [f"{part}{end}" for part, *_ in plotting.PARTS for end in ("", "_low", "_high")]
COLUMNS += ["base_answered", "answered", "base_accuracy", "accuracy", "problems", "seeds"]


def draw(parts):
    models = parts.model.nunique()
    groups = plotting.groups(parts, ["model", "task", "eval_task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        plotting.parts_bars(axis, group)
        after = [f"{100 * share:.1f}" for share in (group.answered.min(), group.answered.max())]
        share = f"answered {100 * group.base_answered.iloc[0]:.1f} → {' to '.join(dict.fromkeys(after))} %"
        plotting.title(axis, plotting.where(model, task, test, models), share, plotting.sizes(group))
    plotting.outer_labels(axes, "", "points of accuracy")
    plotting.same_ticks_once(axes)
    plotting.legend(figure, axes)
    return figure, parts[COLUMNS]
