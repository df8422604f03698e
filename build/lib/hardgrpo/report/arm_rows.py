"""Panels in which each arm is a row with its name: for figures of many arms, and for figures with
bars."""

import pandas as pd

from hardgrpo.report import plotting

ROW, HEAD = 0.145, 0.85  # inches: height of a row, and of a panel's titles, ticks and margins
EARLY_COLOR = "0.8"
BASE = {"color": "0.45", "linewidth": 0.9, "linestyle": "--", "zorder": 1}
LAST = {"fmt": "none", "elinewidth": 0.9, "zorder": 3}


def are_many(frame: pd.DataFrame) -> bool:
    """Whether a figure has more arms than one panel can show as lines."""
    return frame.arm.nunique() > plotting.MOST_ARMS


def order(frame: pd.DataFrame, column: str = "arm") -> list[str]:
    """The arms in the order of the table, but with all arms of a hue together, and within a hue all
    arms of a policy together. `column` holds the arms: `arm` or `minus_arm`."""
    policy = "minus" if column == "minus_arm" else "policy"
    arms = frame.drop_duplicates(column)
    policies = list(dict.fromkeys(arms[policy]))
    hues = list(dict.fromkeys(map(plotting.hue, policies)))
    keys = [(hues.index(plotting.hue(name)), policies.index(name)) for name in arms[policy]]
    return [arm for _, arm in sorted(zip(keys, arms[column]), key=lambda pair: pair[0])]


def bands(names: list[list[str]]) -> list[list[int]]:
    """Group panels that share most of their rows, so that they can be drawn side by side. `names`
    lists the rows of each panel. A group is the list of its panels' positions in `names`."""
    result: list[list[int]] = []
    for number, rows in enumerate(names):
        for band in result:
            union = set(rows).union(*(names[panel] for panel in band))
            smallest = min(len(rows), *(len(names[panel]) for panel in band))
            if len(union) <= max(1.5 * smallest, smallest + 2):
                band.append(number)
                break
        else:
            result.append([number])
    return result


