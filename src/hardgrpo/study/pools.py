"""Pools: the problems of a task that a base model is sampled on, and the tests that they must not share questions with."""

import os

from hardgrpo.study import paths, settings


def problems(config: dict, base: str, task: str, split: str = "train") -> str:
    """The problems of a split that fit into a base model's context. Recorded completions are of all problems."""
    if settings.is_recorded(config, base):
        return paths.problems(task, split)
    return paths.pool(base, settings.sampled_task(config["tasks"], task), split)


def questions(config: dict, base: str, task: str) -> str:
    """The problems of a base model's pool without their answers."""
    if settings.is_recorded(config, base):
        return paths.questions(task)
    return paths.pool(base, settings.sampled_task(config["tasks"], task), "questions")


def own_comparison(tasks: dict, name: str) -> list[str]:
    """The comparison of a task's pool with the test split of the same task, if there is one. `tasks` is the section of the configuration."""
    sampled = settings.sampled_task(tasks, name)
    return [paths.contamination(sampled, sampled)] if tasks[sampled]["source"].get("test") else []


def comparisons(config: dict, study: str) -> list[dict]:
    """Each pool and test of a study: `task`, `eval_task`, and the JSON files of counts of the `pool` and of the `test`."""
    return [
        {
            "task": task,
            "eval_task": test,
            "pool": paths.pool_comparison(settings.sampled_task(config["tasks"], task), "json"),
            "test": paths.contamination(
                settings.sampled_task(config["tasks"], task), settings.sampled_task(config["tasks"], test), "json"
            ),
        }
        for task, test in _tested(config, study)
    ]


def _tested(config: dict, study: str) -> list[tuple[str, str]]:
    """(task that is trained on, task of a test that follows) of a study of models with weights. What recorded models were trained on is
    not known here."""
    plan = config["studies"][study]
    tested = [
        (task, test)
        for model, task in settings.pairs(config, plan)
        if settings.has_weights(config, model)
        for test in settings.eval_tasks(plan, task, model)
    ]
    return list(dict.fromkeys(tested))


def shared_part(task: dict, test: dict) -> str | None:
    """The file or part of a dataset that is both in the train split of `task` and in the test split of `test`; None if there is none."""
    test_parts = _parts(test["source"], "test")
    return next((part for part in _parts(task["source"], "train") if part in test_parts), None)


def _parts(source: dict, split: str) -> list[str]:
    if source["kind"] == "files":
        return [os.path.normpath(path) for path in settings.as_list(source.get(split, []))]
    keys = ("dataset", "revision", "name", "split", "rows")
    parts = source.get(split, []) if source["kind"] == "hub" else []
    return [", ".join(f"{key} {part[key]}" for key in keys if key in part) for part in parts]
