"""The lead of `hard` over other policies, all trained by the study's first recipe, and the summary table
of its relation to properties of the base model.

In a regression, a point is a replicate if each replicate has its own base model, otherwise a model
(the mean over its seeds).
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, estimates, families
from hardgrpo.analysis.columns import CELL
from hardgrpo.analysis.summary_tables import CELL_KEYS, table
from hardgrpo.runtime import files
from hardgrpo.study import paths
from hardgrpo.study.model import own_base

LEADING = "hard"
# In figures, tables and texts, this name stands for the model of a regression whose points are
# models. A regression over the replicates of one model has the name of this model.
OTHER_MODELS = "other models"
PREDICTORS = {  # {column: label in figures and tables}
    "base_accuracy": "accuracy of the base",
    "greedy_gap": "greedy minus sampled",
    "zero_share": "pool never solved",
    "mixed_share": "pool solved sometimes",
}
# values of these columns for a recorded model without completions of the pool
UNPROBED = {"zero_share": np.nan, "mixed_share": np.nan}


def leads(cells: list[Cell], difficulty_files: list[str]) -> list[dict]:
    """The lead of `hard` over each other policy with the same seeds at the last checkpoint, by
    replicate, with properties of the base model.

    `base_accuracy` and `greedy_gap` (greedy minus sampled accuracy) are measured on the test.
    `zero_share` is the share of the pool with a pass rate of 0, and `mixed_share` the share with a
    pass rate strictly between 0 and 1. Seeds that share a base model have one row with their mean.
    """
    pools = {paths.pair_of(path): _pool(path) for path in difficulty_files}
    rows = []
    for family in families(cells):
        for leader, rival in _leading(family):
            lead = _lead(leader, rival)
            has_own_bases = (own_base(leader.model, leader.seeds[0]), leader.task) in pools
            for index, seed in enumerate(leader.seeds if has_own_bases else [None]):
                base = own_base(leader.model, seed) if has_own_bases else leader.model
                rows.append(
                    leader.keys
                    | {
                        "minus": rival.policy,
                        "seed": seed,
                        "lead": lead[index] if has_own_bases else lead.mean(),
                    }
                    | _base(leader, index)
                    | pools.get((base, leader.task), UNPROBED)
                )
    return rows


def _base(cell: Cell, index: int) -> dict:
    accuracy = cell.base_rates()[index].mean()
    greedy = (
        cell.base_rates(decoding="greedy")[index].mean() if "greedy" in cell.decodings() else np.nan
    )
    return {"base_accuracy": accuracy, "greedy_gap": greedy - accuracy}


def _pool(path: str) -> dict:
    rates = np.array([row["pass_rate"] for row in files.read_rows(path, {"pass_rate": float})])
    return {"zero_share": (rates == 0).mean(), "mixed_share": ((rates > 0) & (rates < 1)).mean()}


def _leading(family: list[Cell]) -> list[tuple[Cell, Cell]]:
    """[(cell of `hard`, cell of another policy)] of the study's first recipe, with the same
    seeds."""
    cells = [cell for cell in family if cell.is_first_recipe]
    return [
        (leader, rival)
        for leader in cells
        for rival in cells
        if leader.policy == LEADING and rival is not leader and rival.seeds == leader.seeds
    ]


def _lead(leader: Cell, rival: Cell) -> np.ndarray:
    """(S,) lead of each seed at the last checkpoint."""
    return (leader.rates(leader.last_step) - rival.rates(rival.last_step)).mean(axis=1)


@table(f"{CELL_KEYS} minus predictor slope± r_squared± p points")
def lead_regressions(leads: list[dict]) -> list[dict]:
    """A least-squares line of the lead on each of PREDICTORS: slope (lead per unit of the
    predictor), R squared, p.

    `model` is empty if the points are models. Fewer than four points give no row. The lines are
    descriptive: p is not corrected for the four lines per lead, and the predictors are correlated.
    """
    if not leads:
        return []
    frame = pd.DataFrame(leads)
    frame["model"] = frame.model.where(frame.seed.notna(), None)
    rows = []
    for keys, group in frame.groupby([*CELL, "minus"], sort=False, dropna=False):
        for predictor in PREDICTORS:
            points = group[["lead", predictor]].dropna()
            if len(points) < 4:
                continue
            x, y = points[predictor].to_numpy(), points.lead.to_numpy()
            slope, p = statistics.coefficients(x[:, None], y)[0]
            rows.append(
                dict(zip((*CELL, "minus"), keys))
                | {"predictor": predictor}
                | estimates(slope=slope, r_squared=statistics.r_squared(x, y))
                | {"p": p, "points": len(points)}
            )
    return rows
