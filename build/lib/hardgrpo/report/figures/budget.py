"""Gain by the share of the pool that is trained on: a bar for each arm with its 95 % interval.
Bars of policies that differ only in the budget are next to each other."""

import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import arm_rows, plotting

KEYS = ["model", "task", "policy"]
SIZES = ["rule", "budget", "prompts", "pool"]
COLUMNS = ["model", "task", "line", "policy", "recipe", *SIZES, "share", "step", *interval("gain")]
COLUMNS += ["problems", "seeds"]


def draw(gains, subsets, lines):
    """The figure and its data. `lines` maps each policy to the name of its line (a group of bars
    here): policies that differ only in the budget have the same line. In the data, `share` is
    prompts / pool, and `line` also names the recipe if the recipe is not the study's first. If two
    bars would have the same line and share, `line` of the second bar is the label of its arm."""
    gains = own_test_samples(gains).drop(columns=["eval_task", "decoding"])
    # a policy's subset is the same for all recipes
    points = gains.merge(subsets[[*KEYS, *SIZES]], on=KEYS)
    points["share"] = points.prompts / points.pool
    line = points.policy.map(lines)
    line = line.where(points.arm == points.policy, line + ", " + points.recipe)
    is_repeated = points.assign(line=line).duplicated(["model", "task", "line", "share"])
    points["line"] = line.where(~is_repeated, points.arm)
    points["row"] = [
        f"{name}, {100 * share:.3g} %" for name, share in zip(points.line, points.share)
    ]
    order = list(dict.fromkeys(points.sort_values("share", ascending=False, kind="stable").line))
    points["order"] = points.line.map(order.index)
    points = points.sort_values(["order", "share"], ascending=[True, False], kind="stable")
    models, groups = points.model.nunique(), plotting.groups(points, ["model", "task"])
    names = [list(dict.fromkeys(group.row)) for _, group in groups]
    figure, axes, places = arm_rows.panels(names, order=list(dict.fromkeys(points.row)))
    for axis, place, ((model, task), group) in zip(axes, places, groups):
        rows, colors = group.row.map(place), list(map(plotting.hue, group.policy))
        # alpha lightens the bars: on a black bar, the interval would be invisible
        axis.barh(rows, 100 * group.gain, 0.7, color=colors, alpha=0.45, linewidth=0)
        lengths = plotting.bars(group, "gain")
        axis.errorbar(100 * group.gain, rows, xerr=lengths, ecolor="0.2", **arm_rows.LAST)
        axis.axvline(0, color="black", linewidth=0.6)
        pool = f"pool of {group.pool.max():,.0f}; {plotting.sizes(group)}"
        plotting.title(axis, plotting.panel_title(model, task, task, models), pool)
    figure.supxlabel("gain in accuracy (points), by policy and share of the pool", fontsize=8)
    drawn_rows = [group for _, group in groups]
    return figure, pd.concat(drawn_rows, ignore_index=True)[COLUMNS]
