"""Translate studies of the old form (all combinations of `policies` and `recipes`, except
combinations in `exclude`) into arms."""

import yaml
from pydantic import BaseModel, ValidationError

from hardgrpo.study.settings import as_list

KEYS = ("policies", "recipes", "exclude")  # keys that only studies in the old form have


class OldStudy(BaseModel):
    """The keys that the translation reads. If a value has another type, the study is not
    translated, and the classes of the new form refuse the study."""

    models: list[str] = []
    tasks: list[str] = []
    policies: list[str] = []
    recipes: list[str] = []
    exclude: list[dict] | None = None
    also_tested_on: dict[str, list[str | dict]] = {}
    also_compared: list[list[str | dict]] = []


def is_old(study: object) -> bool:
    """Whether a study has the old form and can be translated."""
    try:
        pairs = OldStudy.model_validate(study).also_compared
    except ValidationError:
        return False
    return not set(KEYS).isdisjoint(study) or any(
        isinstance(arm, str) for pair in pairs for arm in pair
    )


def explain(studies: dict) -> list[str]:
    """Lines that say what to write instead of studies in the old form: a message, then lines of
    YAML. Empty if no study has the old form."""
    translations = {name: translate(study) for name, study in studies.items() if is_old(study)}
    if not translations:
        return []
    names = ", ".join(f"studies.{name}" for name in translations)
    text = yaml.safe_dump(
        {"studies": translations},
        sort_keys=False,
        default_flow_style=None,
        width=120,
        allow_unicode=True,
    )
    return [
        f"{names}: a study lists `arms`, no longer `policies`, `recipes` and `exclude`; write instead:",
        *text.splitlines(),
    ]


def translate(study: dict) -> dict:
    """A study in the new form with the same runs and tests as `study`. Missing keys of the old form
    count as empty."""
    new = {key: value for key, value in study.items() if key not in KEYS}
    if "policies" in study:
        new["arms"] = _arms(study)
    if "also_tested_on" in study:
        tests = {
            task: [_test(study, task, test) for test in names]
            for task, names in study["also_tested_on"].items()
        }
        new["also_tested_on"] = {
            task: entries
            for task, names in tests.items()
            if (entries := [test for test in names if test])
        }
    if "also_compared" in study:
        recipe = next(iter(study.get("recipes") or ["NAME"]))
        new["also_compared"] = [
            [_compared_arm(arm, recipe) for arm in pair] for pair in study["also_compared"]
        ]
    return new


def _compared_arm(arm: str | dict, first_recipe: str) -> dict:
    """An arm of `also_compared`, which the old form writes as "random, mini_beta" (policy and
    recipe) or "random" (policy with the first recipe)."""
    if isinstance(arm, dict):
        return arm
    policy, _, recipe = arm.partition(", ")
    return {"policy": policy, "recipe": recipe or first_recipe}


def _arms(study: dict) -> list[dict]:
    """Arms that together have the runs of an old study. Recipes, tasks and models with the same
    policies are in one arm."""
    models = study.get("models", [])
    tasks = study.get("tasks") or [None]
    recipes = study.get("recipes") or [None]
    # (policies of each recipe, tasks with these policies) -> models
    choices: dict[tuple, list] = {}
    for model in models:
        tasks_of: dict[tuple, list] = {}
        for task in tasks:
            policies_of_recipes = tuple(
                tuple(
                    policy
                    for policy in study["policies"]
                    if not _is_excluded(study, model, task, policy, recipe)
                )
                for recipe in recipes
            )
            tasks_of.setdefault(policies_of_recipes, []).append(task)
        for policies_of_recipes, same_tasks in tasks_of.items():
            choices.setdefault((policies_of_recipes, tuple(same_tasks)), []).append(model)
    arms = []
    for (policies_of_recipes, same_tasks), same_models in choices.items():
        for policies in dict.fromkeys(filter(None, policies_of_recipes)):  # distinct and not empty
            same_recipes = [
                recipe for recipe, names in zip(recipes, policies_of_recipes) if names == policies
            ]
            arms.append(
                {
                    "policy": list(policies),
                    "recipe": same_recipes,
                    "models": same_models,
                    "tasks": list(same_tasks),
                }
            )
    return [_short(arm, models, tasks) for arm in arms]


def _short(arm: dict, models: list, tasks: list) -> dict:
    """An arm without needless keys (`recipe` if the study has no recipes, `models` and `tasks` if
    they list all models or tasks), and with a name in place of a list of one name."""
    defaults = {"recipe": [None], "models": models, "tasks": tasks}
    return {
        key: names[0] if len(names) == 1 else names
        for key, names in arm.items()
        if names != defaults.get(key)
    }


def _test(study: dict, task: str, test: str | dict) -> str | dict | None:
    """The new form of `test`, an entry of `also_tested_on`; None if no model's runs of `task` are
    tested on `test`."""
    if isinstance(test, dict):
        return test
    models = [
        model
        for model in study.get("models", [])
        if not _is_excluded(study, model, task, tested_on=test)
    ]
    if models == study.get("models", []):
        return test
    return {"task": test, "models": models} if models else None


def _is_excluded(study: dict, model, task, policy=None, recipe=None, tested_on=None) -> bool:
    values = {
        "model": model,
        "task": task,
        "policy": policy,
        "recipe": recipe,
        "tested_on": tested_on,
    }
    return any(
        ("tested_on" in entry) == (tested_on is not None)
        and all(values.get(key) in as_list(names) for key, names in entry.items())
        for entry in study.get("exclude") or []
    )
