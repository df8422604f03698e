"""Pools: the files of the problems for which completions of a base model are sampled, and the tests
whose questions must not be in a pool."""

import os

from hardgrpo.study import paths, settings
from hardgrpo.study.resolved import ResolvedStudy


def problems(models: dict, tasks: dict, base: str, task: str, split: str = "train") -> str:
    """The file of the problems of a split that fit into a base model's context. For recorded models
    and models behind a server, no tokenizer is available, and the file has all problems of the
    split. `models` and `tasks` are sections of the configuration."""
    if _has_tokenizer(models, base):
        return paths.pool(base, settings.sampled_task(tasks, task), split)
    return paths.problems(task, split)


def questions(models: dict, tasks: dict, base: str, task: str) -> str:
    """The file of the problems of a base model's pool, without the answers."""
    if _has_tokenizer(models, base):
        return paths.pool(base, settings.sampled_task(tasks, task), "questions")
    return paths.questions(task)


def _has_tokenizer(models: dict, base: str) -> bool:
    model = settings.entry(models, base)
    return not (settings.is_recorded(model) or settings.is_served(model))


def own_comparison(tasks: dict, name: str) -> list[str]:
    """[the file that compares a task's pool with the task's own test split]; [] without a test
    split. `tasks` is the section of the configuration."""
    sampled = settings.sampled_task(tasks, name)
    return [paths.contamination(sampled, sampled)] if tasks[sampled]["source"].get("test") else []


def comparisons(study: ResolvedStudy) -> list[dict]:
    """A row for each pool and test of a study, with keys `task`, `eval_task`, `pool` and `test`.
    `pool` is a JSON file with the numbers of duplicate and near-duplicate questions of the pool,
    `test` a JSON file with the number of test questions that are also in the pool."""
    sampled = lambda name: settings.sampled_task(study.tasks, name)
    return [
        {
            "task": task,
            "eval_task": test,
            "pool": paths.pool_comparison(sampled(task), "json"),
            "test": paths.contamination(sampled(task), sampled(test), "json"),
        }
        for task, test in _tests(study)
    ]


def _tests(study: ResolvedStudy) -> list[tuple[str, str]]:
    """[(task of the training, task of the test)] of a study, without recorded models: their
    training problems are unknown."""
    return list(
        dict.fromkeys(
            (task, test)
            for model, task, test in study.tests
            if settings.is_sampled(study.models[model])
        )
    )


def shared_part(task: dict, test: dict) -> str | None:
    """A file or part of a dataset that is in the train split of `task` and in the test split of
    `test`; None if there is none."""
    test_parts = _parts(test["source"], "test")
    return next((part for part in _parts(task["source"], "train") if part in test_parts), None)


def _parts(source: dict, split: str) -> list[str]:
    if source["kind"] == "files":
        return [os.path.normpath(path) for path in settings.as_list(source.get(split, []))]
    if source["kind"] == "recorded":
        return settings.as_list(source.get(split, []))
    keys = ("dataset", "revision", "file", "rows")
    parts = source.get(split, []) if source["kind"] == "hub" else []
    return [", ".join(f"{key} {part[key]}" for key in keys if key in part) for part in parts]
