"""Properties of a study that determine which claims it can test."""

from hardgrpo.study import paths, settings
from hardgrpo.study.resolved import ResolvedStudy


def conditions(study: ResolvedStudy) -> dict:
    """The arguments of `claims.Study` except the tables.

    `first_recipe`: the recipe of arms for which a claim names no recipe. `tasks`: {task that runs
    are tested on: its settings}; tasks with the same problems have the same value of `problems`.
    `weaker`: the tasks or models with a weaker learning signal (`weaker_signal` of the study). `own_bases`:
    models for which each replicate pretrains its own base model.
    """
    tests = paths.study_part(study)["tasks"]
    sources = {task: study.tasks[task]["source"] for task in tests}
    first_with_source = lambda source: next(task for task in sources if sources[task] == source)
    return {
        "first_recipe": study.first_recipe,
        "tasks": {
            task: facts | {"problems": first_with_source(sources[task])}
            for task, facts in tests.items()
        },
        "weaker": study.entry.get("weaker_signal", []),
        "own_bases": [
            model for model in study.model_names if settings.has_own_bases(study.models[model])
        ],
    }
