"""Summary table of trajectories: the outcomes of groups over a recorded training run, by policy."""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import as_columns
from hardgrpo.runtime import files
from hardgrpo.study import paths

STRETCHES = 10  # of the epochs, for curves
LATER = {"id": str, "epoch": int, "correct": int, "rollouts": int}
OUTCOMES = ["mixed", "all_right", "all_wrong", "pass_rate"]


def trajectories(later_paths: list[str], difficulty_paths: list[str], subset_paths: list[str]) -> list[dict]:
    """By policy, over all later epochs (`stretch` is empty) and over each stretch of them: mean outcomes of the chosen prompts.

    The unit is a prompt: its outcomes are means over its own epochs. A prompt counts by the share of seeds that chose it, so that
    ties are averaged over seeds. Intervals are for new prompts in this run.
    """
    rows = []
    for path in later_paths:
        model, prompts = path.removesuffix(".csv").split("/")[-2:]
        outcomes = by_stretch(pd.DataFrame(files.read_rows(path, LATER)))
        rates = read_rates(next(one for one in difficulty_paths if one == paths.difficulty(model, prompts)))
        chosen: dict[str, list[list[str]]] = {}
        for one in subset_paths:
            *_, of_model, of_prompts, policy, seed = one.removesuffix(".json").split("/")
            if (of_model, of_prompts) == (model, prompts):
                ids = [row["id"] for row in files.read_rows(one.removesuffix(".json") + ".csv", {"id": str})]
                chosen.setdefault(policy, []).append(ids)
        for policy, subsets in chosen.items():
            weights = counted(subsets)
            known = {"never_solved": np.average(rates[weights.index] == 0, weights=weights)}
            known |= {"prompts": weights.sum(), "seeds": len(subsets)}
            for (stretch, begin, end), table in outcomes:
                found = table.loc[weights.index]
                row = {"model": model, "task": prompts, "policy": policy, "stretch": stretch, "begin": begin, "end": end}
                for name in OUTCOMES:
                    estimate = statistics.weighted_mean_interval(found[name].to_numpy(), weights.to_numpy())
                    row |= as_columns(name, estimate)
                rows.append(row | {"epochs": np.average(found.epochs, weights=weights)} | known)
    return rows


def by_stretch(later: pd.DataFrame) -> list[tuple[tuple, pd.DataFrame]]:
    """[((stretch, its begin, its end), mean outcomes of each prompt)]: first over all epochs, then over each stretch.

    Begin and end are shares of the later epochs. Prompts may have different numbers of epochs: a stretch is the same share of each.
    """
    later = later.assign(
        mixed=(later.correct > 0) & (later.correct < later.rollouts),
        all_right=later.correct == later.rollouts,
        all_wrong=later.correct == 0,
        pass_rate=later.correct / later.rollouts,
    )
    position, count = later.groupby("id").cumcount(), later.groupby("id").epoch.transform("size")
    stretches = min(STRETCHES, int(count.min()))
    stretch = position * stretches // count
    means = lambda rows: rows.groupby("id")[OUTCOMES].mean().assign(epochs=rows.groupby("id").size())
    parts = [((n + 1, n / stretches, (n + 1) / stretches), means(later[stretch == n])) for n in range(stretches)]
    return [((None, 0.0, 1.0), means(later)), *parts]


def read_rates(path: str) -> pd.Series:
    return pd.Series({row["id"]: row["pass_rate"] for row in files.read_rows(path, {"id": str, "pass_rate": float})})


def counted(subsets: list[list[str]]) -> pd.Series:
    """{prompt: share of the subsets that have it}."""
    return pd.Series([name for subset in subsets for name in subset]).value_counts(sort=False) / len(subsets)
