"""Summary tables of paired differences that table `differences` lacks, and of gains in the easiest
and the hardest tier.

Two runs with the same seed share the base model and the test's problems. The noise that both runs
have in common cancels in a paired difference. Arrays (S, N) have a row for each of S seeds and a
column for each of N problems.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.accuracies import k_values, pass_rates
from hardgrpo.analysis.cells import (
    Cell,
    are_ordered,
    estimate_columns,
    families,
    mean_columns,
    minus_columns,
    pairs,
    sizes,
)


def paired(cells: list[Cell]) -> list[dict]:
    """Differences, paired by problem and seed: a row for each pair of cells that is compared, kind
    of difference (`what`) and value of `at`.

    - checkpoint: accuracy of one arm minus accuracy of another at step `at`, for each
      checkpoint that both arms have, except the last; only if both arms have the same last
      checkpoint;
    - pass@k: pass@k of one arm minus pass@k of another, with k = `at` > 1;
    - tier: accuracy of one arm minus accuracy of another on the problems of tier `at`;
    - test: the arm's lead on the task's own test minus the same runs' lead on test `at`, which has
      the same problems;
    - trained on: accuracy of the arm trained on `task` minus accuracy of the same arm trained on
      task `at`, on the same test.
    """
    rows = []
    for family in families(cells):
        for cell, minus_cell in pairs(family):
            differences = itertools.chain(
                _checkpoints(cell, minus_cell), _passes(cell, minus_cell), _tiers(cell, minus_cell)
            )
            rows += [_row(cell, minus_cell, *difference) for difference in differences]
    rows += [_row(cell, minus_cell, *difference) for cell, minus_cell, *difference in _tests(cells)]
    for cell, minus_cell in itertools.combinations(cells, 2):
        is_same_arm = all(
            getattr(cell, name) == getattr(minus_cell, name)
            for name in ("model", "eval_task", "arm", "seeds")
        )
        if is_same_arm and cell.task != minus_cell.task:
            rows.append(
                _row(
                    cell,
                    cell,
                    "trained on",
                    minus_cell.task,
                    _last_rates(cell) - _last_rates(minus_cell),
                )
            )
    return rows


def _row(cell: Cell, minus_cell: Cell, kind: str, place, values: np.ndarray) -> dict:
    columns = minus_columns(minus_cell) | {"what": kind, "at": str(place)}
    return cell.keys | columns | mean_columns("difference", values) | sizes(values)


def _last_rates(cell: Cell) -> np.ndarray:
    return cell.rates(cell.last_step)


def _checkpoints(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    if cell.last_step != minus_cell.last_step:
        # runs of different lengths may have sampled different numbers of rollouts at the same step
        return
    for step in sorted(set(cell.steps()) & set(minus_cell.steps()))[:-1]:
        yield "checkpoint", step, cell.rates(step) - minus_cell.rates(step)


def _passes(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    samples = min(cell.samples(cell.last_step), minus_cell.samples(minus_cell.last_step))
    for k in k_values(samples):
        if k > 1:
            yield "pass@k", k, _pass_at_k(cell, k) - _pass_at_k(minus_cell, k)


def _pass_at_k(cell: Cell, k: int) -> np.ndarray:
    return np.stack([pass_rates(run, cell.last_step, k) for run in cell.runs])


def _tiers(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, str, np.ndarray]]:
    values = _last_rates(cell) - _last_rates(minus_cell)
    for tier, in_tier in cell.tier_masks().items():
        yield "tier", tier, values[:, in_tier]


def _tests(cells: list[Cell]) -> Iterator[tuple]:
    """Yield (cell, cell to subtract, "test", test, values (S, N)) for each pair of arms and each
    further test that has the same problems as the task's own test."""
    for family, further_family in itertools.permutations(families(cells), 2):
        own_cell, further_cell = family[0], further_family[0]
        if own_cell.eval_task != own_cell.task or (own_cell.model, own_cell.task) != (
            further_cell.model,
            further_cell.task,
        ):
            continue
        if not own_cell.tiers().index.equals(further_cell.tiers().index):
            continue
        by_arm = {cell.arm: cell for cell in further_family}
        for cell, minus_cell in pairs([cell for cell in family if cell.arm in by_arm]):
            if cell.seeds == by_arm[cell.arm].seeds == by_arm[minus_cell.arm].seeds:
                further_lead = _last_rates(by_arm[cell.arm]) - _last_rates(by_arm[minus_cell.arm])
                yield (
                    cell,
                    minus_cell,
                    "test",
                    further_cell.eval_task,
                    _last_rates(cell) - _last_rates(minus_cell) - further_lead,
                )


def tier_trends(cells: list[Cell]) -> list[dict]:
    """The gain in the easiest tier minus the gain in the hardest tier, in points and in log odds of
    the tier's accuracy.

    Gains in points must shrink near 100 %: a gain from 88.8 to 94.4 % is smaller in points than a
    gain from 61.0 to 75.6 %, but larger in log odds. Seeds are paired, problems are not. Log odds
    are nan if an accuracy is 0 or 1. `problems` is the number of problems of the smaller tier.
    Tiers that are not numbers have no order, so they have no row.
    """
    rows = []
    for cell in cells:
        masks = list(cell.tier_masks().items())
        if len(masks) < 2 or not are_ordered(tier for tier, _ in masks):
            continue
        (easiest, in_easiest), (hardest, in_hardest) = masks[0], masks[-1]
        points, odds = (
            [
                change(cell.base_rates()[:, in_tier], cell.rates(cell.last_step)[:, in_tier])
                for in_tier in (in_easiest, in_hardest)
            ]
            for change in (_points, _log_odds)
        )
        rows.append(
            cell.keys
            | {"easiest": easiest, "hardest": hardest, "step": cell.last_step}
            | estimate_columns("points", statistics.contrast_interval(*points))
            | estimate_columns("log_odds", statistics.contrast_interval(*odds))
            | {"problems": int(min(in_easiest.sum(), in_hardest.sum())), "seeds": len(cell.runs)}
        )
    return rows


def _points(base: np.ndarray, trained_rates: np.ndarray) -> np.ndarray:
    """(S, N) gains as shares."""
    return trained_rates - base


def _log_odds(base: np.ndarray, trained_rates: np.ndarray) -> np.ndarray:
    """(S, N) linearised contributions whose mean is the gain in log odds of the accuracy (delta
    method)."""
    means = base.mean(), trained_rates.mean()
    if any(mean in (0, 1) for mean in means):
        return np.full(trained_rates.shape, np.nan)
    before, after = (
        np.log(m / (1 - m)) + (x - m) / (m * (1 - m)) for m, x in zip(means, (base, trained_rates))
    )
    return after - before
