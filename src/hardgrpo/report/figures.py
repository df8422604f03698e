"""The figures of studies and of analyses of published numbers.

A figure is a function in ALL. Its arguments are the summary tables that it shows (labelled,
`summaries.read_all`), and `study`, if it needs the configuration. It returns the figure and the
drawn rows, for the CSV file, or None if the study has nothing to show. Its caption in registry.py
says what it shows. To add a figure, write a function with the decorator `figure`, and an entry in
registry.py.

There are two shapes: `curves`, panels in which a line or a row of marks shows a policy along an
axis, and `forest`, panels in which each arm is a row with its name. With more than MOST_ARMS arms,
figures that are curves become forests.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hardgrpo.analysis import count_tables
from hardgrpo.analysis.columns import CELL, RUNS, interval
from hardgrpo.analysis.explanations import LEADING
from hardgrpo.analysis.formats import points
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting
from hardgrpo.report.plotting import MOST_ARMS, spread
from hardgrpo.selection import policies
from hardgrpo.selection import probe_sizes as probes
from hardgrpo.study import paths
from hardgrpo.study.study import Study

TEST, TASK = ["model", "task", "eval_task"], ["model", "task"]
GAIN = "gain in accuracy (points)"
EARLIER = "at earlier checkpoints (darker: later)"
LEAST_POINTS = 10  # least number of points of a regression that is drawn
ROW, HEAD = 0.145, 0.85  # inches: height of a row, and of a panel's titles, ticks and margins
BASE = {"color": "0.45", "linewidth": 0.9, "linestyle": "--", "zorder": 1}
BARS = {"fmt": "none", "elinewidth": 0.9, "zorder": 3}

ALL: dict[str, Callable] = {}


def figure(function: Callable) -> Callable:
    ALL[function.__name__] = function
    return function


def sources(name: str) -> list[str]:
    """The tables that a figure shows."""
    return [name for name in inspect.signature(ALL[name]).parameters if name != "study"]


def draw(name: str, tables: Mapping[str, pd.DataFrame], study: Study):
    """(figure, drawn rows) of a study, or None if the figure's first table has no rows, or the
    figure has nothing to show. `tables` holds summary tables by name."""
    if tables[sources(name)[0]].empty:
        return None
    plotting.use_policies(policy_settings(study))
    values = {**tables, "study": study}
    return ALL[name](**{key: values[key] for key in inspect.signature(ALL[name]).parameters})


def policy_settings(study: Study) -> dict[str, dict]:
    """The configuration of the policies of a study. Policies of recorded runs may have none."""
    policies = study.config.policies
    return {name: policies[name].entry for name in study.policies if name in policies}


# --- the two shapes


@dataclass
class Panel:
    """An axis with its rows. `key` are the values that the rows have in common, `name` is the
    panel's title. In a forest, the column `place` of the rows is their place on the y axis."""

    axis: plotting.plt.Axes
    rows: pd.DataFrame
    key: dict
    name: str

    def title(self, *lines: str) -> None:
        plotting.title(self.axis, self.name, *lines)

    def lines(
        self,
        column: str,
        x: str,
        width: float,
        by: str = "policy",
        label: str = "{}",
        shared: float | None = None,
        **look,
    ) -> None:
        """Draw a line with intervals for each value of `by`. The marks at one x stand side by side
        over the distance `width`, so that their intervals do not overlap, except at the x
        `shared`, where all lines have the same point."""
        names = list(dict.fromkeys(self.rows[by]))
        for number, name in enumerate(names):
            line = self.rows[self.rows[by] == name].sort_values(x, kind="stable")
            places = line[x] + spread(number, len(names), width) * (line[x] != shared)
            style = plotting.style(name, self.key["names"]) | look
            plotting.series(self.axis, places, line, column, label=label.format(name), **style)


def are_many(frame: pd.DataFrame, column: str = "arm") -> bool:
    """Whether a figure has more arms than one panel can show as lines."""
    return frame[column].nunique() > MOST_ARMS


def _panels(frame: pd.DataFrame, keys: list[str], axes, by: str = "policy") -> list[Panel]:
    """A panel for each group of rows with the same `keys`. `key["names"]` are all values of the
    column `by` in the figure."""
    models, names = frame.model.nunique(), list(dict.fromkeys(frame[by]))
    made = []
    for axis, (values, rows) in zip(axes, plotting.groups(frame, keys)):
        key = dict(zip(keys, values)) | {"names": names}
        test, group = key.get("eval_task", key["task"]), rows if "recipe" in key else None
        name = plotting.panel_title(key["model"], key["task"], test, models, group)
        made.append(Panel(axis, rows, key, name))
    return made


def curves(frame: pd.DataFrame, keys: list[str], by: str = "policy", **layout):
    """(figure, panels): a panel for each group of rows with the same `keys`."""
    figure, axes = plotting.panels(len(plotting.groups(frame, keys)), **layout)
    return figure, _panels(frame, keys, axes, by)


def finish_curves(figure, panels: list[Panel], x: str, y: str):
    axes = [panel.axis for panel in panels]
    plotting.outer_labels(axes, x, y)
    plotting.legend(figure, axes)
    return figure


def few_steps(panel: Panel) -> None:
    """A tick at each checkpoint, if there are few."""
    if panel.rows.step.nunique() < 7:
        panel.axis.set_xticks(sorted(panel.rows.step.unique()))


