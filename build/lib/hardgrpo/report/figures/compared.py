"""Published numbers beside the study's numbers, which have 95 % intervals where known. Each pair of
numbers is a row of its panel. If one panel would have more than MOST_ROWS rows, all panels show
points instead of rows, one point for each pair. On the diagonal, both numbers are equal."""

import pandas as pd

from hardgrpo.report import arm_rows, plotting

COLUMNS = ["paper", "place", "model", "task", "eval_task", "policy", "quantity", "published"]
COLUMNS += ["here", "low", "high", "inside", "seeds"]
OVER_ALL = "all cells"  # in place of a policy, for numbers over all policies
MOST_ROWS = 12  # if a panel has more numbers, all panels show points
SINGLE = "single numbers"
UNIT = "per cent, or points for gains"


def draw(compared):
    """A panel for each quantity; quantities with a single number share the last panel."""
    frame = compared[COLUMNS].assign(policy=compared.policy.fillna(OVER_ALL))
    is_single = frame.groupby("quantity").quantity.transform("size") == 1
    panels = plotting.groups(frame[~is_single], ["quantity"]) + (
        [((SINGLE,), frame[is_single])] if is_single.any() else []
    )
    panels = [(quantity, group) for (quantity,), group in panels]
    is_few = all(len(group) <= MOST_ROWS for _, group in panels)
    figure = draw_rows(panels, frame) if is_few else draw_points(panels, frame)
    return figure, pd.concat([group for _, group in panels], ignore_index=True)


def draw_rows(panels: list[tuple[str, pd.DataFrame]], frame: pd.DataFrame):
    """A row for each pair of numbers: a hollow diamond (published) and a dot (the study)."""
    models = frame.model.nunique()
    names = [row_names(quantity, group, models) for quantity, group in panels]
    figure, axes, places = arm_rows.panels(names)
    for axis, place, panel_names, (quantity, group) in zip(axes, places, names, panels):
        rows = group.assign(place=[place[name] for name in panel_names])
        rows = rows.assign(here_low=rows.low, here_high=rows.high)
        look = {"fmt": "o", "markersize": 3, "color": "black", "elinewidth": 0.9, "zorder": 3}
        lengths = plotting.bars(rows, "here")
        axis.errorbar(100 * rows.here, rows.place, xerr=lengths, label="here", **look)
        look = {"markersize": 7, "color": "#D55E00", "markerfacecolor": "none", "zorder": 2}
        axis.plot(100 * rows.published, rows.place, "D", label="published", **look)
        axis.margins(x=0.12)
        plotting.title(axis, words(quantity), count(group))
    figure.supxlabel(UNIT, fontsize=8)
    plotting.legend(figure, axes)
    return figure


def row_names(quantity: str, group: pd.DataFrame, models: int) -> list[str]:
    """A name for each row of the group: test and policy. Rows with the same test and policy also
    name the paper and the place in the paper."""
    names = []
    for row in group.itertuples():
        model = row.model.removesuffix("-recorded")
        test = plotting.panel_title(model, row.task, row.eval_task, models)
        name = f"{test}, {row.policy}"
        names.append(f"{words(row.quantity)}: {name}" if quantity == SINGLE else name)
    is_repeated = [names.count(name) > 1 for name in names]
    return [
        f"{name} ({row.paper}, {row.place})" if repeated else name
        for name, repeated, row in zip(names, is_repeated, group.itertuples())
    ]


def draw_points(panels: list[tuple[str, pd.DataFrame]], frame: pd.DataFrame):
    """A point for each pair of numbers, with the published number along the x axis."""
    policies, tasks = list(dict.fromkeys(frame.policy)), list(dict.fromkeys(frame.task))
    figure, axes = plotting.panels(len(panels), height=2.5)
    for axis, (quantity, group) in zip(axes, panels):
        points = group.assign(here_low=group.low, here_high=group.high)
        for index in range(len(points)):
            row = points.iloc[[index]]
            look = plotting.mark(row.policy.iloc[0], policies, tasks.index(row.task.iloc[0]))
            plotting.series(
                axis, 100 * row.published, row, "here", label=row.policy.iloc[0], **look
            )
            if quantity == SINGLE:
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
        plotting.title(axis, words(quantity), count(group))
    plotting.outer_labels(axes, "published (%, points)", "here (%, points)")
    plotting.marks_legend(figure, axes[0], policies, tasks)
    return figure


def count(group: pd.DataFrame) -> str:
    """'5 of 6 in the interval', or '6 numbers' without intervals."""
    is_inside = group.inside.dropna()
    if len(is_inside):
        return f"{int(is_inside.sum())} of {len(is_inside)} in the interval"
    return f"{len(group)} number{'s' if len(group) > 1 else ''}"


def words(quantity: str) -> str:
    names = {
        "answered": "share answered",
        "gain": "gain over the base model",
        "learnable": "learnable share",
        "accuracy_answered": "accuracy when answered",
    }
    return names.get(quantity, quantity.replace("_", " "))
