"""A study together with the entries of the configuration that its names stand for."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from hardgrpo.runtime.errors import UserError
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, model_of
from hardgrpo.study.policy import Policy
from hardgrpo.study.published_analysis import Analysis
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import Strict
from hardgrpo.study.study import RECORDED, Run, Study
from hardgrpo.study.task import Task

# what an analysis of published numbers trains
NOTHING_TRAINED = Study.model_construct(title="", models=[], tasks=[], arms=[], seeds=[])


class Part(Strict, Sections):
    """Some sections of a configuration."""

    tasks: dict[str, Task] = {}
    models: dict[str, Model] = {}
    policies: dict[str, Policy] = {}
    recipes: dict[str, Recipe] = {}
    studies: dict[str, Study] = {}
    analyses: dict[str, Analysis] = {}

    @classmethod
    def of_mapping(cls, config: dict) -> Self:
        return cls.of({key: config[key] for key in cls.model_fields if key in config})


@dataclass(frozen=True, eq=False)
class ResolvedStudy(Sections):
    """A study, or an analysis of published numbers, with the objects that it names.

    `entry` is the study's own entry in the configuration. `tasks`, `models`, `policies` and
    `recipes` are sections of the configuration. For an analysis, `model_names`, `task_names`,
    `seeds` and `runs` are empty.
    """

    name: str
    entry: Study | Analysis
    tasks: dict[str, Task]
    models: dict[str, Model]
    policies: dict[str, Policy]
    recipes: dict[str, Recipe]

    @classmethod
    def of(cls, config: Configuration | dict, name: str) -> Self:
        """A study of a configuration, or of a mapping with some of its sections. Raise a
        `UserError` for an unknown name."""
        part = config if isinstance(config, Configuration | Part) else Part.of_mapping(config)
        studies = part.studies | (part.analyses or {})
        if name not in studies:
            raise UserError(f"no study '{name}'; config/studies has {', '.join(part.studies)}")
        sections = part.tasks, part.models, part.policies, part.recipes
        return cls(name, studies[name], *sections)

    @property
    def is_analysis(self) -> bool:
        """Whether this is an analysis of published numbers."""
        return isinstance(self.entry, Analysis)

    @property
    def arms(self) -> Study:
        """The models, tasks, arms and seeds."""
        return NOTHING_TRAINED if isinstance(self.entry, Analysis) else self.entry

    # --- names ---

    @property
    def model_names(self) -> list[str]:
        return self.arms.models

    @property
    def task_names(self) -> list[str]:
        """The tasks that are trained on."""
        return self.arms.tasks

    @cached_property
    def policy_names(self) -> list[str]:
        """The policies of the arms, in the order of the arms."""
        return self.arms.policies

    @cached_property
    def recipe_names(self) -> list[str]:
        """The recipes of the arms, in the order of the arms; empty if nothing is trained."""
        return self.arms.recipes

    @property
    def seeds(self) -> list[int]:
        return self.arms.seeds

    @property
    def first_recipe(self) -> str:
        return self.arms.first_recipe

    @cached_property
    def probing_models(self) -> set[str]:
        """The study's models, and the models that its policies name in `probed_by`."""
        policies = (self.policies.get(name) for name in self.policy_names)
        probing = (policy.probed_by for policy in policies if policy and policy.probed_by)
        return {*self.model_names, *probing}

    # --- runs and the models and tasks of runs ---

    def has_arm(self, **names: str) -> bool:
        """Whether one arm has all `names` (`model`, `task`, `policy`, `recipe`)."""
        return self.arms.has_arm(**names)

    def eval_tasks(self, task: str, model: str) -> list[str]:
        """The tasks on which a model's runs on `task` are tested, beginning with `task` itself."""
        return self.arms.eval_tasks(task, model)

    def bases(self, model: str) -> list[str]:
        """The names of the weights from which the study's runs of a model start."""
        return self.models[model].bases(model, self.seeds)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, task) pairs. A recorded model has only the tasks of its recordings."""
        return [
            (model, task)
            for model in self.model_names
            for task in self.task_names
            if self.has_arm(model=model, task=task)
            and (not self.models[model].is_recorded or task in self.models[model].source.recordings)
        ]

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the configuration."""
        runs = []
        for model, task in self.pairs:
            if self.models[model].is_recorded:
                policies = self.models[model].source.recordings[task].runs or {}
                arms, seeds = [(RECORDED, policy) for policy in policies], self.seeds[:1]
            else:
                arms, seeds = self._arms(model, task), self.seeds
            runs += [
                Run(model, task, recipe, policy, seed, self.base_of(model, seed))
                for recipe, policy in arms
                for seed in seeds
            ]
        return runs

    def _arms(self, model: str, task: str) -> list[tuple[str, str]]:
        """(recipe, policy) of the arms that train a model on a task."""
        return [
            (recipe, policy)
            for recipe in self.recipe_names
            for policy in self.policy_names
            if self.has_arm(model=model, task=task, policy=policy, recipe=recipe)
        ]

    @cached_property
    def tests(self) -> list[tuple[str, str, str]]:
        """(model, trained task, tested task): the tests of each pair, in the order of `pairs`."""
        return [
            (model, task, test)
            for model, task in self.pairs
            for test in self.eval_tasks(task, model)
        ]

    @cached_property
    def tests_of_bases(self) -> list[tuple[str, str, str]]:
        """(model, base, tested task): the tests of each base model, each once."""
        tests = [
            (model, base, test)
            for model, task in self.pairs
            for base in self.bases(model)
            for test in self.eval_tasks(task, model)
        ]
        return list(dict.fromkeys(tests))

    @cached_property
    def tests_of_runs(self) -> list[tuple[Run, str]]:
        """(run, tested task): the tests of each run, in the order of `runs`."""
        return [(run, test) for run in self.runs for test in self.eval_tasks(run.task, run.model)]

    @cached_property
    def probed_pools(self) -> list[tuple[str, str, list[int]]]:
        """(base, task, seeds of the runs that start from this base) of every probed pool of the
        study's own models, not of models in `probed_by`. A recorded model may have no probe. For a
        trajectory, the name of its prompts replaces the task."""
        return [
            (base, task, [seed for seed in self.seeds if self.base_of(model, seed) == base])
            for model, task in self.pairs
            if not self.models[model].is_recorded
            or self.models[model].source.recordings[task].probe
            for base in self.bases(model)
        ] + [(model, prompts, self.seeds) for model, prompts in self.trajectory_prompts]

    @cached_property
    def trajectory_prompts(self) -> list[tuple[str, str]]:
        """(model, name of the model's prompts) of the trajectories."""
        return [
            (model, self.models[model].source.prompts)
            for model in self.model_names
            if self.models[model].is_trajectory
        ]


def resolve_studies(config: Configuration | dict) -> dict[str, ResolvedStudy]:
    """{name: study} of all studies and analyses of a configuration."""
    part = config if isinstance(config, Configuration) else Part.of_mapping(config)
    names = [*part.studies, *(part.analyses or {})]
    return {name: ResolvedStudy.of(part, name) for name in names}


def withheld_splits(
    sections: Sections, base: str, studies: Collection[ResolvedStudy]
) -> list[tuple[str, str]]:
    """(task, split) whose problems are left out of a pretrained base's demonstrations.

    Both splits of the demonstrated tasks are left out. So are both splits of every further task with
    the family of a demonstrated task, if one of `studies` (all studies of the configuration) trains
    or tests the model on this further task. Facts are never left out, because a model learns facts
    only from its demonstrations. Tasks that no study uses with this model are not left out, so that
    the model is not pretrained again when somebody adds a task.
    """
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
