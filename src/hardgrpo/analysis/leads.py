"""What goes with the lead: that of one policy over another by replicate, against what the replicate's base model is like.

Where each replicate has its own base model a point is a replicate; models from outside are points themselves (means over seeds).
"""

import numpy as np
import pandas as pd
from statsmodels.stats.oneway import anova_oneway

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, as_columns, families
from hardgrpo.runtime import files
from hardgrpo.study import paths, settings

LEADING = "hard"
PREDICTORS = {  # column: words
    "base_accuracy": "accuracy of the base",
    "greedy_gap": "greedy less sampled",
    "zero_share": "pool never solved",
    "mixed_share": "pool solved sometimes",
}
UNPROBED = {"zero_share": np.nan, "mixed_share": np.nan}  # a recorded model without completions of the pool


def leads(cells: list[Cell], difficulty_files: list[str]) -> list[dict]:
    """The lead of `hard` over each other policy at the last checkpoint, by replicate, with what its base model is like.

    `base_accuracy` and `greedy_gap` (greedy less sampled accuracy) are of the test; `zero_share` and `mixed_share` are the shares of
    the pool that the probe solves never, and sometimes but not always. With a base that all seeds share there is one row, their mean.
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
    deviation beyond chance over seeds (`spread`, method of moments), and p of Welch's test that all are equal.

    A model's lead is a mean over its seeds; `seeds` is the least of the models' numbers. The test is about these models and these
    problems: new problems may move a model's lead, too. One seed of a model leaves `spread` and p unknown.
    """
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
    alike = [cell for cell in family if ", " not in cell.policy]
    first = next((cell for cell in alike if cell.policy == LEADING), None)
    return [(first, other) for other in alike if first is not None and other is not first and other.seeds == first.seeds]


def lead_regressions(rows: list[dict]) -> list[dict]:
    """A least-squares line of the lead on each of PREDICTORS, one at a time: slope (lead per unit of the predictor), R squared, p.

    `model` is empty where the points are models. Fewer than four points give no row. The predictors depend on each other, and four
    lines a lead are drawn: p is not corrected, and the lines describe.
    """
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    frame["model"] = frame.model.where(frame.seed.notna(), None)
    found = []
    for keys, group in frame.groupby(["model", "task", "eval_task", "policy", "minus"], sort=False, dropna=False):
        for predictor in PREDICTORS:
            kept = group[["lead", predictor]].dropna()
            if len(kept) < 4:
                continue
            x, y = kept[predictor].to_numpy(), kept.lead.to_numpy()
            slope, p = statistics.coefficients(x[:, None], y)[0]
            found.append(
                dict(zip(("model", "task", "eval_task", "policy", "minus"), keys))
                | {"predictor": predictor}
                | as_columns("slope", slope)
                | as_columns("r_squared", statistics.r_squared(x, y))
                | {"p": p, "points": len(kept)}
            )
    return found
