"""Summary tables of accuracy by checkpoint, of pass@k, of accuracy by tier, and of the checkpoint at
which an arm reaches the accuracy of training on all prompts."""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, mean_columns, sizes
from hardgrpo.data import evaluations


def accuracy(cells: list[Cell]) -> list[dict]:
    """Accuracy by checkpoint. Step 0 is the base model, or the mean over the replicates of the base
    model, and has the same accuracy for all arms with the same base models."""
    rows = []
    for cell in cells:
        for decoding in cell.decodings():
            for step in [0, *cell.steps()]:
                rates = {
                    column: cell.rates(step, column, decoding)
                    if step
                    else cell.base_rates(column, decoding)
                    for column in ("correct", "answered", "truncated", "tokens")
                }
                rows.append(
                    cell.keys
                    | {"decoding": decoding, "step": step}
                    | mean_columns("accuracy", rates["correct"])
                    | {
                        f"{name}_mean": rates[name].mean()
                        for name in ("answered", "truncated", "tokens")
                    }
                    | {
                        "problems": rates["correct"].shape[1],
                        "samples": cell.samples(step) if decoding == "sampled" else 1,
                        "seeds": len(cell.runs if step else cell.bases),
                    }
                )
    return rows


def pass_at_k(cells: list[Cell]) -> list[dict]:
    """Unbiased pass@k of the base model and the last checkpoint, for each k of `k_values`. pass@1
    is the accuracy."""
    rows = []
    for cell in cells:
        samples = min(cell.samples(0), cell.samples(cell.last_step))
        for k in k_values(samples):
            base = np.stack([pass_rates(evaluation, 0, k) for evaluation in cell.bases])
            values = np.stack([pass_rates(trained, cell.last_step, k) for trained in cell.runs])
            rows.append(
                cell.keys
                | {"k": k, "step": cell.last_step, "base": base.mean()}
                | mean_columns("pass", values)
                | mean_columns("gain", values - base)
                | sizes(values)
            )
    return rows


def base_pass_at_k(cells: list[Cell]) -> list[dict]:
    """Unbiased pass@k of the base models' reach samples, for correct answers and, where steps can
    be checked, for sound answers."""
    rows = []
    cell_by_test = {(cell.model, cell.eval_task): cell for cell in cells if cell.reach}
    for (model, test), cell in cell_by_test.items():
        samples = cell.reach_samples()
        for k in k_values(samples):
            correct, sound = (
                np.stack([pass_rates(evaluation, 0, k, column) for evaluation in cell.reach])
                for column in ("correct", "sound")
            )
            rows.append(
                {"model": model, "eval_task": test, "k": k}
                | mean_columns("pass", correct)
                | mean_columns("sound", sound)
                | sizes(correct)
            )
    return rows


def k_values(samples: int) -> list[int]:
    """1, 2, 4, 8, ... and `samples`, the largest k."""
    return sorted({samples, *(2**power for power in range(samples.bit_length()))})


def pass_rates(frame: pd.DataFrame, step: int, k: int, column: str = "correct") -> np.ndarray:
    """(N,) unbiased pass@k of each problem; nan where the values of the column are unknown."""
    counts = zip(*evaluations.counts(frame, step, column))
    return np.array(
        [np.nan if np.isnan(c) else statistics.pass_at_k(n, int(c), k) for n, c in counts]
    )


def tiers(cells: list[Cell]) -> list[dict]:
    """Accuracy and gain at the last checkpoint, by tier."""
    rows = []
    for cell in cells:
        base, trained_rates = cell.base_rates(), cell.rates(cell.last_step)
        for tier, in_tier in cell.tier_masks().items():
            rows.append(
                cell.keys
                | {"tier": tier, "step": cell.last_step, "base_accuracy": base[:, in_tier].mean()}
                | mean_columns("accuracy", trained_rates[:, in_tier])
                | mean_columns("gain", trained_rates[:, in_tier] - base[:, in_tier])
                | {"problems": int(in_tier.sum()), "seeds": len(cell.runs)}
            )
    return rows


def catches_up(cells: list[Cell]) -> list[dict]:
    """The first checkpoint whose accuracy is at least the `target`, the final accuracy of policy
    `all` with the study's first recipe. A cell has no row if its model, task and test lack this
    arm, or if the target is not above the base model's accuracy.

    `step` is this checkpoint for the accuracy averaged over seeds; empty if the mean accuracy never
    reaches the target. `steps` is the last checkpoint. `seeds_reached` is the number of seeds that
    reach the target. `step_first` and `step_last` are the checkpoints at which the quickest and the
    slowest of these seeds reach the target; both are empty if no seed reaches the target.
    """
    final_accuracies = {
        (c.model, c.task, c.eval_task): c.rates(c.last_step).mean()
        for c in cells
        if c.policy == "all" and c.is_first_recipe
    }
    rows = []
    for cell in cells:
        target = final_accuracies.get((cell.model, cell.task, cell.eval_task))
        if target is None or target <= cell.base_rates().mean():
            continue
        steps = cell.steps()
        # (seeds, steps)
        curves = np.stack([cell.rates(step).mean(axis=1) for step in steps], axis=1)
        first_steps = (_first_step(steps, curve, target) for curve in curves)
        seed_steps = [step for step in first_steps if step is not None]
        rows.append(
            cell.keys
            | {
                "target": target,
                "step": _first_step(steps, curves.mean(axis=0), target),
                "steps": steps[-1],
                "step_first": min(seed_steps, default=None),
                "step_last": max(seed_steps, default=None),
                "seeds_reached": len(seed_steps),
                "seeds": len(cell.runs),
            }
        )
    return rows


def _first_step(steps: list[int], accuracies: np.ndarray, target: float) -> int | None:
    return next(
        (step for step, accuracy in zip(steps, accuracies) if accuracy >= target - 1e-12), None
    )
