"""Judge claims: find the rows in the scope of a claim, their population, and the verdict on a
primary claim.

A primary claim is written to paper/claims.yaml before its study is run, with the number of
replicates that it needs. The verdict is

- *supported* if the interval lies above zero or, for a claim with a margin, within the margin
  around zero;
- *contradicted* if the interval lies below zero or, for a claim with a margin, outside the margin;
- *undecided* otherwise, and always if the study has fewer replicates than the claim needs, or if
  the row states a reason why it cannot decide (column `open`).

The verdicts supported and contradicted also require that Holm's p, corrected over the tasks of a
model, is below 0.05. Claims that are not primary are descriptive.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from hardgrpo.analysis import statistics

SUPPORTED, CONTRADICTED = "supported", "contradicted"
UNDECIDED, DESCRIPTIVE = "undecided", "descriptive"
NEW_BASES, THIS_MODEL, THESE_MODELS = "new base models of this kind", "this model", "these models"
ALPHA = 0.05
TESTED = ("same", "other", "roomier", "tighter")
SCOPE_KEYS = ("model", "task", "eval_task")


@dataclass(frozen=True)
class Study:
    """The summary tables of a study ({name: rows}), and the settings that decide which rows a claim
    is about (claim_conditions.conditions).

    `tasks` is {name: {"completion_tokens": int, "problems": str}}; tasks with the same problems
    have the same value of `problems`. `weaker` lists the tasks or models with a weaker learning
    signal (`weaker_signal` of the study). `own_bases` lists the models that have a pretrained base
    model for each replicate.
    """

    tables: dict[str, list[dict]]
    first_recipe: str
    tasks: dict[str, dict]
    weaker: list[str]
    own_bases: list[str]

    def rows(self, table: str, claim: dict, **values) -> list[dict]:
        """Rows of a table in the claim's scope whose columns equal `values`."""
        rows = [row for row in self.tables.get(table, []) if is_in_scope(row, claim, self.tasks)]
        return [row for row in rows if all(row.get(key) == value for key, value in values.items())]

    def by_cell(self, table: str, claim: dict, **values) -> dict[tuple, list[dict]]:
        """The rows that `rows` returns, grouped by cell."""
        cells: dict[tuple, list[dict]] = {}
        for row in self.rows(table, claim, **values):
            cells.setdefault(cell_of(row), []).append(row)
        return cells

    def population(self, model: str) -> str:
        """The population that a row is about. `model` is "" for a row over all models of the
        study."""
        if model:
            return NEW_BASES if model in self.own_bases else THIS_MODEL
        models = {row["model"] for row in self.tables.get("gains", [])}
        if models <= set(self.own_bases):
            return NEW_BASES
        return THIS_MODEL if len(models) == 1 else THESE_MODELS


def cell_of(row: dict) -> tuple:
    return row["model"], row["task"], row.get("eval_task", row["task"])


def relation(task: str, eval_task: str, tasks: dict[str, dict]) -> str:
    """How a test relates to the training task: a word of TESTED, or "alike" if only the grader or
    the prompt differs."""
    if task == eval_task:
        return "same"
    trained_on, tested_on = tasks[task], tasks[eval_task]
    if trained_on["problems"] != tested_on["problems"]:
        return "other"
    limits = trained_on["completion_tokens"], tested_on["completion_tokens"]
    return "alike" if limits[0] == limits[1] else "roomier" if limits[1] > limits[0] else "tighter"


def is_in_scope(row: dict, claim: dict, tasks: dict[str, dict]) -> bool:
    _, task, eval_task = cell = cell_of(row)
    scope = claim.get("only", {})
    if any(value not in scope.get(key, [value]) for key, value in zip(SCOPE_KEYS, cell)):
        return False
    return claim.get("tested", "same") == "any" or relation(task, eval_task, tasks) == claim.get(
        "tested", "same"
    )


# --- verdicts ---


def add_verdicts(rows: list[dict], claim: dict) -> list[dict]:
    """The rows of a primary claim with `p_holm` and `verdict`. Rows that cannot be decided (`open`
    holds a reason, or there are too few replicates) are left out of Holm's correction."""
    is_decidable = [row["open"] is None and not row["seeds"] < claim["replicates"] for row in rows]
    p_values = np.array(
        [
            interval_p(row, claim.get("margin")) if decidable else np.nan
            for row, decidable in zip(rows, is_decidable)
        ]
    )
    for model in {row["model"] for row in rows}:
        is_of_model = np.array([row["model"] == model for row in rows])
        p_values[is_of_model] = statistics.holm(p_values[is_of_model])
    return [
        row | {"p_holm": float(p), "verdict": _verdict(row, claim, p)}
        for row, p in zip(rows, p_values)
    ]


def _verdict(row: dict, claim: dict, p_holm: float) -> str:
    if row["seeds"] < claim["replicates"]:
        return f"{UNDECIDED}: {row['seeds']:.0f} of {claim['replicates']} replicates"
    if row["open"]:
        return f"{UNDECIDED}: {row['open']}"
    if not p_holm < ALPHA:
        return UNDECIDED
    return (
        verdict_on_margin(row["low"], row["high"], claim["margin"])
        if "margin" in claim
        else verdict_on_sign(row["low"], row["high"])
    )


def verdict_on_sign(low: float, high: float) -> str:
    """The verdict on the claim that an estimate is positive: undecided if the interval is unknown
    (both ends nan)."""
    return SUPPORTED if low > 0 else CONTRADICTED if high < 0 else UNDECIDED


def verdict_on_margin(low: float, high: float, margin: float) -> str:
    """The verdict on the claim that an estimate lies within `margin` of zero, by two one-sided
    tests (Schuirmann 1987). Each test has the level 2.5 %, because the interval is a 95 %
    interval."""
    if -margin < low and high < margin:
        return SUPPORTED
    return CONTRADICTED if low > margin or high < -margin else UNDECIDED


def interval_p(row: dict, margin: float | None) -> float:
    """Two-sided p: 1 minus the level at which the interval reaches zero. With a margin, the nearer
    end of the margin replaces zero.

    With a margin, or if the table has no p, the interval is treated as a t interval over seeds, the
    most conservative case.
    """
    if margin is None and row["p"] is not None:
        return row["p"]
    estimate, low, high = row["estimate"], row["low"], row["high"]
    distance = abs(estimate) if margin is None else abs(margin - abs(estimate))
    half = (high - low) / 2
    if half == 0:
        return 0.0 if distance > 0 else 1.0
    df = max(row["seeds"] - 1, 1)
    return float(2 * stats.t.sf(distance / half * stats.t.ppf(0.975, df), df))
