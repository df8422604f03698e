"""The design and the prices of a study: the part of the configuration that the study's paper
describes."""

from hardgrpo.study import settings
from hardgrpo.study.resolved import ResolvedStudy


def prices(study: ResolvedStudy, gpu_hour: float, annotating_policy: str) -> dict:
    """The prices and counts from which a study's costs are computed.

    `gpu_hour`: the price of a GPU hour. `gpus`: {model: {recipe: number of GPUs}} in the study's
    order of recipes; 0 GPUs means the CPU. `label`: {policy: price of a label} of policies whose
    budget is money. A policy with rule `annotated` has the price of `annotating_policy`, the policy
    that chose the prompts to annotate.
    """
    gpu_counts = lambda model: {
        recipe: settings.training_gpus(study.models[model], study.recipes[recipe])["count"]
        for recipe in study.recipe_names
    }
    budget_of = lambda name: study.policies.get(name, {}).get("budget")
    is_annotated = lambda name: study.policies.get(name, {}).get("rule") == "annotated"
    budgets = {
        name: budget_of(annotating_policy if is_annotated(name) else name)
        for name in study.policy_names
    }
    return {
        "gpu_hour": gpu_hour,
        "gpus": {model: gpu_counts(model) for model in study.model_names},
        "label": {
            name: budget["label_price"]
            for name, budget in budgets.items()
            if isinstance(budget, dict) and "label_price" in budget
        },
    }


def names_of_ways(policies: dict[str, dict], recipes: dict[str, dict]) -> dict[str, dict]:
    """{"ways": {policy: way}, "recipes": {recipe: recipe}}, from the sections of the configuration.

    A way of choosing has the name of the first policy that chooses in the same way, whatever its
    budget. A recipe has the name of the first recipe that trains in the same way, whenever it saves
    checkpoints.
    """
    return {
        "ways": _first_alike(policies, without="budget"),
        "recipes": _first_alike(recipes, without="checkpoint_every"),
    }


def _first_alike(entries: dict[str, dict], without: str) -> dict[str, str]:
    compared = {
        name: {key: value for key, value in entry.items() if key != without}
        for name, entry in entries.items()
    }
    return {
        name: next(other for other in compared if compared[other] == settings)
        for name, settings in compared.items()
    }


def design(study: ResolvedStudy) -> dict:
    """The design of a study, from the configuration alone, for the text of the study's paper."""
    tasks = {name: study.tasks[name] for name in study.task_names}
    models = {name: study.models[name] for name in study.model_names}
    policies = {name: study.policies[name] for name in study.policy_names}
    task = next(iter(tasks.values()), {})
    recipe = study.recipes.get(study.first_recipe, {})
    trajectories = [model["source"] for model in models.values() if settings.is_trajectory(model)]
    budgets = {
        policy["budget"]
        for policy in policies.values()
        if isinstance(policy.get("budget"), float | int)
    }
    return {
        "study": study.name,
        "title": study.entry["title"],
        "models": study.model_names,
        "tasks": study.task_names,
        "cut_from": {
            name: entry["cut_from"] for name, entry in tasks.items() if "cut_from" in entry
        },
        "pretrained": any(map(settings.is_pretrained, models.values())),
        "own_bases": all(map(settings.has_own_bases, models.values())),
        "held_constant": study.entry.get("held_constant", []),
        "weaker_signal": study.entry.get("weaker_signal", []),
        "graders": sorted({entry["grader"] for entry in tasks.values()}),
        "policies": study.policy_names,
        "rules": sorted({policy["rule"] for policy in policies.values()}),
        "seeds": len(study.seeds),
        "budgets": sorted({min(budgets), max(budgets)}) if budgets else [],
        "probe_samples": task.get("probe", {}).get("samples"),
        # {task: completions per prompt of its probe}, without recorded probes
        "probes": {
            name: tasks[name]["probe"]["samples"]
            for model, name in study.pairs
            if not settings.is_recorded(models[model])
        },
        "test_samples": task.get("test", {}).get("samples"),
        "greedy": task.get("test", {}).get("greedy", False)
        and not settings.is_recorded(models[study.model_names[0]]),
        "completion_tokens": {name: entry["completion_tokens"] for name, entry in tasks.items()},
        "first_recipe": study.first_recipe,
        "recipe": recipe,
        "other_recipes": {
            name: settings.recipe_differences(study.recipes[name], recipe)
            for name in study.recipe_names[1:]
        },
        # A value n: policies choose by the pass rates in the first n epochs. Empty without
        # trajectories.
        "chosen_from": sorted({source["chosen_from"] for source in trajectories}),
        "origins": [source["origin"] for source in trajectories],
    }
