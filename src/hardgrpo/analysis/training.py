"""Summary tables of training logs: learnable share, curves, what each run spent, the rollouts of
runs with a selector or process rewards, and the rollouts until an arm reaches a target accuracy.

A row of a log is an update; with a selector or process rewards, a row is a sampling step. Means
"over updates" are means over rows.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, estimates, minus_columns
from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.summary_tables import CELL_KEYS, MINUS_KEYS, RUN_KEYS, table
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import paths
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run, Study

CURVES = ("tokens_mean", "truncated_share", "learnable_share", "all_right_share", "all_wrong_share")
COUNTS = ("kept", "replayed", "thrown_away")
# Columns of a log. A column that a run does not have, or that is empty in its log, is nan: runs on
# worked solutions have no rollouts, and only runs with a selector or process rewards have the last
# five columns.
COLUMNS = ["step", "prompts", "rollouts", "undecided_share", *CURVES[:4]]
COLUMNS += [*COUNTS, "labels", "trained"]
STRETCHES = 20  # largest number of stretches of updates in table curves
DRAWS, SEED = 2000, 20250605  # number of draws and random seed of the bootstrap over seeds
LEAST_SEEDS = 6  # minimum number of seeds for an interval; fewer seeds give too few distinct draws
SPENT = ("updates", "prompts", "rollouts", "completion_tokens", "labels", "tokens")


def read_updates(study: Study) -> dict[Run, pd.DataFrame]:
    """The training log of each run except recorded runs. Raise a `UserError` for an empty log, or
    if too many grades are undecided (see `graders.Grade`)."""
    frames = {}
    for run in study.runs:
        if run.recipe == "recorded":
            continue
        path = paths.training(run, "updates.csv")
        frame = pd.read_csv(path).reindex(columns=COLUMNS).astype(float)
        if frame.empty:
            raise UserError(f"{path}: the file has no rows; delete it and run again")
        frame["all_wrong_share"] = 1 - frame.learnable_share - frame.all_right_share
        graders.check_decided(
            (frame.undecided_share * frame.rollouts).sum(), int(frame.rollouts.sum()), path
        )
        frames[run] = frame
    return frames


def with_rollouts(updates: dict[Run, pd.DataFrame]) -> dict[Run, pd.DataFrame]:
    return {run: frame for run, frame in updates.items() if frame.rollouts.any()}


@table(f"{RUN_KEYS} learnable± updates seeds")
def learnable(updates: dict[Run, pd.DataFrame]) -> list[dict]:
    """Learnable share: the share of groups whose rewards differ, averaged over updates, with an
    interval over seeds."""
    rows = []
    for keys, runs in group_by_arm(with_rollouts(updates)):
        rows.append(
            keys
            | estimates(learnable=_over_seeds([updates[run] for run in runs], "learnable_share"))
            | {
                "updates": round(np.mean([updates[run].trained.fillna(1).sum() for run in runs])),
                "seeds": len(runs),
            }
        )
    return rows


@table(f"{RUN_KEYS} first step {' '.join(f'{name}±' for name in CURVES)} seeds")
def curves(updates: dict[Run, pd.DataFrame]) -> list[dict]:
    """Statistics of rollouts by arm: means over each of at most STRETCHES stretches of updates, with
    intervals over seeds.

    A row covers the updates `first` to `step`. Runs of different lengths are compared up to the end
    of the shortest run.
    """
    rows = []
    for keys, runs in group_by_arm(with_rollouts(updates)):
        length = min(len(updates[run]) for run in runs)
        width = -(-length // STRETCHES)
        for start in range(0, length, width):
            stretches = [updates[run].iloc[start : min(start + width, length)] for run in runs]
            rows.append(
                keys
                | {"first": int(stretches[0].step.iloc[0]), "step": int(stretches[0].step.iloc[-1])}
                | estimates(**{name: _over_seeds(stretches, name) for name in CURVES})
                | {"seeds": len(runs)}
            )
    return rows


def _over_seeds(logs: list[pd.DataFrame], name: str) -> statistics.Estimate:
    return statistics.seeds_interval(np.array([log[name].mean() for log in logs]))


def parity(updates: dict[Run, pd.DataFrame], plan: Study) -> list[dict]:
    """What each run spent, for table `spent`. Raise a `UserError` if two runs of a task differ in a
    quantity that the study holds constant."""
    rows = []
    for run, frame in updates.items():
        spec = Spec.read(paths.training(run, "spec.yaml"))
        rows.append(
            {name: getattr(run, name) for name in (*RUNS, "seed")}
            | {
                "updates": int(frame.trained.fillna(1).sum()),
                "prompts": int(frame.prompts.sum()),
                "rollouts": int(frame.rollouts.sum()),
                "completion_tokens": spec.completion_tokens,
                "labels": labels_bought(spec.subset, spec.training, frame),
                "tokens": round((frame.tokens_mean * frame.rollouts).sum()),
            }
        )
    for row, other_row in itertools.combinations(rows, 2):
        if (row["model"], row["task"]) != (other_row["model"], other_row["task"]):
            continue
        for key in plan.held_constant or []:
            if row[key] != other_row[key]:
                values = " and ".join(
                    f"{run['recipe']}/{run['policy']}/seed{run['seed']} has {run[key]}"
                    for run in (row, other_row)
                )
                raise UserError(
                    f"{row['model']}/{row['task']}: the study holds {key} constant, but {values};"
                    f" train the runs with one recipe or take {key} out of held_constant"
                )
    return rows


def labels_bought(subset: str, recipe: dict, log: pd.DataFrame) -> int:
    """Number of labels that a run bought (`policies.labels`). If training needs labels, all
    chosen prompts are annotated or, with a selector or rule `all`, the prompts that the run
    samples."""
    description, sampled = files.read_json(Path(subset).with_suffix(".json")), None
    if recipe.get("selector"):
        sampled = int(log.labels.sum())
    elif description["policy"]["rule"] == "all":  # a short run does not sample the whole pool
        sampled = min(description["prompts"], int(log.prompts.sum()))
    return policies.labels(
        description["policy"],
        recipe,
        description["pool"],
        description.get("sample", 0),
        description["prompts"],
        sampled,
    )


@table(
    f"{RUN_KEYS} {' '.join(SPENT)} tokens_least tokens_most seconds seconds_least seconds_most seeds"
)
def spent(parity: list[dict], seconds: dict[tuple, float]) -> list[dict]:
    """What an arm's runs spent: means over seeds, the smallest and the largest number of tokens,
    and the shortest and the longest wall time. `seconds` maps (model, task, policy, recipe, seed)
    to the wall time of the run's updates, nan if unknown."""
    rows = []
    frame = pd.DataFrame(parity)
    for key, group in frame.groupby(RUNS, sort=False) if len(frame) else []:
        times = np.array([seconds[(*key, seed)] for seed in group.seed])
        rows.append(
            dict(zip(RUNS, key))
            | {name: group[name].mean() for name in SPENT}
            | {"tokens_least": group.tokens.min(), "tokens_most": group.tokens.max()}
            | {"seconds": times.mean(), "seconds_least": times.min(), "seconds_most": times.max()}
            | {"seeds": len(group)}
        )
    return rows


