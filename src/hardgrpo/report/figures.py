"""The figures of studies and of analyses of published numbers.

A figure is a function in ALL. Its arguments are the summary tables that it shows (labelled,
`summaries.read_all`), and `study`, if it needs the configuration. It returns the figure and the
drawn rows, for the CSV file, or None if the study has nothing to show. Its caption in registry.py
says what it shows. To add a figure, write a function with the decorator `figure`, and an entry in
registry.py.

There are two shapes: `curves` and `courses`, panels in which a line shows a policy along an axis, and
`forest`, panels in which each arm is a row with its name. With more than MOST_ARMS arms, figures
that are curves become forests.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hardgrpo.analysis import count_tables
from hardgrpo.analysis.columns import CELL, RUNS, interval
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting
from hardgrpo.report.plotting import MOST_ARMS, spread
from hardgrpo.selection import probe_sizes as probes
from hardgrpo.study import paths
from hardgrpo.study.study import Study

TEST, TASK = ["model", "task", "eval_task"], ["model", "task"]
GAIN = "gain in accuracy (points)"
EARLIER = "at earlier checkpoints (darker: later)"
LEAST_POINTS = 10  # least number of points of a regression that is drawn
ROW_INCHES, HEAD_INCHES = 0.145, 0.85  # height of a row, and of a panel's titles, ticks and margins
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
    """(figure, drawn rows) of a study, or None if the study does not have the figure's tables, the
    first of them has no rows, or the figure has nothing to show. `tables` holds summary tables by
    name."""
    if not tables.keys() >= {*sources(name)} or tables[sources(name)[0]].empty:
        return None
    plotting.use_policies(rules_of(study))
    values = {**tables, "study": study}
    return ALL[name](**{key: values[key] for key in inspect.signature(ALL[name]).parameters})


def rules_of(study: Study) -> dict[str, str]:
    """{policy: its rule}. Policies of recorded runs may have none."""
    policies = study.config.policies
    return {name: policies[name].rule for name in study.policies if name in policies}


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

    def lines(self, column: str, x: str, width: float, shared: float | None = None, **look) -> None:
        """Draw a line with intervals for each policy. The marks at one x stand side by side over the
        distance `width`, so that their intervals do not overlap, except at the x `shared`, where all
        lines have the same point."""
        names = list(dict.fromkeys(self.rows.policy))
        for number, name in enumerate(names):
            line = self.rows[self.rows.policy == name].sort_values(x, kind="stable")
            places = line[x] + spread(number, len(names), width) * (line[x] != shared)
            style = plotting.style(name) | look
            plotting.series(self.axis, places, line, column, label=name, **style)


def are_many(frame: pd.DataFrame) -> bool:
    """Whether a figure has more arms than one panel can show as lines."""
    return frame.arm.nunique() > MOST_ARMS


def _panels(frame: pd.DataFrame, keys: list[str], axes) -> list[Panel]:
    """A panel for each group of rows with the same `keys`."""
    panels = []
    for axis, (values, rows) in zip(axes, plotting.groups(frame, keys)):
        key = dict(zip(keys, values))
        test, group = key.get("eval_task", key["task"]), rows if "recipe" in key else None
        models = frame.model.nunique()
        name = plotting.panel_title(key["model"], key["task"], test, models, group)
        panels.append(Panel(axis, rows, key, name))
    return panels


def curves(frame: pd.DataFrame, keys: list[str]):
    """(figure, panels): a panel for each group of rows with the same `keys`."""
    figure, axes = plotting.panels(len(plotting.groups(frame, keys)))
    return figure, _panels(frame, keys, axes)


def courses(frame: pd.DataFrame, keys: list[str], series: dict[str, str], x: str, x_label: str):
    """A figure with a row of panels for each group of rows with the same `keys`, and a column of
    panels for each of `series` ({column: label of its axis}). A label that contains "%" is that of a share."""
    count = len(plotting.groups(frame, keys))
    figure, axes = plotting.panels(len(series) * count, columns=len(series))
    for number, (name, label) in enumerate(series.items()):
        is_share = "%" in label
        for panel in _panels(frame, keys, axes[number :: len(series)]):
            width = 0.6 * panel.rows[x].max() / panel.rows.groupby("policy")[x].nunique().max()
            look = {"scale": 100 if is_share else 1, "is_share": is_share}
            panel.lines(name, x, width, markersize=2.5, capsize=0, bar_width=0.5, **look)
            if is_share:
                limit_axis(panel.axis.set_ylim, panel.axis.get_ylim()[1])
            panel.axis.set_ylabel(label)
            panel.title(plotting.seeds(panel.rows))
    for axis in axes[-len(series) :]:
        axis.set_xlabel(x_label)
    plotting.legend(figure, axes)
    return figure


def limit_axis(set_limits: Callable, top: float) -> None:
    """Let an axis of shares in per cent begin at 0, and end at 100 unless all shares are small."""
    top = 100 if top > 20 else max(1.0, top)
    set_limits(-0.04 * top, 1.04 * top)


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
    columns: int | None = None,
    row_inches: float = ROW_INCHES,
    order: list[str] | None = None,
):
    """(figure, panels): a panel for each group of rows with the same `keys`, and in it a row for
    each arm. `order` lists the arms from top to bottom."""
    names = [list(dict.fromkeys(rows.arm)) for _, rows in plotting.groups(frame, keys)]
    figure, axes, places = row_panels(names, columns, row_inches, order or by_hue(frame))
    panels = _panels(frame, keys, axes)
    for panel, place in zip(panels, places):
        panel.rows = panel.rows.assign(place=panel.rows.arm.map(place))
    return figure, panels


def finish_forest(figure, panels: list[Panel], x: str):
    figure.supxlabel(x, fontsize=8)
    plotting.legend(figure, [panel.axis for panel in panels])
    return figure


def by_hue(frame: pd.DataFrame) -> list[str]:
    """The arms in the order of the table, but with all arms of a hue together, and within a hue all
    arms of a policy together."""
    arms = frame.drop_duplicates("arm")
    hues = arms.policy.map(plotting.hue)
    ranks = pd.DataFrame({"hue": pd.factorize(hues)[0], "policy": pd.factorize(arms.policy)[0]})
    return arms.arm.iloc[ranks.sort_values(["hue", "policy"], kind="stable").index].tolist()


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


def row_panels(names: list[list[str]], columns: int | None, row_inches: float, order: list[str]):
    """(figure, axes, places) of a figure with a panel for each list of row names. `places` has, for
    each panel, {name of a row: its place on the y axis}. Panels side by side have the same
    rows at the same places, and only the first of them shows the names of rows. Without `columns`,
    panels side by side share most of their rows (`bands`)."""
    band_panels = bands(names) if columns is None else [list(range(len(names)))]
    widest = max(map(len, band_panels))
    columns = columns or {1: 1, 2: 2, 4: 2}.get(widest, 3)
    panel_rows = [
        band[start : start + columns]
        for band in band_panels
        for start in range(0, len(band), columns)
    ]
    rows = [
        [name for name in order if any(name in names[panel] for panel in panel_row)]
        for panel_row in panel_rows
    ]
    heights = [HEAD_INCHES + row_inches * len(row_names) for row_names in rows]
    shrink = min(1.0, (plotting.TALLEST - 0.5) / sum(heights))
    is_small = len(names) == 1 and len(names[0]) <= MOST_ARMS
    plotting.plt.style.use(plotting.STYLE)
    figure, grid = plotting.plt.subplots(
        len(panel_rows),
        columns,
        figsize=(plotting.COLUMN if is_small else plotting.WIDE, 0.3 + shrink * sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    axes, places = [None] * len(names), [{}] * len(names)
    for panel_row, row_names, row_axes in zip(panel_rows, rows, grid):
        for panel, axis in zip(panel_row, row_axes):
            labels = row_names if axis is row_axes[0] else [""] * len(row_names)
            axis.set_yticks(range(len(row_names)), labels)
            axis.set_ylim(len(row_names) - 0.4, -0.6)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="y", linewidth=0.3)
            axes[panel] = axis
            places[panel] = {name: place for place, name in enumerate(row_names)}
        for axis in row_axes[len(panel_row) :]:
            axis.remove()
    return figure, axes, places


# --- marks of a forest


def zero_line(axis) -> None:
    axis.axvline(0, color="black", linewidth=0.6)


def dots(
    axis, rows: pd.DataFrame, name: str, scale: float = 100, is_share: bool = False, label: str = ""
) -> None:
    """Draw a column as dots with intervals, in the hue of the policy, at the rows' `place`."""
    for color, line in rows.groupby(rows.policy.map(plotting.hue), sort=False):
        lengths = plotting.bars(line, name, scale, is_share)
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
    """Write a number at the right of each row. If the panel is the last in its row of panels, also
    write `label`, which says what the numbers are."""
    right_axis = axis.secondary_yaxis("right")
    right_axis.set_yticks(list(places), [f"{number:,.0f}" for number in numbers])
    right_axis.tick_params(length=0)
    right_axis.spines[:].set_visible(False)
    spec = axis.get_subplotspec()
    specs = filter(None, (panel.get_subplotspec() for panel in axis.figure.axes))
    ends = [panel.colspan.stop for panel in specs if panel.rowspan == spec.rowspan]
    if spec.colspan.stop == max(ends):
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


