"""The style of all figures: safe for colour-blind readers, readable in grey and at column width."""

import contextlib
import itertools
import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime import files, user_settings
from hardgrpo.runtime.errors import UserError
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
# in points: size for the largest budget, and decrease for each smaller budget
MARKER_SIZE, SIZE_STEP = 4.5, 0.7
MOST_ARMS = 8  # if a figure has more arms, each arm is drawn in a row of its own
# markers by model, in figures where markers distinguish models
MODELS = ("o", "s", "^", "D", "v", "P", "X", "*")
# fill of a marker by budget; None is the policy's colour
FILLS = (None, "white", "0.75", "0.5")
PARTS = [("finishing", "#E69F00", "////"), ("correctness", "#0072B2", "")]
KINDS = [
    ("finishing", "#E69F00", "////"),
    ("sharpening", "#0072B2", ""),
    ("new_solving", "#CC79A7", "...."),
]


_policies: dict[str, dict] = {}  # set by `use_policies`


def use_policies(settings: dict[str, dict]) -> None:
    """Set the looks of the study's policies for `style`, from the policies' configuration. Each
    call replaces the policies of the previous call."""
    _policies.clear()
    _policies.update(looks(settings))


def looks(settings: dict[str, dict]) -> dict[str, dict]:
    """{policy: colour, marker, dashes, fill and size}. The rule sets the hue. Policies that differ
    in the budget alone differ in fill and size; the fifth has the fill and size of the first, but
    other dashes, and so on. Other policies of a hue differ in marker and dashes.
    """
    ways: dict[str, list[str]] = {}
    for name, policy in settings.items():
        ways.setdefault(way_of_choosing(policy), []).append(name)
    rules = {way: json.loads(way)["rule"] for way in ways}
    # of each family, the way of choosing with the fewest settings gets the family's own marker
    plain_first = sorted(ways, key=lambda way: (way.count(":"), rules[way] not in FAMILIES, way))
    spare_marks, styles, drawn_families = further_marks(), {}, set()
    for way in plain_first:
        names, family = ways[way], RULES[rules[way]].family
        color, marker, dashes = FAMILIES[family]
        if family in drawn_families:
            marker, spare_dashes = next(spare_marks)
            dashes = shift_dashes(family, spare_dashes)
        drawn_families.add(family)
        largest_first = sorted(names, key=lambda name: -budget_size(settings[name]))
        for place, name in enumerate(largest_first):
            styles[name] = {
                "color": color,
                "marker": marker,
                "linestyle": DASHES[(DASHES.index(dashes) + place // len(FILLS)) % len(DASHES)],
                "markerfacecolor": FILLS[place % len(FILLS)] or color,
                "markersize": MARKER_SIZE - SIZE_STEP * (place % len(FILLS)),
            }
    return styles


def way_of_choosing(policy: dict) -> str:
    """The settings of a policy except the size of its budget, as text. Policies of one way differ
    only in this size, and their budgets are of one kind: a share of the pool, a number of prompts, or
    money."""
    budget = policy.get("budget")
    way = policy | {"budget": sorted(budget) if isinstance(budget, dict) else None}
    return json.dumps(way, sort_keys=True)


def budget_size(policy: dict) -> float:
    """A number by which the budgets of one way of choosing are sorted."""
    budget = policy.get("budget", 0)
    if not isinstance(budget, dict):
        return budget
    return budget["prompts"] if "prompts" in budget else budget["money"] / budget["label_price"]


def budget_lines(settings: dict[str, dict]) -> dict[str, str]:
    """{policy: name of the line that joins the policy's point to the points of other budgets}. A
    line joins the policies of one way of choosing, and has the name of the policy with the largest
    budget."""
    names: dict[str, str] = {}
    for name in sorted(settings, key=lambda name: -budget_size(settings[name])):
        names.setdefault(way_of_choosing(settings[name]), name)
    return {name: names[way_of_choosing(policy)] for name, policy in settings.items()}


def shift_dashes(family: str, dashes: str) -> str:
    """Dashes of a further mark of a family, where `dashes` come from `further_marks`: DASHES[0]
    becomes the entry after the family's own dashes, DASHES[1] the next entry, and so on. Only the
    last of DASHES becomes the family's own dashes."""
    family_index = DASHES.index(FAMILIES[family][2])
    return DASHES[(family_index + 1 + DASHES.index(dashes)) % len(DASHES)]


def further_marks() -> Iterator[tuple[str, str]]:
    """Different pairs of marker and dashes. Raise a `UserError` after the last pair."""
    for turn in range(len(DASHES)):
        for index, marker in enumerate(MARKERS):
            yield marker, DASHES[(index + turn) % len(DASHES)]
    raise UserError(
        "more policies in one figure than combinations of marker and line style; split the study into several studies"
    )


def style(name: str, names: list[str]) -> dict:
    """Colour, marker, dashes, fill and size of a policy, a rule or an arm ("policy, recipe"). Names
    of the form "policy, recipe", and other names such as "base", get a marker by their position
    among the names in `names` that have no style of their own."""
    if look := _policies.get(name):
        return dict(look)
    if name in FAMILIES:
        color, marker, dashes = FAMILIES[name]
        look = {"color": color, "marker": marker, "linestyle": dashes}
    else:
        unstyled = [label for label in names if label not in _policies and label not in FAMILIES]
        marker, dashes = next(itertools.islice(further_marks(), unstyled.index(name), None))
        if (rule := name.split(", ")[0]) in RULES:
            dashes = shift_dashes(RULES[rule].family, dashes)
        look = {"color": hue(name.split(", ")[0]), "marker": marker, "linestyle": dashes}
    return look | {"markerfacecolor": look["color"], "markersize": MARKER_SIZE}


def hue(policy: str) -> str:
    """The colour of the family of a rule, or of a policy's rule; NO_RULE for other names."""
    if policy in _policies:
        return _policies[policy]["color"]
    return FAMILIES[RULES[policy].family][0] if policy in RULES else NO_RULE


def family(policy: str) -> str:
    """The name of the family of a policy's rule; the policy itself if it has no rule."""
    return next((name for name, (color, *_) in FAMILIES.items() if color == hue(policy)), policy)


def mark(policy: str, policies: list[str], model: int | None = None) -> dict:
    """A policy's style for single points. The index of the model (`model`, None for a single model)
    sets the marker's shape."""
    shape = {} if model is None else {"marker": MODELS[model % len(MODELS)]}
    return style(policy, policies) | shape | {"linestyle": "none"}


def panels(count: int, height: float = 2.3, columns: int | None = None, **shared):
    """A figure with `count` panels, and the panels' axes row by row. Panels are `height` inches
    high, or lower if they do not fit on a page."""
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
            # shared axes hide the labels of a panel above an empty place in the last row
            axis.tick_params(labelbottom=True)


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


def marks_legend(figure, axis, policies: list[str], models: list[str]) -> None:
    """Draw the legend for points in the style of `mark`: mark of each policy, shape of each
    model."""
    keys = axis.twinx()  # invisible axes that only hold the legend's entries
    keys.set_axis_off()
    for policy in policies:
        keys.plot([], [], label=policy, **mark(policy, policies, model=0 if models else None))
    for number, model in enumerate(models):
        keys.plot(
            [], [], marker=MODELS[number % len(MODELS)], linestyle="none", color="0.35", label=model
        )
    legend(figure, [keys])


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


def format_range(numbers) -> str:
    """'3 to 5', or '3' if all numbers are equal."""
    smallest, largest = (f"{end:,.0f}" for end in (min(numbers), max(numbers)))
    return smallest if smallest == largest else f"{smallest} to {largest}"


def bars(frame: pd.DataFrame, name: str, scale: float = 100, share: bool = False) -> list:
    """Lengths of the error bars below and above the values of column `name`, for `errorbar`; nan if
    there is no interval. With `share`, the bars stay within 0 and 1."""
    low, high = frame[f"{name}_low"], frame[f"{name}_high"]
    if share:
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
    share: bool = False,
    **look,
) -> None:
    lengths = bars(frame, name, scale, share)
    axis.errorbar(places, scale * frame[name], yerr=lengths, elinewidth=bar_width, **look)
