"""Summary tables that split gains exactly into finishing and correctness."""

from collections.abc import Iterator

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.accuracy import tier_names
from hardgrpo.analysis.cells import Cell, mean_columns
from hardgrpo.analysis.formats import change, change_interval

GRADINGS = {"task": "correct", "strict": "strict", "lenient": "lenient"}
DECOMPOSED = ("answered", "correct", "strict", "lenient", "truncated", "tokens")


def parts(cells: list[Cell]) -> list[dict]:
    """Every gain split into finishing and correctness, for the last checkpoint, sampled completions."""
    rows = []
    for cell in cells:
        last, columns = cell.steps()[-1], ("answered", "correct")
        rates = [*map(cell.base_rates, columns), *(cell.rates(last, column) for column in columns)]
        finishing, correctness = statistics.decompose_by_problem(*rates)
        rows.append(
            cell.keys
            | {"step": last, "gain": (rates[3] - rates[1]).mean()}
            | mean_columns("finishing", finishing)
            | mean_columns("correctness", correctness)
            | mean_columns("finishing_minus_correctness", finishing - correctness)
            | _answered(*rates)
            | {"problems": finishing.shape[1], "seeds": finishing.shape[0]}
        )
    return rows


def decomposition(cells: list[Cell]) -> list[dict]:
    """Every gain split into finishing and correctness, by checkpoint, by grading, and within each tier (`tier` is empty for all).

    `grading` is the task's own, strict or lenient; all three count the same completions as answered. The split within a tier is that
    of its problems alone. Where difficulty is mostly length, the split over all problems mixes tiers that differ in finishing.
    """
    rows = []
    for cell in cells:
        tier = cell.tiers()
        groups = {None: np.ones(len(tier), bool)} | {name: (tier == name).to_numpy() for name in tier_names(tier)}
        for step, base, trained in _by_step(cell):
            for name, kept in groups.items():
                of = {column: (base[column][:, kept], trained[column][:, kept]) for column in DECOMPOSED}
                for grading, rates in _by_grading(of):
                    finishing, correctness = statistics.decompose_by_problem(*rates)
                    rows.append(
                        cell.keys
                        | {"tier": name, "grading": grading, "step": step}
                        | mean_columns("gain", rates[3] - rates[1])
                        | mean_columns("finishing", finishing)
                        | mean_columns("correctness", correctness)
                        | _answered(*rates)
                        | _lengths(of)
                        | {"problems": int(kept.sum()), "seeds": len(cell.runs)}
                    )
    return rows


def decomposition_runs(cells: list[Cell]) -> list[dict]:
    """The exact split of every run at every checkpoint, by grading. A mean over runs is not quite the split of the mean rates."""
    rows = []
    for cell in cells:
        for step, base, trained in _by_step(cell):
            own = {name: np.broadcast_to(base[name], trained[name].shape) for name in DECOMPOSED}
            runs = [{name: (own[name][i], trained[name][i]) for name in DECOMPOSED} for i in range(len(cell.seeds))]
            for grading in GRADINGS:
                for seed, of in zip(cell.seeds, runs):
                    rates = dict(_by_grading(of))[grading]
                    base_answered, base_correct, answered, correct = (float(one.mean()) for one in rates)
                    finishing, correctness = statistics.decompose(base_answered, base_correct, answered, correct)
                    rows.append(
                        cell.keys
                        | {"seed": seed, "grading": grading, "step": step}
                        | {"gain": correct - base_correct, "finishing": finishing, "correctness": correctness}
                        | _answered(*rates)
                        | _lengths(of)
                        | {"problems": len(rates[0])}
                    )
    return rows


def _by_step(cell: Cell) -> Iterator[tuple[int, dict, dict]]:
    """(checkpoint, {column: rates of the bases (1 or S, N)}, {column: rates of the runs (S, N)}) for all of DECOMPOSED."""
    base = {column: cell.base_rates(column) for column in DECOMPOSED}
    for step in cell.steps():
        yield step, base, {column: cell.rates(step, column) for column in DECOMPOSED}


def _by_grading(of: dict[str, tuple]) -> Iterator[tuple[str, tuple]]:
    """(grading, rates answered and correct of the base, then after training), from {column: (before, after)}."""
    for grading, column in GRADINGS.items():
        yield grading, (of["answered"][0], of[column][0], of["answered"][1], of[column][1])


def sentences(decomposition_rows: list[dict]) -> list[dict]:
    """One English sentence for each model, task and test, in plain text: what the gains at the last checkpoint are made of."""
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
    gain, finishing, correctness = (_changed(best, name) for name in ("gain", "finishing", "correctness"))
    text = (
        f"{where}, {many}, by {gain.replace(' [', ' points [')}, of which finishing is {finishing} and correctness {correctness}"
        f" (answered {100 * best['base_answered']:.1f} % before, {100 * best['answered']:.1f} % after"
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
        ends = [change(end(row["finishing"] for row in rows)) for end in (min, max)]
        text += f"; over the policies finishing ranges from {ends[0]} to {ends[1]} points"
    return text + "."


def _changed(row: dict, name: str) -> str:
    return change_interval(*(row[name + end] for end in ("", "_low", "_high")))


def _of_gain(row: dict) -> str:
    return f"{100 * row['finishing'] / row['gain']:.1f} % of the gain" if row["gain"] else "no part of a gain of 0"


def _answered(base_answered, base_correct, answered, correct) -> dict:
    return (
        {"base_answered": base_answered.mean(), "answered": answered.mean()}
        | {"base_accuracy": base_correct.mean(), "accuracy": correct.mean()}
        | {"base_accuracy_answered": _ratio(base_correct, base_answered), "accuracy_answered": _ratio(correct, answered)}
    )


def _lengths(of: dict) -> dict:
    """Share cut off at the limit and mean length in tokens, before and after; nan where recordings do not say."""
    return {f"{when}{column}": of[column][i].mean() for column in ("truncated", "tokens") for i, when in enumerate(("base_", ""))}


def _ratio(correct: np.ndarray, answered: np.ndarray) -> float:
    return float(correct.mean() / answered.mean()) if answered.mean() else np.nan
