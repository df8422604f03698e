"""Compare selection policies with a random choice of equally many prompts.

A case is a model, a task, a recipe and a budget. In each case, every policy with this budget is
compared with the policy of rule `random`, by the paired difference of gains on the task's own test.
Policies that use the probe of another task are left out. Holm's correction is over the comparisons
of one case.
"""

import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.selection.policies import affordable_prompts

LEVEL = 0.05
BETTER, WORSE, OPEN = "better", "worse", "no difference shown"


def verdict(difference: float, p: float) -> str:
    """BETTER, WORSE or OPEN. `p` is corrected for the comparisons of the case."""
    return OPEN if not p < LEVEL else BETTER if difference > 0 else WORSE


def comparisons(differences: pd.DataFrame, policies: dict[str, dict]) -> list[dict]:
    """The comparisons with a random choice, in the order of the table `differences`.

    `policies` holds the configuration of each policy. A comparison has the keys model, task,
    recipe, budget, policy, difference, low, high (the 95 % interval, not corrected for other
    comparisons), p (corrected) and seeds.
    """
    rows = []
    own_test = differences[differences.task == differences.eval_task]
    for (model, task), group in own_test.groupby(["model", "task"], sort=False):
        arms = [*zip(group.policy, group.recipe), *zip(group.minus, group.minus_recipe)]
        for budget, recipe, names in cases(policies, arms):
            random_policy = next(name for name in names if is_random(policies[name]))
            pairs = {
                name: difference_row(group, (name, recipe), (random_policy, recipe))
                for name in names
                if name != random_policy
            }
            pairs = {name: pair for name, pair in pairs.items() if pair is not None}
            case = {"model": model, "task": task, "recipe": recipe, "budget": budget}
            corrected = statistics.holm([pair["p"] for pair in pairs.values()])
            rows += [
                case | {"policy": name} | pair | {"p": float(p)}
                for (name, pair), p in zip(pairs.items(), corrected)
            ]
    return rows


def cases(
    policies: dict[str, dict], arms: list[tuple[str, str]]
) -> list[tuple[float, str, list[str]]]:
    """(budget, recipe, policies) of each case with a random choice and a further policy; an arm is
    (policy, recipe). A budget is a share of the pool, or the number of prompts that a budget of
    prompts or money pays for."""
    policies_by_case: dict[tuple, list[str]] = {}
    for name, recipe in dict.fromkeys(arms):
        policy = policies.get(name, {})
        if "budget" in policy and "probed_on" not in policy:
            budget = policy["budget"]
            size = affordable_prompts(budget) if isinstance(budget, dict) else budget
            policies_by_case.setdefault((size, recipe), []).append(name)
    return [
        (*case, names)
        for case, names in policies_by_case.items()
        if len(names) > 1 and any(is_random(policies[name]) for name in names)
    ]


def is_random(policy: dict) -> bool:
    return {key: value for key, value in policy.items() if key != "budget"} == {"rule": "random"}


def difference_row(
    differences: pd.DataFrame, arm: tuple[str, str], minus: tuple[str, str]
) -> dict | None:
    """The difference `arm` - `minus`, both (policy, recipe), with keys difference, low, high,
    p and seeds. The table may have the two arms in either order. None if the table does not compare
    them."""
    names = ["policy", "recipe", "minus", "minus_recipe"]
    for pair, sign in (([*arm, *minus], 1), ([*minus, *arm], -1)):
        for row in differences[(differences[names] == pair).all(axis=1)].itertuples():
            low, high = sorted((sign * row.difference_low, sign * row.difference_high))
            return {
                "difference": sign * row.difference,
                "low": low,
                "high": high,
                "p": row.p,
                "seeds": row.seeds,
            }
    return None
