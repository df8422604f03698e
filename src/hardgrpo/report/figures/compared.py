"""Published numbers against those of the study, with the study's 95 % intervals: on the diagonal
they agree."""

import pandas as pd

from hardgrpo.report import plotting

COLUMNS = ["paper", "place", "model", "task", "eval_task", "policy", "quantity", "published"]
COLUMNS += ["here", "low", "high", "inside", "seeds"]
OVER_ALL = "all cells"  # in place of a policy, for numbers over all policies


def draw(compared):
    """A panel for each quantity; quantities with a single number share the last panel."""
    frame = compared[COLUMNS].assign(policy=compared.policy.fillna(OVER_ALL))
    policies, tasks = list(dict.fromkeys(frame.policy)), list(dict.fromkeys(frame.task))
    single = frame.groupby("quantity").quantity.transform("size") == 1
    panels = plotting.groups(frame[~single], ["quantity"]) + (
        [(("single numbers",), frame[single])] if single.any() else []
    )
    figure, axes = plotting.panels(len(panels), height=2.5)
    for axis, ((quantity,), group) in zip(axes, panels):
        points = group.assign(here_low=group.low, here_high=group.high)
        for index in range(len(points)):
            row = points.iloc[[index]]
            look = plotting.mark(row.policy.iloc[0], policies, tasks.index(row.task.iloc[0]))
            plotting.series(
                axis, 100 * row.published, row, "here", label=row.policy.iloc[0], **look
            )
            if quantity == "single numbers":
                place = 100 * row.published.iloc[0], 100 * row.here.iloc[0]
                offset = {
                    "xytext": (-6, 0),
                    "textcoords": "offset points",
                    "ha": "right",
                    "va": "center",
                    "fontsize": 7,
                }
                axis.annotate(words(row.quantity.iloc[0]), place, **offset)
        ends = [
            min(axis.get_xlim()[0], axis.get_ylim()[0]),
            max(axis.get_xlim()[1], axis.get_ylim()[1]),
        ]
        axis.plot(ends, ends, color="0.5", linewidth=0.7, linestyle="--", zorder=0)
        axis.set_xlim(ends)
        axis.set_ylim(ends)
        is_inside = group.inside.dropna()
        count = f"{len(group)} number{'s' if len(group) > 1 else ''}"
        inside = (
            f", {int(is_inside.sum())} of {len(is_inside)} inside the interval"
            if len(is_inside)
            else ""
        )
        plotting.title(axis, words(quantity), count + inside)
    plotting.outer_labels(axes, "published (%, points)", "here (%, points)")
    plotting.marks_legend(figure, axes[0], policies, tasks)
    return figure, pd.concat([group for _, group in panels], ignore_index=True)


def words(quantity: str) -> str:
    names = {
        "gain": "gain over the base model",
        "learnable": "learnable share",
        "accuracy_answered": "accuracy when answered",
    }
    return names.get(quantity, quantity.replace("_", " "))
