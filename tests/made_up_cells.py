"""Evaluations and cells from lists of outcomes, for tests of summary tables."""

import pandas as pd

from hardgrpo.analysis.cells import Cell


def evaluation(
    outcomes: dict[int, dict[str, list]], tiers: dict[str, str] | None = None, **columns
) -> pd.DataFrame:
    """An evaluation from {step: {problem: outcome of each sample}}: 1 is a right answer, 0 a wrong
    one, None is no answer. `columns` replace columns of all rows."""
    rows = [
        {"step": step, "id": problem, "tier": (tiers or {}).get(problem), "sample": sample}
        | dict.fromkeys(("correct", "strict", "lenient"), int(outcome == 1))
        | {"answered": int(outcome is not None), "truncated": 0, "tokens": 10, "sound": None}
        | {"decoding": "sampled"}
        | columns
        for step, problems in outcomes.items()
        for problem, samples in problems.items()
        for sample, outcome in enumerate(samples)
    ]
    return pd.DataFrame(rows).astype({"sound": float})


def cell(
    bases: list[pd.DataFrame],
    runs: list[pd.DataFrame],
    policy: str = "hard",
    recipe: str = "slow",
    task: str = "t",
    test: str = "t",
    **more,
) -> Cell:
    seeds = list(range(len(runs)))
    return Cell("m", task, test, policy, recipe, bases, runs, **({"seeds": seeds} | more))
