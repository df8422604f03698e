"""From graded completions to the tables that figures are drawn from, each with estimate, interval, n and its keys."""

import io
import itertools
import json
import os
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hardgrpo.analysis import evaluations, statistics
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings
from hardgrpo.study.settings import Run
from hardgrpo.training import recipes

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
    seeds: list[int]

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

    def verdicts(self, step: int, decoding: str = "sampled") -> np.ndarray | None:
        """(S, N, m) verdicts of single completions, of the base (N, m) at step 0; None where the numbers of samples differ."""
        found = [evaluations.by_sample(frame, step, decoding) for frame in (self.runs if step else [self.base])]
        if any(one is None or one.shape != found[0].shape for one in found):
            return None
        return np.stack(found) if step else found[0]

    def tiers(self) -> pd.Series:
        """Tier of each problem, in the base's order; missing where a problem has none."""
        tier = self.base[self.base.step == 0].drop_duplicates("id").set_index("id").tier
        return tier.reindex(evaluations.by_problem(self.base, 0, "correct").index)

    def samples(self, step: int) -> int:
        """The fewest completions that any problem has at a step, over the runs (the base model at step 0)."""
        frames = self.runs if step else [self.base]
        return int(min(evaluations.counts(frame, step)[0].min() for frame in frames))

    def decodings(self) -> list[str]:
        return [d for d in ("sampled", "greedy") if (self.base.decoding == d).any()]


def load_cells(config: dict, study: str, folder: str = "results/evaluation") -> list[Cell]:
    """Read every evaluation file of a study once; runs that differ in the seed alone make a cell."""
    groups: dict[tuple, list[Run]] = {}
    for run in paths.runs(config, study):
        groups.setdefault((run.model, run.task, settings.arm(config["studies"][study], run)), []).append(run)
    bases: dict[tuple, pd.DataFrame] = {}
    cells = []
    for (model, task, policy), replicates in groups.items():
        for test in paths.eval_tasks(config, study, task, model):
            if (model, test) not in bases:
                bases[model, test] = evaluations.read(f"{folder}/{model}/base/{test}.csv.gz")
            frames = [evaluations.read(f"{folder}/{run.path}/{test}.csv.gz") for run in replicates]
            cells.append(Cell(model, task, test, policy, bases[model, test], frames, [run.seed for run in replicates]))
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


def families(cells: list[Cell]) -> list[list[Cell]]:
    """Cells that are compared with each other: those of one model, task and test, in the study's order."""
    keys = lambda cell: (cell.model, cell.task, cell.eval_task)
    return [sorted(group, key=cells.index) for _, group in itertools.groupby(sorted(cells, key=keys), key=keys)]


def _other_intervals(name: str, values: np.ndarray, shared: float, pooled: tuple[float, int] | None) -> dict:
    """The intervals beside the reported one: for target A, and with the seeds' variance of all policies together."""
    fixed = statistics.fixed_problems_interval(values, shared)
    found = statistics.components(values)
    half = np.nan if pooled is None else statistics.half_width(found, *pooled)
    return {
        f"{name}_low_a": fixed.low,
        f"{name}_high_a": fixed.high,
        f"{name}_low_pooled": found.estimate - half,
        f"{name}_high_pooled": found.estimate + half,
    }


def _shared_noise(one: Cell, other: Cell | None, decoding: str) -> float:
    """`statistics.shared_noise` of a gain (`other` is None) or a difference; nan where samples cannot be matched by number.

    Greedy completions have no sampling noise.
    """
    if decoding == "greedy":
        return 0.0
    last = one.steps()[-1]
    verdicts, others = one.verdicts(last), one.verdicts(0) if other is None else other.verdicts(other.steps()[-1])
    if verdicts is None or others is None or verdicts.shape[-2:] != others.shape[-2:]:
        return np.nan
    return float(statistics.shared_noise(verdicts - others))


