"""From graded completions to the tables that figures are drawn from, each with estimate, interval, n and its keys."""

import io
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from . import config as settings
from . import evaluations, files, layout, recipes, statistics
from .config import Run
from .errors import UserError

CELL = ["model", "task", "eval_task", "policy"]
# Columns of tables that hold names, whatever they look like (a tier is called 3, a task may be called 7).
NAMES = [*CELL, "minus", "decoding", "tier", "grading", "group", "id", "predictor", "adjusted_for"]


@dataclass(frozen=True)
class Cell:
    """All seeds of one (model, task, policy) on one evaluation task; of several recipes `policy` names the recipe too."""

    model: str
    task: str
    eval_task: str
    policy: str
    base: pd.DataFrame
    runs: list[pd.DataFrame]

    @property
    def keys(self) -> dict:
        return {name: getattr(self, name) for name in CELL}

    def steps(self) -> list[int]:
        return sorted(set.intersection(*(set(run.step) for run in self.runs)))

    def base_rates(self, column: str = "correct", decoding: str = "sampled") -> np.ndarray:
        """(N,) mean of a column by problem for the base model."""
        return evaluations.by_problem(self.base, 0, column, decoding).to_numpy()

    def rates(self, step: int, column: str = "correct", decoding: str = "sampled") -> np.ndarray:
        """(S, N) mean of a column by seed and problem, problems in the base's order."""
        index = evaluations.by_problem(self.base, 0, "correct", decoding).index
        series = [evaluations.by_problem(run, step, column, decoding) for run in self.runs]
        for one in series:
            if not one.index.equals(index):
                raise UserError(
                    f"{self.model}/{self.task}/{self.policy} on {self.eval_task}: {len(one)} problems at step {step}, but {len(index)}"
                    " for the base model; delete the evaluation files and run again"
                )
        return np.stack([one.to_numpy() for one in series])

    def samples(self, step: int) -> int:
        """The fewest completions that any problem has at a step, over the runs (the base model at step 0)."""
        frames = self.runs if step else [self.base]
        return int(min(evaluations.counts(frame, step)[0].min() for frame in frames))

    def decodings(self) -> list[str]:
        return [d for d in ("sampled", "greedy") if (self.base.decoding == d).any()]


def load_cells(config: dict, study: str, folder: str = "results/evaluation") -> list[Cell]:
    """Read every evaluation file of a study once; runs that differ in the seed alone make a cell."""
    groups: dict[tuple, list[Run]] = {}
    for run in layout.runs(config, study):
        groups.setdefault((run.model, run.task, settings.arm(config["studies"][study], run)), []).append(run)
    bases: dict[tuple, pd.DataFrame] = {}
    cells = []
    for (model, task, policy), replicates in groups.items():
        for test in layout.eval_tasks(config, study, task, model):
            if (model, test) not in bases:
                bases[model, test] = evaluations.read(f"{folder}/{model}/base/{test}.csv.gz")
            frames = [evaluations.read(f"{folder}/{run.path}/{test}.csv.gz") for run in replicates]
            cells.append(Cell(model, task, test, policy, bases[model, test], frames))
    return cells


def _interval(prefix: str, estimate: statistics.Estimate) -> dict:
    return {prefix: estimate.estimate, f"{prefix}_low": estimate.low, f"{prefix}_high": estimate.high}


def accuracy(cells: list[Cell]) -> list[dict]:
    """Accuracy by checkpoint; step 0 is the base model, the same for every policy."""
    rows = []
    for cell in cells:
        for decoding in cell.decodings():
            for step in [0, *cell.steps()]:
                rates = {
                    column: np.atleast_2d(cell.base_rates(column, decoding)) if step == 0 else cell.rates(step, column, decoding)
                    for column in ("correct", "answered", "truncated", "tokens")
                }
                rows.append(
                    cell.keys
                    | {"decoding": decoding, "step": step}
                    | _interval("accuracy", statistics.mean_interval(rates["correct"]))
                    | {f"{name}_mean": rates[name].mean() for name in ("answered", "truncated", "tokens")}
                    | {"problems": rates["correct"].shape[1], "samples": cell.samples(step) if decoding == "sampled" else 1}
                    | {"seeds": len(cell.runs) if step else 1}
                )
    return rows