def forest(
    frame: pd.DataFrame,
    keys: list[str],
    column: str = "arm",
    columns: int | None = None,
    row: float = ROW,
    order: list[str] | None = None,
):
    """(figure, panels): a panel for each group of rows with the same `keys`, and in it a row for
    each value of `column`. `order` lists the rows from top to bottom; `row` is the height of a row
    in inches."""
    names = [list(dict.fromkeys(rows[column])) for _, rows in plotting.groups(frame, keys)]
    figure, axes, places = row_panels(names, columns, row, order or by_hue(frame, column))
    by = "group" if column == "group" else "policy"
    panels = _panels(frame, keys, axes, by)
    for panel, place in zip(panels, places):
        panel.rows = panel.rows.assign(place=panel.rows[column].map(place))
    return figure, panels


def finish_forest(figure, panels: list[Panel], x: str):
    figure.supxlabel(x, fontsize=8)
    plotting.legend(figure, [panel.axis for panel in panels])
    return figure


def by_hue(frame: pd.DataFrame, column: str = "arm") -> list[str]:
    """The arms in the order of the table, but with all arms of a hue together, and within a hue all
    arms of a policy together. `column` holds the arms: `arm`, `minus_arm`, or another column of
    names, which stay in the order of the table."""
    policy = {"arm": "policy", "minus_arm": "minus"}.get(column)
    if policy is None:
        return list(dict.fromkeys(frame[column]))
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


def row_panels(names: list[list[str]], columns: int | None, row: float, order: list[str]):
    """(figure, axes, places) of a figure with a panel for each list of row names. `places` has, for
    each panel, {name of a row: its place on the y axis}. The rows of all panels in a line are at
    the same places, and only the line's first panel shows the names of rows. Without `columns`, the
    panels of a line share most of their rows (`bands`)."""
    band_panels = bands(names) if columns is None else [list(range(len(names)))]
    widest = max(map(len, band_panels))
    columns = columns or {1: 1, 2: 2, 4: 2}.get(widest, 3)
    lines = [
        band[start : start + columns]
        for band in band_panels
        for start in range(0, len(band), columns)
    ]
    rows = [[name for name in order if any(name in names[i] for i in line)] for line in lines]
    heights = [HEAD + row * len(row_names) for row_names in rows]
    shrink = min(1.0, (plotting.TALLEST - 0.5) / sum(heights))
    is_small = len(names) == 1 and len(names[0]) <= MOST_ARMS
    plotting.plt.style.use(plotting.STYLE)
    figure, grid = plotting.plt.subplots(
        len(lines),
        columns,
        figsize=(plotting.COLUMN if is_small else plotting.WIDE, 0.3 + shrink * sum(heights)),
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
            axis.set_yticks(
                range(len(row_names)), row_names if column == 0 else [""] * len(row_names)
            )
            axis.set_ylim(len(row_names) - 0.4, -0.6)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="y", linewidth=0.3)
            axes[line[column]] = axis
            places[line[column]] = {name: place for place, name in enumerate(row_names)}
    return figure, axes, places


# --- marks of a forest


def zero_line(axis) -> None:
    axis.axvline(0, color="black", linewidth=0.6)


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
        axis.plot(scale * line[name], [place] * len(line), color="0.8", linewidth=0.8, zorder=1)
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


def base_line(axis, value: float, low: float, high: float) -> None:
    """Draw the base model's share as a dashed line, with its interval, if known, as a band."""
    axis.axvline(100 * value, label="base model", **BASE)
    if low == low:
        ends = plotting.limit_share(*map(pd.Series, ([value], [low], [high])))
        axis.axvspan(*(100 * end.iloc[0] for end in ends), color="0.93", zorder=0, linewidth=0)


def part_bars(axis, rows: pd.DataFrame, parts: list[tuple]) -> None:
    """Draw the parts of each gain below one another, in points, with intervals, and a line at the
    gain."""
    height = 0.8 / len(parts)
    for number, (part, color, hatch) in enumerate(parts):
        places = rows.place + spread(number, len(parts), 0.8)
        look = {"hatch": hatch, "edgecolor": "white", "linewidth": 0.3}
        label = part.replace("_", " ")
        axis.barh(places, 100 * rows[part], 0.95 * height, color=color, label=label, **look)
        lengths = plotting.bars(rows, part)
        axis.errorbar(100 * rows[part], places, xerr=lengths, ecolor="black", capsize=0, **BARS)
    look = {"color": "black", "linewidth": 1.4, "label": "gain (their sum)"}
    axis.vlines(100 * rows.gain, rows.place - 0.42, rows.place + 0.42, **look)
    zero_line(axis)


def parts_forest(frame: pd.DataFrame, parts: list[tuple], keys: list[str] = TEST, **layout):
    figure, panels = forest(frame, keys, row=0.05 + 0.075 * len(parts), **layout)
    for panel in panels:
        part_bars(panel.axis, panel.rows, parts)
    return figure, panels


def dot_forest(
    frame: pd.DataFrame,
    keys: list[str],
    quantity: str,
    x_label: str,
    end_label: str = "",
    labels_title: str = "",
    find_base: Callable[[Panel], pd.Series] | None = None,
    **layout,
):
    """(figure, panels) of a forest of dots, the values of `quantity`. Dots at the end of the training
    (`part` is 1) have intervals, and `end_label` in the legend; dots at earlier checkpoints are grey.
    A panel has a line at zero, or at the share of the base model, whose row `find_base` returns. With
    `labels_title`, the numbers in column `labels` are written beside the rows."""
    figure, panels = forest(frame, keys, **layout)
    for panel in panels:
        panel.rows = panel.rows.sort_values(["place", "step"], kind="stable")
        if find_base is None:
            zero_line(panel.axis)
        else:
            base_line(panel.axis, *find_base(panel)[interval(quantity)])
        last = panel.rows[panel.rows.part == 1]
        if len(last) < len(panel.rows):
            early_dots(panel.axis, panel.rows, quantity, EARLIER)
        dots(panel.axis, last, quantity, share=find_base is not None, label=end_label)
        if labels_title:
            numbers_beside(panel.axis, last.place, last.labels, labels_title)
        panel.title(plotting.sizes(panel.rows))
    return finish_forest(figure, panels, x_label), panels