def parts_forest(frame: pd.DataFrame, parts: list[tuple]):
    figure, panels = forest(frame, TEST, row_inches=0.05 + 0.075 * len(parts))
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
        dots(panel.axis, last, quantity, is_share=find_base is not None, label=end_label)
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
    shares = difficulty.assign(
        share=difficulty.problems / sums, policy=difficulty.group, arm=difficulty.group
    )
    order = ["pool", *by_hue(shares[shares.group != "pool"])]
    figure, panels = forest(shares, TASK, order=order)
    for panel in panels:
        for group, rows in panel.rows.groupby("group", sort=False):
            look = {"s": 90 * rows.share, "linewidths": 0}
            look["color"] = "0.6" if group == "pool" else plotting.hue(group)
            panel.axis.scatter(rows.pass_rate, rows.place, **look)
        panel.axis.set_xlim(-0.05, 1.05)
        sizes = panel.rows.groupby("group").problems.sum()
        subsets = sizes.drop("pool")
        ends = dict.fromkeys(f"{size:,.0f}" for size in (subsets.min(), subsets.max()))
        sizes_of_subsets = f", subsets of {' to '.join(ends)}" if len(subsets) else ""
        panel.title(f"pool of {sizes['pool']:,.0f}{sizes_of_subsets}")
    drawn_rows = shares[[*TASK, "group", "pass_rate", "problems", "share"]]
    return finish_forest(figure, panels, "pass rate of the base model"), drawn_rows


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
        panel.lines("accuracy", "step", 0.05 * span, shared=0, bar_width=0.7, is_share=True)
        panel.title(plotting.sizes(panel.rows))
        few_steps(panel)
        panel.axis.set_xlim(
            panel.rows.step.min() - 0.04 * span, panel.rows.step.max() + 0.06 * span
        )
    return finish_curves(figure, panels, "updates", "accuracy (%)"), drawn_rows


