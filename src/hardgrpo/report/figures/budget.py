"""Gain against the share of the pool that is trained on, a line for each rule, with 95 %
intervals."""

import pandas as pd

from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report import plotting

KEYS = ["model", "task", "policy"]
SUBSETS = [*KEYS, "rule", "budget", "prompts", "pool"]


def draw(gains, subsets):
    """In the rows drawn, `share` is prompts / pool, and `line` names the line of a point."""
    gains = own_test_samples(gains).drop(columns=["eval_task", "decoding"])
    points = gains.merge(subsets[SUBSETS], on=KEYS)  # a policy's subset is the same for all recipes
    points["share"] = points.prompts / points.pool
    line = points.rule.where(points.arm == points.policy, points.rule + ", " + points.recipe)
    # A second point of a rule at the same share differs in a further key of the policy, so it gets
    # its own line.
    is_repeated = points.assign(line=line).duplicated(["model", "task", "line", "share"])
    points["line"] = line.where(~is_repeated, points.arm)
    lines, models, drawn_rows = list(dict.fromkeys(points.line)), points.model.nunique(), []
    groups = plotting.groups(points, ["model", "task"])
    figure, axes = plotting.panels(len(groups), height=2.6)
    for axis, ((model, task), group) in zip(axes, groups):
        for index, name in enumerate(lines):
            rows = group[group.line == name].sort_values("share")
            # Offset by a factor, because the axis is logarithmic.
            places = 100 * rows.share * 1.04 ** plotting.spread(index, len(lines), len(lines))
            plotting.series(axis, places, rows, "gain", label=name, **plotting.style(name, lines))
            drawn_rows.append(rows)
        axis.set_xscale("log")
        shares = sorted(group.share.round(4).unique())
        axis.set_xticks(
            [100 * share for share in shares], [f"{100 * share:.3g}" for share in shares]
        )
        axis.set_xticks([], minor=True)
        axis.axhline(0, color="black", linewidth=0.6)
        plotting.title(
            axis,
            plotting.panel_title(model, task, task, models),
            f"pool of {group.pool.max():,.0f}; {plotting.sizes(group)}",
        )
    plotting.outer_labels(axes, "share trained on (%, log scale)", "gain in accuracy (points)")
    plotting.legend(figure, axes)
    columns = [
        "model",
        "task",
        "line",
        "policy",
        "recipe",
        "rule",
        "budget",
        "prompts",
        "pool",
        "share",
    ]
    return figure, pd.concat(drawn_rows, ignore_index=True)[
        [*columns, "step", "gain", "gain_low", "gain_high", "problems", "seeds"]
    ]
