"""The figures of studies and of analyses of published numbers.

A figure is a function in ALL. Its arguments are the summary tables that it shows (labelled,
`summaries.read_all`), and `study`, if it needs the configuration. It returns the figure and the
drawn rows, for the CSV file, or None if the study has nothing to show. Its caption in registry.py
says what it shows. To add a figure, write a function with the decorator `figure`, and an entry in
registry.py.

There are two shapes: `curves` and `courses`, panels in which a line shows a policy along an axis,
for at most MOST_ARMS arms, and `forest`, panels in which each arm is a row with its name.
"""

import inspect
from collections.abc import Callable, Mapping
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
ROW_INCHES, HEAD_INCHES = 0.145, 0.85  # height of a row, and of a panel's titles, ticks and margins
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
    panels for each of `series` ({column: label of its axis}). A label that contains "%" is that of a
    share in per cent, whose axis ends at 100 unless all shares are small."""
    count = len(plotting.groups(frame, keys))
    figure, axes = plotting.panels(len(series) * count, columns=len(series))
    for number, (name, label) in enumerate(series.items()):
        is_share = "%" in label
        for panel in _panels(frame, keys, axes[number :: len(series)]):
            width = 0.6 * panel.rows[x].max() / panel.rows.groupby("policy")[x].nunique().max()
            look = {"scale": 100 if is_share else 1, "is_share": is_share}
            panel.lines(name, x, width, markersize=2.5, capsize=0, bar_width=0.5, **look)
            if is_share:
                top = panel.axis.get_ylim()[1]
                top = 100 if top > 20 else max(1.0, top)
                panel.axis.set_ylim(-0.04 * top, 1.04 * top)
            panel.axis.set_ylabel(label)
            panel.title(plotting.seeds(panel.rows))
    for axis in axes[-len(series) :]:
        axis.set_xlabel(x_label)
    plotting.legend(figure, axes)
    return figure


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
    row_inches: float = ROW_INCHES,
    order: list[str] | None = None,
):
    """(figure, panels): a panel for each group of rows with the same `keys`, and in it a row for
    each arm. `order` lists the arms from top to bottom."""
    names = [list(dict.fromkeys(rows.arm)) for _, rows in plotting.groups(frame, keys)]
    figure, axes, places = row_panels(names, row_inches, order or by_hue(frame))
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


def row_panels(names: list[list[str]], row_inches: float, order: list[str]):
    """(figure, axes, places) of a figure with a panel for each list of row names. `places` has, for
    each panel, {name of a row: its place on the y axis}. Panels side by side have the same
    rows at the same places, and only the first of them shows the names of rows."""
    band_panels = bands(names)
    columns = {1: 1, 2: 2, 4: 2}.get(max(map(len, band_panels)), 3)
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


def gain_forest(frame: pd.DataFrame, labels_title: str, end_label: str = ""):
    """(figure, panels) of a forest of gains. Arms are sorted by their numbers of labels, which stand
    beside the rows and have the title `labels_title`. Column `part` is the share of the training that
    has passed. Gains at its end (`part` is 1) have intervals, the hue of the policy, and `end_label`
    in the legend; gains at earlier checkpoints are grey, later ones darker."""
    arms = frame.drop_duplicates(RUNS)
    order = arms.groupby("arm", sort=False).labels.mean().sort_values(kind="stable").index
    figure, panels = forest(frame, TASK, order=list(order))
    for panel in panels:
        axis, rows = panel.axis, panel.rows.sort_values(["place", "step"], kind="stable")
        early, last = rows[rows.part < 1], rows[rows.part == 1]
        zero_line(axis)
        if len(early):
            for place, line in rows.groupby("place"):
                axis.plot(
                    100 * line.gain, [place] * len(line), color="0.8", linewidth=0.8, zorder=1
                )
            shades = [f"{0.85 - 0.6 * part:.2f}" for part in early.part]
            axis.scatter(100 * early.gain, early.place, s=8, c=shades, zorder=2, label=EARLIER)
        look = {"fmt": "o", "markersize": 3.6, "elinewidth": 0.9, "zorder": 3}
        for color, line in last.groupby(last.policy.map(plotting.hue), sort=False):
            lengths = plotting.bars(line, "gain")
            axis.errorbar(100 * line.gain, line.place, xerr=lengths, color=color, **look)
        if end_label:
            axis.plot([], [], "o", markersize=3.6, color="0.25", label=end_label)
        numbers_beside(axis, last.place, last.labels, labels_title)
        panel.rows = rows
        panel.title(plotting.sizes(rows))
    return finish_forest(figure, panels, GAIN), panels


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
    """Drawn if the arms are few; figures `parts`, `kinds`, `labels` and `rollouts` have a row for
    each arm."""
    frame = accuracy[accuracy.decoding == "sampled"]
    if are_many(frame):
        return None
    drawn_rows = frame[[*CELL, "step", *interval("accuracy"), "problems", "samples", "seeds"]]
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
    figure, _ = gain_forest(frame.assign(part=1), "labels bought")
    return figure, frame[[*RUNS, "labels", "step", *interval("gain"), "problems", "seeds"]]


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
    figure, panels = gain_forest(frame, "labels needed", "when all rollouts are used")
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
    """Drawn if the base models have reach samples and the arms are few."""
    has_reach = any(paths.has_reach(study, run.model, test) for run, test in study.tests_of_runs)
    if not has_reach or are_many(pass_at_k):
        return None
    figure, panels = curves(pass_at_k, [*TEST, "recipe"])
    for panel in panels:
        base = base_pass_at_k[
            (base_pass_at_k.model == panel.key["model"])
            & (base_pass_at_k.eval_task == panel.key["eval_task"])
        ]
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
    drawn_rows = pd.concat([pass_at_k, base_pass_at_k.assign(policy="base")], ignore_index=True)
    return finish_curves(figure, panels, "k", "pass@k (%)"), drawn_rows


# --- training


@figure
def training_curves(curves):
    """Drawn if the arms are few; table `learnable` has a row for each arm. Only the quantities that
    the logs have."""
    if are_many(curves):
        return None
    series = {
        "learnable_share": "learnable (%)",
        "all_wrong_share": "all wrong (%)",
        "tokens_mean": "length (tokens)",
        "truncated_share": "truncated (%)",
    }
    series = {name: label for name, label in series.items() if curves[name].fillna(0).any()}
    columns = [column for name in series for column in interval(name)]
    figure = courses(curves, [*TASK, "recipe"], series, "step", "updates")
    return figure, curves[[*RUNS, "first", "step", *columns, "seeds"]]


# --- what explains the gains


@figure
def learnable(gains, learnable):
    frame = own_test_samples(gains).merge(learnable[[*RUNS, *interval("learnable")]], on=RUNS)
    if frame.empty:
        return None
    is_many = frame.policy.nunique() > MOST_ARMS  # then the legend names the families of rules
    figure, panels = curves(frame, TASK)
    for panel in panels:
        policies = panel.rows.policy
        names = policies.map(plotting.family) if is_many else policies
        for (name, is_hollow), rows in panel.rows.groupby([names, panel.rows.arm != policies]):
            look = plotting.style(name) | {"label": name, "linestyle": "none"}
            look |= {"elinewidth": 0.6, "capsize": 0}
            look |= {"markerfacecolor": "white"} if is_hollow else {}
            bars = {
                "xerr": plotting.bars(rows, "learnable", is_share=True),
                "yerr": plotting.bars(rows, "gain"),
            }
            panel.axis.errorbar(100 * rows.learnable, 100 * rows.gain, **bars, **look)
        panel.axis.axhline(0, color="0.6", linewidth=0.6)
        panel.title(plotting.sizes(panel.rows))
    figure = finish_curves(figure, panels, "learnable share of groups (%)", GAIN)
    return figure, frame[[*RUNS, *interval("learnable"), "step", *interval("gain"), "seeds"]]


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