def _detectable(values: list[np.ndarray], pooled: tuple[float, int] | None) -> float:
    """What the design of several gains or differences can detect: their seeds' variance together, the mean of that over problems."""
    seeds = {one.shape[0] for one in values}
    if pooled is None and seeds != {1}:
        return np.nan
    over_problems = float(np.mean([statistics.components(one).over_problems for one in values]))
    return statistics.smallest_detectable(pooled[0] if pooled else np.nan, over_problems, min(seeds))


def _pooled(values: list[np.ndarray], differences: bool) -> tuple[float, int] | None:
    """`statistics.pooled_over_seeds` of policies that have the same seeds, at least two; None otherwise."""
    if len({one.shape for one in values}) > 1 or values[0].shape[0] == 1 or (differences and len(values) < 2):
        return None
    over_seeds, df = statistics.pooled_over_seeds(np.stack(values), differences)
    return float(over_seeds), df


def gains(cells: list[Cell]) -> list[dict]:
    """Accuracy at the last checkpoint less that of the base model, with what the design could have detected.

    `gain_low` and `gain_high` are for new problems and new seeds, `*_a` for these problems and new seeds, `*_pooled` with the
    variance over seeds of all policies together, which holds where they spread alike.
    """
    rows = {}
    for family in families(cells):
        for decoding in family[0].decodings():
            values = {id(c): c.rates(c.steps()[-1], decoding=decoding) - c.base_rates(decoding=decoding) for c in family}
            pooled = _pooled(list(values.values()), differences=False)
            mdd = _detectable(list(values.values()), pooled)
            for cell in family:
                last, one = cell.steps()[-1], values[id(cell)]
                samples = cell.samples(last) if decoding == "sampled" else 1
                rows[id(cell), decoding] = (
                    cell.keys
                    | {"decoding": decoding, "step": last, "base_accuracy": cell.base_rates(decoding=decoding).mean()}
                    | _interval("gain", statistics.mean_interval(one))
                    | _other_intervals("gain", one, _shared_noise(cell, None, decoding), pooled)
                    | {"mdd": mdd, "problems": one.shape[1], "samples": samples, "seeds": one.shape[0]}
                )
    return [rows[id(cell), decoding] for cell in cells for decoding in cell.decodings()]


def differences(cells: list[Cell]) -> list[dict]:
    """Policy minus policy at the last checkpoint, sampled, paired by problem and seed; the base cancels.

    `p` inverts the interval (`statistics.p_value`), `p_holm` is corrected for the comparisons within model, task and test.
    """
    rows = []
    for family in families(cells):
        rates = {id(cell): cell.rates(cell.steps()[-1]) for cell in family}
        pairs = [(a, b) for a, b in itertools.combinations(family, 2) if a.seeds == b.seeds]
        pooled = _pooled(list(rates.values()), differences=True)
        mdd = _detectable([rates[id(a)] - rates[id(b)] for a, b in pairs], pooled) if pairs else np.nan
        found = []
        for one, other in pairs:
            values = rates[id(one)] - rates[id(other)]
            parts = statistics.components(values)
            found.append(
                one.keys
                | {"minus": other.policy}
                | _interval("difference", statistics.mean_interval(values))
                | _other_intervals("difference", values, _shared_noise(one, other, "sampled"), pooled)
                | {"p": float(statistics.p_value(parts))}
                | {"mdd": mdd, "problems": parts.problems, "seeds": parts.seeds}
            )
        rows += _with_holm(found)
    return rows


def _with_holm(rows: list[dict]) -> list[dict]:
    """One family of comparisons with `p_holm` beside `p`."""
    return [row | {"p_holm": p} for row, p in zip(rows, statistics.holm([row["p"] for row in rows]).tolist())]


