"""A study together with the entries of the configuration that its names stand for."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from hardgrpo.data import generated
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import settings
from hardgrpo.study.settings import Run, Split

# Keys of a study that an analysis of published numbers does not have.
NOTHING_TRAINED = {"models": [], "tasks": [], "arms": [], "seeds": []}


@dataclass(frozen=True, eq=False)
class ResolvedStudy:
    """A study, or an analysis of published numbers, with the objects that it names.

    `entry` is the study's own entry in the configuration. `tasks`, `models`, `policies` and
    `recipes` are whole sections of the configuration that `of` was given. For an analysis,
    `model_names`, `task_names`, `seeds` and `runs` are empty.
    """

    name: str
    entry: dict
    tasks: dict[str, dict]
    models: dict[str, dict]
    policies: dict[str, dict]
    recipes: dict[str, dict]

    @classmethod
    def of(cls, config: dict, name: str) -> Self:
        """A study of a checked configuration, or of the part of a configuration that
        `paths.study_part` returns. Raise a `UserError` for an unknown name."""
        analyses = config.get("analyses", {})
        if name not in analyses and name not in config["studies"]:
            raise UserError(f"no study '{name}'; config/studies has {', '.join(config['studies'])}")
        entry = NOTHING_TRAINED | analyses[name] if name in analyses else config["studies"][name]
        sections = (config.get(key, {}) for key in ("tasks", "models", "policies", "recipes"))
        return cls(name, entry, *sections)

    @property
    def is_analysis(self) -> bool:
        """Whether this is an analysis of published numbers; only analyses have a kind."""
        return "kind" in self.entry

    # --- names ---

    @property
    def model_names(self) -> list[str]:
        return self.entry["models"]

    @property
    def task_names(self) -> list[str]:
        """The tasks that are trained on."""
        return self.entry["tasks"]

    @cached_property
    def policy_names(self) -> list[str]:
        """The policies of the arms, in the order of the arms."""
        return settings.policies_of(self.entry)

    @cached_property
    def recipe_names(self) -> list[str]:
        """The recipes of the arms, in the order of the arms; empty if nothing is trained."""
        return settings.recipes_of(self.entry)

    @property
    def seeds(self) -> list[int]:
        return self.entry["seeds"]

    @property
    def first_recipe(self) -> str:
        return settings.first_recipe(self.entry)

    @cached_property
    def probing_models(self) -> set[str]:
        """The study's models, and the models that its policies name in `probed_by`."""
        entries = [self.policies.get(name, {}) for name in self.policy_names]
        probing = (policy["probed_by"] for policy in entries if "probed_by" in policy)
        return {*self.model_names, *probing}

    # --- runs and the models and tasks of runs ---

    def has_arm(self, **names: str) -> bool:
        """Whether one arm has all `names` (`model`, `task`, `policy`, `recipe`)."""
        return settings.has_arm(self.entry, **names)

    def eval_tasks(self, task: str, model: str) -> list[str]:
        """The tasks on which a model's runs on `task` are tested, beginning with `task` itself."""
        return settings.eval_tasks(self.entry, task, model)

    def split(self, task: str, name: str) -> Split:
        """The split `name` (`train` or `test`) of a task."""
        return Split(task, name, self.tasks[task])

    def bases(self, model: str) -> list[str]:
        """The names of the weights from which the study's runs of a model start."""
        return settings.bases_of(self.models, model, self.seeds)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, task) pairs. A recorded model has only the tasks of its recordings."""
        return [
            (model, task)
            for model in self.model_names
            for task in self.task_names
            if self.has_arm(model=model, task=task)
            and (
                not settings.is_recorded(self.models[model])
                or task in self.models[model]["source"]["recordings"]
            )
        ]

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the configuration."""
        runs = []
        for model, task in self.pairs:
            if settings.is_recorded(self.models[model]):
                policies = self.models[model]["source"]["recordings"][task].get("runs", {})
                arms, seeds = [("recorded", policy) for policy in policies], self.seeds[:1]
            else:
                arms, seeds = self._arms(model, task), self.seeds
            runs += [
                Run(model, task, recipe, policy, seed, self._base(model, seed))
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
            (base, task, [seed for seed in self.seeds if self._base(model, seed) == base])
            for model, task in self.pairs
            if not settings.is_recorded(self.models[model])
            or "probe" in self.models[model]["source"]["recordings"][task]
            for base in self.bases(model)
        ] + [(model, prompts, self.seeds) for model, prompts in self.trajectory_prompts]

    def _base(self, model: str, seed: int) -> str:
        return settings.base_of(self.models, model, seed)

    @cached_property
    def trajectory_prompts(self) -> list[tuple[str, str]]:
        """(model, name of the model's prompts) of the trajectories."""
        return [
            (model, self.models[model]["source"]["prompts"])
            for model in self.model_names
            if settings.is_trajectory(self.models[model])
        ]


def resolve_studies(config: dict) -> dict[str, ResolvedStudy]:
    """{name: study} of all studies and analyses of a checked configuration."""
    names = [*config["studies"], *config.get("analyses", {})]
    return {name: ResolvedStudy.of(config, name) for name in names}


def withheld_splits(
    models: dict, tasks: dict, base: str, studies: Collection[ResolvedStudy]
) -> list[tuple[str, str]]:
    """(task, split) whose problems are left out of a pretrained base's demonstrations.

    Both splits of the demonstrated tasks are left out. So are both splits of every further task with
    the family of a demonstrated task, if one of `studies` (all studies of the configuration) trains
    or tests the model on this further task. Facts are never left out, because a model learns facts
    only from its demonstrations. Tasks that no study uses with this model are not left out, so that
    the model is not pretrained again when somebody adds a task.
    """
    base_model = settings.model_of(base)
    demonstrations = models[base_model]["source"]["demonstrations"]
    families = {tasks[name]["source"]["family"] for name in demonstrations} - set(
        generated.MEMORISED
    )
    used_tasks = set(demonstrations)
    for study in studies:
        used_tasks |= {test for model, _, test in study.tests if model == base_model}
    sampled_tasks = {settings.sampled_task(tasks, name) for name in used_tasks}
    return [
        (name, split)
        for name, task in tasks.items()
        if name in sampled_tasks and task["source"].get("family") in families
        for split in ("train", "test")
        if task["source"][split]
    ]