@figure
def labels(gains, spent, study):
    """Drawn if the runs differ in the number of labels that they need, and a policy chooses by another
    measure than the pass rate. If a run chooses prompts while it trains, figure `rollouts` shows the
    labels."""
    frame = own_test_samples(gains).merge(spent[[*RUNS, "labels"]], on=RUNS)
    measures = {study.config.policies[name].measure for name in rules_of(study)}
    if frame.labels.nunique() < 2 or measures == {"pass_rate"} or chooses_while_training(study):
        return None
    look = {"labels_title": "labels bought", "order": by_labels(frame)}
    figure, _ = dot_forest(frame.assign(part=1), TASK, "gain", GAIN, **look)
    return figure, frame[[*RUNS, "labels", "step", *interval("gain"), "problems", "seeds"]]


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
    series = {"mixed": "learnable (%)", "all_wrong": "all wrong (%)", "all_right": "all right (%)"}
    frame = trajectories[trajectories.stretch.notna()]
    frame = frame.assign(middle=50 * (frame.begin + frame.end))
    figure = courses(frame, TASK, series, "middle", "epochs after the choice (%)")
    columns = [column for name in series for column in interval(name)]
    keys = [*TASK, "policy", "stretch", "begin", "end"]
    return figure, frame[[*keys, *columns, "epochs", "prompts", "seeds"]]


# --- what the gains are made of


PART_COLUMNS = [*CELL, "step", "gain", *interval("finishing"), *interval("correctness")]
PART_COLUMNS += ["base_answered", "answered", "base_accuracy", "accuracy", "problems", "seeds"]


