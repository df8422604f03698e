"""Summary tables that split gains exactly into finishing and correctness."""

from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, mean_columns, sizes

GRADINGS = {"task": "correct", "strict": "strict", "lenient": "lenient"}
DECOMPOSED = ("answered", "correct", "strict", "lenient", "truncated", "tokens")


def parts(cells: list[Cell]) -> list[dict]:
    """Every gain of sampled completions at the last checkpoint, split into finishing and
    correctness."""
    rows = []
    for cell in cells:
        rates = cell.decomposition_rates(cell.last_step)
        finishing, correctness = statistics.decompose_by_problem(*rates)
        rows.append(
            cell.keys
            | {"step": cell.last_step, "gain": (rates[3] - rates[1]).mean()}
            | mean_columns("finishing", finishing)
            | mean_columns("correctness", correctness)
            | mean_columns("finishing_minus_correctness", finishing - correctness)
            | _answered(*rates)
            | sizes(finishing)
        )
    return rows


def decomposition(cells: list[Cell]) -> list[dict]:
    """Every gain split into finishing and correctness, by checkpoint, by grading, and by tier.
    An empty `tier` stands for all problems.

    `grading` is "task" (the task's own), "strict" or "lenient". All gradings count the same
    completions as answered. The split within a tier uses only the tier's problems.
    """
    rows = []
    for cell in cells:
        masks = {None: np.ones(len(cell.tiers()), bool)} | cell.tier_masks()
        for step, base, trained_rates in _by_step(cell):
            for tier, in_tier in masks.items():
                tier_rates = {
                    column: (base[column][:, in_tier], trained_rates[column][:, in_tier])
                    for column in DECOMPOSED
                }
                for grading, rates in _by_grading(tier_rates):
                    finishing, correctness = statistics.decompose_by_problem(*rates)
                    rows.append(
                        cell.keys
                        | {"tier": tier, "grading": grading, "step": step}
                        | mean_columns("gain", rates[3] - rates[1])
                        | mean_columns("finishing", finishing)
                        | mean_columns("correctness", correctness)
                        | _answered(*rates)
                        | _lengths(tier_rates)
                        | {"problems": int(in_tier.sum()), "seeds": len(cell.runs)}
                    )
    return rows


def decomposition_runs(cells: list[Cell]) -> list[dict]:
    """The exact split of every run's gain at every checkpoint, by grading. The mean of the splits
    of all runs differs slightly from the split of the mean gain."""
    rows = []
    for cell in cells:
        for step, base, trained_rates in _by_step(cell):
            base_rates = {
                name: np.broadcast_to(base[name], trained_rates[name].shape) for name in DECOMPOSED
            }
            runs = [
                {name: (base_rates[name][i], trained_rates[name][i]) for name in DECOMPOSED}
                for i in range(len(cell.seeds))
            ]
            for grading in GRADINGS:
                for seed, run_rates in zip(cell.seeds, runs):
                    rates = dict(_by_grading(run_rates))[grading]
                    base_answered, base_correct, answered, correct = (
                        float(rate.mean()) for rate in rates
                    )
                    finishing, correctness = statistics.decompose(
                        base_answered, base_correct, answered, correct
                    )
                    rows.append(
                        cell.keys
                        | {
                            "seed": seed,
                            "grading": grading,
                            "step": step,
                            "gain": correct - base_correct,
                            "finishing": finishing,
                            "correctness": correctness,
                        }
                        | _answered(*rates)
                        | _lengths(run_rates)
                        | {"problems": len(rates[0])}
                    )
    return rows


def _by_step(cell: Cell) -> Iterator[tuple[int, dict, dict]]:
    """Yield (checkpoint, {column: rates of the base models}, {column: rates of the runs}). Rates
    have the shape (seeds, problems); those of a base model that all seeds share, (1, problems)."""
    base = {column: cell.base_rates(column) for column in DECOMPOSED}
    for step in cell.steps():
        yield step, base, {column: cell.rates(step, column) for column in DECOMPOSED}


def _by_grading(rates: dict[str, tuple]) -> Iterator[tuple[str, tuple]]:
    """Yield (grading, (base answered, base correct, answered, correct)) from {column: (base rates,
    trained rates)}."""
    for grading, column in GRADINGS.items():
        yield (
            grading,
            (rates["answered"][0], rates[column][0], rates["answered"][1], rates[column][1]),
        )


def _answered(base_answered, base_correct, answered, correct) -> dict:
    return {
        "base_answered": base_answered.mean(),
        "answered": answered.mean(),
        "base_accuracy": base_correct.mean(),
        "accuracy": correct.mean(),
        "base_accuracy_answered": statistics.ratio_of_means(base_correct, base_answered),
        "accuracy_answered": statistics.ratio_of_means(correct, answered),
    }


def _lengths(rates: dict) -> dict:
    """Truncated share and mean length in tokens, before and after training; nan if unknown."""
    return {
        f"{prefix}{column}": rates[column][i].mean()
        for column in ("truncated", "tokens")
        for i, prefix in enumerate(("base_", ""))
    }