def gains(cells: list[Cell]) -> list[dict]:
    """Accuracy at the last checkpoint less that of the base model."""
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        for decoding in cell.decodings():
            base = cell.base_rates(decoding=decoding)
            values = cell.rates(last, decoding=decoding) - base
            samples = cell.samples(last) if decoding == "sampled" else 1
            rows.append(
                cell.keys
                | {"decoding": decoding, "step": last, "base_accuracy": base.mean()}
                | _interval("gain", statistics.mean_interval(values))
                | {"problems": values.shape[1], "samples": samples, "seeds": values.shape[0]}
            )
    return rows


def differences(cells: list[Cell]) -> list[dict]:
    """Policy minus policy at the last checkpoint, paired by problem and seed; the base cancels."""
    rows = []
    groups = itertools.groupby(
        sorted(cells, key=lambda c: (c.model, c.task, c.eval_task)), key=lambda c: (c.model, c.task, c.eval_task)
    )
    for _, group in groups:
        group = sorted(group, key=cells.index)
        for one, other in itertools.combinations(group, 2):
            a, b = one.rates(one.steps()[-1]), other.rates(other.steps()[-1])
            if a.shape != b.shape:
                continue
            rows.append(
                one.keys
                | {"minus": other.policy}
                | _interval("difference", statistics.mean_interval(a - b))
                | {"problems": a.shape[1], "seeds": a.shape[0]}
            )
    return rows


def parts(cells: list[Cell]) -> list[dict]:
    """Every gain split into finishing and correctness, for the last checkpoint, sampled completions."""
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        base_answered, base_correct = cell.base_rates("answered"), cell.base_rates("correct")
        answered, correct = cell.rates(last, "answered"), cell.rates(last, "correct")
        finishing, correctness = statistics.decompose_by_problem(base_answered, base_correct, answered, correct)
        rows.append(
            cell.keys
            | {"step": last, "gain": (correct - base_correct).mean()}
            | _interval("finishing", statistics.mean_interval(finishing))
            | _interval("correctness", statistics.mean_interval(correctness))
            | _interval("finishing_minus_correctness", statistics.mean_interval(finishing - correctness))
            | {"base_answered": base_answered.mean(), "answered": answered.mean()}
            | {"base_accuracy": base_correct.mean(), "accuracy": correct.mean()}
            | {"base_accuracy_answered": _ratio(base_correct, base_answered), "accuracy_answered": _ratio(correct, answered)}
            | {"problems": answered.shape[1], "seeds": answered.shape[0]}
        )
    return rows


def _ratio(correct: np.ndarray, answered: np.ndarray) -> float:
    return float(correct.mean() / answered.mean()) if answered.mean() else np.nan


def pass_at_k(cells: list[Cell]) -> list[dict]:
    """Unbiased pass@k of base model and last checkpoint, k = 1 (which is avg@k) and k = all samples."""
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        for k in sorted({1, min(cell.samples(0), cell.samples(last))}):
            base = _pass_rates(cell.base, 0, k)
            values = np.stack([_pass_rates(run, last, k) for run in cell.runs])
            rows.append(
                cell.keys
                | {"k": k, "step": last, "base": base.mean()}
                | _interval("pass", statistics.mean_interval(values))
                | _interval("gain", statistics.mean_interval(values - base))
                | {"problems": values.shape[1], "seeds": values.shape[0]}
            )
    return rows


def _pass_rates(frame: pd.DataFrame, step: int, k: int) -> np.ndarray:
    """(N,) unbiased pass@k by problem."""
    return np.array([statistics.pass_at_k(n, c, k) for n, c in zip(*evaluations.counts(frame, step))])


def tiers(cells: list[Cell]) -> list[dict]:
    """Accuracy by the problems' own difficulty at the last checkpoint; a tier is a property of the problem, not of a model."""
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        tier = cell.base[cell.base.step == 0].drop_duplicates("id").set_index("id").tier
        tier = tier.reindex(evaluations.by_problem(cell.base, 0, "correct").index)
        if tier.isna().all():
            continue
        base, trained = cell.base_rates(), cell.rates(last)
        for name in sorted(tier.dropna().unique(), key=lambda t: (_number(t), t)):
            kept = (tier == name).to_numpy()
            rows.append(
                cell.keys
                | {"tier": name, "step": last, "base_accuracy": base[kept].mean()}
                | _interval("accuracy", statistics.mean_interval(trained[:, kept]))
                | _interval("gain", statistics.mean_interval(trained[:, kept] - base[kept]))
                | {"problems": int(kept.sum()), "seeds": len(cell.runs)}
            )
    return rows


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")


