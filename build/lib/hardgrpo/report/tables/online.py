"""The supplement's tables of runs that choose prompts while they train."""

import pandas as pd

from hardgrpo.analysis.formats import UNKNOWN, integer
from hardgrpo.report.table_columns import estimate, key_columns, number, seeds

ARM = ("model", "task", "arm")


def rollouts(rollouts: pd.DataFrame):
    counts = ["sampling_steps", "updates", "generated", "kept", "replayed", "thrown_away"]
    return rollouts, [
        *key_columns(rollouts, *ARM),
        *(number(rollouts, name, name.replace("_", " "), integer) for name in counts),
        number(rollouts, "thrown_away_share", "thrown away %", lambda share: f"{100 * share:.1f}"),
        number(rollouts, "labels", "prompts sampled", integer),
        seeds(rollouts),
    ]


def time_to_target(time_to_target: pd.DataFrame):
    per_cent = lambda share: UNKNOWN if pd.isna(share) else f"{100 * share:.0f}"
    return time_to_target, [
        *key_columns(time_to_target, *ARM),
        number(time_to_target, "target", "target accuracy %", lambda share: f"{100 * share:.1f}"),
        number(time_to_target, "minus_share", "plain %", per_cent, "plain: {} %"),
        estimate(time_to_target, "share", "rollouts %"),
        number(time_to_target, "reached", "target reached, % of bootstrap samples", per_cent),
        seeds(time_to_target),
    ]
