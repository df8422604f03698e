"""Decide from the configuration of a study, before any run, whether the study has data for a
figure."""

import json

from hardgrpo.selection import policies
from hardgrpo.study import paths
from hardgrpo.study.study import Study


def has_training(study: Study) -> bool:
    return bool(paths.updates(study))


def has_rollouts(study: Study) -> bool:
    names = {run.recipe for run in study.runs} - {"recorded"}
    return any(not study.config.recipes[name].is_supervised for name in names)


def has_reach(study: Study) -> bool:
    return any(paths.has_reach(study, run.model, test) for run, test in study.tests_of_runs)


def is_compared(study: Study) -> bool:
    """Whether `hard` is trained beside another policy."""
    names = set(study.policies)
    return has_training(study) and "hard" in names and len(names) > 1


def has_budgets(study: Study) -> bool:
    """Whether a rule chooses subsets of more than one size."""
    entries = [study.config.policies[name] for name in study.policies]
    pairs = {
        (policy.rule, str(policy.budget))
        for policy in entries
        if policy.budget and not policy.probed_on
    }
    return has_training(study) and len(pairs) > len({rule for rule, _ in pairs})


def way_of_choosing(policy: dict) -> str:
    """The settings of a policy except the size of its budget, as text. Policies of one way differ
    only in this size, and their budgets are of one kind: a share of the pool, a number of prompts, or
    money."""
    budget = policy.get("budget")
    way = policy | {"budget": sorted(budget) if isinstance(budget, dict) else None}
    return json.dumps(way, sort_keys=True)


def budget_size(policy: dict) -> float:
    """A number by which the budgets of one way of choosing are sorted."""
    budget = policy.get("budget", 0)
    if not isinstance(budget, dict):
        return budget
    return budget["prompts"] if "prompts" in budget else budget["money"] / budget["label_price"]


def budget_lines(study: Study) -> dict[str, str]:
    """{policy: name of the line that joins the policy's point to the points of other budgets}. A
    line joins the policies of one way of choosing, and has the name of the policy with the largest
    budget."""
    ways = {name: way_of_choosing(study.config.policies[name].entry) for name in study.policies}
    largest_budget: dict[str, str] = {}
    for name in sorted(ways, key=lambda name: -budget_size(study.config.policies[name].entry)):
        largest_budget.setdefault(ways[name], name)
    return {name: largest_budget[way] for name, way in ways.items()}


def has_labels(study: Study) -> bool:
    """Whether the runs differ in the prompts whose labels they need (for example the whole pool,
    the chosen prompts, or none), and a policy chooses by another measure than the pass rate. False
    if `chooses_while_training`: figure `rollouts` shows the labels of such a study if its runs
    sample equally many rollouts (`chooses_at_equal_rollouts`)."""
    needs = {
        (
            policies.labels_before(study.config.policies[run.policy].entry),
            study.config.recipes[run.recipe].reward in (None, "correct"),
        )
        for run in study.runs
        if run.recipe in study.config.recipes
    }
    measures = {
        study.config.policies[name].measure
        for name in study.policies
        if name in study.config.policies
    }
    is_compared_by_labels = len(needs) > 1 and measures != {"pass_rate"}
    return has_training(study) and is_compared_by_labels and not chooses_while_training(study)


def chooses_while_training(study: Study) -> bool:
    """Whether a run chooses prompts while it trains, or has process rewards."""
    recipes = {run.recipe for run in study.runs} & set(study.config.recipes)
    return any(study.config.recipes[name].is_online for name in recipes)


def chooses_at_equal_rollouts(study: Study) -> bool:
    """Whether a run chooses prompts while it trains or has process rewards, and all runs of a task
    sample equally many rollouts."""
    return chooses_while_training(study) and "rollouts" in (study.held_constant or [])


def limits(study: Study) -> dict[str, int]:
    """{test: completion limit} of all tests that belong to a pair. Both tests of a pair grade the
    same completions: one test truncates them at a smaller limit (`cut_from`), the other test grades
    them as sampled."""
    token_limits = {}
    for model, task in {(run.model, run.task) for run in study.runs}:
        names = study.eval_tasks(task, model)
        pairs = [
            (cut, uncut) for cut in names if (uncut := study.config.tasks[cut].cut_from) in names
        ]
        token_limits |= {
            name: study.config.tasks[name].completion_tokens for pair in pairs for name in pair
        }
    return token_limits
