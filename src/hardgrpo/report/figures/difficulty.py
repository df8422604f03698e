"""Pass rates of the base model on the pool, and the pass rates that each policy chooses."""

import pandas as pd

from hardgrpo.report import plotting

COLUMNS = ["model", "task", "group", "pass_rate", "problems"]


def draw(difficulty):
    """Draw a panel for each model and task. In the table of drawn rows, `share` is `problems`
    divided by the problems of the group."""
    policies = [name for name in dict.fromkeys(difficulty.group) if name != "pool"]
    models, drawn_rows = difficulty.model.nunique(), []
    groups = plotting.groups(difficulty, ["model", "task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task), table) in zip(axes, groups):
        # Draw shares of problems: the counts of a subset of 12 problems would be invisible beside a
        # pool of 1,000.
        table = table.assign(
            share=table.problems / table.groupby("group").problems.transform("sum")
        )
        pool = table[table.group == "pool"]
        rates = sorted(pool.pass_rate)
        width = min(0.8 * min((b - a for a, b in zip(rates[:-1], rates[1:])), default=0.1), 0.08)
        axis.bar(
            pool.pass_rate,
            100 * pool.share,
            width,
            color="0.85",
            edgecolor="0.5",
            linewidth=0.5,
            label="pool",
        )
        panel_policies = [name for name in policies if name in set(table.group)]
        for index, policy in enumerate(panel_policies):
            line = table[table.group == policy].sort_values("pass_rate")
            # Offset the points of each policy, because policies may choose prompts with the same
            # pass rate.
            places = line.pass_rate + plotting.spread(index, len(panel_policies), 0.04)
            axis.plot(places, 100 * line.share, label=policy, **plotting.style(policy, policies))
        axis.set_xlim(-0.08, 1.08)
        sizes = table[table.group != "pool"].groupby("group").problems.sum()
        subsets = f", subsets of {plotting.format_range(sizes)}" if len(sizes) else ""
        plotting.title(
            axis,
            plotting.panel_title(model, task, task, models),
            f"pool of {pool.problems.sum():,.0f}{subsets}",
        )
        drawn_rows.append(table[[*COLUMNS, "share"]])
    plotting.outer_labels(axes, "pass rate of the base model", "share of problems (%)")
    plotting.legend(figure, axes)
    return figure, pd.concat(drawn_rows, ignore_index=True)
