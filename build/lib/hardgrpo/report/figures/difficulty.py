"""Pass rates of the base model on the pool, and on the prompts that each policy chooses: a
line for each policy, or a row of discs if there are more than `plotting.MOST_ARMS` policies."""

import pandas as pd

from hardgrpo.report import arm_rows, plotting

COLUMNS = ["model", "task", "group", "pass_rate", "problems"]


def draw(difficulty):
    """The figure and its data, in which `share` is `problems` divided by the sum of `problems` over
    the group (the pool, or the subset of a policy)."""
    # The figure shows shares, because the counts of a subset of 12 problems would be invisible
    # beside the counts of a pool of 1,000.
    sums = difficulty.groupby(["model", "task", "group"]).problems.transform("sum")
    shares = difficulty.assign(share=difficulty.problems / sums)
    policies = [name for name in dict.fromkeys(difficulty.group) if name != "pool"]
    draw_panels = draw_rows if len(policies) > plotting.MOST_ARMS else draw_lines
    return draw_panels(shares, policies), shares[[*COLUMNS, "share"]]


def draw_lines(shares: pd.DataFrame, policies: list[str]):
    """A panel for each model and task: bars of the pool, and a line for each policy."""
    models, groups = shares.model.nunique(), plotting.groups(shares, ["model", "task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task), table) in zip(axes, groups):
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
            # side by side, because policies may choose prompts with the same pass rate
            places = line.pass_rate + plotting.spread(index, len(panel_policies), 0.04)
            look = plotting.style(policy, policies)
            look |= {} if len(rates) > 2 else {"linestyle": "none"}
            axis.plot(places, 100 * line.share, label=policy, **look)
        axis.set_xlim(-0.08, 1.08)
        plotting.title(axis, plotting.panel_title(model, task, task, models), pool_size(table))
    plotting.outer_labels(axes, "pass rate of the base model", "share of problems (%)")
    plotting.legend(figure, axes)
    return figure


def draw_rows(shares: pd.DataFrame, policies: list[str]):
    """A panel for each model and task, a row for the pool and for each policy. The area of a disc
    shows which share of the row's problems has the pass rate at the disc's place."""
    models, groups = shares.model.nunique(), plotting.groups(shares, ["model", "task"])
    names = [list(dict.fromkeys(table.group)) for _, table in groups]
    arms = pd.DataFrame({"arm": policies, "policy": policies})
    figure, axes, places = arm_rows.panels(names, order=["pool", *arm_rows.order(arms)])
    for axis, place, ((model, task), table) in zip(axes, places, groups):
        for group, rows in table.groupby("group", sort=False):
            color = "0.6" if group == "pool" else plotting.hue(group)
            height = [place[group]] * len(rows)
            axis.scatter(rows.pass_rate, height, s=90 * rows.share, color=color, linewidths=0)
        axis.set_xlim(-0.05, 1.05)
        plotting.title(axis, plotting.panel_title(model, task, task, models), pool_size(table))
    figure.supxlabel("pass rate of the base model (area: share of the row's problems)", fontsize=8)
    return figure


def pool_size(table: pd.DataFrame) -> str:
    is_pool = table.group == "pool"
    sizes = table[~is_pool].groupby("group").problems.sum()
    subsets = f", subsets of {plotting.format_range(sizes)}" if len(sizes) else ""
    return f"pool of {table[is_pool].problems.sum():,.0f}{subsets}"
