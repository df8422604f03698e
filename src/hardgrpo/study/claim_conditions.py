"""Facts about a study that determine which claims it can test."""

from hardgrpo.study import paths, settings


def conditions(config: dict, study: str) -> dict:
    """Facts that determine which claims a study can test, and to which base models its intervals
    generalise.

    `first_recipe`: the recipe of arms for which a claim names no recipe. `tasks`: the tests; tasks
    with the same problems have the same name under `problems`. `weaker`: tasks and models with the
    weaker signal. `own_bases`: models for which each replicate pretrains its own base.
    """
    plan, tests = config["studies"][study], paths.of_study(config, study)["tasks"]
    sources = {task: config["tasks"][task]["source"] for task in tests}
    first_with_source = lambda source: next(task for task in sources if sources[task] == source)
    return {
        "first_recipe": settings.first_recipe(plan),
        "tasks": {
            task: facts | {"problems": first_with_source(sources[task])}
            for task, facts in tests.items()
        },
        "weaker": plan.get("weaker_signal", []),
        "own_bases": [
            model for model in plan["models"] if settings.has_own_bases(config["models"][model])
        ],
    }