def mcnemar(cells: list[Cell]) -> list[dict]:
    """McNemar's exact test of single verdicts on the same problems: each run against the base, and against the other policies'
    run of the same seed, greedy or where there is one sample.

    It is a test of two *runs*: it says nothing about another seed. A family of Holm is the comparisons of one seed and decoding
    within model, task and test, those with the base and those between policies apart.
    """
    rows = []
    for family in families(cells):
        for decoding in family[0].decodings():
            single = {}  # (policy, seed) -> (step, verdicts (N,))
            for cell in family:
                last = cell.steps()[-1]
                verdicts, base = cell.verdicts(last, decoding), cell.verdicts(0, decoding)
                if verdicts is not None and base is not None and verdicts.shape[-1] == base.shape[-1] == 1:
                    single |= {(cell.policy, seed): (last, one[:, 0]) for seed, one in zip(cell.seeds, verdicts)}
                    single["base"] = (0, base[:, 0])
            for seed in sorted({key[1] for key in single if key != "base"}):
                arms = [cell for cell in family if (cell.policy, seed) in single]
                with_base = [(cell, "base", "base") for cell in arms]
                between = [(a, b.policy, (b.policy, seed)) for a, b in itertools.combinations(arms, 2)]
                for kind in (with_base, between):
                    found = []
                    for cell, minus, key in kind:
                        step, one = single[cell.policy, seed]
                        only_this, only_other, p = statistics.mcnemar(one, single[key][1])
                        found.append(
                            cell.keys
                            | {"minus": minus, "decoding": decoding, "seed": seed, "step": step}
                            | {"only_this": only_this, "only_other": only_other}
                            | {"difference": (only_this - only_other) / len(one), "p": p, "problems": len(one)}
                        )
                    rows += _with_holm(found)
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
            | _answered(base_answered, base_correct, answered, correct)
            | {"problems": answered.shape[1], "seeds": answered.shape[0]}
        )
    return rows


GRADINGS = {"task": "correct", "strict": "strict", "lenient": "lenient"}
DECOMPOSED = ("answered", "correct", "strict", "lenient", "truncated", "tokens")


def decomposition(cells: list[Cell]) -> list[dict]:
    """Every gain split into finishing and correctness, by checkpoint, by grading, and within each tier (`tier` is empty for all).

    `grading` is the task's own, strict or lenient; what is answered is the same for all. Within a tier the split is that of its
    problems alone: where difficulty is mostly length, the split over all problems mixes tiers that differ in finishing.
    """
    rows = []
    for cell in cells:
        tier = cell.tiers()
        groups = {None: np.ones(len(tier), bool)} | {name: (tier == name).to_numpy() for name in _tier_names(tier)}
        base = {column: cell.base_rates(column) for column in DECOMPOSED}
        for step in cell.steps():
            trained = {column: cell.rates(step, column) for column in DECOMPOSED}
            for name, kept in groups.items():
                of = {column: (base[column][kept], trained[column][:, kept]) for column in DECOMPOSED}
                for grading, column in GRADINGS.items():
                    (base_answered, answered), (base_correct, correct) = of["answered"], of[column]
                    finishing, correctness = statistics.decompose_by_problem(base_answered, base_correct, answered, correct)
                    rows.append(
                        cell.keys
                        | {"tier": name, "grading": grading, "step": step}
                        | _interval("gain", statistics.mean_interval(correct - base_correct))
                        | _interval("finishing", statistics.mean_interval(finishing))
                        | _interval("correctness", statistics.mean_interval(correctness))
                        | _answered(base_answered, base_correct, answered, correct)
                        | _lengths(of)
                        | {"problems": int(kept.sum()), "seeds": len(cell.runs)}
                    )
    return rows


def decomposition_runs(cells: list[Cell]) -> list[dict]:
    """The exact split of every run at every checkpoint, by grading. A mean over runs is not quite the split of the mean rates."""
    rows = []
    for cell in cells:
        base = {column: cell.base_rates(column) for column in DECOMPOSED}
        for step in cell.steps():
            trained = {column: cell.rates(step, column) for column in DECOMPOSED}
            for grading, column in GRADINGS.items():
                for i, seed in enumerate(cell.seeds):
                    of = {name: (base[name], trained[name][i]) for name in DECOMPOSED}
                    four = (*of["answered"], *of[column])
                    base_answered, answered, base_correct, correct = (float(one.mean()) for one in four)
                    finishing, correctness = statistics.decompose(base_answered, base_correct, answered, correct)
                    rows.append(
                        cell.keys
                        | {"seed": seed, "grading": grading, "step": step}
                        | {"gain": correct - base_correct, "finishing": finishing, "correctness": correctness}
                        | _answered(four[0], four[2], four[1], four[3])
                        | _lengths(of)
                        | {"problems": len(four[0])}
                    )
    return rows


