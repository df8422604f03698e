"""Gains split into finishing, sharpening and new solving, by policy, with 95 % intervals; the line is the gain, the diamond the greedy one."""

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "eval_task", "policy", "step", "reach_samples", "out_of_reach"]
COLUMNS += [
    f"{part}{end}" for part in ("gain", *(name for name, *_ in plotting.KINDS), "greedy_gain") for end in ("", "_low", "_high")
]
COLUMNS += ["problems", "seeds"]


def draw(kinds):
    frame = kinds[kinds.tier.isna()]
    models = frame.model.nunique()
    groups = plotting.groups(frame, ["model", "task", "eval_task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        plotting.parts_bars(axis, group, plotting.KINDS)
        if group.greedy_gain.notna().any():
            look = {"fmt": "D", "markersize": 4, "color": "black", "markerfacecolor": "white", "capsize": 0, "label": "greedy gain"}
            plotting.series(axis, range(len(group)), group, "greedy_gain", **look)
        lost = f"out of reach in {int(group.reach_samples.min())} samples: {100 * group.out_of_reach.mean():.1f} %"
        plotting.title(axis, plotting.where(model, task, test, models), lost, plotting.sizes(group))
    plotting.outer_labels(axes, "", "points of accuracy")
    plotting.same_ticks_once(axes)
    plotting.legend(figure, axes)
    return figure, frame[COLUMNS]
