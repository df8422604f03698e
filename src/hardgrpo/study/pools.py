"""Pools: the problems of a task that a base model is sampled on, and the tests that they must not share questions with."""

import os
from collections.abc import Iterator

from hardgrpo.study import paths, settings


def contamination(task: str, kind: str = "csv") -> str:
    """The questions of a pool that a test has, too, or that stand in a split twice; as JSON their numbers."""
    return f"results/tasks/{task}/contamination.{kind}"


def problems(config: dict, base: str, task: str, split: str = "train") -> str:
    """The problems of a split that fit into a base model's context. Recorded completions are of all problems."""
    if settings.is_recorded(config, base):
        return paths.problems(task, split)
    return f"results/pools/{base}/{settings.sampled_as(config, task)}/{split}.jsonl"


def questions(config: dict, base: str, task: str) -> str:
    """The problems of a base model's pool without their answers."""
    if settings.is_recorded(config, base):
        return paths.questions(task)
    return f"results/pools/{base}/{settings.sampled_as(config, task)}/questions.jsonl"


def is_trained_on(config: dict, task: str) -> bool:
    """Whether prompts of a task's pool are chosen here: by a study of models with weights, or by `snakemake subset`."""
    return settings.sampled_as(config, config["subset"]["task"]) == task or any(task == pool for pool, _ in _tested(config))


def tests(config: dict, task: str) -> list[str]:
    """The sampled tasks whose test questions are compared with the pool of a task: itself if it has a test split, and the tests of
    every study that trains on it."""
    own = [task] if config["tasks"][task]["source"].get("test") else []
    return list(dict.fromkeys(own + [test for pool, test in _tested(config) if pool == task]))


def _tested(config: dict) -> Iterator[tuple[str, str]]:
    """(sampled task that is trained on, sampled task of a test that follows) of all studies of models with weights."""
    for study in config["studies"].values():
        for model, task in settings.pairs(config, study):
            if settings.has_weights(config, model):
                for test in settings.eval_tasks(study, task, model):
                    yield settings.sampled_as(config, task), settings.sampled_as(config, test)


def shared_source(config: dict, task: str, test: str) -> str | None:
    """The file or part of a dataset that is both in the train split of `task` and in the test split of `test`; None if there is none."""
    train_source, test_source = (config["tasks"][name]["source"] for name in (task, test))
    shared = [part for part in _parts(train_source, "train") if part in _parts(test_source, "test")]
    return shared[0] if shared else None


def _parts(source: dict, split: str) -> list[str]:
    if source["kind"] == "files":
        return [os.path.normpath(path) for path in settings.listed(source.get(split, []))]
    keys = ("dataset", "revision", "name", "split", "rows")
    parts = source.get(split, []) if source["kind"] == "hub" else []
    return [", ".join(f"{key} {part[key]}" for key in keys if key in part) for part in parts]