def _answered(base_answered, base_correct, answered, correct) -> dict:
    return (
        {"base_answered": base_answered.mean(), "answered": answered.mean()}
        | {"base_accuracy": base_correct.mean(), "accuracy": correct.mean()}
        | {"base_accuracy_answered": _ratio(base_correct, base_answered), "accuracy_answered": _ratio(correct, answered)}
    )


def _lengths(of: dict) -> dict:
    """Share cut off at the limit and mean length in tokens, before and after; nan where recordings do not tell."""
    return {f"{when}{column}": of[column][i].mean() for column in ("truncated", "tokens") for i, when in enumerate(("base_", ""))}


def sentences(decomposition_rows: list[dict]) -> list[dict]:
    """What the gains are made of in one English sentence for each model, task and test, at the last checkpoint (plain text)."""
    rows = []
    whole = [row for row in decomposition_rows if row["tier"] is None]
    for key in dict.fromkeys((r["model"], r["task"], r["eval_task"]) for r in whole):
        group = [r for r in whole if (r["model"], r["task"], r["eval_task"]) == key]
        last = {r["policy"]: max(s["step"] for s in group if s["policy"] == r["policy"]) for r in group}
        group = [r for r in group if r["step"] == last[r["policy"]]]
        of_task = [r for r in group if r["grading"] == "task"]
        rows.append(dict(zip(("model", "task", "eval_task"), key)) | {"sentence": _sentence(*key, of_task, group)})
    return rows


def _sentence(model: str, task: str, test: str, rows: list[dict], all_gradings: list[dict]) -> str:
    best = max(rows, key=lambda r: r["gain"])
    where = f"In {model} trained on {task}" + ("" if test == task else f" and tested on {test}")
    many = (
        f"of {len(rows)} policies '{best['policy']}' changes accuracy most"
        if len(rows) > 1
        else f"'{best['policy']}' changes accuracy"
    )
    text = (
        f"{where}, {many}, by {_points(best['gain'])} points [{_points(best['gain_low'])},"
        f" {_points(best['gain_high'])}], of which finishing is {_points(best['finishing'])} [{_points(best['finishing_low'])},"
        f" {_points(best['finishing_high'])}] and correctness {_points(best['correctness'])} [{_points(best['correctness_low'])},"
        f" {_points(best['correctness_high'])}] (answered {100 * best['base_answered']:.1f} % before, {100 * best['answered']:.1f} %"
        " after"
    )
    if not np.isnan(best["truncated"]) and not np.isnan(best["base_truncated"]):
        text += f"; cut off {100 * best['base_truncated']:.1f} and {100 * best['truncated']:.1f} %"
    if not np.isnan(best["tokens"]) and not np.isnan(best["base_tokens"]):
        text += f"; {best['base_tokens']:.0f} and {best['tokens']:.0f} tokens"
    text += ")"
    graded = {r["grading"]: r for r in all_gradings if r["policy"] == best["policy"]}
    if abs(graded["strict"]["finishing"] - graded["lenient"]["finishing"]) >= 0.0005 and best["gain"] > 0:
        shares = [f"{_of_gain(graded[name])} by the {name} grader" for name in ("strict", "lenient")]
        text += f", and finishing is {' and '.join(shares)}"
    if len(rows) > 1:
        parts = [100 * row["finishing"] for row in rows]
        text += f"; over the policies finishing ranges from {_points(min(parts) / 100)} to {_points(max(parts) / 100)} points"
    return text + "."


