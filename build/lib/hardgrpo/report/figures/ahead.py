"""The lead of `hard` over each other policy by checkpoint, with 95 % intervals: a line for each
other policy, or a row for each other arm if there are more than `plotting.MOST_ARMS`."""

import pandas as pd

from hardgrpo.analysis.columns import CELL, interval
from hardgrpo.analysis.hard_leads import LEADING
from hardgrpo.report import arm_rows, plotting

TEST = ["model", "task", "eval_task"]
COLUMNS = [*TEST, "policy", "recipe", "arm", "minus", "minus_arm", "step", *interval("lead")]
COLUMNS += ["problems", "seeds"]


def draw(paired, differences, gains):
    frame = leads(paired, differences, gains)
    is_many = frame.minus_arm.nunique() > plotting.MOST_ARMS
    figure = draw_rows(frame) if is_many else draw_lines(frame)
    return figure, frame.drop(columns="policy")


def draw_lines(frame: pd.DataFrame):
    """A panel for each model, task, test and recipe, a line for each other policy."""
    rivals, models = list(dict.fromkeys(frame.minus)), frame.model.nunique()
    groups = plotting.groups(frame, [*TEST, "recipe"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test, _), group) in zip(axes, groups):
        panel_rivals = list(dict.fromkeys(group.minus))
        span = group.step.max()
        for index, rival in enumerate(panel_rivals):
            line = group[group.minus == rival].sort_values("step")
            places = line.step + plotting.spread(index, len(panel_rivals), 0.05 * span)
            plotting.series(
                axis,
                places,
                line,
                "lead",
                bar_width=0.7,
                label=f"{LEADING} − {rival}",
                **plotting.style(rival, rivals),
            )
        axis.axhline(0, color="black", linewidth=0.6)
        if group.step.nunique() < 7:
            axis.set_xticks(sorted(group.step.unique()))
        plotting.title(
            axis, plotting.panel_title(model, task, test, models, group), plotting.sizes(group)
        )
    plotting.outer_labels(axes, "updates", "lead (points)")
    plotting.legend(figure, axes)
    return figure


def draw_rows(frame: pd.DataFrame):
    """A panel for each model, task and test, a row for each arm that `hard` is compared with."""
    models, groups = frame.model.nunique(), plotting.groups(frame, TEST)
    names = [list(dict.fromkeys(group.minus_arm)) for _, group in groups]
    order = arm_rows.order(frame, "minus_arm")
    figure, axes, places = arm_rows.panels(names, order=order)
    for axis, place, ((model, task, test), group) in zip(axes, places, groups):
        part = group.step / group.groupby("minus_arm").step.transform("max")
        rows = group.assign(place=group.minus_arm.map(place), part=part, policy=group.minus)
        axis.axvline(0, color="black", linewidth=0.6)
        arm_rows.early_dots(axis, rows, "lead", "at earlier checkpoints (darker: later)")
        arm_rows.dots(axis, rows[rows.part == 1], "lead", label="at the end")
        plotting.title(axis, plotting.panel_title(model, task, test, models), plotting.sizes(group))
    figure.supxlabel(f"lead of {LEADING} over the policy of the row (points)", fontsize=8)
    plotting.legend(figure, axes)
    return figure


def leads(paired: pd.DataFrame, differences: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns COLUMNS: from `paired` at earlier checkpoints, and from `differences`
    at the last checkpoint."""
    ends = gains[gains.decoding == "sampled"].groupby(CELL, sort=False).step.max()
    early = paired[paired["what"] == "checkpoint"]
    early = early.assign(step=early["at"].astype(int))
    last_rows = differences.assign(
        step=[ends[tuple(key)] for key in differences[CELL].itertuples(index=False)]
    )
    rows = pd.concat([early, last_rows], ignore_index=True)
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
    return rows[rows.minus != LEADING].sort_index()[COLUMNS]
