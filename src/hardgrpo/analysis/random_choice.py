"""Compare ways of choosing prompts with a random choice of equally many prompts.

A *way* is a policy without its budget. A *case* is a model, a task, a recipe and a budget. In each
case, every way is compared with the policy of rule `random`, by the paired difference of gains on
the task's own test. Policies that use the probe of another task are left out. Recipes that differ
only in when they save checkpoints are one recipe.

A comparison (a way in a case) has one p and one verdict, over all studies:

- If several studies make the comparison, the result of a primary claim counts, otherwise the result
  with the most replicates.
- A primary claim, which was named before its study was run, keeps its own p, which is corrected
  over the tasks of the claim.
- All other comparisons of a model, a task and a recipe are a family, whatever their budgets: their
  p-values are corrected together by Holm's method.
"""

from collections.abc import Iterable

import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.selection.policies import affordable_prompts

# columns of table against_random
COLUMNS = ["model", "task", "policy", "recipe", "way", "budget", "difference", "low", "high", "p"]
COLUMNS += ["seeds", "verdict", "decided_by"]
LEVEL = 0.05
BETTER, WORSE, OPEN = "better", "worse", "no difference shown"
CASE = ("model", "task", "recipe", "budget")
COMPARISON = ("way", *CASE)
FAMILY = ("model", "task", "recipe")


def verdict(difference: float, p: float) -> str:
    """BETTER, WORSE or OPEN, by the corrected p."""
    return OPEN if not p < LEVEL else BETTER if difference > 0 else WORSE


def comparisons(
    study: str,
    differences: pd.DataFrame,
    policies: dict[str, dict],
    names: dict[str, dict[str, str]],
    primary_p: dict[tuple, float],
) -> list[dict]:
    """The comparisons of a study with a random choice, in the order of its table `differences`.

    `policies` are the settings of the study's policies, `names` the return value of
    `designs.names_of_ways`, `primary_p` that of `claims.primary_differences`. A comparison has the keys of COMPARISON and
    study, policy, random_policy, trained_by (the study's own name of the recipe), difference, low, high (the 95 %
    interval, not corrected for other comparisons), p_before_family (for a primary claim, its p),
    primary and seeds.
    """
    rows = []
    own_test = differences[differences.task == differences.eval_task]
    for (model, task), group in own_test.groupby(["model", "task"], sort=False):
        arms = [*zip(group.policy, group.recipe), *zip(group.minus, group.minus_recipe)]
        compared = by_arms(group)
        for (budget, recipe), policy_names in cases(policies, arms).items():
            random_policy = next(filter(lambda name: is_random(policies[name]), policy_names), None)
            for name in policy_names:
                pair = (name, recipe), (random_policy, recipe)
                if pair not in compared:
                    continue
                row = {"study": study, "way": names["ways"][name], "policy": name} | compared[pair]
                own_p = primary_p.get((model, task, frozenset(pair)))
                row |= {"model": model, "task": task, "recipe": names["recipes"][recipe]}
                row |= {"budget": budget, "primary": own_p is not None}
                row |= {"trained_by": recipe, "random_policy": random_policy}
                rows.append(row if own_p is None else row | {"p_before_family": own_p})
    return rows


def decide(rows: Iterable[dict]) -> list[dict]:
    """One row for each comparison, with p and verdict: of the rows of several studies, the row that
    the module's docstring names; of equal rows, the first."""
    by_comparison: dict[tuple, dict] = {}
    for row in rows:
        key = comparison_of(row)
        rank = lambda entry: (entry["primary"], entry["seeds"])
        if key not in by_comparison or rank(row) > rank(by_comparison[key]):
            by_comparison[key] = row
    p_values: dict[tuple, float] = {}
    families: dict[tuple, dict[tuple, float]] = {}  # {family: {comparison: uncorrected p}}
    for key, row in by_comparison.items():
        if row["primary"]:
            p_values[key] = float(row["p_before_family"])
        else:
            family = tuple(row[name] for name in FAMILY)
            families.setdefault(family, {})[key] = row["p_before_family"]
    for uncorrected in families.values():
        corrected = statistics.holm(list(uncorrected.values()))
        p_values |= dict(zip(uncorrected, map(float, corrected)))
    return [
        row | {"p": p_values[key], "verdict": verdict(row["difference"], p_values[key])}
        for key, row in by_comparison.items()
    ]


def add_verdicts(rows: list[dict], other_rows: Iterable[dict]) -> list[dict]:
    """The comparisons of one study (`rows`), with p and verdict of the study that decides each of
    them (`decided_by`). `recipe` is replaced by `trained_by`. `other_rows` are the comparisons of the
    other studies."""
    deciding_rows = {comparison_of(row): row for row in decide([*other_rows, *rows])}
    return [
        row
        | {name: deciding_rows[comparison_of(row)][name] for name in ("p", "verdict")}
        | {"decided_by": deciding_rows[comparison_of(row)]["study"], "recipe": row["trained_by"]}
        for row in rows
    ]


def comparison_of(row: dict) -> tuple:
    return tuple(row[name] for name in COMPARISON)


def cases(
    policies: dict[str, dict], arms: list[tuple[str, str]]
) -> dict[tuple[float, str], list[str]]:
    """{(budget, recipe): policies}; an arm is (policy, recipe). A budget is a share of the pool, or
    the number of prompts that a budget of prompts or money pays for."""
    policies_by_case: dict[tuple, list[str]] = {}
    for name, recipe in dict.fromkeys(arms):
        policy = policies.get(name, {})
        if "budget" in policy and "probed_on" not in policy:
            budget = policy["budget"]
            size = affordable_prompts(budget) if isinstance(budget, dict) else budget
            policies_by_case.setdefault((size, recipe), []).append(name)
    return policies_by_case


def is_random(policy: dict) -> bool:
    return policy["rule"] == "random" and policy.keys() <= {"rule", "budget"}


def by_arms(differences: pd.DataFrame) -> dict[tuple, dict]:
    """{(arm, arm to subtract): the difference}, both (policy, recipe), in either order, with keys
    difference, low, high, p_before_family and seeds."""
    rows = {}
    for row in differences.itertuples():
        arms = (row.policy, row.recipe), (row.minus, row.minus_recipe)
        for pair, sign in ((arms, 1), (arms[::-1], -1)):
            low, high = sorted((sign * row.difference_low, sign * row.difference_high))
            rows[pair] = {"difference": sign * row.difference, "low": low, "high": high}
            rows[pair] |= {"p_before_family": row.p, "seeds": row.seeds}
    return rows