def _points(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def _of_gain(row: dict) -> str:
    return f"{100 * row['finishing'] / row['gain']:.1f} % of the gain" if row["gain"] else "no part of a gain of 0"


def _ratio(correct: np.ndarray, answered: np.ndarray) -> float:
    return float(correct.mean() / answered.mean()) if answered.mean() else np.nan


def pass_at_k(cells: list[Cell]) -> list[dict]:
    """Unbiased pass@k of base model and last checkpoint, k = 1 (which is avg@k), 8 where there are as many, and all samples."""
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        most = min(cell.samples(0), cell.samples(last))
        for k in sorted({1, min(8, most), most}):
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
        tier = cell.tiers()
        base, trained = cell.base_rates(), cell.rates(last)
        for name in _tier_names(tier):
            kept = (tier == name).to_numpy()
            rows.append(
                cell.keys
                | {"tier": name, "step": last, "base_accuracy": base[kept].mean()}
                | _interval("accuracy", statistics.mean_interval(trained[:, kept]))
                | _interval("gain", statistics.mean_interval(trained[:, kept] - base[kept]))
                | {"problems": int(kept.sum()), "seeds": len(cell.runs)}
            )
    return rows


def _tier_names(tier: pd.Series) -> list[str]:
    return sorted(tier.dropna().unique(), key=lambda t: (_number(t), t))


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
    "reward_mean": float,
    "learnable_share": float,
    "truncated_share": float,
    "tokens_mean": float,
}


def read_updates(config: dict, study: str) -> dict[Run, pd.DataFrame]:
    """The log of each trained run; the run's policy is named as in the cells."""
    frames = {}
    for run in paths.runs(config, study):
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


CURVES = ("tokens_mean", "truncated_share", "reward_mean", "learnable_share")


