"""The studies of a configuration, and the problems that pretraining leaves out because of them."""

from collections.abc import Collection
from typing import Self

from hardgrpo.runtime.errors import UserError
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, model_of
from hardgrpo.study.policy import Policy
from hardgrpo.study.published_analysis import Analysis
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import Strict
from hardgrpo.study.study import Study
from hardgrpo.study.task import Task


class Part(Strict, Sections):
    tasks: dict[str, Task] = {}
    models: dict[str, Model] = {}
    policies: dict[str, Policy] = {}
    recipes: dict[str, Recipe] = {}
    studies: dict[str, Study] = {}
    analyses: dict[str, Analysis] = {}

    @classmethod
    def of_mapping(cls, config: dict) -> Self:
        return cls.of({key: config[key] for key in cls.model_fields if key in config})


def resolve_studies(config: Configuration | dict) -> dict[str, Study]:
    """{name: study} of all studies and analyses, also of a mapping with some sections."""
    part = config if isinstance(config, Configuration) else Part.of_mapping(config)
    analyses = {name: Study.of_analysis(entry) for name, entry in (part.analyses or {}).items()}
    return {name: study.in_config(name, part) for name, study in (part.studies | analyses).items()}


def resolve_study(config: Configuration | dict, name: str) -> Study:
    studies = resolve_studies(config)
    if name not in studies:
        raise UserError(f"no study '{name}'; config/studies has {', '.join(studies)}")
    return studies[name]


def withheld_splits(
    sections: Sections, base: str, studies: Collection[Study]
) -> list[tuple[str, str]]:
    """(task, split) whose problems are left out of a pretrained base's demonstrations: both splits
    of the demonstrated tasks, and of each task of their families on which one of `studies` (all of
    the configuration) trains or tests the model. Facts are never left out, because a model learns
    them only from its demonstrations. Tasks that no study uses are not, so that a new task
    pretrains no model again."""
    model, tasks = model_of(base), sections.tasks
    demonstrations = sections.models[model].source.demonstrations
    families = {tasks[name].family for name in demonstrations if not tasks[name].is_memorised}
    used_tasks = set(demonstrations)
    for study in studies:
        used_tasks |= {test for tested, _, test in study.tests if tested == model}
    sampled_tasks = {sections.sampled_task(name) for name in used_tasks}
    return [
        (name, split)
        for name, task in tasks.items()
        if name in sampled_tasks and task.family in families
        for split in ("train", "test")
        if getattr(task.source, split)
    ]
