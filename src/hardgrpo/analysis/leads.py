"""Summary tables of the lead of `hard` over other policies of the study's first recipe, and of how the lead relates to properties of the base model.

A point is a replicate where each replicate has its own base model, else a model (mean over its seeds).
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, as_columns, families
from hardgrpo.analysis.columns import CELL
from hardgrpo.runtime import files
from hardgrpo.study import paths, settings

LEADING = "hard"
PREDICTORS = {  # column: words
    "base_accuracy": "accuracy of the base",
    "greedy_gap": "greedy less sampled",
    "zero_share": "pool never solved",
    "mixed_share": "pool solved sometimes",
}
UNPROBED = {"zero_share": np.nan, "mixed_share": np.nan}  # for a recorded model without completions of the pool


def leads(cells: list[Cell], difficulty_files: list[str]) -> list[dict]:
    """The lead of `hard` over each other policy at the last checkpoint, by replicate, beside properties of its base model.

    `base_accuracy` and `greedy_gap` (greedy less sampled accuracy) are measured on the test. `zero_share` and `mixed_share` are the
    shares of the pool with a pass rate of 0, and strictly between 0 and 1. Seeds that share one base have one row, their mean.
    """
    pools = {paths.pair_of(path): _pool(path) for path in difficulty_files}
    rows = []
    for family in families(cells):
        for first, other in _leading(family):
            lead = (first.rates(first.steps()[-1]) - other.rates(other.steps()[-1])).mean(axis=1)
            own = (settings.own_base(first.model, first.seeds[0]), first.task) in pools
            for number, seed in enumerate(first.seeds if own else [None]):
                rows.append(
                    first.keys
                    | {"minus": other.policy, "seed": seed, "lead": lead[number] if own else lead.mean()}
                    | _base(first, number)
                    | pools.get((settings.own_base(first.model, seed) if own else first.model, first.task), UNPROBED)
                )
    return rows


def _base(cell: Cell, number: int) -> dict:
    accuracy = cell.base_rates()[number].mean()
    greedy = cell.base_rates(decoding="greedy")[number].mean() if "greedy" in cell.decodings() else np.nan
    return {"base_accuracy": accuracy, "greedy_gap": greedy - accuracy}


def _pool(path: str) -> dict:
    rates = np.array([row["pass_rate"] for row in files.read_rows(path, {"pass_rate": float})])
    return {"zero_share": (rates == 0).mean(), "mixed_share": ((rates > 0) & (rates < 1)).mean()}


def lead_by_model(cells: list[Cell]) -> list[dict]:
    """Whether the lead of `hard` over another policy depends on the model: `least` and `most` of the models' leads, their standard
    deviation beyond chance over seeds (`spread`), and p of Welch's analysis of variance that all are equal.

    A model's lead is the mean over its seeds; `seeds` is the smallest number of seeds of any model. `spread` is by the method of
    moments: spread^2 = variance of the leads less the mean over models of (variance over seeds / seeds), at least 0. The test is
    about these models and problems: new problems may change a model's lead, too. A model with one seed leaves `spread` and p nan.
    """
    from statsmodels.stats.oneway import anova_oneway  # here: it takes a second, and figures read this module

    found: dict[tuple, list[np.ndarray]] = {}
    for family in families(cells):
        for first, other in _leading(family):
            lead = (first.rates(first.steps()[-1]) - other.rates(other.steps()[-1])).mean(axis=1)
            found.setdefault((first.task, first.eval_task, LEADING, other.policy), []).append(lead)
    rows = []
    for key, of_models in found.items():
        if len(of_models) < 2:
            continue
        means, known = [lead.mean() for lead in of_models], min(map(len, of_models)) > 1
        chance = np.mean([lead.var(ddof=1) / len(lead) for lead in of_models]) if known else np.nan
        p = anova_oneway(of_models, use_var="unequal").pvalue if known and chance > 0 else np.nan
        rows.append(
            dict(zip(("task", "eval_task", "policy", "minus"), key))
            | {"models": len(of_models), "least": min(means), "most": max(means), "p": p, "seeds": min(map(len, of_models))}
            | {"spread": float(np.sqrt(max(np.var(means, ddof=1) - chance, 0))) if known else np.nan}
        )
    return rows


def _leading(family: list[Cell]) -> list[tuple[Cell, Cell]]:
    """`hard` with each other policy of the study's first recipe, on the same seeds."""
    arms = [cell for cell in family if cell.is_first_recipe]
    first = next((cell for cell in arms if cell.policy == LEADING), None)
    return [(first, other) for other in arms if first is not None and other is not first and other.seeds == first.seeds]


def lead_regressions(rows: list[dict]) -> list[dict]:
    """A least-squares line of the lead on each of PREDICTORS, one at a time: slope (lead per unit of the predictor), R squared, p.

    `model` is empty where the points are models. Fewer than four points give no row. p is not corrected for the four lines per
    lead, and the predictors depend on each other: the lines are descriptive.
    """
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    frame["model"] = frame.model.where(frame.seed.notna(), None)
    found = []
    for keys, group in frame.groupby([*CELL, "minus"], sort=False, dropna=False):
        for predictor in PREDICTORS:
            kept = group[["lead", predictor]].dropna()
            if len(kept) < 4:
                continue
            x, y = kept[predictor].to_numpy(), kept.lead.to_numpy()
            slope, p = statistics.coefficients(x[:, None], y)[0]
            found.append(
                dict(zip((*CELL, "minus"), keys))
                | {"predictor": predictor}
                | as_columns("slope", slope)
                | as_columns("r_squared", statistics.r_squared(x, y))
                | {"p": p, "points": len(kept)}
            )
    return found
