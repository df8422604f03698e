"""Pools: the problems of a task that a base model is sampled on, and the tests that they must not share questions with."""

import os

from hardgrpo.study import paths, settings


def problems(config: dict, base: str, task: str, split: str = "train") -> str:
    """The problems of a split that fit into a base model's context. Recorded completions are of all problems."""
    if settings.is_recorded(config, base):
        return paths.problems(task, split)
    return paths.pool(base, settings.sampled_as(config, task), split)


def questions(config: dict, base: str, task: str) -> str:
    """The problems of a base model's pool without their answers."""
    if settings.is_recorded(config, base):
        return paths.questions(task)
    return paths.pool(base, settings.sampled_as(config, task), "questions")


def is_trained_on(config: dict, task: str) -> bool:
    """Whether prompts of a task's pool are chosen here: by a study of models with weights, or by `snakemake subset`."""
    chosen = settings.sampled_as(config, config["subset"]["task"])
    return task == chosen or any(
        settings.sampled_as(config, trained) == task for study in config["studies"] for trained, _ in _tested(config, study)
    )


def compared(config: dict, task: str) -> list[str]:
    """Comparisons that a sampled task's pool waits for: with its own test, and with the tests of the configured study."""
    if not is_trained_on(config, task):
        return []
    own = [task] if config["tasks"][task]["source"].get("test") else []
    tests = [
        settings.sampled_as(config, test)
        for trained, test in _tested(config, config["study"])
        if settings.sampled_as(config, trained) == task
    ]
    return [paths.contamination(task, test) for test in dict.fromkeys(own + tests)]


def comparisons(config: dict, study: str) -> list[dict]:
    """Each pool and test of a study: `task`, `eval_task`, and the JSON files of counts of the `pool` and of the `test`."""
    return [
        {
            "task": task,
            "eval_task": test,
            "pool": paths.compared(settings.sampled_as(config, task), "json"),
            "test": paths.contamination(settings.sampled_as(config, task), settings.sampled_as(config, test), "json"),
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
