"""Pools: the files of the problems for which completions of a base model are sampled, and the tests
whose questions must not be in a pool."""

import os

from hardgrpo.study import paths
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import as_list
from hardgrpo.study.study import Study
from hardgrpo.study.task import Files, HubDataset, RecordedProblems, Task


def problems(sections: Sections, base: str, task: str, split: str = "train") -> str:
    """The problems of a split that fit into a base's context; without a tokenizer (recordings and
    servers), all."""
    if _has_tokenizer(sections, base):
        return paths.pool(base, sections.sampled_task(task), split)
    return paths.problems(task, split)


def questions(sections: Sections, base: str, task: str) -> str:
    if _has_tokenizer(sections, base):
        return paths.pool(base, sections.sampled_task(task), "questions")
    return paths.questions(task)


def _has_tokenizer(sections: Sections, base: str) -> bool:
    model = sections.model(base)
    return not (model.is_recorded or model.is_served)


def own_comparison(sections: Sections, task: str) -> list[str]:
    """The file that compares a task's pool with its own test split, if it has one."""
    sampled = sections.sampled_task(task)
    return [paths.contamination(sampled, sampled)] if sections.tasks[sampled].has_test else []


def comparisons(study: Study) -> list[dict]:
    """A row for each pool and test of a study. `pool` and `test` are JSON files with the numbers of
    duplicate questions of the pool, and of test questions in the pool."""
    sampled = study.config.sampled_task
    return [
        {
            "task": task,
            "eval_task": test,
            "pool": paths.pool_comparison(sampled(task), "json"),
            "test": paths.contamination(sampled(task), sampled(test), "json"),
        }
        for task, test in _tests(study)
    ]


def _tests(study: Study) -> list[tuple[str, str]]:
    """[(trained task, tested task)], without recorded models, whose training problems are
    unknown."""
    return list(
        dict.fromkeys(
            (task, test)
            for model, task, test in study.tests
            if study.config.models[model].is_sampled
        )
    )


def shared_part(task: Task, test: Task) -> str | None:
    """A file or part of a dataset in the train split of `task` and the test split of `test`."""
    test_parts = _parts(test, "test")
    return next((part for part in _parts(task, "train") if part in test_parts), None)


def _parts(task: Task, split: str) -> list[str]:
    named = getattr(task.source, split) or []
    if isinstance(task.source, Files):
        return [os.path.normpath(path) for path in as_list(named)]
    if isinstance(task.source, RecordedProblems):
        return as_list(named)
    keys = ("dataset", "revision", "file", "rows")
    parts = named if isinstance(task.source, HubDataset) else []
    entries = [part.entry for part in parts]
    return [", ".join(f"{key} {entry[key]}" for key in keys if key in entry) for entry in entries]
