"""Summary tables of paired differences besides those of `differences`, and of gains in the easiest and the hardest tier.

Two policies of a seed share their base model and the test's problems, so that noise in these cancels in a paired difference.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.accuracy import pass_rates, powers, tier_names
from hardgrpo.analysis.cells import Cell, estimate_columns, families, mean_columns, minus_columns, pairs


def paired(cells: list[Cell]) -> list[dict]:
    """Differences, paired by problem and seed: a row for each pair and place. `what` names the kind of difference, `at` its place.

    checkpoint   policy less policy after `at` updates, before the last checkpoint
    pass@k       policy less policy, pass@k with k = `at`, above 1
    tier         policy less policy on the problems of tier `at`
    test         the lead of the policy on the task's own test less the same runs' lead on test `at`, which has the same problems
    trained on   the policy trained on this task less the same policy trained on task `at`, on the same test
    """
    rows = []
    for family in families(cells):
        for cell, minus_cell in pairs(family):
            differences = itertools.chain(_checkpoints(cell, minus_cell), _passes(cell, minus_cell), _tiers(cell, minus_cell))
            rows += [_row(cell, minus_cell, *difference) for difference in differences]
    rows += [_row(cell, minus_cell, *difference) for cell, minus_cell, *difference in _tests(cells)]
    for cell, minus_cell in itertools.combinations(cells, 2):
        is_same_arm = all(getattr(cell, name) == getattr(minus_cell, name) for name in ("model", "eval_task", "arm", "seeds"))
        if is_same_arm and cell.task != minus_cell.task:
            rows.append(_row(cell, cell, "trained on", minus_cell.task, _last(cell) - _last(minus_cell)))
    return rows


def _row(cell: Cell, minus_cell: Cell, what: str, place, values: np.ndarray) -> dict:
    columns = minus_columns(minus_cell) | {"what": what, "at": str(place)}
    return cell.keys | columns | mean_columns("difference", values) | {"problems": values.shape[1], "seeds": values.shape[0]}


def _last(cell: Cell) -> np.ndarray:
    return cell.rates(cell.steps()[-1])


def _checkpoints(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    if cell.steps()[-1] != minus_cell.steps()[-1]:
        return  # their steps differ in size: by the same step they have sampled different numbers of rollouts
    for step in sorted(set(cell.steps()) & set(minus_cell.steps()))[:-1]:
        yield "checkpoint", step, cell.rates(step) - minus_cell.rates(step)


def _passes(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    samples = min(cell_.samples(cell_.steps()[-1]) for cell_ in (cell, minus_cell))
    for k in sorted({samples, *powers(samples)} - {1}):
        rates = (np.stack([pass_rates(run, cell_.steps()[-1], k) for run in cell_.runs]) for cell_ in (cell, minus_cell))
        yield "pass@k", k, np.subtract(*rates)


def _tiers(cell: Cell, minus_cell: Cell) -> Iterator[tuple[str, str, np.ndarray]]:
    problem_tiers, values = cell.tiers(), _last(cell) - _last(minus_cell)
    for tier in tier_names(problem_tiers):
        yield "tier", tier, values[:, (problem_tiers == tier).to_numpy()]


def _tests(cells: list[Cell]) -> Iterator[tuple]:
    """(cell, cell to subtract, "test", other test, values (S, N)) for each other test with the problems of the task's own test."""
    groups = families(cells)
    for family, other_family in itertools.permutations(groups, 2):
        first_cell, cell_by_arm = family[0], {cell_.arm: cell_ for cell_ in other_family}
        is_own_test = first_cell.eval_task == first_cell.task and (other_family[0].model, other_family[0].task) == (
            first_cell.model,
            first_cell.task,
        )
        if not is_own_test or not first_cell.tiers().index.equals(other_family[0].tiers().index):
            continue
        for cell, minus_cell in pairs([cell_ for cell_ in family if cell_.arm in cell_by_arm]):
            if cell.seeds == cell_by_arm[cell.arm].seeds == cell_by_arm[minus_cell.arm].seeds:
                other_lead = _last(cell_by_arm[cell.arm]) - _last(cell_by_arm[minus_cell.arm])
                yield cell, minus_cell, "test", other_family[0].eval_task, _last(cell) - _last(minus_cell) - other_lead


def tier_trends(cells: list[Cell]) -> list[dict]:
    """The gain in the easiest tier less that in the hardest, in points and in log odds of the tier's accuracy.

    Near the ceiling a gain in points must shrink: from 88.8 to 94.4 % is fewer points than from 61.0 to 75.6 %, and more log odds.
    Seeds are paired, problems are not. Log odds are nan where a tier is solved always or never. `problems`: of the smaller tier.
    """
    rows = []
    for cell in cells:
        problem_tiers, last = cell.tiers(), cell.steps()[-1]
        tiers = tier_names(problem_tiers)
        if len(tiers) < 2:
            continue
        masks = [(problem_tiers == name).to_numpy() for name in (tiers[0], tiers[-1])]
        points, odds = (
            [change(cell.base_rates()[:, in_tier], cell.rates(last)[:, in_tier]) for in_tier in masks]
            for change in (_points, _log_odds)
        )
        rows.append(
            cell.keys
            | {"easiest": tiers[0], "hardest": tiers[-1], "step": last}
            | estimate_columns("points", statistics.contrast_interval(*points))
            | estimate_columns("log_odds", statistics.contrast_interval(*odds))
            | {"problems": int(min(in_tier.sum() for in_tier in masks)), "seeds": len(cell.runs)}
        )
    return rows


def _points(base: np.ndarray, trained: np.ndarray) -> np.ndarray:
    return trained - base


def _log_odds(base: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """(S, N) linearised contributions whose mean is the gain in log odds of the accuracy (delta method)."""
    means = base.mean(), trained.mean()
    if any(mean in (0, 1) for mean in means):
        return np.full(trained.shape, np.nan)
    before, after = (np.log(m / (1 - m)) + (x - m) / (m * (1 - m)) for m, x in zip(means, (base, trained)))
    return after - before
