"""Summary tables of paired differences besides those of `differences`, and of gains in the easiest and the hardest tier.

Two policies of a seed share their base model and the test's problems, so that noise in these cancels in a paired difference.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.accuracy import pass_rates, powers, tier_names
from hardgrpo.analysis.cells import Cell, as_columns, families, mean_columns, minus, pairs


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
        for one, other in pairs(family):
            found = itertools.chain(_checkpoints(one, other), _passes(one, other), _tiers(one, other))
            rows += [_row(one, other, *each) for each in found]
    rows += [_row(one, other, *each) for one, other, *each in _tests(cells)]
    for one, other in itertools.combinations(cells, 2):
        alike = all(getattr(one, name) == getattr(other, name) for name in ("model", "eval_task", "arm", "seeds"))
        if alike and one.task != other.task:
            rows.append(_row(one, one, "trained on", other.task, _last(one) - _last(other)))
    return rows


def _row(cell: Cell, subtracted: Cell, what: str, at, values: np.ndarray) -> dict:
    facts = minus(subtracted) | {"what": what, "at": str(at)}
    return cell.keys | facts | mean_columns("difference", values) | {"problems": values.shape[1], "seeds": values.shape[0]}


def _last(cell: Cell) -> np.ndarray:
    return cell.rates(cell.steps()[-1])


def _checkpoints(one: Cell, other: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    if one.steps()[-1] != other.steps()[-1]:
        return  # their steps differ in size: by the same step they have sampled different numbers of rollouts
    for step in sorted(set(one.steps()) & set(other.steps()))[:-1]:
        yield "checkpoint", step, one.rates(step) - other.rates(step)


def _passes(one: Cell, other: Cell) -> Iterator[tuple[str, int, np.ndarray]]:
    most = min(cell.samples(cell.steps()[-1]) for cell in (one, other))
    for k in sorted({most, *powers(most)} - {1}):
        of_each = (np.stack([pass_rates(run, cell.steps()[-1], k) for run in cell.runs]) for cell in (one, other))
        yield "pass@k", k, np.subtract(*of_each)


def _tiers(one: Cell, other: Cell) -> Iterator[tuple[str, str, np.ndarray]]:
    tier, values = one.tiers(), _last(one) - _last(other)
    for name in tier_names(tier):
        yield "tier", name, values[:, (tier == name).to_numpy()]


def _tests(cells: list[Cell]) -> Iterator[tuple]:
    """(cell, cell to subtract, "test", other test, values (S, N)) for each other test with the problems of the task's own test."""
    groups = families(cells)
    for own, others in itertools.permutations(groups, 2):
        first, there = own[0], {cell.arm: cell for cell in others}
        on_own = first.eval_task == first.task and (others[0].model, others[0].task) == (first.model, first.task)
        if not on_own or not first.tiers().index.equals(others[0].tiers().index):
            continue
        for one, other in pairs([cell for cell in own if cell.arm in there]):
            if one.seeds == there[one.arm].seeds == there[other.arm].seeds:
                elsewhere = _last(there[one.arm]) - _last(there[other.arm])
                yield one, other, "test", others[0].eval_task, _last(one) - _last(other) - elsewhere


def tier_trends(cells: list[Cell]) -> list[dict]:
    """The gain in the easiest tier less that in the hardest, in points and in log odds of the tier's accuracy.

    Near the ceiling a gain in points must shrink: from 88.8 to 94.4 % is fewer points than from 61.0 to 75.6 %, and more log odds.
    Seeds are paired, problems are not. Log odds are nan where a tier is solved always or never. `problems`: of the smaller tier.
    """
    rows = []
    for cell in cells:
        tier, last = cell.tiers(), cell.steps()[-1]
        names = tier_names(tier)
        if len(names) < 2:
            continue
        kept = [(tier == name).to_numpy() for name in (names[0], names[-1])]
        points, odds = (
            [change(cell.base_rates()[:, of], cell.rates(last)[:, of]) for of in kept] for change in (_points, _log_odds)
        )
        rows.append(
            cell.keys
            | {"easiest": names[0], "hardest": names[-1], "step": last}
            | as_columns("points", statistics.contrast_interval(*points))
            | as_columns("log_odds", statistics.contrast_interval(*odds))
            | {"problems": int(min(of.sum() for of in kept)), "seeds": len(cell.runs)}
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
