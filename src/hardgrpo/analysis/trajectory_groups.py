"""Summary table of trajectories: outcomes of groups of rollouts over a recorded training run, by
policy."""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimates
from hardgrpo.analysis.pools import read_prompts
from hardgrpo.analysis.summary_tables import table
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import paths

# largest number of stretches, for curves, into which the later epochs (those by which no policy
# chooses) are divided
STRETCHES = 10
# Number of groups of prompts; the jackknife leaves out each group once. The groups must be large:
# many pass rates are tied, so leaving out a few prompts often does not change a policy's subset.
GROUPS = 10
OUTCOMES = ["mixed", "all_right", "all_wrong", "pass_rate"]


@table(
    "model task policy stretch begin end mixed± all_right± all_wrong± pass_rate± never_solved epochs"
    " prompts seeds"
)
def trajectories(
    trajectory_files: list[str], difficulty_files: list[str], subset_files: list[str]
) -> list[dict]:
    """Mean outcomes of the prompts that each policy chooses by their pass rates in the first epochs
    of a run. The means are over all later epochs (`stretch` is None) and over each stretch of the
    later epochs.

    The outcomes of a prompt are means over the prompt's epochs. A prompt's weight is the share of
    seeds whose subset contains the prompt, so that ties are averaged over seeds. Intervals are by
    `statistics.jackknife` over groups of prompts.
    """
    rows = []
    for path in trajectory_files:
        model, task = paths.pair_of(path)
        outcomes = by_stretch(read_prompts(path).reset_index())
        (difficulty,) = (file for file in difficulty_files if paths.pair_of(file) == (model, task))
        rates = read_prompts(difficulty).pass_rate.to_dict()
        groups = random_groups(list(rates), GROUPS)
        for policy, selections in read_subsets(subset_files, model, task).items():
            weights = selection_shares([ids for _, ids, _ in selections])
            weights_without_group = selections_without_groups(
                groups, rates, selections[0][2], [seed for seed, _, _ in selections]
            )
            columns = {
                "never_solved": mean(pd.Series(rates).eq(0), weights),
                "prompts": weights.sum(),
                "seeds": len(selections),
            }
            for (stretch, begin, end), means in outcomes:
                row = {"model": model, "task": task, "policy": policy}
                row |= {"stretch": stretch, "begin": begin, "end": end}
                for name in OUTCOMES:
                    left_out = np.array(
                        [mean(means[name], shares) for shares in weights_without_group]
                    )
                    over_all_prompts = mean(means[name], weights)
                    row |= estimates(**{name: statistics.jackknife(over_all_prompts, left_out)})
                rows.append(row | {"epochs": mean(means.epochs, weights)} | columns)
    return rows


def by_stretch(later: pd.DataFrame) -> list[tuple[tuple, pd.DataFrame]]:
    """[((stretch, begin, end), mean outcomes of each prompt)], first over all epochs, then over
    each stretch.

    `begin` and `end` are shares of the later epochs. Prompts may have different numbers of epochs.
    A stretch covers the same share of each prompt's epochs.
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
    means = lambda rows: (
        rows.groupby("id")[OUTCOMES].mean().assign(epochs=rows.groupby("id").size())
    )
    parts = [
        ((index + 1, index / stretches, (index + 1) / stretches), means(later[stretch == index]))
        for index in range(stretches)
    ]
    return [((None, 0.0, 1.0), means(later)), *parts]


def read_subsets(
    subset_paths: list[str], model: str, prompts: str
) -> dict[str, list[tuple[int, list[str], dict]]]:
    """{policy: [(seed, chosen ids, the policy's settings)]}."""
    subsets: dict[str, list] = {}
    for path in subset_paths:
        *pair, policy = paths.choice_of(path)
        if pair == [model, prompts]:
            description, ids = files.read_json(path), read_prompts(path).index.tolist()
            subset = description["seed"], ids, description["policy"]
            subsets.setdefault(policy, []).append(subset)
    return subsets


def selection_shares(subsets: list[list[str]]) -> pd.Series:
    """{prompt: share of the subsets that contain the prompt}."""
    return pd.Series([name for subset in subsets for name in subset]).value_counts(
        sort=False
    ) / len(subsets)


def mean(values: pd.Series, weights: pd.Series) -> float:
    return float(np.average(values[weights.index], weights=weights))


def random_groups(ids: list[str], groups: int) -> list[set[str]]:
    """Split the prompts at random into groups whose sizes differ by at most one. Every call returns
    the same groups."""
    shuffled = sorted(ids, key=lambda name: policies.tie_break(name, 0, "group"))
    return [set(shuffled[index::groups]) for index in range(min(groups, len(ids)))]


def selections_without_groups(
    groups: list[set[str]], rates: dict[str, float], policy: dict, seeds: list[int]
) -> list[pd.Series]:
    """For each group, `selection_shares` of the policy in the pool without this group. [] if the
    policy cannot choose from one of these pools.

    The policy chooses again from each smaller pool, because the boundary of a subset depends on the
    pool.
    """
    settings = dict(policy)
    settings.pop("by", None)  # always pass_rate here
    choose = lambda rates, seed: policies.select(rates, seed=seed, **settings).ids
    pools = [{name: rates[name] for name in rates if name not in group} for group in groups]
    try:
        return [selection_shares([choose(pool, seed) for seed in seeds]) for pool in pools]
    except UserError:
        return []
