"""Decide from the configuration, before any run, whether a study has data for a figure."""

import json

from hardgrpo.analysis import arms, published
from hardgrpo.selection import policies
from hardgrpo.study import paths, settings


def has_training(config: dict, study: str) -> bool:
    return bool(paths.updates(config, study))


def has_rollouts(config: dict, study: str) -> bool:
    """Whether a run samples rollouts."""
    names = {run.recipe for run in paths.runs(config, study)} - {"recorded"}
    return any(not settings.is_supervised(config["recipes"][name]) for name in names)


def tests(config: dict, study: str) -> set[tuple[str, str]]:
    """{(task trained on, test)}."""
    return {
        (run.task, test)
        for run in paths.runs(config, study)
        for test in paths.eval_tasks(config, study, run.task, run.model)
    }


def has_reach(config: dict, study: str) -> bool:
    """Whether the reach of a base model is measured."""
    runs = paths.runs(config, study)
    return any(
        paths.has_reach(config, run.model, test)
        for run in runs
        for test in paths.eval_tasks(config, study, run.task, run.model)
    )


def has_leads(config: dict, study: str) -> bool:
    """Whether there are more than three base models, with `hard` trained beside another policy."""
    bases, names = (
        {run.base for run in paths.runs(config, study)},
        set(settings.policies_of(config["studies"][study])),
    )
    return has_training(config, study) and len(bases) > 3 and "hard" in names and len(names) > 1


def is_compared(config: dict, study: str) -> bool:
    """Whether `hard` is trained beside another policy."""
    names = set(settings.policies_of(config["studies"][study]))
    return has_training(config, study) and "hard" in names and len(names) > 1


def has_tiers(config: dict, study: str) -> bool:
    """Whether the configuration says that problems of a test have tiers. Tiers in a user's own rows
    are not known yet."""
    return any(settings.has_tiers(config["tasks"][test]) for _, test in tests(config, study))


def has_budgets(config: dict, study: str) -> bool:
    """Whether a rule chooses subsets of more than one size."""
    entries = [config["policies"][name] for name in settings.policies_of(config["studies"][study])]
    pairs = {
        (policy["rule"], str(policy["budget"]))
        for policy in entries
        if "budget" in policy and "probed_on" not in policy
    }
    return has_training(config, study) and len(pairs) > len({rule for rule, _ in pairs})


def lines(config: dict, study: str) -> dict[str, str]:
    """{policy: policy with the largest budget among all policies with the same settings except the
    budget}."""
    rule_of = lambda name: json.dumps(
        {key: value for key, value in config["policies"][name].items() if key != "budget"},
        sort_keys=True,
    )

    def size(name: str) -> tuple[bool, float]:
        budget = config["policies"].get(name, {}).get("budget", 0)
        if isinstance(budget, dict):  # a number of prompts, or money
            return False, -(
                budget["prompts"]
                if "prompts" in budget
                else budget["money"] / budget["label_price"]
            )
        return True, -budget

    policy_names = sorted(settings.policies_of(config["studies"][study]), key=size)
    largest_budget: dict[str, str] = {}
    for name in policy_names:
        largest_budget.setdefault(rule_of(name), name)
    return {
        name: largest_budget[rule_of(name)]
        for name in settings.policies_of(config["studies"][study])
    }


def has_labels(config: dict, study: str) -> bool:
    """Whether runs differ in the labels that they need: of the whole pool, of the chosen prompts,
    or none. False if a run chooses prompts while it trains, because figure `rollouts` then shows
    the labels."""
    plan = config["studies"][study]
    needs = {
        (
            policies.labels_before(config["policies"][run.policy]),
            config["recipes"][run.recipe].get("reward", "correct") == "correct",
        )
        for run in paths.runs(config, study)
        if run.recipe in config["recipes"]
    }
    by = {
        config["policies"][name].get("by", "pass_rate")
        for name in settings.policies_of(plan)
        if name in config["policies"]
    }
    differ = len(needs) > 1 and by != {"pass_rate"}
    return has_training(config, study) and differ and not chooses_while_training(config, study)


def chooses_while_training(config: dict, study: str) -> bool:
    """Whether a run chooses prompts while it trains, or has process rewards."""
    recipes = {run.recipe for run in paths.runs(config, study)} & set(config["recipes"])
    return any(settings.is_online(config["recipes"][name]) for name in recipes)


def chooses_at_equal_rollouts(config: dict, study: str) -> bool:
    """Whether a run chooses prompts while it trains, and all runs of a task sample equally many
    rollouts."""
    return chooses_while_training(config, study) and "rollouts" in config["studies"][study].get(
        "held_constant", []
    )


def limits(config: dict, study: str) -> dict[str, int]:
    """{test: completion limit} of all pairs of tests that grade the same completions, one test
    truncated and the other uncut."""
    token_limits = {}
    for model, task in {(run.model, run.task) for run in paths.runs(config, study)}:
        names = paths.eval_tasks(config, study, task, model)
        pairs = [
            (cut, uncut)
            for cut in names
            if (uncut := config["tasks"][cut].get("cut_from")) in names
        ]
        token_limits |= {
            name: config["tasks"][name]["completion_tokens"] for pair in pairs for name in pair
        }
    return token_limits


def is_published(config: dict, study: str) -> bool:
    """Whether a paper published a number for a cell of the study."""
    plan = config["studies"][study]
    cells = {
        (run.model, run.task, test, policy)
        for run in paths.runs(config, study)
        for test in paths.eval_tasks(config, study, run.task, run.model)
        for policy in (arms.label(run.policy, run.recipe, settings.first_recipe(plan)), "base")
    }
    return bool(cells) and published.overlap(cells, paths.PUBLISHED)