def curves(updates: dict[Run, pd.DataFrame], study: dict, points: int = 20) -> list[dict]:
    """Training by policy in at most `points` stretches of updates: means over a stretch, interval over seeds.

    A row stands for the updates `first` to `step`. Runs of different length are compared as far as the shortest goes.
    """
    rows = []
    for (model, task, policy), runs in _grouped(updates, study):
        length = min(len(updates[run]) for run in runs)
        width = -(-length // points)
        for start in range(0, length, width):
            stretches = [updates[run].iloc[start : min(start + width, length)] for run in runs]
            rows.append(
                {"model": model, "task": task, "policy": policy}
                | {"first": int(stretches[0].step.iloc[0]), "step": int(stretches[0].step.iloc[-1])}
                | {k: v for name in CURVES for k, v in _curve(name, stretches).items()}
                | {"seeds": len(runs)}
            )
    return rows


def _curve(name: str, stretches: list[pd.DataFrame]) -> dict:
    return _interval(name, statistics.seeds_interval(np.array([one[name].mean() for one in stretches])))


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


def budgets(parity_rows: list[dict], seconds: dict[tuple, float]) -> list[dict]:
    """What a policy's runs spent: means over seeds, tokens and wall time also of the least and the most.

    `seconds` are those of a run's updates by (model, task, policy, seed), nan where they are not known. Time depends on the
    machine and on what else it did: it is told, never held constant.
    """
    rows = []
    frame = pd.DataFrame(parity_rows)
    for key, group in frame.groupby(["model", "task", "policy"], sort=False) if len(frame) else []:
        times = np.array([seconds[(*key, seed)] for seed in group.seed])
        rows.append(
            dict(zip(("model", "task", "policy"), key))
            | {name: group[name].mean() for name in ("updates", "prompts", "rollouts", "completion_tokens", "tokens")}
            | {"tokens_least": group.tokens.min(), "tokens_most": group.tokens.max()}
            | {"seconds": times.mean(), "seconds_least": times.min(), "seconds_most": times.max(), "seeds": len(group)}
        )
    return rows


def read_seconds(updates: dict[Run, pd.DataFrame], study: dict) -> dict[tuple, float]:
    """Wall time of each run's updates, from `timing.csv` beside its `updates.csv`; nan where the file is gone."""
    seconds = {}
    for run in updates:
        path = f"results/training/{run.path}/timing.csv"
        times = [row["seconds"] for row in files.read_rows(path, {"seconds": float})] if os.path.exists(path) else [np.nan]
        seconds[run.model, run.task, settings.arm(study, run), run.seed] = float(sum(times))
    return seconds


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
        asked = {"rule": facts["policy"]["rule"], "budget": facts["policy"].get("budget")}
        rows.append(facts | {"model": model, "task": task, "policy": policy} | asked)
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    numbers = ["pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate", "tied", "tied_chosen"]
    grouped = frame.groupby(["model", "task", "policy", "rule", "budget"], sort=False, dropna=False)
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


def regressions(gain_rows: list[dict], learnable_rows: list[dict], accuracy_rows: list[dict]) -> list[dict]:
    """Gain against learnable share, against mean completion length after training (the rival explanation), and against both.

    Over the policies of all tasks, and within each task. `adjusted_for` names the other predictor of a regression on both: the slope
    is then its coefficient there, and r_squared what it explains of the rest (partial R^2). The row `both` has the R^2 of the two
    together. Slopes are per 100 points of learnable share, and per token. `cells` is the number of points, one a model, task and
    policy: not runs, and not independent, since policies share a base model, test problems and seeds.
    """
    shares = {(r["model"], r["task"], r["policy"]): r["learnable"] for r in learnable_rows}
    lengths = {
        (r["model"], r["task"], r["policy"], r["step"]): r["tokens_mean"]
        for r in accuracy_rows
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled"
    }
    points = []
    for r in gain_rows:
        key = (r["model"], r["task"], r["policy"])
        if r["eval_task"] == r["task"] and r["decoding"] == "sampled" and key in shares:
            points.append((r["task"], shares[key], lengths[(*key, r["step"])], r["gain"]))
    rows = []
    for task in [None, *dict.fromkeys(point[0] for point in points)]:
        kept = np.array([point[1:] for point in points if task in (None, point[0])], dtype=float)
        if len(kept) < 3 or np.isnan(kept).any():
            continue
        learned, tokens, gain = kept.T
        facts = {"task": task or "all", "cells": len(kept)}
        both = statistics.coefficients(kept[:, :2], gain)
        for i, (name, other, x, z) in enumerate(
            (("learnable", "tokens", learned, tokens), ("tokens", "learnable", tokens, learned))
        ):
            ((slope, p),) = statistics.coefficients(x[:, None], gain)
            alone = {"predictor": name, "adjusted_for": None} | _interval("r_squared", statistics.r_squared(x, gain))
            rows.append(facts | alone | _interval("slope", slope) | {"p": p})
            slope, p = both[i]
            adjusted = {"predictor": name, "adjusted_for": other} | _interval("r_squared", statistics.partial_r_squared(gain, x, z))
            rows.append(facts | adjusted | _interval("slope", slope) | {"p": p})
        unknown = statistics.Estimate(np.nan, np.nan, np.nan)
        joint = {"predictor": "both", "adjusted_for": None} | _interval("r_squared", statistics.joint_r_squared(kept[:, :2], gain))
        rows.append(facts | joint | _interval("slope", unknown) | {"p": np.nan})
    return rows


def published(probes: list[tuple[str, str, str]]) -> list[dict]:
    """Pass rates of recorded problems: as their authors published them, ours with the prompt graded too, ours alone.

    Problems without a published rate are listed where the prompt makes a difference.
    `probes` are the paths of paths.recorded_probes.
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


def read_tables(tables: files.Tables, names: list[str]) -> dict[str, list[dict]]:
    """Rows of summary tables by name: text where a column names something, numbers elsewhere, nan where a cell is empty."""
    found = {}
    for name in names:
        frame = pd.read_csv(
            io.StringIO(files.read_text(tables[name])), dtype=dict.fromkeys(NAMES, str), keep_default_na=False, na_values=[""]
        )
        for column in frame.columns.intersection(NAMES):
            frame[column] = frame[column].fillna("")
        found[name] = frame.to_dict("records")
    return found
