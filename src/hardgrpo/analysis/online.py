"""Summary tables of runs that choose prompts while they train: what became of the rollouts, and how many a target accuracy takes."""

import numpy as np
import pandas as pd

from hardgrpo.analysis.cells import Cell
from hardgrpo.analysis.training import grouped
from hardgrpo.study.settings import Run

COUNTS = ("kept", "replayed", "thrown_away")
DRAWS, SEED = 2000, 20250605  # of the bootstrap over seeds


def rollouts(updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """Of each arm with a selector or process rewards: rounds, rounds that updated the policy, and its rollouts: generated, kept, replayed
    and thrown away; means over seeds. Kept and thrown away add up to generated."""
    rows = []
    for keys, runs in grouped(updates, study):
        logs = [updates[run] for run in runs]
        if any(log.kept.isna().any() for log in logs):
            continue  # a schedule that was fixed beforehand trains on all that it samples
        mean = lambda name, logs=logs: float(np.mean([log[name].sum() for log in logs]))
        found = {"rounds": float(np.mean([len(log) for log in logs])), "updates": mean("trained"), "generated": mean("rollouts")}
        found |= {name: mean(name) for name in COUNTS} | {"labels": mean("labels")}
        rows.append(keys | found | {"thrown_away_share": found["thrown_away"] / found["generated"], "seeds": len(runs)})
    return rows


def time_to_target(cells: list[Cell], updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """How many rollouts an arm takes to be as accurate as the study's first recipe is, on the same prompts, when it has used all of its.

    `share` is that number as a share of the first recipe's rollouts, where the arm's curve, the mean over seeds with straight lines
    between checkpoints, first reaches the target; empty where it never does. low and high are the 2.5 and 97.5 per cent points over new
    seeds: DRAWS times seeds are drawn with replacement, for both arms the same. They are empty where so many of the draws never reach
    the target; `reached` is the share of draws that do.
    """
    home = {(cell.model, cell.task, cell.policy): cell for cell in cells if cell.task == cell.eval_task}
    arms, rows = {tuple(keys.values()): runs for keys, runs in grouped(updates, study)}, []
    for key, cell in home.items():
        runs = arms.get(key, [])
        plain = home.get((*key[:2], runs[0].policy)) if runs else None
        if plain is None or plain is cell or any(updates[run].kept.isna().any() for run in runs):
            continue
        if plain.seeds != cell.seeds:
            continue
        total = float(np.mean([updates[run].rollouts.sum() for run in arms[*key[:2], plain.policy]]))
        target = plain.rates(plain.steps()[-1]).mean(axis=1)  # (seeds,)
        steps = cell.steps()
        spent = [0.0] + [float(np.mean([updates[run].rollouts.iloc[:step].sum() for run in runs])) / total for step in steps]
        bases = np.broadcast_to(cell.base_rates().mean(axis=1), (len(cell.seeds),))
        curve = np.column_stack([bases] + [cell.rates(step).mean(axis=1) for step in steps])  # (seeds, 1 + checkpoints)
        rng = np.random.Generator(np.random.PCG64(SEED))
        draws = rng.integers(len(target), size=(DRAWS, len(target)))
        drawn = np.array([first_reached(spent, curve[some].mean(axis=0), target[some].mean()) for some in draws])
        low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf") if len(target) > 1 else (np.inf, np.inf)
        share = first_reached(spent, curve.mean(axis=0), target.mean())
        rows.append(
            cell.keys
            | {"minus": plain.policy, "target": target.mean()}
            | {
                name: value if np.isfinite(value) else None
                for name, value in (("share", share), ("share_low", low), ("share_high", high))
            }
            | {"reached": np.isfinite(drawn).mean(), "seeds": len(target)}
        )
    return rows


def first_reached(spent: list[float], curve: np.ndarray, target: float) -> float:
    """Where a curve over `spent`, with straight lines between its points, first reaches the target; infinity where it never does."""
    for place, accuracy in enumerate(curve):
        if accuracy >= target - 1e-12:
            if place == 0:
                return spent[0]
            before = curve[place - 1]
            return spent[place - 1] + (spent[place] - spent[place - 1]) * (target - before) / (accuracy - before)
    return np.inf
