"""Properties of a study that determine which claims it can test."""

from hardgrpo.study.study import Study


def conditions(study: Study) -> dict:
    """The arguments of `claims.Study` except the tables.

    `first_recipe`: the recipe of arms for which a claim names no recipe. `tasks`: {task that runs
    are tested on: its settings}; tasks with the same problems have the same value of `problems`.
    `weaker`: the tasks or models with a weaker learning signal (`weaker_signal` of the study). `own_bases`:
    models for which each replicate pretrains its own base model.
    """
    tests = {test: study.config.tasks[test] for test in sorted({test for *_, test in study.tests})}
    first_with_source = lambda source: next(name for name in tests if tests[name].source == source)
    return {
        "first_recipe": study.first_recipe,
        "tasks": {
            name: {
                "completion_tokens": task.completion_tokens,
                "problems": first_with_source(task.source),
            }
            for name, task in tests.items()
        },
        "weaker": study.weaker_signal or [],
        "own_bases": [name for name in study.models if study.config.models[name].has_own_bases],
    }