def reach(cells: list[Cell]) -> list[dict]:
    """The first checkpoint that is as accurate as training on all prompts is at its end (LDS: fewer steps suffice).

    `step` is that of the curve averaged over seeds, `step_first` and `step_last` those of the quickest and slowest seed that
    reach it, `seeds_reached` how many do; empty where none does.
    """
    ends = {(c.model, c.task, c.eval_task): c.rates(c.steps()[-1]).mean() for c in cells if c.policy == "all"}
    rows = []
    for cell in cells:
        target = ends.get((cell.model, cell.task, cell.eval_task))
        if target is None:
            continue
        steps = cell.steps()
        curve = np.stack([cell.rates(step).mean(axis=1) for step in steps], axis=1)  # (seeds, steps)
        reached = [first for seed in curve if (first := _first(steps, seed, target)) is not None]
        rows.append(
            cell.keys
            | {"target": target, "step": _first(steps, curve.mean(axis=0), target), "steps": steps[-1]}
            | {"step_first": min(reached, default=None), "step_last": max(reached, default=None)}
            | {"seeds_reached": len(reached), "seeds": len(cell.runs)}
        )
    return rows


def _first(steps: list[int], accuracies: np.ndarray, target: float) -> int | None:
    return next((step for step, accuracy in zip(steps, accuracies) if accuracy >= target - 1e-12), None)


UPDATES = {
    "step": int,
    "prompts": float,
    "rollouts": float,
    "learnable_share": float,
    "truncated_share": float,
    "tokens_mean": float,
}


def read_updates(config: dict, study: str) -> dict[Run, pd.DataFrame]:
    """The log of each trained run; the run's policy is named as in the cells."""
    frames = {}
    for run in layout.runs(config, study):
        if run.recipe == "recorded":
            continue
        path = f"results/training/{run.path}/updates.csv"
        frame = pd.DataFrame(files.read_rows(path, UPDATES))
        if frame.empty:
            raise UserError(f"{path}: the file has no rows; delete it and run again")
        frames[run] = frame
    return frames


