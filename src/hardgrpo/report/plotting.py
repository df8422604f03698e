"""The style of all figures: safe for colour-blind readers, readable in grey and at column width.
Drawn rows are saved as CSV."""

import contextlib
import os
import textwrap
from pathlib import Path

from hardgrpo.runtime import files, user_settings
from hardgrpo.runtime.errors import UserError

os.environ.update(user_settings.MATPLOTLIB)
# Matplotlib reads a matplotlibrc in the working directory before the file that MATPLOTLIBRC names.
with (
    contextlib.chdir(Path(__file__).parent)
    if Path("matplotlibrc").exists()
    else contextlib.nullcontext()
):
    import matplotlib
    import matplotlib.pyplot as plt

import pandas as pd  # noqa: E402

matplotlib.rcdefaults()  # Matplotlib may have been imported earlier, with other settings
STYLE = Path(__file__).with_name("figures.mplstyle")
# width of a column, width of the page and height of the page, in inches
COLUMN, WIDE, TALLEST = 3.3, 6.9, 9.0

# Okabe and Ito's colours. Two policies of a figure never share both marker and dashes, so that grey
# print distinguishes them.
STYLES = {
    "hard": {"color": "#D55E00", "marker": "o", "linestyle": "-"},
    "middle": {"color": "#0072B2", "marker": "s", "linestyle": "--"},
    "random": {"color": "#000000", "marker": "^", "linestyle": ":"},
    "easy": {"color": "#009E73", "marker": "D", "linestyle": "-."},
}
COLORS = ("#CC79A7", "#56B4E9", "#E69F00", "#666666")
MARKERS = ("v", "P", "X", "*", "<", ">", "h", "p")
DASHES = ("-", "--", ":", "-.")
# markers by model, in figures where markers distinguish models
MODELS = ("o", "s", "^", "D", "v", "P", "X", "*")
FILLS = (None, "white", "0.75", "0.5")  # fill of a marker by task; None is the policy's colour
PARTS = [("finishing", "#E69F00", "////"), ("correctness", "#0072B2", "")]
KINDS = [
    ("finishing", "#E69F00", "////"),
    ("sharpening", "#0072B2", ""),
    ("new_solving", "#CC79A7", "...."),
]