def panels(names: list[list[str]], columns: int | None = None, row: float = ROW, order=()):
    """(figure, axes, places) of a figure with a panel for each list of row names. `places` has, for
    each panel, {name of a row: its place on the y axis}. The rows of all panels in a line are at
    the same places, and only the line's first panel shows the names of rows. Without `columns`, the
    panels of a line share most of their rows (`bands`). `row` is the height of a row in inches.
    `order` lists all rows from top to bottom. Raise a `UserError` if there are no panels.
    """
    if not names:
        plotting.panels(0)  # raises
    band_panels = bands(names) if columns is None else [list(range(len(names)))]
    widest = max(map(len, band_panels))
    columns = columns or {1: 1, 2: 2, 4: 2}.get(widest, 3)
    lines = [
        band[start : start + columns]
        for band in band_panels
        for start in range(0, len(band), columns)
    ]
    rows = [
        [
            name
            for name in order or dict.fromkeys(sum(names, []))
            if any(name in names[i] for i in line)
        ]
        for line in lines
    ]
    heights = [HEAD + row * len(row_names) for row_names in rows]
    shrink = min(1.0, (plotting.TALLEST - 0.5) / sum(heights))
    is_small = len(names) == 1 and len(names[0]) <= plotting.MOST_ARMS
    width = plotting.COLUMN if is_small else plotting.WIDE
    plotting.plt.style.use(plotting.STYLE)
    figure, grid = plotting.plt.subplots(
        len(lines),
        columns,
        figsize=(width, 0.3 + shrink * sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    axes, places = [None] * len(names), [{}] * len(names)
    for line, row_names, line_axes in zip(lines, rows, grid):
        for column, axis in enumerate(line_axes):
            if column >= len(line):
                axis.remove()
                continue
            labels = row_names if column == 0 else [""] * len(row_names)
            axis.set_yticks(range(len(row_names)), labels)
            axis.set_ylim(len(row_names) - 0.4, -0.6)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="y", linewidth=0.3)
            axes[line[column]] = axis
            places[line[column]] = {name: place for place, name in enumerate(row_names)}
    return figure, axes, places


def dots(
    axis, rows: pd.DataFrame, name: str, scale: float = 100, share: bool = False, label: str = ""
) -> None:
    """Draw a column as dots with intervals, in the hue of the policy, at the rows' `place`."""
    for color, line in rows.groupby(rows.policy.map(plotting.hue), sort=False):
        lengths = plotting.bars(line, name, scale, share)
        look = {"fmt": "o", "markersize": 3.6, "elinewidth": 0.9, "zorder": 3, "color": color}
        axis.errorbar(scale * line[name], line.place, xerr=lengths, **look)
    if label:
        axis.plot([], [], "o", markersize=3.6, color="0.25", label=label)


def early_dots(axis, rows: pd.DataFrame, name: str, label: str, scale: float = 100) -> None:
    """Draw the values before the end of the training in grey; later values are darker. Column
    `part` is the share of the training that has passed (1: the end)."""
    for place, line in rows.groupby("place"):
        values = scale * line[name]
        axis.plot(values, [place] * len(line), color=EARLY_COLOR, linewidth=0.8, zorder=1)
    early = rows[rows.part < 1]
    if len(early):
        shades = [f"{0.85 - 0.6 * part:.2f}" for part in early.part]
        axis.scatter(scale * early[name], early.place, s=8, c=shades, zorder=2, label=label)


def numbers_beside(axis, places, numbers, label: str) -> None:
    """Write a number at the right of each row. If the panel is the last in its line of panels, also
    write `label`, which says what the numbers are."""
    right_axis = axis.secondary_yaxis("right")
    right_axis.set_yticks(list(places), [f"{number:,.0f}" for number in numbers])
    right_axis.tick_params(length=0)
    right_axis.spines[:].set_visible(False)
    spec = axis.get_subplotspec()
    specs = filter(None, (panel.get_subplotspec() for panel in axis.figure.axes))
    line_ends = [panel.colspan.stop for panel in specs if panel.rowspan == spec.rowspan]
    if spec.colspan.stop == max(line_ends):
        right_axis.set_ylabel(label)


def base_line(axis, value: float, low: float, high: float, label: str = "base model") -> None:
    """Draw the base model's share as a dashed line, with its interval, if known, as a band."""
    axis.axvline(100 * value, label=label, **BASE)
    if low == low:
        low, high = (
            ends.iloc[0] for ends in plotting.limit_share(*map(pd.Series, ([value], [low], [high])))
        )
        axis.axvspan(100 * low, 100 * high, color="0.93", zorder=0, linewidth=0)


def parts_figure(frame: pd.DataFrame, parts: list[tuple], note, draw_more=lambda axis, group: None):
    """A figure of the parts of gains: a panel for each model, task and test, and a row for each
    arm. `note(group)` returns a line of a panel's title from the rows of the panel.
    `draw_more(axis, group)` draws more marks in a panel; the column `place` of `group` is the
    place on the y axis."""
    models, groups = frame.model.nunique(), plotting.groups(frame, ["model", "task", "eval_task"])
    names = [list(dict.fromkeys(group.arm)) for _, group in groups]
    row = 0.05 + 0.075 * len(parts)
    figure, axes, places = panels(names, row=row, order=order(frame))
    for axis, place, ((model, task, test), group) in zip(axes, places, groups):
        group = group.assign(place=group.arm.map(place))
        part_bars(axis, group, parts)
        draw_more(axis, group)
        title = plotting.panel_title(model, task, test, models)
        plotting.title(axis, title, note(group), plotting.sizes(group))
    figure.supxlabel("points of accuracy", fontsize=8)
    plotting.legend(figure, axes)
    return figure


def part_bars(axis, group: pd.DataFrame, parts: list[tuple]) -> None:
    """Draw the parts of each gain below one another, in points, with intervals, and a line at the
    gain."""
    height = 0.8 / len(parts)
    for number, (part, color, hatch) in enumerate(parts):
        places = group.place + plotting.spread(number, len(parts), 0.8)
        look = {"hatch": hatch, "edgecolor": "white", "linewidth": 0.3}
        label = part.replace("_", " ")
        axis.barh(places, 100 * group[part], 0.95 * height, color=color, label=label, **look)
        lengths = plotting.bars(group, part)
        axis.errorbar(100 * group[part], places, xerr=lengths, ecolor="black", capsize=0, **LAST)
    look = {"color": "black", "linewidth": 1.4, "label": "gain (their sum)"}
    axis.vlines(100 * group.gain, group.place - 0.42, group.place + 0.42, **look)
    axis.axvline(0, color="black", linewidth=0.6)
