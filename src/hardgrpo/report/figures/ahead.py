"""The lead of `hard` over each other policy by checkpoint, with 95 % intervals."""

import pandas as pd

from hardgrpo.analysis.hard_leads import LEADING
from hardgrpo.report import plotting

CELL = ["model", "task", "eval_task"]
LEAD = ["lead", "lead_low", "lead_high"]


def draw(paired, differences, gains):
    frame = leads(paired, differences, gains)
    rivals, models = list(dict.fromkeys(frame.minus)), frame.model.nunique()
    groups = plotting.groups(frame, [*CELL, "recipe"])
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
    plotting.outer_labels(axes, "GRPO updates", "lead, points")
    plotting.legend(figure, axes)
    return figure, frame.drop(columns="policy")


def leads(paired: pd.DataFrame, differences: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Rows with `step`, `minus` and `lead`: at earlier checkpoints from `paired`, at the last one
    from `differences`."""
    arm = [*CELL, "policy", "recipe"]
    ends = gains[gains.decoding == "sampled"].groupby(arm, sort=False).step.max()
    early = paired[paired["what"] == "checkpoint"]
    early = early.assign(step=early["at"].astype(int))
    last_rows = differences.assign(
        step=[ends[tuple(key)] for key in differences[arm].itertuples(index=False)]
    )
    rows = pd.concat([early, last_rows], ignore_index=True)
    rows = rows[rows.recipe == rows.minus_recipe]
    turned = rows[rows.minus == LEADING].rename(
        columns={"policy": "minus", "minus": "policy", "arm": "minus_arm", "minus_arm": "arm"}
    )
    turned = turned.assign(
        lead=-turned.difference, lead_low=-turned.difference_high, lead_high=-turned.difference_low
    )
    names = {"difference": "lead", "difference_low": "lead_low", "difference_high": "lead_high"}
    rows = pd.concat([rows[rows.policy == LEADING].rename(columns=names), turned])
    return rows[rows.minus != LEADING].sort_index()[
        [*CELL, "policy", "recipe", "arm", "minus", "step", *LEAD, "problems", "seeds"]
    ]