@figure
def parts(parts, kinds):
    """Not drawn if figure `kinds` is drawn, which also splits correctness."""
    if len(kinds):
        return None
    figure, panels = parts_forest(parts, plotting.PARTS)
    ends = [end for panel in panels for end in panel.axis.get_xlim()]
    for panel in panels:
        panel.axis.set_xlim(min(ends), max(ends))  # one scale, so that panels can be compared
        before = f"{100 * panel.rows.base_answered.iloc[0]:.1f}"
        ends_of_answered = panel.rows.answered.min(), panel.rows.answered.max()
        after = " to ".join(dict.fromkeys(f"{100 * share:.1f}" for share in ends_of_answered))
        panel.title(f"answered {before} → {after} %", plotting.sizes(panel.rows))
    return finish_forest(figure, panels, "points of accuracy"), parts[PART_COLUMNS]


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
def pass_at_k(pass_at_k, base_pass_at_k, study):
    """Drawn if the base models have reach samples. With many arms, only the largest k that the base
    model and the trained models have in common."""
    if not any(paths.has_reach(study, run.model, test) for run, test in study.tests_of_runs):
        return None
    if are_many(pass_at_k):
        # the tables may have different values of k, because the numbers of samples may differ
        key = ["model", "eval_task", "k"]
        frame = pass_at_k.merge(base_pass_at_k[key].drop_duplicates())
        frame = frame[frame.k == frame.groupby(TEST).k.transform("max")]
        bases = base_pass_at_k.merge(frame[key].drop_duplicates())
        base = lambda panel: _of_test(bases, panel).iloc[0]
        label = f"pass@{' or '.join(str(int(k)) for k in sorted(set(frame.k)))} (%)"
        figure, _ = dot_forest(
            frame.assign(part=1), TEST, "pass", label, "after training", find_base=base
        )
        return figure, _with_base(frame, bases)
    figure, panels = curves(pass_at_k, [*TEST, "recipe"])
    for panel in panels:
        base = _of_test(base_pass_at_k, panel)
        look = {"color": "0.5", "is_share": True}
        plotting.series(panel.axis, base.k, base, "pass", label="base model", linewidth=2.0, **look)
        if base["sound"].notna().any():
            look |= {"label": "base model, every step right", "linestyle": "--"}
            plotting.series(panel.axis, base.k, base, "sound", **look)
        panel.lines("pass", "k", 0, is_share=True)
        panel.axis.set_xscale("log", base=2)
        marks = sorted({*panel.rows.k, *base.k})
        panel.axis.set_xticks(marks, [str(int(k)) for k in marks])
        panel.title(plotting.sizes(panel.rows))
    figure = finish_curves(figure, panels, "k", "pass@k (%)")
    return figure, _with_base(pass_at_k, base_pass_at_k)


def _of_test(base_pass_at_k: pd.DataFrame, panel: Panel) -> pd.DataFrame:
    is_model = base_pass_at_k.model == panel.key["model"]
    return base_pass_at_k[is_model & (base_pass_at_k.eval_task == panel.key["eval_task"])]


def _with_base(frame: pd.DataFrame, base_pass_at_k: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, base_pass_at_k.assign(policy="base")], ignore_index=True)


# --- training


@figure
def training_curves(curves):
    """Only the quantities that the logs have. With many arms, each arm has a row with one point for its
    first and one for its last updates."""
    series = {
        "learnable_share": "learnable (%)",
        "all_wrong_share": "all wrong (%)",
        "tokens_mean": "length (tokens)",
        "truncated_share": "truncated (%)",
    }
    series = {name: label for name, label in series.items() if curves[name].fillna(0).any()}
    columns = [column for name in series for column in interval(name)]
    drawn_columns = [*RUNS, "first", "step", *columns, "seeds"]
    if not are_many(curves):
        figure = courses(curves, [*TASK, "recipe"], series, "step", "updates")
        return figure, curves[drawn_columns]
    step = curves.groupby(RUNS).step
    is_last = curves.step == step.transform("max")
    ends = curves[is_last | (curves.step == step.transform("min"))].assign(
        part=is_last.astype(float)
    )
    # a panel for each task and quantity, so the rows of a task are repeated for each quantity
    frame = pd.concat(
        group.assign(series_index=index)
        for _, group in ends.groupby(TASK, sort=False)
        for index in range(len(series))
    )
    figure, panels = forest(frame, [*TASK, "series_index"], columns=len(series))
    for panel in panels:
        name, label = list(series.items())[panel.key["series_index"]]
        look = {"scale": 100 if "%" in label else 1}
        early_dots(panel.axis, panel.rows, name, "first updates", **look)
        last = panel.rows[panel.rows.part == 1]
        dots(panel.axis, last, name, is_share="%" in label, label="last updates", **look)
        if "%" in label:
            limit_axis(panel.axis.set_xlim, panel.axis.get_xlim()[1])
        panel.title(label)
    plotting.legend(figure, [panel.axis for panel in panels])
    return figure, ends[drawn_columns]


