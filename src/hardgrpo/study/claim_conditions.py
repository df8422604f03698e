"""Properties of a study that determine which claims it can test."""

from hardgrpo.study.study import Study


def conditions(study: Study) -> dict:
    """The arguments of `claims.Study` except the tables.

    `first_recipe`: the recipe of arms for which a claim names no recipe. `tasks`: {task that runs
    are tested on: its settings}; tasks with the same problems have the same value of `problems`.
    `weaker`: the tasks or models with a weaker learning signal (`weaker_signal` of the study). `own_bases`:
    models for which each replicate pretrains its own base model.
    """
    tests = sorted({test for _, _, test in study.tests})
    sources = {test: study.config.tasks[test].source for test in tests}
    first_with_source = lambda source: next(task for task in sources if sources[task] == source)
    return {
        "first_recipe": study.first_recipe,
        "tasks": {
            test: _facts(study, test) | {"problems": first_with_source(sources[test])}
            for test in tests
        },
        "weaker": study.weaker_signal or [],
        "own_bases": [name for name in study.models if study.config.models[name].has_own_bases],
    }


def _facts(study: Study, test: str) -> dict:
    entry, sampled = (
        study.config.tasks[test].entry,
        study.config.tasks[study.config.sampled_task(test)],
    )
    facts = {key: entry[key] for key in ("completion_tokens", "labelled") if key in entry}
    return facts | {"test": {"reach": sampled.test.reach.entry} if sampled.test.reach else {}}
