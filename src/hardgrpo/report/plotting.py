"""The style of all figures: safe for colour-blind readers, readable in grey and at column width."""

import contextlib
import itertools
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime import files, user_settings
from hardgrpo.selection.policies import RULES

os.environ.update(user_settings.MATPLOTLIB)
# Matplotlib prefers a matplotlibrc in the working directory to the file that MATPLOTLIBRC names.
with (
    contextlib.chdir(Path(__file__).parent)
    if Path("matplotlibrc").exists()
    else contextlib.nullcontext()
):
    import matplotlib
    import matplotlib.pyplot as plt

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

matplotlib.rcdefaults()  # Matplotlib may have been imported earlier, with other settings
STYLE = Path(__file__).with_name("figures.mplstyle")
# width of a column, width of the page and height of the page, in inches
COLUMN, WIDE, TALLEST = 3.3, 6.9, 9.0

# Okabe and Ito's colours. The hue shows the family of the selection rule, the same in all figures:
# {family: (colour, marker, dashes)}, with the families of selection.policies.RULES.
FAMILIES = {
    "hard": ("#D55E00", "o", "-"),
    "middle": ("#0072B2", "s", "--"),
    "random": ("#000000", "^", ":"),
    "easy": ("#009E73", "D", "-."),
    "nearest_half": ("#56B4E9", "P", "--"),
    "lowest": ("#CC79A7", "v", ":"),
    "highest": ("#E69F00", "X", "-."),
    "all": ("#666666", "*", "-"),
}
NO_RULE = "#999999"  # colour of names that are neither a policy nor a rule, such as "base"
# markers of policies whose family's own marker is taken
MARKERS = ("<", ">", "h", "p", "d", "H", "8", "1")
DASHES = ("-", "--", ":", "-.")
MOST_ARMS = 8  # largest number of arms of a figure of curves
PARTS = [("finishing", "#E69F00", "////"), ("correctness", "#0072B2", "")]
KINDS = [
    ("finishing", "#E69F00", "////"),
    ("sharpening", "#0072B2", ""),
    ("new_solving", "#CC79A7", "...."),
]


_styles: dict[str, dict] = {}  # {policy, rule or other name: its look}
_spare_marks: Iterator[tuple[str, str]]


def use_policies(rules: dict[str, str]) -> None:
    """Begin the figures of a study, from {policy: its rule}. The first policy of a family has the
    family's own marker and dashes, and each other policy a spare pair."""
    global _spare_marks
    _styles.clear()
    _spare_marks, families = further_marks(), set()
    for policy, rule in rules.items():
        family = RULES[rule].family
        color, *own_mark = FAMILIES[family]
        _styles[policy] = look(color, *(next(_spare_marks) if family in families else own_mark))
        families.add(family)


def further_marks() -> Iterator[tuple[str, str]]:
    """Pairs of marker and dashes, all different until they are repeated."""
    return itertools.cycle(
        (marker, DASHES[(index + turn + 1) % len(DASHES)])
        for turn in range(len(DASHES))
        for index, marker in enumerate(MARKERS)
    )


def look(color: str, marker: str, dashes: str) -> dict:
    return {"color": color, "marker": marker, "linestyle": dashes}


def style(name: str) -> dict:
    """Colour, marker and dashes of a policy, of a rule, or of another name such as "base", which gets
    a spare marker when it is first drawn."""
    if name not in _styles:
        mark = FAMILIES.get(name) or (hue(name), *next(_spare_marks))
        _styles[name] = look(*mark)
    return _styles[name]


def hue(policy: str) -> str:
    """The colour of the family of a rule, or of a policy's rule; NO_RULE for other names."""
    if policy in _styles:
        return _styles[policy]["color"]
    return FAMILIES[RULES[policy].family][0] if policy in RULES else NO_RULE


def family(policy: str) -> str:
    """The name of the family of a policy's rule; the policy itself if it has no rule."""
    return next((name for name, (color, *_) in FAMILIES.items() if color == hue(policy)), policy)


