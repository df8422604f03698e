"""Summary tables of the pool: the prompts that each policy chose, their difficulty, and the test
questions that are also in the pool."""

from pathlib import Path

import pandas as pd

from hardgrpo.analysis.summary_tables import table
from hardgrpo.runtime import files
from hardgrpo.study import paths
from hardgrpo.study.model import model_of

CONFIDENT_AGREEMENT, WRONG_PASS_RATE = 0.5, 0.2  # definition of confidently wrong
SUBSET_KEYS = ["model", "task", "policy", "rule", "budget"]
# numbers that describe a subset: means over seeds
SUBSET_NUMBERS = ["pool", "prompts", "mean_pass_rate", "zero_share", "held_out_pass_rate"]
SUBSET_NUMBERS += ["held_out_zero_share", "boundary_pass_rate", "tied", "tied_chosen"]
POLICY_KEYS = ["model", "task", "policy"]


def read_prompts(path: str | Path) -> pd.DataFrame:
    """The CSV file of a pool or of a subset, with a row for each prompt, indexed by id. Empty cells
    are nan. For a subset, `path` may be its JSON file."""
    options = {"dtype": {"id": str}, "keep_default_na": False, "na_values": [""]}
    return pd.read_csv(Path(path).with_suffix(".csv"), index_col="id", **options)


def _keys(path: str) -> dict[str, str]:
    base, task, policy = paths.choice_of(path)
    return {"model": model_of(base), "task": task, "policy": policy}


def _over_seeds(frame: pd.DataFrame, keys: list[str]) -> list[dict]:
    """Means of the rows with the same keys, with their number as `seeds`."""
    groups = frame.groupby(keys, sort=False, dropna=False)
    return groups.mean().assign(seeds=groups.size()).reset_index().to_dict("records")


@table(f"{' '.join([*SUBSET_KEYS, *SUBSET_NUMBERS])} seeds")
def subsets(subset_files: list[str]) -> list[dict]:
    """The numbers that describe each policy's subset, averaged over seeds. If several seeds have
    the same base model, their subsets differ only in the choice among tied prompts (in a random
    choice, all prompts are tied), unless the policy has `by: predicted` or `rounds`."""
    rows = []
    for path in subset_files:
        description = files.read_json(path)
        rule, budget = description["policy"]["rule"], description["policy"].get("budget")
        if isinstance(budget, dict):
            budget = description["prompts"] / description["pool"]
        rows.append(description | _keys(path) | {"rule": rule, "budget": budget})
    frame = pd.DataFrame(rows, columns=[*SUBSET_KEYS, *SUBSET_NUMBERS])
    return _over_seeds(frame.astype(dict.fromkeys(SUBSET_NUMBERS, float)), SUBSET_KEYS)


@table(
    "model task policy pool prompts samples pass_rate never_solved mixed confidently_wrong seeds"
)
def chosen(
    subset_files: list[str], difficulty_files: list[str], signal_files: list[str]
) -> list[dict]:
    """The difficulty of each policy's subset and of the whole pool (policy `pool`). Values are
    means over seeds.

    If the probe has held-out completions, which no policy uses, pass rates are those of the
    held-out completions. `mixed` is the share of prompts whose samples are neither all correct nor
    all wrong. `confidently_wrong` is the share of prompts whose agreement is at least
    CONFIDENT_AGREEMENT and whose pass rate is at most WRONG_PASS_RATE; nan if no policy uses
    signals. The means omit prompts without a reference answer.
    """
    pools = {paths.pair_of(path): _pool_rates(path) for path in difficulty_files}
    for path in signal_files:
        pool = pools.get(paths.pair_of(path))
        if pool is None:
            continue  # a pool without reference answers
        agreement = read_prompts(path).agreement.reindex(pool.index)
        is_wrong = (agreement >= CONFIDENT_AGREEMENT) & (pool.pass_rate <= WRONG_PASS_RATE)
        pool["confidently_wrong"] = is_wrong.astype(float).where(pool.pass_rate.notna())
    rows = [
        {"model": model_of(base), "task": task, "policy": "pool"} | _means(pool, pool)
        for (base, task), pool in pools.items()
    ]
    for path in subset_files:
        pool = pools.get(paths.choice_of(path)[:2])
        if pool is not None:
            rows.append(_keys(path) | _means(pool.loc[read_prompts(path).index], pool))
    return _over_seeds(pd.DataFrame(rows), POLICY_KEYS) if rows else []


def _pool_rates(path: str) -> pd.DataFrame:
    """Pass rate and number of samples by id. If every prompt has held-out completions, only these
    completions count, else only the completions by which policies choose."""
    prompts = read_prompts(path)
    if "held_out" in prompts and prompts.held_out.fillna(0).all():
        rates, samples = prompts.held_out_correct / prompts.held_out, prompts.held_out
    else:
        rates, samples = prompts.pass_rate, prompts.get("samples", float("nan"))
    return pd.DataFrame({"pass_rate": rates, "samples": samples, "confidently_wrong": float("nan")})


def _means(prompts: pd.DataFrame, pool: pd.DataFrame) -> dict:
    rates = prompts.pass_rate.dropna()
    return {
        "prompts": len(prompts),
        "pool": len(pool),
        "samples": pool.samples.min(),  # in recordings, prompts differ in their number of samples
        "pass_rate": rates.mean(),
        "never_solved": (rates == 0).mean(),
        "mixed": ((rates > 0) & (rates < 1)).mean(),
        "confidently_wrong": prompts.confidently_wrong.mean(),
    }


@table("model task group pass_rate problems")
def difficulty(difficulty_files: list[str], subset_files: list[str]) -> list[dict]:
    """Histogram: how many problems have each pass rate, in the pool (mean over the replicates of a
    base model) and in each subset (mean over seeds).

    For a subset that was chosen without pass rates, the pool's pass rates are used if there are
    any."""
    groups: dict[tuple, list[pd.Series]] = {}
    pools = {paths.pair_of(path): read_prompts(path).pass_rate for path in difficulty_files}
    for (base, task), rates in pools.items():
        groups.setdefault((model_of(base), task, "pool"), []).append(rates)
    for path in subset_files:
        prompts = read_prompts(path)
        pool = pools.get(paths.choice_of(path)[:2], pd.Series(dtype=float))
        rates = pool.reindex(prompts.index)
        if "pass_rate" in prompts:
            rates = prompts.pass_rate.fillna(rates)
        groups.setdefault(tuple(_keys(path).values()), []).append(rates)
    rows = []
    order = list(dict.fromkeys(key[:2] for key in groups))
    for key, rates in sorted(groups.items(), key=lambda item: order.index(item[0][:2])):
        counts = pd.concat(rates).round(6).value_counts().sort_index() / len(rates)
        keys = dict(zip(("model", "task", "group"), key))
        rows += [keys | {"pass_rate": rate, "problems": count} for rate, count in counts.items()]
    return rows


@table("task eval_task pool repeated near_in_pool problems equal near repeated_in_test")
def contamination(comparisons: list[dict]) -> list[dict]:
    """A row for each of `comparisons`, the return value of `pools.comparisons`."""
    rows = []
    for comparison in comparisons:
        pool, test = files.read_json(comparison["pool"]), files.read_json(comparison["test"])
        row = {name: comparison[name] for name in ("task", "eval_task")}
        row |= {
            "pool": pool["problems"],
            "repeated": pool["repeated"],
            "near_in_pool": pool["near"],
        }
        row |= {name: test[name] for name in ("problems", "equal", "near")}
        rows.append(row | {"repeated_in_test": test["repeated"]})
    return rows