# --- design


@figure
def difficulty(difficulty):
    """In the drawn rows, `share` is `problems` divided by the sum over the group (the pool, or the
    subset of a policy)."""
    sums = difficulty.groupby([*TASK, "group"]).problems.transform("sum")
    shares = difficulty.assign(share=difficulty.problems / sums, policy=difficulty.group)
    drawn_rows = shares[[*TASK, "group", "pass_rate", "problems", "share"]]
    policies = shares[shares.group != "pool"].assign(arm=lambda rows: rows.group)
    figure, panels = forest(shares, TASK, "group", order=["pool", *by_hue(policies)])
    for panel in panels:
        for group, rows in panel.rows.groupby("group", sort=False):
            look = {"s": 90 * rows.share, "linewidths": 0}
            look["color"] = "0.6" if group == "pool" else plotting.hue(group)
            panel.axis.scatter(rows.pass_rate, rows.place, **look)
        panel.axis.set_xlim(-0.05, 1.05)
        panel.title(_pool_size(panel.rows))
    return finish_forest(figure, panels, "pass rate of the base model"), drawn_rows


def _pool_size(rows: pd.DataFrame) -> str:
    is_pool = rows.group == "pool"
    sizes = rows[~is_pool].groupby("group").problems.sum()
    subsets = f", subsets of {plotting.format_range(sizes)}" if len(sizes) else ""
    return f"pool of {rows[is_pool].problems.sum():,.0f}{subsets}"


# --- results


@figure
def accuracy(accuracy):
    frame = accuracy[accuracy.decoding == "sampled"]
    drawn_rows = frame[[*CELL, "step", *interval("accuracy"), "problems", "samples", "seeds"]]
    if are_many(frame):
        bases = frame[frame.step == 0].drop_duplicates(TEST).set_index(TEST)
        rows = frame[frame.step > 0].assign(
            part=frame.step / frame.groupby(CELL).step.transform("max")
        )
        base = lambda panel: bases.loc[tuple(map(panel.key.get, TEST))]
        figure, _ = dot_forest(rows, TEST, "accuracy", "accuracy (%)", "at the end", find_base=base)
        return figure, drawn_rows
    figure, panels = curves(frame, [*TEST, "recipe"])
    for panel in panels:
        span = panel.rows.step.max() - panel.rows.step.min()
        panel.lines("accuracy", "step", 0.05 * span, shared=0, bar_width=0.7, share=True)
        panel.title(plotting.sizes(panel.rows))
        few_steps(panel)
        panel.axis.set_xlim(
            panel.rows.step.min() - 0.04 * span, panel.rows.step.max() + 0.06 * span
        )
    return finish_curves(figure, panels, "updates", "accuracy (%)"), drawn_rows


@figure
def ahead(differences, paired, gains):
    frame = lead_rows(paired, differences, gains)
    if frame.empty:
        return None
    if are_many(frame, "minus_arm"):
        part = frame.step / frame.groupby([*TEST, "minus_arm"]).step.transform("max")
        rows = frame.assign(part=part, policy=frame.minus)
        label = f"lead of {LEADING} over the policy of the row (points)"
        figure, _ = dot_forest(rows, TEST, "lead", label, "at the end", column="minus_arm")
    else:
        figure, panels = curves(frame, [*TEST, "recipe"], by="minus")
        for panel in panels:
            width, label = 0.05 * panel.rows.step.max(), f"{LEADING} − {{}}"
            panel.lines("lead", "step", width, by="minus", label=label, bar_width=0.7)
            panel.axis.axhline(0, color="black", linewidth=0.6)
            few_steps(panel)
            panel.title(plotting.sizes(panel.rows))
        figure = finish_curves(figure, panels, "updates", "lead (points)")
    return figure, frame.drop(columns="policy")


