"""Pools: the files of the problems for which completions of a base model are sampled, and the tests
whose questions must not be in a pool."""

import os

from hardgrpo.study import paths
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import as_list
from hardgrpo.study.study import Study
from hardgrpo.study.task import Files, HubDataset, RecordedProblems, Task


def problems(sections: Sections, base: str, task: str, split: str = "train") -> str:
    """The file of the problems of a split that fit into a base model's context. For recorded models
    and models behind a server, no tokenizer is available, and the file has all problems of the
    split."""
    if _has_tokenizer(sections, base):
        return paths.pool(base, sections.sampled_task(task), split)
    return paths.problems(task, split)


def questions(sections: Sections, base: str, task: str) -> str:
    """The file of the problems of a base model's pool, without the answers."""
    if _has_tokenizer(sections, base):
        return paths.pool(base, sections.sampled_task(task), "questions")
    return paths.questions(task)


def _has_tokenizer(sections: Sections, base: str) -> bool:
    model = sections.model(base)
    return not (model.is_recorded or model.is_served)


def own_comparison(sections: Sections, task: str) -> list[str]:
    """[the file that compares a task's pool with the task's own test split]; [] without a test
    split."""
    sampled = sections.sampled_task(task)
    return [paths.contamination(sampled, sampled)] if sections.tasks[sampled].has_test else []


def comparisons(study: Study) -> list[dict]:
    """A row for each pool and test of a study, with keys `task`, `eval_task`, `pool` and `test`.
    `pool` is a JSON file with the numbers of duplicate and near-duplicate questions of the pool,
    `test` a JSON file with the number of test questions that are also in the pool."""
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
    """[(task of the training, task of the test)] of a study, without recorded models: their
    training problems are unknown."""
    return list(
        dict.fromkeys(
            (task, test)
            for model, task, test in study.tests
            if study.config.models[model].is_sampled
        )
    )


def shared_part(task: Task, test: Task) -> str | None:
    """A file or part of a dataset that is in the train split of `task` and in the test split of
    `test`; None if there is none."""
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