def read_seconds(updates: dict[Run, pd.DataFrame]) -> dict[tuple, float]:
    """Wall time of each run's updates in seconds, from the run's `timing.csv`; nan without the
    file."""
    seconds = {}
    for run in updates:
        path = paths.training(run, "timing.csv")
        times = pd.read_csv(path).seconds if os.path.exists(path) else [np.nan]
        seconds[*_arm(run), run.seed] = float(sum(times))
    return seconds


def group_by_arm(updates: dict[Run, pd.DataFrame]) -> list[tuple[dict, list[Run]]]:
    """[(the columns RUNS of an arm, the arm's runs)]."""
    groups: dict[tuple, list[Run]] = {}
    for run in updates:
        groups.setdefault(_arm(run), []).append(run)
    return [(dict(zip(RUNS, key)), runs) for key, runs in groups.items()]


def _arm(run: Run) -> tuple[str, ...]:
    return tuple(getattr(run, name) for name in RUNS)


# --- runs with a selector or process rewards


@table(
    f"{RUN_KEYS} sampling_steps updates generated kept replayed thrown_away labels thrown_away_share"
    " seeds"
)
def rollouts(updates: dict[Run, pd.DataFrame]) -> list[dict]:
    """A row for each arm with a selector or process rewards, with means over seeds of the numbers of
    sampling steps, updates, labels, generated rollouts (kept or thrown away) and replayed
    rollouts."""
    rows = []
    for keys, runs in group_by_arm(updates):
        logs = [updates[run] for run in runs]
        if any(log.kept.isna().any() for log in logs):
            continue  # neither a selector nor process rewards
        columns = {"updates": "trained", "generated": "rollouts", "labels": "labels"}
        columns |= {name: name for name in COUNTS}
        means = {
            name: np.mean([log[column].sum() for log in logs]) for name, column in columns.items()
        }
        means["thrown_away_share"] = means["thrown_away"] / means["generated"]
        means["sampling_steps"] = np.mean([len(log) for log in logs])
        rows.append(keys | means | {"seeds": len(runs)})
    return rows


