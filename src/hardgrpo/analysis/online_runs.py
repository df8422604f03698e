"""Summary tables of runs with a selector or process rewards: the numbers of their rollouts, and the
number of rollouts until an arm reaches a target accuracy."""

import numpy as np
import pandas as pd

from hardgrpo.analysis.cells import Cell, minus_columns
from hardgrpo.analysis.training_logs import group_by_arm
from hardgrpo.study.study import Run

COUNTS = ("kept", "replayed", "thrown_away")
DRAWS, SEED = 2000, 20250605  # number of draws and random seed of the bootstrap over seeds
LEAST_SEEDS = 6  # minimum number of seeds for an interval; fewer seeds give too few distinct draws


def rollouts(updates: dict[Run, pd.DataFrame]) -> list[dict]:
    """A row for each arm with a selector or process rewards, with means over seeds of the numbers of
    sampling steps, updates, labels, generated rollouts (kept or thrown away) and replayed
    rollouts."""
    rows = []
    for keys, runs in group_by_arm(updates):
        logs = [updates[run] for run in runs]
        if any(log.kept.isna().any() for log in logs):
            continue  # neither a selector nor process rewards
        steps = float(np.mean([len(log) for log in logs]))
        columns = {"updates": "trained", "generated": "rollouts"} | {
            name: name for name in (*COUNTS, "labels")
        }
        means = {
            name: float(np.mean([log[column].sum() for log in logs]))
            for name, column in columns.items()
        }
        rows.append(
            {
                **keys,
                "sampling_steps": steps,
                **means,
                "thrown_away_share": means["thrown_away"] / means["generated"],
                "seeds": len(runs),
            }
        )
    return rows


def time_to_target(cells: list[Cell], updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """The rollouts until an arm with a selector or process rewards reaches the `target` on the
    task's own test. The target is the final accuracy of the baseline, which is the arm with the
    same policy and the study's first recipe.

    An arm's curve is its accuracy by the number of rollouts: the mean over seeds, linear between
    checkpoints. `share` is the number of rollouts at which the arm's curve first reaches the
    target, divided by the number of rollouts at which the baseline's curve first reaches the
    target. The baseline's curve may reach the target before its end, because curves are noisy.
    `minus_share` is the divisor as a share of all rollouts of the baseline. `share` is empty if the
    arm never reaches the target. An arm has no row if the baseline is missing or has other seeds,
    or if the baseline's final accuracy is not above the accuracy of the base model.

    `share_low` and `share_high` are the ends of a 95 % percentile bootstrap interval over seeds
    (Efron 1979): DRAWS resamples, with the same seeds for both arms. Both are empty with fewer than
    LEAST_SEEDS seeds. A draw has no share if the arm never reaches the target, or if the baseline's
    final accuracy is not above the accuracy of the base model. Either end is empty if the
    percentile is a draw without a share. `reached` is the proportion of draws with a share.
    """
    own_cells = {
        (cell.model, cell.task, *cell.arm): cell for cell in cells if cell.task == cell.eval_task
    }
    runs_by_arm = {tuple(keys.values()): runs for keys, runs in group_by_arm(updates)}
    rows = []
    for key, cell in own_cells.items():
        runs = runs_by_arm.get(key, [])
        baseline = own_cells.get((*key[:3], study.first_recipe))
        if (
            not runs
            or baseline is None
            or baseline is cell
            or baseline.seeds != cell.seeds
            or any(updates[run].kept.isna().any() for run in runs)
        ):
            continue
        mean_rollouts, curves = _curve(cell, [updates[run] for run in runs])
        baseline_mean_rollouts, baseline_curves = _curve(
            baseline, [updates[run] for run in runs_by_arm[*key[:2], *baseline.arm]]
        )
        seeds = len(cell.seeds)
        rng = np.random.Generator(np.random.PCG64(SEED))
        draws = rng.integers(seeds, size=(DRAWS, seeds))
        share, divisor = _share(
            mean_rollouts, curves.mean(axis=0), baseline_mean_rollouts, baseline_curves.mean(axis=0)
        )
        if divisor == 0:
            continue
        shares = np.array(
            [
                _share(
                    mean_rollouts,
                    curves[indices].mean(axis=0),
                    baseline_mean_rollouts,
                    baseline_curves[indices].mean(axis=0),
                )[0]
                for indices in draws
            ]
        )
        low, high = (
            np.quantile(shares, [0.025, 0.975], method="inverted_cdf")
            if seeds >= LEAST_SEEDS
            else (np.inf, np.inf)
        )
        rows.append(
            cell.keys
            | minus_columns(baseline)
            | {
                "target": baseline_curves[:, -1].mean(),
                "minus_share": divisor / baseline_mean_rollouts[-1],
            }
            | {
                name: value if np.isfinite(value) else None
                for name, value in (("share", share), ("share_low", low), ("share_high", high))
            }
            | {"reached": np.isfinite(shares).mean(), "seeds": seeds}
        )
    return rows


def _curve(cell: Cell, logs: list[pd.DataFrame]) -> tuple[list[float], np.ndarray]:
    """(rollouts until step 0 and until each checkpoint, means over seeds; accuracies (seeds, 1 +
    checkpoints))."""
    steps = cell.steps()
    mean_rollouts = [0.0] + [
        float(np.mean([log.rollouts.iloc[:step].sum() for log in logs])) for step in steps
    ]
    bases = np.broadcast_to(cell.base_rates().mean(axis=1), (len(cell.seeds),))
    return mean_rollouts, np.column_stack(
        [bases] + [cell.rates(step).mean(axis=1) for step in steps]
    )


def _share(
    mean_rollouts: list[float],
    curve: np.ndarray,
    baseline_mean_rollouts: list[float],
    baseline_curve: np.ndarray,
) -> tuple[float, float]:
    """(share, divisor): `divisor` is the number of rollouts at which `baseline_curve` first reaches
    its final accuracy. `share` is the number at which `curve` first reaches the same accuracy,
    divided by `divisor`; infinite if `curve` never reaches this accuracy or if `divisor` is 0."""
    divisor = first_reached(baseline_mean_rollouts, baseline_curve, baseline_curve[-1])
    return (
        first_reached(mean_rollouts, curve, baseline_curve[-1]) / divisor if divisor else np.inf
    ), divisor


def first_reached(mean_rollouts: list[float], curve: np.ndarray, target: float) -> float:
    """The number of rollouts at which a curve, linear between the points at `mean_rollouts`, first
    reaches the target; infinite if never."""
    for index, accuracy in enumerate(curve):
        if accuracy >= target - 1e-12:
            if index == 0:
                return mean_rollouts[0]
            accuracy_before = curve[index - 1]
            return mean_rollouts[index - 1] + (mean_rollouts[index] - mean_rollouts[index - 1]) * (
                target - accuracy_before
            ) / (accuracy - accuracy_before)
    return np.inf