# --- what explains the gains


@figure
def learnable(gains, learnable, accuracy, regressions):
    """The shape of a point shows the model, if there are several. Lines and R^2 are within a task and
    come from `regressions`. In the drawn rows, `drawn` is 'point' or 'line', and `x` of a
    point is a share or a number of tokens, as `panel` says."""
    points = own_test_samples(gains)[[*RUNS, "arm", "step", *interval("gain"), "seeds"]]
    lengths = own_test_samples(accuracy).rename(columns={"tokens_mean": "tokens"})
    points = points.merge(learnable[[*RUNS, *interval("learnable")]], on=RUNS)
    points = points.merge(lengths[[*RUNS, "step", "tokens"]], on=[*RUNS, "step"])
    if points.empty:
        return None
    fits = regressions[regressions.adjusted_for.isna() & (regressions.cells >= LEAST_POINTS)]
    # the names in the legend; with many policies, the rules' families
    is_many = points.policy.nunique() > MOST_ARMS
    points["name"] = points.policy.map(plotting.family) if is_many else points.policy
    panels = _explanations(points)
    figure, axes = plotting.panels(len(panels), height=2.7, columns=min(2, len(panels)))
    drawn_rows = []
    for axis, (task, name, scale, label) in zip(axes, panels):
        ends = {f"x_{end}": points.get(f"{name}_{end}", np.nan) for end in ("low", "high")}
        rows = points.assign(x=points[name], **ends)
        rows = rows[rows.x.notna() & (rows.task == task)]
        for look, group in _marks(axis, rows, points):
            bars = {
                "xerr": plotting.bars(group, "x", scale, is_share=name == "learnable"),
                "yerr": plotting.bars(group, "gain"),
            }
            axis.errorbar(
                scale * group.x, 100 * group.gain, elinewidth=0.6, capsize=0, **bars, **look
            )
        line = fits[(fits.task == task) & (fits.predictor == name)]
        for fit in line.itertuples():
            places = np.array([rows.x.min(), rows.x.max()])
            heights = rows.gain.mean() + fit.slope * (places - rows.x.mean())
            axis.plot(scale * places, 100 * heights, color="0.4", linewidth=0.9, zorder=1)
        axis.axhline(0, color="0.6", linewidth=0.6)
        axis.set_xlabel(label)
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
    plotting.legend(figure, axes)
    columns = ["drawn", "panel", *RUNS, *interval("x"), *interval("gain")]
    columns += ["seeds", "r_squared", "slope", "cells"]
    return figure, pd.concat(drawn_rows, ignore_index=True).reindex(columns=columns)


def _marks(axis, rows: pd.DataFrame, points: pd.DataFrame) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield (look, rows of points with this look), and add the entries of the legend: a colour for
    each name and, with several models, a shape for each model. A point is hollow if its recipe is not
    the study's first recipe."""
    names, models = (list(dict.fromkeys(points[column])) for column in ("name", "model"))
    looks = {name: plotting.style(name) | {"linestyle": "none"} for name in names}
    shapes = {}
    if len(models) > 1:
        shapes = {
            model: {"marker": mark} for model, mark in zip(models, itertools.cycle(plotting.MODELS))
        }
    for name, look in looks.items():
        axis.plot([], [], label=name, **look | next(iter(shapes.values()), {}))
    for model, shape in shapes.items():
        axis.plot([], [], linestyle="none", color="0.35", label=model, **shape)
    is_hollow = rows.arm != rows.policy
    for (name, model, hollow), group in rows.groupby(["name", "model", is_hollow]):
        fill = {"markerfacecolor": "white"} if hollow else {}
        yield looks[name] | shapes.get(model, {}) | fill, group


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
            line, look = rows[rows.rule == rule], plotting.style(rule)
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
        plotting.series(axis, places, classes, after, is_share=True, label="after training", **look)
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
