"""The design and the prices of a study: the part of the configuration that the study's paper
describes."""

from hardgrpo.study.policy import Money, Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.strict import Strict, plain
from hardgrpo.study.study import Study


def prices(study: Study, gpu_hour: float, annotating_policy: str) -> dict:
    """The prices and counts from which a study's costs are computed.

    `gpu_hour`: the price of a GPU hour. `gpus`: {model: {recipe: number of GPUs}} in the study's
    order of recipes; 0 GPUs means the CPU. `label`: {policy: price of a label} of policies whose
    budget is money. A policy with rule `annotated` has the price of `annotating_policy`, the policy
    that chose the prompts to annotate.
    """
    gpu_counts = lambda model: {
        recipe: study.config.models[model].training_gpus(study.config.recipes[recipe]).count
        for recipe in study.recipes
    }
    budget_of = lambda name: (
        study.config.policies[name].budget if name in study.config.policies else None
    )
    is_annotated = lambda name: (
        name in study.config.policies and study.config.policies[name].rule == "annotated"
    )
    budgets = {
        name: budget_of(annotating_policy if is_annotated(name) else name)
        for name in study.policies
    }
    return {
        "gpu_hour": gpu_hour,
        "gpus": {model: gpu_counts(model) for model in study.models},
        "label": {
            name: budget.label_price
            for name, budget in budgets.items()
            if isinstance(budget, Money)
        },
    }


def names_of_ways(policies: dict[str, Policy], recipes: dict[str, Recipe]) -> dict[str, dict]:
    """{"ways": {policy: way}, "recipes": {recipe: recipe}}, from the sections of the configuration.

    A way of choosing has the name of the first policy that chooses in the same way, whatever its
    budget. A recipe has the name of the first recipe that trains in the same way, whenever it saves
    checkpoints.
    """
    return {
        "ways": _first_alike(policies, without="budget"),
        "recipes": _first_alike(recipes, without="checkpoint_every"),
    }


def _first_alike(entries: dict[str, Strict], without: str) -> dict[str, str]:
    compared = {
        name: {key: value for key, value in plain(entry).items() if key != without}
        for name, entry in entries.items()
    }
    return {
        name: next(other for other in compared if compared[other] == settings)
        for name, settings in compared.items()
    }


def design(study: Study) -> dict:
    """The design of a study, from the configuration alone, for the text of the study's paper."""
    tasks = {name: study.config.tasks[name] for name in study.tasks}
    models = [study.config.models[name] for name in study.models]
    policies = [study.config.policies[name] for name in study.policies]
    task = next(iter(tasks.values()), None)
    test = task and task.test
    recipe = study.config.recipes.get(study.first_recipe)
    trajectories = [model.source for model in models if model.is_trajectory]
    budgets = {policy.budget for policy in policies if isinstance(policy.budget, float)}
    return {
        "study": study.name,
        "title": study.title,
        "models": study.models,
        "tasks": study.tasks,
        "pretrained": any(model.is_pretrained for model in models),
        "own_bases": all(model.has_own_bases for model in models),
        "held_constant": study.held_constant or [],
        "graders": sorted({entry.grader for entry in tasks.values()}),
        "policies": study.policies,
        "rules": sorted({policy.rule for policy in policies}),
        "seeds": len(study.seeds),
        "budgets": sorted({min(budgets), max(budgets)}) if budgets else [],
        "probe_samples": task and task.probe.samples,
        # {task: completions per prompt of its probe}, without recorded probes
        "probes": {
            name: tasks[name].probe.samples
            for model, name in study.pairs
            if not study.config.models[model].is_recorded
        },
        "test_samples": test and test.samples,
        "greedy": bool(test and test.greedy) and not models[0].is_recorded,
        "completion_tokens": {name: entry.completion_tokens for name, entry in tasks.items()},
        "first_recipe": study.first_recipe,
        "recipe": recipe.entry if recipe else {},
        "other_recipes": {
            name: study.config.recipes[name].differences(recipe) for name in study.recipes[1:]
        },
        # A value n: policies choose by the pass rates in the first n epochs. Empty without
        # trajectories.
        "chosen_from": sorted({source.chosen_from for source in trajectories}),
        "origins": [source.origin for source in trajectories],
    }