def lead_rows(paired: pd.DataFrame, differences: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """The lead of `hard` over other policies of the same recipe: from `paired` at earlier
    checkpoints, and from `differences` at the last checkpoint."""
    ends = gains[gains.decoding == "sampled"].groupby(CELL, sort=False).step.max()
    early = paired[paired["what"] == "checkpoint"]
    last_steps = [ends[tuple(key)] for key in differences[CELL].itertuples(index=False)]
    rows = pd.concat(
        [early.assign(step=early["at"].astype(int)), differences.assign(step=last_steps)],
        ignore_index=True,
    )
    # panels in the order of the other figures
    tests = {key: place for place, key in enumerate(dict.fromkeys(zip(*map(gains.get, TEST))))}
    rows = rows.assign(place=[tests.get(key, len(tests)) for key in zip(*map(rows.get, TEST))])
    rows = rows.sort_values("place", kind="stable", ignore_index=True)
    rows = rows[rows.recipe == rows.minus_recipe]
    swapped = rows[rows.minus == LEADING].rename(
        columns={"policy": "minus", "minus": "policy", "arm": "minus_arm", "minus_arm": "arm"}
    )
    swapped = swapped.assign(
        lead=-swapped.difference,
        lead_low=-swapped.difference_high,
        lead_high=-swapped.difference_low,
    )
    names = dict(zip(interval("difference"), interval("lead")))
    rows = pd.concat([rows[rows.policy == LEADING].rename(columns=names), swapped])
    columns = [*TEST, "policy", "recipe", "arm", "minus", "minus_arm", "step", *interval("lead")]
    return rows[rows.minus != LEADING].sort_index()[[*columns, "problems", "seeds"]]


@figure
def budget(gains, subsets, study):
    """Drawn if a rule chooses subsets of more than one size. In the drawn rows, `share` is prompts / pool, and `line` the policy's line of
    `plotting.budget_lines`, with the recipe if it is not the study's first. If two bars would have
    the same line and share, `line` of the second bar is the label of its arm."""
    chosen = [study.config.policies[name] for name in policy_settings(study)]
    sizes = {
        (policy.rule, str(policy.budget))
        for policy in chosen
        if not policy.probed_on and policy.budget
    }
    if len(sizes) == len({rule for rule, _ in sizes}):
        return None
    gains = own_test_samples(gains).drop(columns=["eval_task", "decoding"])
    # a policy's subset is the same for all recipes
    sizes = ["rule", "budget", "prompts", "pool"]
    frame = gains.merge(subsets[[*TASK, "policy", *sizes]], on=[*TASK, "policy"])
    frame["share"] = frame.prompts / frame.pool
    frame["line"] = line_names(frame, study)
    is_repeated = frame.duplicated([*TASK, "line", "share"])
    frame["line"] = frame.line.where(~is_repeated, frame.arm)
    frame["row"] = [f"{name}, {100 * share:.3g} %" for name, share in zip(frame.line, frame.share)]
    order = list(dict.fromkeys(frame.sort_values("share", ascending=False, kind="stable").line))
    frame["order"] = frame.line.map(order.index)
    frame = frame.sort_values(["order", "share"], ascending=[True, False], kind="stable")
    figure, panels = forest(frame, TASK, "row")
    for panel in panels:
        rows, hues = panel.rows, list(map(plotting.hue, panel.rows.policy))
        # alpha lightens the bars: on a black bar, the interval would be invisible
        panel.axis.barh(rows.place, 100 * rows.gain, 0.7, color=hues, alpha=0.45, linewidth=0)
        lengths = plotting.bars(rows, "gain")
        panel.axis.errorbar(100 * rows.gain, rows.place, xerr=lengths, ecolor="0.2", **BARS)
        zero_line(panel.axis)
        panel.title(f"pool of {rows.pool.max():,.0f}; {plotting.sizes(rows)}")
    figure.supxlabel("gain in accuracy (points), by policy and share of the pool", fontsize=8)
    columns = [*TASK, "line", "policy", "recipe", *sizes, "share", "step", *interval("gain")]
    drawn_rows = pd.concat([panel.rows for panel in panels], ignore_index=True)
    return figure, drawn_rows[[*columns, "problems", "seeds"]]


def line_names(frame: pd.DataFrame, study: Study) -> pd.Series:
    """The name of each row's line, with the recipe if it is not the study's first."""
    line = frame.policy.map(plotting.budget_lines(policy_settings(study)))
    return line.where(frame.arm == frame.policy, line + ", " + frame.recipe)


@figure
def labels(gains, spent, study):
    """Drawn if the runs differ in the prompts whose labels they need (for example the whole pool, the
    chosen prompts, or none), and a policy chooses by another measure than the pass rate. `line` is as
    in `budget`. If a run chooses prompts while it trains, figure `rollouts` shows the labels."""
    settings = policy_settings(study)
    recipes = study.config.recipes
    needs = {
        (
            policies.labels_before(settings[run.policy]),
            recipes[run.recipe].reward in (None, "correct"),
        )
        for run in study.runs
        if run.recipe in recipes
    }
    measures = {study.config.policies[name].measure for name in settings}
    if len(needs) < 2 or measures == {"pass_rate"} or chooses_while_training(study):
        return None
    gains = own_test_samples(gains).drop(columns=["eval_task", "decoding"])
    frame = gains.merge(spent[[*RUNS, "labels"]], on=RUNS)
    frame["line"] = line_names(frame, study)
    columns = [*TASK, "line", "policy", "recipe", "labels", "step", *interval("gain")]
    drawn_rows = frame[[*columns, "problems", "seeds"]]
    order = by_labels(frame)
    look = {"labels_title": "labels bought", "order": order}
    return dot_forest(frame.assign(part=1), TASK, "gain", GAIN, **look)[0], drawn_rows


def by_labels(frame: pd.DataFrame) -> list[str]:
    """The arms, sorted by their number of labels."""
    return list(frame.groupby("arm", sort=False).labels.mean().sort_values(kind="stable").index)


def chooses_while_training(study: Study) -> bool:
    """Whether a run chooses prompts while it trains, or has process rewards."""
    return any(study.config.recipes[name].is_online for name in study.recipes)


@figure
def rollouts(accuracy, gains, spent, study):
    """Drawn if a run chooses prompts while it trains and all runs of a task sample equally many
    rollouts. In the drawn rows, `rollouts` is the number of rollouts until
    the checkpoint, and `labels` the number of labels of the run; both are means over seeds. Only the
    last checkpoint has an interval."""
    if not chooses_while_training(study) or "rollouts" not in (study.held_constant or []):
        return None
    accuracies, ends = own_test_samples(accuracy), own_test_samples(gains)
    bases = accuracies[accuracies.step == 0].set_index(RUNS).accuracy.rename("base")
    final = ends.set_index(RUNS)[["step", "gain_low", "gain_high"]].rename(columns={"step": "end"})
    frame = accuracies[accuracies.step > 0]
    for columns in (bases, final, spent.set_index(RUNS)[["rollouts", "labels"]]):
        frame = frame.join(columns, on=RUNS)
    frame["gain"] = frame.accuracy - frame.base
    frame["part"] = frame.step / frame.end
    frame["rollouts"] *= frame.part  # all sampling steps of an arm sample equally many rollouts
    frame.loc[frame.part < 1, ["gain_low", "gain_high"]] = None
    # a row for each arm and panel
    look = {"labels_title": "labels needed", "order": by_labels(frame.drop_duplicates(RUNS))}
    frame = frame.sort_values("part", kind="stable")
    figure, panels = dot_forest(frame, TASK, "gain", GAIN, "when all rollouts are used", **look)
    columns = [*RUNS, "labels", "step", "rollouts", *interval("gain"), "problems", "seeds"]
    drawn_rows = pd.concat([panel.rows for panel in panels], ignore_index=True)[columns]
    return figure, drawn_rows


@figure
def trajectories(trajectories):
    """The later epochs are divided into equal stretches; a point is the mean share of groups in a
    stretch, drawn at the middle of the stretch."""
    outcomes = {"mixed": "learnable", "all_wrong": "all wrong", "all_right": "all right"}
    frame = trajectories[trajectories.stretch.notna()]
    frame = frame.assign(middle=50 * (frame.begin + frame.end))
    count, models = len(plotting.groups(frame, TASK)), frame.model.nunique()
    figure, axes = plotting.panels(3 * count, columns=3, height=2.6, sharey=True)
    for number, (name, words) in enumerate(outcomes.items()):
        for panel in _panels(frame, TASK, axes[number::3]):
            width = 50 * (panel.rows.end - panel.rows.begin).min()
            look = {"markersize": 3, "capsize": 0, "bar_width": 0.5, "share": True}
            panel.lines(name, "middle", width, **look)
            plotting.title(panel.axis, words, *([panel.name] if models > 1 else []))
    axes[0].set_ylim(-4, 104)
    plotting.outer_labels(axes, "epochs after the choice (%)", "groups (%)")
    plotting.legend(figure, axes)
    columns = [column for name in outcomes for column in interval(name)]
    keys = [*TASK, "policy", "stretch", "begin", "end"]
    return figure, frame[[*keys, *columns, "epochs", "prompts", "seeds"]]


# --- what the gains are made of


@figure
def parts(parts):
    figure, panels = parts_forest(parts, plotting.PARTS)
    for panel in panels:
        before = f"{100 * panel.rows.base_answered.iloc[0]:.1f}"
        ends = panel.rows.answered.min(), panel.rows.answered.max()
        after = " to ".join(dict.fromkeys(f"{100 * share:.1f}" for share in ends))
        panel.title(f"answered {before} → {after} %", plotting.sizes(panel.rows))
    return finish_forest(figure, panels, "points of accuracy"), parts[PART_COLUMNS]


PART_COLUMNS = [*CELL, "step", "gain", *interval("finishing"), *interval("correctness")]
PART_COLUMNS += ["base_answered", "answered", "base_accuracy", "accuracy", "problems", "seeds"]


@figure
def kinds(kinds):
    frame = kinds[kinds.tier.isna()]
    figure, panels = parts_forest(frame, plotting.KINDS)
    look = {"fmt": "D", "markersize": 3.6, "color": "black", "markerfacecolor": "white"}
    look |= {"capsize": 0, "elinewidth": 0.8, "label": "greedy gain"}
    for panel in panels:
        rows = panel.rows
        if rows.greedy_gain.notna().any():
            lengths = plotting.bars(rows, "greedy_gain")
            panel.axis.errorbar(100 * rows.greedy_gain, rows.place + 0.45, xerr=lengths, **look)
            # space for the last diamond
            panel.axis.set_ylim(bottom=panel.axis.get_ylim()[0] + 0.3)
        samples, share = int(rows.reach_samples.min()), 100 * rows.out_of_reach.mean()
        panel.title(f"out of reach in {samples} samples: {share:.1f} %", plotting.sizes(rows))
    columns = [column for part, *_ in plotting.KINDS for column in interval(part)]
    keys = [*CELL, "step", "reach_samples", "out_of_reach", *interval("gain")]
    drawn_rows = frame[[*keys, *columns, *interval("greedy_gain"), "problems", "seeds"]]
    return finish_forest(figure, panels, "points of accuracy"), drawn_rows


@figure
def truncation(parts, study):
    """The same completions are graded under both limits. A line of panels for each model and training
    task that was tested under both limits, and a column for each test."""
    limits = completion_limits(study)
    tests = sorted(limits, key=limits.get)
    frame = parts[parts.eval_task.isin(tests)]
    is_complete = frame.groupby(TASK).eval_task.transform("nunique") == len(tests)
    if not is_complete.any():
        return None
    frame = frame[is_complete].assign(number=lambda rows: rows.eval_task.map(tests.index))
    frame["line"] = frame.groupby(TASK, sort=False).ngroup()
    frame = frame.sort_values(["line", "number"], kind="stable")
    keys = ["line", "number", *TASK]
    figure, panels = parts_forest(frame, plotting.PARTS, keys, columns=len(tests))
    ends = [panel.axis.get_xlim() for panel in panels]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    for panel in panels:
        # one scale, so that gains under the two limits can be compared, with space for the numbers
        panel.axis.set_xlim(low, high + 0.2 * (high - low))
        for row in panel.rows.itertuples():
            bars = [end for end in (row.finishing_high, row.correctness_high) if end == end]
            look = {"xytext": (2, 0), "textcoords": "offset points", "va": "center"}
            place = 100 * max(0, row.gain, *bars), row.place
            panel.axis.annotate(points(row.gain, "+"), place, fontsize=7, **look)
        base = panel.rows.iloc[0]
        name = panel.key["task"]
        name = name if frame.model.nunique() == 1 else f"{panel.key['model']}, {name}"
        plotting.title(
            panel.axis,
            f"trained on {name}, tested at {limits[tests[panel.key['number']]]} tokens",
            f"base: accuracy {100 * base.base_accuracy:.1f} %, answered {100 * base.base_answered:.1f} %",
            plotting.sizes(panel.rows),
        )
    drawn_rows = pd.concat([panel.rows for panel in panels], ignore_index=True)
    return finish_forest(figure, panels, GAIN), drawn_rows[PART_COLUMNS]


def completion_limits(study: Study) -> dict[str, int]:
    """{test: completion limit} of all tests that belong to a pair. Both tests of a pair grade the
    same completions: one test truncates them at a smaller limit (`cut_from`), the other test grades
    them as sampled."""
    tasks = study.config.tasks
    limits = {}
    for model, task in {(run.model, run.task) for run in study.runs}:
        tests = study.eval_tasks(task, model)
        pairs = [(test, tasks[test].cut_from) for test in tests if tasks[test].cut_from in tests]
        limits |= {test: tasks[test].completion_tokens for pair in pairs for test in pair}
    return limits


@figure
def pass_at_k(pass_at_k, base_pass_at_k, study):
    """Drawn if the base models have reach samples. With many arms, only the smallest and the largest k
    that the base model and the trained models have in common."""
    if not any(paths.has_reach(study, run.model, test) for run, test in study.tests_of_runs):
        return None
    if not are_many(pass_at_k):
        figure, panels = curves(pass_at_k, [*TEST, "recipe"])
        for panel in panels:
            base = _of_test(base_pass_at_k, panel)
            grey = {"color": "0.5", "share": True}
            plotting.series(
                panel.axis, base.k, base, "pass", label="base model", linewidth=2.0, **grey
            )
            if base["sound"].notna().any():
                look = grey | {"label": "base model, every step right", "linestyle": "--"}
                plotting.series(panel.axis, base.k, base, "sound", **look)
            panel.lines("pass", "k", 0, share=True)
            panel.axis.set_xscale("log", base=2)
            marks = sorted({*panel.rows.k, *base.k})
            panel.axis.set_xticks(marks, [str(int(k)) for k in marks])
            panel.title(plotting.sizes(panel.rows))
        figure = finish_curves(figure, panels, "k", "pass@k (%)")
        return figure, _with_base(pass_at_k, base_pass_at_k)
    # the tables may have different values of k, because the numbers of samples may differ
    key = ["model", "eval_task", "k"]
    frame = pass_at_k.merge(base_pass_at_k[key].drop_duplicates())
    k_of_test = frame.groupby(TEST).k
    ends = k_of_test.transform("min"), k_of_test.transform("max")
    frame = frame[(frame.k == ends[0]) | (frame.k == ends[1])]
    base_rows = base_pass_at_k.merge(frame[key].drop_duplicates())
    figure, panels = forest(frame, [*TEST, "k"])
    for panel in panels:
        base = _of_test(base_rows, panel)
        base = base[base.k == panel.key["k"]].iloc[0]
        base_line(panel.axis, base["pass"], base.pass_low, base.pass_high)
        dots(panel.axis, panel.rows, "pass", share=True, label="after training")
        panel.name += f", pass@{int(panel.key['k'])}"
        panel.title(plotting.sizes(panel.rows))
    return finish_forest(figure, panels, "pass@k (%)"), _with_base(frame, base_rows)


def _of_test(base_pass_at_k: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    is_model = base_pass_at_k.model == panel.key["model"]
    return base_pass_at_k[is_model & (base_pass_at_k.eval_task == panel.key["eval_task"])]


def _with_base(frame: pd.DataFrame, base_pass_at_k: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, base_pass_at_k.assign(policy="base")], ignore_index=True)


# --- training


@figure
def lengths(curves):
    """The truncated share only if any completion is truncated. With many arms, a row has a point for
    the first and one for the last updates."""
    series = [("tokens_mean", 1, "completion length\n(tokens)")]
    if curves.truncated_share.any():
        series.append(("truncated_share", 100, "truncated (%)"))
    if not are_many(curves):
        figure, axes = stacks(curves, series)
        for axis in axes.get("truncated_share", []):
            top = max(1.0, axis.get_ylim()[1])
            axis.set_ylim(-0.04 * top, top)
        return figure, curves[curve_columns(["tokens_mean", "truncated_share"])]
    ends = first_and_last(curves)
    frame = pd.concat([ends.assign(number=number) for number in range(len(series))])
    frame = frame.assign(place_of_pair=frame.groupby(TASK, sort=False).ngroup())
    frame = frame.sort_values(["place_of_pair", "number"], kind="stable")
    figure, panels = forest(frame, [*TASK, "number"], columns=2, order=by_hue(ends))
    for panel in panels:
        name, scale, words = series[panel.key["number"]]
        rows = panel.rows.assign(part=(panel.rows.stretch == "last").astype(float))
        is_share = name.endswith("_share")
        early_dots(panel.axis, rows, name, "first updates", scale)
        dots(panel.axis, rows[rows.part == 1], name, scale, is_share, label="last updates")
        # an x axis shorter than one unit would show only rounding
        low, high = panel.axis.get_xlim()
        if is_share:
            panel.axis.set_xlim(-0.04 * max(1.0, high), max(1.0, high))
        elif high - low < 1:
            panel.axis.set_xlim(low - 1, high + 1)
        panel.title(words.replace("\n", " "))
    plotting.legend(figure, [panel.axis for panel in panels])
    return figure, ends[curve_columns(["tokens_mean", "truncated_share"])]


@figure
def groups(curves):
    """With many arms, each arm has a row of stacked shares for the first updates and one for the last
    updates."""
    outcomes = {
        "all_right_share": ("all right", {"color": "0.85", "edgecolor": "0.6", "hatch": "...."}),
        "learnable_share": ("learnable", {"color": "0.25", "edgecolor": "0.25"}),
        "all_wrong_share": ("all wrong", {"color": "white", "edgecolor": "0.6", "hatch": "////"}),
    }
    names = [name for name in outcomes if curves[name].notna().any()]
    if not are_many(curves):
        series = [(name, 100, f"{outcomes[name][0]} (%)") for name in names]
        figure, axes = stacks(curves, series)
        for axis in sum(axes.values(), []):
            axis.set_ylim(-4, 104)
        return figure, curves[curve_columns(names)]
    ends = first_and_last(curves)
    names = [name for name in names if ends[name].notna().any()]
    figure, panels = forest(ends, [*TASK, "stretch"], columns=2)
    for panel in panels:
        left = pd.Series(0.0, panel.rows.index)
        for name in names:
            label, look = outcomes[name]
            width = 100 * panel.rows[name].fillna(0)
            panel.axis.barh(panel.rows.place, width, 0.75, left, label=label, linewidth=0.4, **look)
            left += width
        panel.axis.set_xlim(0, 100)
        panel.name += f", {panel.key['stretch']} updates"
        panel.title(plotting.seeds(panel.rows))
    return finish_forest(figure, panels, "groups of rollouts (%)"), ends[curve_columns(names)]


def first_and_last(curves: pd.DataFrame) -> pd.DataFrame:
    """The rows of each arm's first and last stretch of updates, with the new column `stretch`:
    "first" or "last"."""
    step = curves.groupby(RUNS).step
    ends = {"first": step.transform("min"), "last": step.transform("max")}
    rows = [curves[curves.step == end].assign(stretch=name) for name, end in ends.items()]
    return pd.concat(rows).sort_index(kind="stable")


def curve_columns(names: list[str]) -> list[str]:
    estimates = [column for name in names for column in interval(name)]
    return [*RUNS, "first", "step", *estimates, "seeds"]


def stacks(frame: pd.DataFrame, series: list[tuple[str, float, str]]):
    """(figure, {column: axes of its panels}): a stack of panels for each model, task and recipe. An
    entry of `series` is (column, scale, label of the axis)."""
    keys = [*TASK, "recipe"]
    count = len(plotting.groups(frame, keys))
    columns = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3}.get(count, 4)
    size = len(series) * columns * -(-count // columns)
    figure, axes = plotting.panels(size, height=1.9 if len(series) < 3 else 1.6, columns=columns)
    first_axes = [len(series) * columns * (n // columns) + n % columns for n in range(count)]
    drawn: dict[str, list] = {}
    for line, (name, scale, words) in enumerate(series):
        line_axes = [axes[first + line * columns] for first in first_axes]
        drawn[name] = line_axes
        for number, panel in enumerate(_panels(frame, keys, line_axes)):
            steps = panel.rows.groupby("policy").step.nunique().max()
            width = 0.6 * panel.rows.step.max() / max(steps, 1)
            look = {"markersize": 3, "capsize": 0, "scale": scale, "bar_width": 0.5}
            panel.lines(name, "step", width, share=name.endswith("_share"), **look)
            panel.axis.locator_params(axis="x", integer=True)  # updates are whole numbers
            if number % columns == 0:
                panel.axis.set_ylabel(words)
            if line == len(series) - 1:
                panel.axis.set_xlabel("GRPO updates")
            if line == 0:
                panel.title(plotting.seeds(panel.rows))
    drawn_axes = sum(drawn.values(), [])
    for axis in axes:
        if axis not in drawn_axes:
            axis.remove()
    plotting.legend(figure, drawn_axes)
    return figure, drawn


# --- what explains the gains


@figure
def learnable(gains, learnable, accuracy, regressions):
    """The shape of a point shows the model, if there are several. Lines and R^2 are within a task and
    come from `regressions`. In the drawn rows, `drawn` is 'point' or 'line', and `x` of a
    point is a share or a number of tokens, as `panel` says."""
    shares = learnable[[*RUNS, *interval("learnable")]]
    points = own_test_samples(gains)[[*RUNS, "arm", "step", *interval("gain"), "seeds"]]
    lengths = own_test_samples(accuracy)[[*RUNS, "step", "tokens_mean"]]
    points = points.merge(shares, on=RUNS).merge(
        lengths.rename(columns={"tokens_mean": "tokens"}), on=[*RUNS, "step"]
    )
    if points.empty:
        return None
    fits = regressions[regressions.adjusted_for.isna() & (regressions.cells >= LEAST_POINTS)]
    # the names in the legend; with many policies, the rules' families
    is_many = points.policy.nunique() > MOST_ARMS
    points["name"] = points.policy.map(plotting.family) if is_many else points.policy
    names, models = (list(dict.fromkeys(points[column])) for column in ("name", "model"))
    models = models if len(models) > 1 else []
    panels = _explanations(points)
    figure, axes = plotting.panels(len(panels), height=2.7, columns=min(2, len(panels)))
    drawn_rows = []
    for axis, (task, name, scale, text) in zip(axes, panels):
        ends = {f"x_{end}": points.get(f"{name}_{end}", np.nan) for end in ("low", "high")}
        rows = points.assign(x=points[name], **ends)
        rows = rows[rows.x.notna() & (rows.task == task)]
        for index in range(len(rows)):
            _draw_point(axis, rows.iloc[[index]], scale, name == "learnable", names, models)
        line = fits[(fits.task == task) & (fits.predictor == name)]
        for fit in line.itertuples():
            places = np.array([rows.x.min(), rows.x.max()])
            heights = rows.gain.mean() + fit.slope * (places - rows.x.mean())
            axis.plot(scale * places, 100 * heights, color="0.4", linewidth=0.9, zorder=1)
        axis.axhline(0, color="0.6", linewidth=0.6)
        axis.set_xlabel(text)
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("gain (points)")
        words = [
            f"$R^2$ = {fit.r_squared:.2f}, {int(fit.cells)} points" for fit in line.itertuples()
        ]
        plotting.title(axis, task, *words)
        drawn_rows += [
            rows.assign(drawn="point", panel=name),
            line.assign(drawn="line", panel=name),
        ]
    plotting.marks_legend(figure, axes[0], names, models)
    columns = ["drawn", "panel", *RUNS, *interval("x"), *interval("gain")]
    columns += ["seeds", "r_squared", "slope", "cells"]
    return figure, pd.concat(drawn_rows, ignore_index=True).reindex(columns=columns)


def _explanations(points: pd.DataFrame) -> list[tuple]:
    """(task, column, scale, label) of each panel. A panel in which x hardly varies is left out,
    because it would show only rounding, unless no panel would be left."""
    candidates = [
        ("learnable", 100, "learnable share of groups (%)", 0.01),
        ("tokens", 1, "mean completion length\nafter training (tokens)", 1.0),
    ]
    panels, varying = [], []
    for task, group in points.groupby("task", sort=False):
        for name, scale, text, least_spread in candidates:
            if group[name].notna().any():
                panels.append((task, name, scale, text))
                if np.ptp(group[name].dropna()) >= least_spread:
                    varying.append(panels[-1])
    return varying or panels


def _draw_point(axis, row: pd.DataFrame, scale: float, is_share: bool, names, models) -> None:
    arm = row.iloc[0]
    look = plotting.mark(arm["name"], names, models.index(arm.model) if models else None)
    look["markersize"] = plotting.style(arm.policy, [arm.policy])["markersize"]
    hollow = {} if arm.arm == arm.policy else {"markerfacecolor": "white"}
    bars = {
        "xerr": plotting.bars(row, "x", scale, share=is_share),
        "yerr": plotting.bars(row, "gain"),
    }
    axis.errorbar(scale * row.x, 100 * row.gain, elinewidth=0.6, capsize=0, **bars, **look | hollow)


# --- published numbers


@figure
def samples_per_prompt(probe_sizes):
    measures = {
        "mixed": "groups that are mixed",
        "pass_rate": "pass rate",
        "never_solved": "prompts never solved",
    }
    rows = probe_sizes[probe_sizes.file == count_tables.ALL]
    rules = list(dict.fromkeys(rows.rule))
    sufficient = probes.sufficient_sizes(rows.to_dict("records"))
    figure, axes = plotting.panels(len(measures), columns=3, height=2.6)
    for axis, (name, text) in zip(axes, measures.items()):
        for rule in rules:
            line, look = rows[rows.rule == rule], plotting.style(rule, rules)
            if rule == "random":
                axis.axhline(100 * line[name].iloc[0], label=rule, **look | {"marker": ""})
                continue
            marked = np.flatnonzero(line.samples.isin((1, 2, 4, 8, 16, 32))).tolist()
            small = {"label": rule, "markersize": 2.5, "markevery": marked}
            axis.plot(line.samples, 100 * line[name], **look | small)
            point = line[line.samples == sufficient.get(rule)]
            large = {"linestyle": "none", "markersize": 6}
            axis.plot(point.samples, 100 * point[name], **look | large)
        axis.set_xscale("log", base=2)
        ticks = [size for size in (1, 2, 4, 8, 16, 32, 64, 128) if size <= rows.samples.max()]
        axis.set_xticks(ticks, ticks)
        axis.set_ylim(-4, 104)
        plotting.title(axis, text)
    plotting.outer_labels(axes, "samples per prompt", "of the chosen prompts (%)")
    plotting.legend(figure, axes)
    return figure, rows


@figure
def before_after_training(difficulty_classes, pass_at_each_k):
    before_look = {"color": "#666666", "marker": "s", "linestyle": "--", "markersize": 3}
    after_look = {"color": "#D55E00", "linestyle": "-"}
    over_seeds = pass_at_each_k[pass_at_each_k.seed.isna()]
    classes = difficulty_classes.assign(
        **{
            name.replace("gain", "after"): difficulty_classes.before + difficulty_classes[name]
            for name in interval("gain")
        }
    )
    figure, axes = plotting.panels(3, columns=3, height=2.6)
    places = 100 * classes.correct / classes.chosen_by
    for axis, before, after, text in (
        (axes[0], "before", "after", "pass rate"),
        (axes[1], "mixed_before", "mixed", "groups that are mixed"),
    ):
        axis.plot(places, 100 * classes[before], label="before training", **before_look)
        look = after_look | {"marker": "o", "markersize": 3, "capsize": 0}
        plotting.series(axis, places, classes, after, share=True, label="after training", **look)
        axis.set_xlabel("right answers before training (%)")
        plotting.title(axis, text)
    k, ends = over_seeds.k, (100 * over_seeds.after_low, 100 * over_seeds.after_high)
    axes[2].plot(k, 100 * over_seeds.before, **before_look | {"marker": ""})
    axes[2].plot(k, 100 * over_seeds.after, **after_look)
    axes[2].fill_between(k, *ends, color=after_look["color"], alpha=0.2)
    axes[2].set_xlabel("samples per prompt (k)")
    plotting.title(axes[2], "pass@k")
    for axis in axes:
        axis.set_ylim(-4, 104)
    axes[0].set_ylabel("share (%)")
    plotting.legend(figure, axes)
    drawn_rows = [classes.assign(panel="classes"), over_seeds.assign(panel="pass@k")]
    return figure, pd.concat(drawn_rows, ignore_index=True).drop(columns=["seed"])
