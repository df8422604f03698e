"""What decides which claims a study can test."""

from hardgrpo.study import paths, settings


def conditions(config: dict, study: str) -> dict:
    """Facts that decide which claims a study can test, and which base models its intervals are about.

    `first_recipe`: the recipe of arms for which a claim names none. Tasks over the same problems have the same name under `problems`. `weaker`: tasks and models with the weaker signal.
    `own_bases`: models of which each replicate pretrains a base of its own.
    """
    tested = paths.of_study(config, study)["tasks"]
    shared = {}
    for task in tested:
        source = config["tasks"][task]["source"]
        same = next((name for name in shared if config["tasks"][name]["source"] == source), task)
        shared[task] = shared.get(same, task)
    return {
        "first_recipe": settings.first_recipe(config["studies"][study]),
        "tasks": {task: facts | {"problems": shared[task]} for task, facts in tested.items()},
        "weaker": config["studies"][study].get("weaker_signal", []),
        "own_bases": [model for model in config["studies"][study]["models"] if settings.has_own_bases(config["models"][model])],
    }