def panels(count: int, height: float = 2.3, columns: int | None = None):
    """A figure with `count` panels, and the panels' axes row by row. Panels are `height` inches
    high, or lower if they do not fit on a page."""
    columns = columns or {1: 1, 2: 2, 4: 2}.get(count, 3 if count <= 9 else 4)
    rows = -(-count // columns)
    plt.style.use(STYLE)
    height += 0.5 if count == 1 else 0  # space for the legend
    size = (COLUMN if columns == 1 else WIDE, rows * min(height, TALLEST / rows))
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
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


def spread(index: int, count: int, width: float) -> float:
    """The offset of mark number `index` of `count` marks at the same place, so that their intervals
    do not overlap."""
    return (index - (count - 1) / 2) * width / max(count, 1)


def legend(figure, axes) -> None:
    """Draw a legend above all panels, with each label once. A legend of more than four rows makes
    the figure higher."""
    entries = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels()):
            entries.setdefault(text, handle)
    if entries:
        columns = max(
            1, min(len(entries), int(17 * figure.get_figwidth() / (max(map(len, entries)) + 8)))
        )
        legend_rows = -(-len(entries) // columns)
        columns = -(-len(entries) // legend_rows)  # nearly equal numbers of entries in the rows
        extra_rows = legend_rows - 4
        figure.set_figheight(min(TALLEST, figure.get_figheight() + 0.15 * max(0, extra_rows)))
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def save(figure, rows: pd.DataFrame, paths: list[str]) -> None:
    """Write the figure to each path, or the drawn rows to a path that ends in .csv. Writes are
    atomic; the files have no time stamp."""
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
    """[(values of the keys, rows)] in the table's order. Tests on the training task come first."""
    panel_groups = list(frame.groupby(keys, sort=False))
    if {"task", "eval_task"} <= set(keys):
        task, test = keys.index("task"), keys.index("eval_task")
        panel_groups.sort(key=lambda item: item[0][task] != item[0][test])
    return panel_groups


def panel_title(
    model: str, task: str, test: str, models: int, group: pd.DataFrame | None = None
) -> str:
    """Task and test of a panel, the model if there are several, and the recipe of `group` if it is
    not the study's first recipe."""
    name = task if test == task else f"{task}, tested on {test}"
    if group is not None and (group.arm != group.policy).all():
        name += f", {group.recipe.iloc[0]}"
    return name if models == 1 else f"{model}: {name}"


def sizes(group: pd.DataFrame) -> str:
    return f"{int(group.problems.max()):,} problems, {seeds(group)}"


def seeds(group: pd.DataFrame) -> str:
    count = int(group.seeds.max())
    return f"{count} seed{'s' if count > 1 else ''}"


def bars(frame: pd.DataFrame, name: str, scale: float = 100, is_share: bool = False) -> list:
    """Lengths of the error bars below and above the values of column `name`, for `errorbar`; nan if
    there is no interval. With `is_share`, the bars stay within 0 and 1."""
    low, high = frame[f"{name}_low"], frame[f"{name}_high"]
    if is_share:
        low, high = limit_share(frame[name], low, high)
    return [scale * (frame[name] - low), scale * (high - frame[name])]


def limit_share(share: pd.Series, low: pd.Series, high: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Ends of the intervals of shares. An interval that extends beyond 0 or 1 is replaced by the
    score interval (Wilson 1927, doi:10.1080/01621459.1927.10502953) of the same standard error; at
    a share of exactly 0 or 1 the interval is cut off at 0 and 1."""
    variance = (share * (1 - share)).where(lambda values: values > 0)
    ratio = ((high - low) / 2) ** 2 / variance  # z² / n of the score interval
    centre = (share + ratio / 2) / (1 + ratio)
    half = np.sqrt(ratio * variance + ratio**2 / 4) / (1 + ratio)
    is_outside = (low < 0) | (high > 1)
    return (
        low.mask(is_outside & ratio.notna(), centre - half).clip(0, 1),
        high.mask(is_outside & ratio.notna(), centre + half).clip(0, 1),
    )


def series(
    axis,
    places,
    frame: pd.DataFrame,
    name: str,
    scale: float = 100,
    bar_width: float = 0.8,
    is_share: bool = False,
    **look,
) -> None:
    lengths = bars(frame, name, scale, is_share)
    axis.errorbar(places, scale * frame[name], yerr=lengths, elinewidth=bar_width, **look)