def style(policy: str, policies: list[str]) -> dict:
    """Colour, marker and dashes of a policy. For a policy without an entry in STYLES, its position
    in `policies` decides."""
    if policy in STYLES:
        return STYLES[policy]
    index = [name for name in policies if name not in STYLES].index(policy)
    if index >= len(MARKERS) * len(DASHES):
        raise UserError(
            f"{len(policies)} policies in one figure, more than there are marks; split the study into several"
        )
    turn = index // len(MARKERS)  # when markers repeat, colours and dashes differ
    dashes = DASHES[(index + turn) % len(DASHES)]
    return {
        "color": COLORS[(index + turn) % len(COLORS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": dashes,
    }


def mark(policy: str, policies: list[str], group: int = 0, model: int | None = None) -> dict:
    """A policy's style for single points. The number of the task, `group`, sets the fill of the
    marker. With several models, the number of the model, `model`, sets the shape of the marker."""
    look = style(policy, policies) | (
        {} if model is None else {"marker": MODELS[model % len(MODELS)]}
    )
    return look | {
        "linestyle": "none",
        "markerfacecolor": FILLS[group % len(FILLS)] or look["color"],
    }


def panels(count: int, height: float = 2.3, columns: int | None = None, **shared):
    """A figure with `count` panels, and the panels' axes row by row. Panels have `height` inches,
    or less if they do not fit on a page. Raise a `UserError` if `count` is 0."""
    if not count:
        raise UserError("no rows to draw in this figure; the study has nothing for it")
    columns = columns or {1: 1, 2: 2, 4: 2}.get(count, 3 if count <= 9 else 4)
    rows = -(-count // columns)
    plt.style.use(STYLE)
    height += 0.5 if count == 1 else 0  # space for the legend
    size = (COLUMN if columns == 1 else WIDE, rows * min(height, TALLEST / rows))
    figure, axes = plt.subplots(
        rows, columns, figsize=size, squeeze=False, layout="constrained", **shared
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.remove()
    return figure, flat[:count]


def title(axis, *lines: str) -> None:
    """Write lines above a panel, wrapped to the panel's width."""
    grid = axis.get_subplotspec().get_gridspec()
    letters = int(15 * axis.figure.get_figwidth() / grid.ncols)
    axis.set_title("\n".join(part for line in lines for part in textwrap.wrap(line, letters)))


def outer_labels(axes, x: str, y: str) -> None:
    """Label only the axes at the left and at the bottom of the grid."""
    for axis in axes:
        subplot = axis.get_subplotspec()
        columns = subplot.get_gridspec().ncols
        if subplot.is_first_col():
            axis.set_ylabel(y)
        if axes.index(axis) + columns >= len(axes):
            axis.set_xlabel(x)
            # also for a panel above an empty place in the last row
            axis.tick_params(labelbottom=True)


def policy_ticks(axis, names: list[str]) -> None:
    """Write policies along the x axis, slanted if they would overlap."""
    width = axis.figure.get_figwidth() / axis.get_subplotspec().get_gridspec().ncols
    crowded = max(map(len, names)) + 1 > 13 * width / len(names)
    axis.set_xticks(
        range(len(names)),
        names,
        **({"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}),
    )
    axis.grid(axis="x", visible=False)


def same_ticks_once(axes) -> None:
    """Label only the bottom panels if all panels have the same policies."""
    names = [[text.get_text() for text in axis.get_xticklabels()] for axis in axes]
    columns = axes[0].get_subplotspec().get_gridspec().ncols
    for index, axis in enumerate(axes):
        if index + columns < len(axes) and all(labels == names[0] for labels in names):
            axis.tick_params(labelbottom=False)


def spread(index: int, count: int, width: float) -> float:
    """The offset of mark number `index` of `count` marks at the same place, so that their intervals
    do not overlap."""
    return (index - (count - 1) / 2) * width / max(count, 1)


def legend(figure, axes) -> None:
    """Draw a legend above all panels, with each label once. A legend inside a panel would hide
    data. A legend of more than four rows makes the figure higher."""
    entries = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels()):
            entries.setdefault(text, handle)
    if entries:
        columns = max(
            1, min(len(entries), int(17 * figure.get_figwidth() / (max(map(len, entries)) + 8)))
        )
        extra_rows = -(-len(entries) // columns) - 4  # rows
        figure.set_figheight(min(TALLEST, figure.get_figheight() + 0.15 * max(0, extra_rows)))
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def marks_legend(
    figure, axis, policies: list[str], tasks: list[str], models: list[str] = ()
) -> None:
    """Draw the legend for points in the style of `mark`: mark of each policy, fill of each task,
    shape of each model."""
    keys = axis.twinx()  # invisible axes that only hold the legend's entries
    keys.set_axis_off()
    for policy in policies:
        keys.plot([], [], label=policy, **mark(policy, policies, model=0 if models else None))
    for number, model in enumerate(models):
        keys.plot(
            [], [], marker=MODELS[number % len(MODELS)], linestyle="none", color="0.35", label=model
        )
    for group, task in enumerate(tasks if len(tasks) > 1 else []):
        fill = FILLS[group % len(FILLS)] or "0.35"
        keys.plot(
            [], [], marker="o", linestyle="none", color="0.35", markerfacecolor=fill, label=task
        )
    legend(figure, [keys])


def save(figure, rows: pd.DataFrame, paths: list[str]) -> None:
    """Write the figure to each path, or the rows drawn to a path that ends in .csv. Writes are
    atomic; files have no time stamp."""
    for path in paths:
        kind = path.rsplit(".", 1)[1]
        if kind == "csv":
            files.write_rows(path, list(rows.columns), rows.to_dict("records"))
            continue
        with files.atomic(path) as temporary:
            figure.savefig(
                temporary,
                format=kind,
                metadata={"CreationDate": None} if kind == "pdf" else {"Software": None},
            )
        figure.set_layout_engine("none")  # keep the layout of the first file for all files
    plt.close(figure)


def groups(frame: pd.DataFrame, keys: list[str]) -> list[tuple]:
    """[(values of the keys, rows)] in the table's order, but tests on the training task come
    first."""
    panel_groups = list(frame.groupby(keys, sort=False))
    if {"task", "eval_task"} <= set(keys):
        task, test = keys.index("task"), keys.index("eval_task")
        panel_groups.sort(key=lambda item: item[0][task] != item[0][test])
    return panel_groups


def panel_title(
    model: str, task: str, test: str, models: int, group: pd.DataFrame | None = None
) -> str:
    """Task and test of a panel, the model if there are several, and the recipe of `group` if not
    the study's first recipe."""
    name = task if test == task else f"{task}, tested on {test}"
    name += (
        f", {group.recipe.iloc[0]}"
        if group is not None and (group.arm != group.policy).all()
        else ""
    )
    return name if models == 1 else f"{model}: {name}"


def sizes(group: pd.DataFrame) -> str:
    """Numbers of problems and seeds of a panel."""
    return f"{int(group.problems.max()):,} problems, {seeds(group)}"


def seeds(group: pd.DataFrame) -> str:
    count = int(group.seeds.max())
    return f"{count} seed{'s' if count > 1 else ''}"


def format_range(numbers, form: str = ",.0f", word: str = "") -> str:
    """'3 to 5', or '3' if all numbers are equal, followed by `word` in the singular or plural."""
    smallest, largest = (format(end, form) for end in (min(numbers), max(numbers)))
    text = smallest if smallest == largest else f"{smallest} to {largest}"
    return f"{text} {word}{'' if largest == '1' else 's'}" if word else text


def bars(frame: pd.DataFrame, name: str, scale: float = 100) -> list:
    """Lengths of the error bars below and above the values of column `name`, for `errorbar`; nan
    without an interval."""
    return [
        scale * (frame[name] - frame[f"{name}_low"]),
        scale * (frame[f"{name}_high"] - frame[name]),
    ]


def series(
    axis, places, frame: pd.DataFrame, name: str, scale: float = 100, bar_width: float = 0.8, **look
) -> None:
    """Draw a column with its intervals at `places` of the x axis."""
    axis.errorbar(
        places, scale * frame[name], yerr=bars(frame, name, scale), elinewidth=bar_width, **look
    )


def parts_panels(frame: pd.DataFrame, parts: list[tuple], note, draw_more=lambda axis, group: None):
    """A figure of the parts of gains, a panel for each test. `note` returns a line above a panel.
    `draw_more` adds to a panel."""
    models = frame.model.nunique()
    panel_groups = groups(frame, ["model", "task", "eval_task", "recipe"])
    figure, axes = panels(len(panel_groups))
    for axis, ((model, task, test, _), group) in zip(axes, panel_groups):
        parts_bars(axis, group, parts)
        draw_more(axis, group)
        title(axis, panel_title(model, task, test, models, group), note(group), sizes(group))
    outer_labels(axes, "", "points of accuracy")
    same_ticks_once(axes)
    legend(figure, axes)
    return figure


def parts_bars(
    axis, group: pd.DataFrame, parts: list[tuple] = PARTS, ticks: str = "policy"
) -> None:
    """Draw the parts of each gain side by side, in points, with intervals and a line at the gain.
    `ticks`: column of labels."""
    width = 0.8 / len(parts)
    for number, (part, color, hatch) in enumerate(parts):
        places = [index + spread(number, len(parts), 0.8) for index in range(len(group))]
        look = {
            "color": color,
            "hatch": hatch,
            "edgecolor": "white",
            "linewidth": 0.4,
            "label": part.replace("_", " "),
        }
        axis.bar(places, 100 * group[part], 0.95 * width, **look)
        axis.errorbar(
            places,
            100 * group[part],
            yerr=bars(group, part),
            fmt="none",
            ecolor="black",
            elinewidth=0.8,
        )
    ends = ([i + end for i in range(len(group))] for end in (-0.42, 0.42))
    axis.hlines(100 * group.gain, *ends, color="black", label="gain (their sum)")
    axis.axhline(0, color="black", linewidth=0.6)
    margin = max(0.6, 1.6 - 0.6 * len(group))
    axis.set_xlim(-margin, len(group) - 1 + margin)
    policy_ticks(axis, list(group[ticks]))