@table(f"{CELL_KEYS} {MINUS_KEYS} target minus_share share± reached seeds")
def time_to_target(cells: list[Cell], updates: dict[Run, pd.DataFrame], plan: Study) -> list[dict]:
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
    (Efron 1979): DRAWS resamples, with the same seeds for both arms. An end is empty with fewer
    than LEAST_SEEDS seeds, or if the percentile is a draw without a share. `reached` is the
    proportion of draws with a share.
    """
    own_cells = {
        (cell.model, cell.task, *cell.arm): cell for cell in cells if cell.task == cell.eval_task
    }
    runs_by_arm = {tuple(keys.values()): runs for keys, runs in group_by_arm(updates)}
    rows = []
    for key, cell in own_cells.items():
        logs = [updates[run] for run in runs_by_arm.get(key, [])]
        baseline_key = (*key[:3], plan.first_recipe)
        baseline = own_cells.get(baseline_key)
        if (
            not logs
            or baseline is None
            or baseline is cell
            or baseline.seeds != cell.seeds
            or any(log.kept.isna().any() for log in logs)
        ):
            continue
        baseline_logs = [updates[run] for run in runs_by_arm[baseline_key]]
        curve, baseline_curve = _curve(cell, logs), _curve(baseline, baseline_logs)
        seeds = len(cell.seeds)
        share, divisor = _share(curve, baseline_curve, np.arange(seeds))
        if divisor == 0:
            continue
        rng = np.random.Generator(np.random.PCG64(SEED))
        draws = rng.integers(seeds, size=(DRAWS, seeds))
        shares = np.array([_share(curve, baseline_curve, indices)[0] for indices in draws])
        low = high = np.inf
        if seeds >= LEAST_SEEDS:
            low, high = np.quantile(shares, [0.025, 0.975], method="inverted_cdf")
        interval = {"share": share, "share_low": low, "share_high": high}
        (rollouts, accuracies) = baseline_curve
        rows.append(
            cell.keys
            | minus_columns(baseline)
            | {"target": accuracies[:, -1].mean(), "minus_share": divisor / rollouts[-1]}
            | {name: end if np.isfinite(end) else None for name, end in interval.items()}
            | {"reached": np.isfinite(shares).mean(), "seeds": seeds}
        )
    return rows


# (rollouts until step 0 and until each checkpoint, means over seeds; accuracies (seeds, 1 + checkpoints))
Curve = tuple[list[float], np.ndarray]


def _curve(cell: Cell, logs: list[pd.DataFrame]) -> Curve:
    steps = cell.steps()
    mean_rollouts = [0.0] + [
        float(np.mean([log.rollouts.iloc[:step].sum() for log in logs])) for step in steps
    ]
    bases = np.broadcast_to(cell.base_rates().mean(axis=1), (len(cell.seeds),))
    accuracies = [cell.rates(step).mean(axis=1) for step in steps]
    return mean_rollouts, np.column_stack([bases, *accuracies])


def _share(curve: Curve, baseline: Curve, seeds: np.ndarray) -> tuple[float, float]:
    """(share, divisor), from the mean accuracies of the seeds with the indices `seeds`. `divisor`
    is the number of rollouts at which the baseline first reaches its final accuracy. `share` is the
    number at which the curve first reaches the same accuracy, divided by `divisor`; infinite if the
    curve never reaches this accuracy or if `divisor` is 0."""
    means, baseline_means = (accuracies[seeds].mean(axis=0) for _, accuracies in (curve, baseline))
    target = baseline_means[-1]
    divisor = first_reached(baseline[0], baseline_means, target)
    return first_reached(curve[0], means, target) / divisor if divisor else np.inf, divisor


def first_reached(mean_rollouts: list[float], curve: np.ndarray, target: float) -> float:
    """The number of rollouts at which a curve, linear between the points at `mean_rollouts`, first
    reaches the target; infinite if never."""
    for index, accuracy in enumerate(curve):
        if accuracy >= target - 1e-12:
            if index == 0:
                return mean_rollouts[0]
            before, after = mean_rollouts[index - 1 : index + 1]
            rise = accuracy - curve[index - 1]
            return before + (after - before) * (target - curve[index - 1]) / rise
    return np.inf
