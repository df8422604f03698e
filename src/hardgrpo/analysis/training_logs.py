"""Summary tables of training logs: learnable share, curves, and what each run spent.

A row of a log is an update; with a selector or process rewards, a row is a sampling step. Means
"over updates" are means over rows.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimate_columns
from hardgrpo.analysis.columns import RUNS
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import paths
from hardgrpo.study.resolved import ResolvedStudy
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run

CURVES = (
    "tokens_mean",
    "truncated_share",
    "reward_mean",
    "learnable_share",
    "all_right_share",
    "all_wrong_share",
)
# Runs on worked solutions have no rollouts, so the columns about rollouts are empty in their logs.
COLUMNS = {"step": int} | dict.fromkeys(
    ("prompts", "rollouts", "undecided_share", *CURVES[:4]), float
)
# Logs of an earlier version have no all_right_share; only runs with a selector or process rewards
# have the other columns.
OPTIONAL_COLUMNS = dict.fromkeys(
    ("all_right_share", "kept", "replayed", "thrown_away", "labels", "trained"), float
)
SPENT = ("updates", "prompts", "rollouts", "completion_tokens", "labels", "tokens")


def read_updates(study: ResolvedStudy) -> dict[Run, pd.DataFrame]:
    """The training log of each run except recorded runs. Raise a `UserError` for an empty log, or
    if too many grades are undecided (see `graders.Grade`)."""
    frames = {}
    for run in study.runs:
        if run.recipe == "recorded":
            continue
        path = paths.training(run, "updates.csv")
        rows = files.read_rows(path, COLUMNS, OPTIONAL_COLUMNS)
        if not rows:
            raise UserError(f"{path}: the file has no rows; delete it and run again")
        frame = pd.DataFrame(rows).astype(dict.fromkeys((*COLUMNS, *OPTIONAL_COLUMNS), float))
        frame["all_wrong_share"] = 1 - frame.learnable_share - frame.all_right_share
        graders.check_decided(
            (frame.undecided_share * frame.rollouts).sum(), int(frame.rollouts.sum()), path
        )
        frames[run] = frame
    return frames


def with_rollouts(updates: dict[Run, pd.DataFrame]) -> dict[Run, pd.DataFrame]:
    return {run: frame for run, frame in updates.items() if frame.rollouts.any()}


def learnable(updates: dict[Run, pd.DataFrame]) -> list[dict]:
    """Learnable share: the share of groups whose rewards differ, averaged over updates, with an
    interval over seeds."""
    rows = []
    for keys, runs in group_by_arm(with_rollouts(updates)):
        rows.append(
            keys
            | estimate_columns(
                "learnable", _over_seeds([updates[run] for run in runs], "learnable_share")
            )
            | {
                "updates": round(np.mean([updates[run].trained.fillna(1).sum() for run in runs])),
                "seeds": len(runs),
            }
        )
    return rows


def curves(updates: dict[Run, pd.DataFrame], points: int = 20) -> list[dict]:
    """Statistics of rollouts by arm: means over each of at most `points` stretches of updates, with
    intervals over seeds.

    A row covers the updates `first` to `step`. Runs of different lengths are compared up to the end
    of the shortest run.
    """
    rows = []
    for keys, runs in group_by_arm(with_rollouts(updates)):
        length = min(len(updates[run]) for run in runs)
        width = -(-length // points)
        for start in range(0, length, width):
            stretches = [updates[run].iloc[start : min(start + width, length)] for run in runs]
            rows.append(
                keys
                | {"first": int(stretches[0].step.iloc[0]), "step": int(stretches[0].step.iloc[-1])}
                | {
                    column: value
                    for name in CURVES
                    for column, value in estimate_columns(
                        name, _over_seeds(stretches, name)
                    ).items()
                }
                | {"seeds": len(runs)}
            )
    return rows


def _over_seeds(logs: list[pd.DataFrame], name: str) -> statistics.Estimate:
    return statistics.seeds_interval(np.array([log[name].mean() for log in logs]))


def parity(updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """What each run spent. Raise a `UserError` if two runs of a task differ in a quantity that the
    study holds constant."""
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
        for key in study.get("held_constant", []):
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


def spent(parity_rows: list[dict], seconds: dict[tuple, float]) -> list[dict]:
    """What an arm's runs spent: means over seeds, the smallest and the largest number of tokens,
    and the shortest and the longest wall time. `seconds` maps (model, task, policy, recipe, seed)
    to the wall time of the run's updates, nan if unknown."""
    rows = []
    frame = pd.DataFrame(parity_rows)
    for key, group in frame.groupby(RUNS, sort=False) if len(frame) else []:
        times = np.array([seconds[(*key, seed)] for seed in group.seed])
        rows.append(
            dict(zip(RUNS, key))
            | {name: group[name].mean() for name in SPENT}
            | {
                "tokens_least": group.tokens.min(),
                "tokens_most": group.tokens.max(),
                "seconds": times.mean(),
                "seconds_least": times.min(),
                "seconds_most": times.max(),
                "seeds": len(group),
            }
        )
    return rows


def read_seconds(updates: dict[Run, pd.DataFrame]) -> dict[tuple, float]:
    """Wall time of each run's updates in seconds, from the run's `timing.csv`; nan without the
    file."""
    seconds = {}
    for run in updates:
        path = paths.training(run, "timing.csv")
        times = [np.nan]
        if os.path.exists(path):
            times = [row["seconds"] for row in files.read_rows(path, {"seconds": float})]
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