def learnable(updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """Learnable share: the mean over updates of the share of groups whose rewards differ, interval over seeds."""
    rows = []
    for (model, task, policy), runs in _grouped(updates, study):
        shares = np.array([updates[run].learnable_share.mean() for run in runs])
        rows.append(
            {"model": model, "task": task, "policy": policy}
            | _interval("learnable", statistics.seeds_interval(shares))
            | {"updates": len(updates[runs[0]]), "seeds": len(runs)}
        )
    return rows


def parity(updates: dict[Run, pd.DataFrame], study: dict) -> list[dict]:
    """What each run spent; a `UserError` with the two numbers where what the study holds constant differs within a task."""
    rows = [
        {"model": run.model, "task": run.task, "policy": settings.arm(study, run), "seed": run.seed}
        | {"updates": len(frame), "prompts": int(frame.prompts.sum()), "rollouts": int(frame.rollouts.sum())}
        | {"completion_tokens": recipes.read_spec(f"results/training/{run.path}/spec.yaml").completion_tokens}
        | {"tokens": round((frame.tokens_mean * frame.rollouts).sum())}
        for run, frame in updates.items()
    ]
    for first, row in itertools.product(rows, rows):
        if (first["model"], first["task"]) != (row["model"], row["task"]):
            continue
        for key in study.get("held_constant", []):
            if first[key] != row[key]:
                names = [f"{r['policy']}/seed{r['seed']} has {r[key]}" for r in (first, row)]
                raise UserError(
                    f"{row['model']}/{row['task']}: the study holds {key} constant, but {names[0]} and {names[1]};"
                    " train the runs with one recipe or take it out of held_constant"
                )
    return rows


def _grouped(updates: dict[Run, pd.DataFrame], study: dict):
    groups: dict[tuple, list[Run]] = {}
    for run in updates:
        groups.setdefault((run.model, run.task, settings.arm(study, run)), []).append(run)
    return groups.items()


def subsets(paths: list[str]) -> list[dict]:
    """What was chosen, by policy, averaged over seeds (ties differ between seeds only in which candidates win)."""
    rows = []
    for path in paths:
        model, task, policy = path.split("/")[-4:-1]
        facts = json.loads(files.read_text(path))
        rows.append(facts | {"model": model, "task": task, "policy": policy})
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    numbers = ["pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate", "tied", "tied_chosen"]
    grouped = frame.groupby(["model", "task", "policy"], sort=False)
    return (grouped[numbers].mean().assign(seeds=grouped.size()).reset_index()).to_dict("records")


def difficulty(paths: list[str], subset_paths: list[str]) -> list[dict]:
    """Histogram of pass rates: the pool, and how many of each subset (mean over seeds) stand at each pass rate."""
    rows = []
    for path in paths:
        model, task = path.removesuffix(".csv").split("/")[-2:]
        pool = [row["pass_rate"] for row in files.read_rows(path, {"pass_rate": float})]
        groups = {"pool": [pool]}
        for subset in subset_paths:
            if subset.split("/")[-4:-2] == [model, task]:
                chosen = files.read_rows(subset.removesuffix(".json") + ".csv", {"pass_rate": float})
                groups.setdefault(subset.split("/")[-2], []).append([row["pass_rate"] for row in chosen])
        for group, lists in groups.items():
            rates = pd.Series([rate for one in lists for rate in one]).round(6).value_counts().sort_index() / len(lists)
            rows += [
                {"model": model, "task": task, "group": group, "pass_rate": rate, "problems": count}
                for rate, count in rates.items()
            ]
    return rows


def fit(gain_rows: list[dict], learnable_rows: list[dict]) -> list[dict]:
    """R^2 of learnable share against gain over the policies of all tasks, and within each task."""
    shares = {(r["model"], r["task"], r["policy"]): r["learnable"] for r in learnable_rows}
    cells = [
        (r["task"], shares[r["model"], r["task"], r["policy"]], r["gain"])
        for r in gain_rows
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled" and (r["model"], r["task"], r["policy"]) in shares
    ]
    rows = []
    for task in [None, *dict.fromkeys(cell[0] for cell in cells)]:
        kept = [cell for cell in cells if task in (None, cell[0])]
        if len(kept) >= 3:
            x, y = np.array([c[1] for c in kept]), np.array([c[2] for c in kept])
            slope = float(np.polyfit(x, y, 1)[0]) if np.ptp(x) else np.nan
            rows.append(
                {"task": task or "all"} | _interval("r_squared", statistics.r_squared(x, y)) | {"slope": slope, "cells": len(kept)}
            )
    return rows


def published(probes: list[tuple[str, str, str]]) -> list[dict]:
    """Pass rates of recorded problems: as their authors published them, ours with the prompt graded too, ours alone.

    Problems without a published rate are listed where the prompt makes a difference.
    `probes` are the paths of layout.recorded_probes.
    """
    rows = []
    for shard, alone, with_prompt in probes:
        model, task = alone.removesuffix(".csv").split("/")[-2:]
        theirs = {
            str(row["id"]): row["published_pass_rate"]
            for row in files.read_jsonl(shard, {"id": (str, int)})
            if row.get("published_pass_rate") is not None
        }
        ours = {row["id"]: row["pass_rate"] for row in files.read_rows(with_prompt, {"id": str, "pass_rate": float})}
        for row in files.read_rows(alone, {"id": str, "pass_rate": float}):
            published, with_it = theirs.get(row["id"]), ours[row["id"]]
            if published is not None or (with_it is not None and with_it != row["pass_rate"]):
                rows.append(
                    {"model": model, "task": task, "id": row["id"], "published": published}
                    | {"with_prompt": with_it, "alone": row["pass_rate"]}
                )
    return rows


def read_tables(folder: str | Path, names: list[str]) -> dict[str, list[dict]]:
    """Rows of summary tables by name: text where a column names something, numbers elsewhere, nan where a cell is empty."""
    tables = {}
    for name in names:
        path = Path(folder) / f"{name}.csv"
        frame = pd.read_csv(
            io.StringIO(files.read_text(path)), dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""]
        )
        for column in frame.columns.intersection(NAMES):
            frame[column] = frame[column].fillna("")
        tables[name] = frame.to_dict("records")
    return tables
