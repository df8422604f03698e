"""Summary tables of the pool: the prompts that each policy chose, their difficulty, and the test
questions that are also in the pool."""

import json
from pathlib import Path

import pandas as pd

from hardgrpo.analysis.summary_tables import table
from hardgrpo.runtime import files
from hardgrpo.study import paths
from hardgrpo.study.model import model_of

CONFIDENT_AGREEMENT, WRONG_PASS_RATE = 0.5, 0.2  # definition of confidently wrong
SUBSET_KEYS = ["model", "task", "policy", "rule", "budget"]
# numbers that describe a subset: means over seeds
SUBSET_NUMBERS = [
    "pool",
    "prompts",
    "mean_pass_rate",
    "zero_share",
    "held_out_pass_rate",
    "held_out_zero_share",
    "boundary_pass_rate",
    "tied",
    "tied_chosen",
]


def read_rates(path: str) -> dict[str, float]:
    """{id: pass rate} of a table of difficulties."""
    return {
        row["id"]: row["pass_rate"]
        for row in files.read_rows(path, {"id": str, "pass_rate": float})
    }


def read_ids(path: str) -> list[str]:
    """The ids of a subset; `path` is the subset's JSON file."""
    return [row["id"] for row in files.read_rows(Path(path).with_suffix(".csv"), {"id": str})]


@table(f"{' '.join([*SUBSET_KEYS, *SUBSET_NUMBERS])} seeds")
def subsets(subset_files: list[str]) -> list[dict]:
    """The numbers that describe each policy's subset, averaged over seeds. If several seeds have
    the same base model, their subsets differ only in the choice among tied prompts (in a random
    choice, all prompts are tied), unless the policy has `by: predicted` or `rounds`."""
    rows = []
    for path in subset_files:
        base, task, policy = paths.choice_of(path)
        description = json.loads(files.read_text(path))
        budget = description["policy"].get("budget")
        rows.append(
            description
            | {
                "model": model_of(base),
                "task": task,
                "policy": policy,
                "rule": description["policy"]["rule"],
                "budget": description["prompts"] / description["pool"]
                if isinstance(budget, dict)
                else budget,
            }
        )
    if not rows:
        return []
    frame = pd.DataFrame(rows, columns=[*SUBSET_KEYS, *SUBSET_NUMBERS]).astype(
        dict.fromkeys(SUBSET_NUMBERS, float)
    )
    groups = frame.groupby(SUBSET_KEYS, sort=False, dropna=False)
    return (
        groups[SUBSET_NUMBERS].mean().assign(seeds=groups.size()).reset_index().to_dict("records")
    )


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
        if paths.pair_of(path) not in pools:
            continue  # a pool without reference answers
        agreement = {
            row["id"]: row["agreement"]
            for row in files.read_rows(path, {"id": str, "agreement": float})
        }
        pool = pools[paths.pair_of(path)]
        is_wrong = (pool.index.map(agreement) >= CONFIDENT_AGREEMENT) & (
            pool.pass_rate <= WRONG_PASS_RATE
        )
        pool["confidently_wrong"] = is_wrong.astype(float).where(pool.pass_rate.notna())
    rows = [
        {"model": model_of(base), "task": task, "policy": "pool"} | _means(pool, pool)
        for (base, task), pool in pools.items()
    ]
    for path in subset_files:
        base, task, policy = paths.choice_of(path)
        if (base, task) in pools:
            pool = pools[base, task]
            rows.append(
                {"model": model_of(base), "task": task, "policy": policy}
                | _means(pool.loc[read_ids(path)], pool)
            )
    if not rows:
        return []
    keys = ["model", "task", "policy"]
    groups = pd.DataFrame(rows).astype({"confidently_wrong": float}).groupby(keys, sort=False)
    return groups.mean().assign(seeds=groups.size()).reset_index().to_dict("records")


def _pool_rates(path: str) -> pd.DataFrame:
    """Pass rate and number of samples by id. If every prompt has held-out completions, only these
    completions count, else only the completions by which policies choose."""
    rows = files.read_rows(
        path,
        {"id": str, "pass_rate": float},
        {"held_out": int, "held_out_correct": int, "samples": int},
    )
    is_held_out = bool(rows) and all(row["held_out"] for row in rows)
    rates = [
        row["held_out_correct"] / row["held_out"] if is_held_out else row["pass_rate"]
        for row in rows
    ]
    samples = [row["held_out"] if is_held_out else row["samples"] for row in rows]
    columns = {"pass_rate": rates, "samples": samples, "confidently_wrong": None}
    return pd.DataFrame(columns, index=[row["id"] for row in rows]).astype(
        {"pass_rate": float, "samples": float}
    )


def _means(prompts: pd.DataFrame, pool: pd.DataFrame) -> dict:
    rates = prompts.pass_rate.dropna()
    return {
        "prompts": len(prompts),
        "pool": len(pool),
        "samples": pool.samples.min(),  # in recordings, prompts differ in their number of samples
        "pass_rate": rates.mean(),
        "never_solved": (rates == 0).mean() if len(rates) else None,
        "mixed": ((rates > 0) & (rates < 1)).mean() if len(rates) else None,
        "confidently_wrong": prompts.confidently_wrong.astype(float).mean(),
    }


@table("model task group pass_rate problems")
def difficulty(difficulty_files: list[str], subset_files: list[str]) -> list[dict]:
    """Histogram: how many problems have each pass rate, in the pool (mean over the replicates of a
    base model) and in each subset (mean over seeds).

    For a subset that was chosen without pass rates, the pool's pass rates are used if there are
    any."""
    groups: dict[tuple, list[list[float]]] = {}
    pools: dict[tuple, dict[str, float]] = {}
    for path in difficulty_files:
        base, task = paths.pair_of(path)
        pools[base, task] = read_rates(path)
        groups.setdefault((model_of(base), task, "pool"), []).append(
            list(pools[base, task].values())
        )
    for path in subset_files:
        base, task, policy = paths.choice_of(path)
        prompts = files.read_rows(Path(path).with_suffix(".csv"), {"id": str}, {"pass_rate": float})
        pool_rates = pools.get((base, task), {})
        rates = [
            pool_rates.get(row["id"]) if row["pass_rate"] is None else row["pass_rate"]
            for row in prompts
        ]
        groups.setdefault((model_of(base), task, policy), []).append(rates)
    rows = []
    order = list(dict.fromkeys(key[:2] for key in groups))
    for (model, task, group), rate_lists in sorted(
        groups.items(), key=lambda item: order.index(item[0][:2])
    ):
        rates = pd.Series(
            [rate for rate_list in rate_lists for rate in rate_list], dtype=float
        ).round(6).value_counts().sort_index() / len(rate_lists)
        rows += [
            {"model": model, "task": task, "group": group, "pass_rate": rate, "problems": count}
            for rate, count in rates.items()
        ]
    return rows


@table("task eval_task pool repeated near_in_pool problems equal near repeated_in_test")
def contamination(comparisons: list[dict]) -> list[dict]:
    """A row for each of `comparisons`, the return value of `pools.comparisons`."""
    rows = []
    for comparison in comparisons:
        pool, test = files.read_json(comparison["pool"]), files.read_json(comparison["test"])
        rows.append(
            {
                "task": comparison["task"],
                "eval_task": comparison["eval_task"],
                "pool": pool["problems"],
                "repeated": pool["repeated"],
                "near_in_pool": pool["near"],
                "problems": test["problems"],
                "equal": test["equal"],
                "near": test["near"],
                "repeated_in_test": test["repeated"],
            }
        )
    return rows
