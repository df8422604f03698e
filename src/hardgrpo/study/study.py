"""A study: its arms, seeds and tests."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr

from hardgrpo.study.published_analysis import Analysis
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import Names, Strict, as_list

RECORDED = "recorded"  # the recipe of recorded completions


@dataclass(frozen=True)
class Run:
    """One training run, from the weights `base`. The recipe of recorded completions is
    `recorded`."""

    model: str
    task: str
    recipe: str
    policy: str
    seed: int
    base: str

    @property
    def path(self) -> str:
        return f"{self.base}/{self.task}/{self.recipe}/{self.policy}/seed{self.seed}"


def share_policy_or_recipe(first: tuple[str, str], second: tuple[str, str]) -> bool:
    return first[0] == second[0] or first[1] == second[1]


class Arm(Strict):
    policy: str | Names
    """Names in `policies`. With recorded models or trajectories, the arm chooses subsets and
    trains nothing."""

    recipe: str | Names | None = None
    """Names in `recipes`, required if the models have weights. Figures do not name the study's
    first recipe."""

    models: str | Names | None = None
    """Models of the study. The default is all models of the study."""

    tasks: str | Names | None = None
    """Tasks of the study on which the arm trains. The default is all tasks of the study."""

    def has(self, **names: str) -> bool:
        """Whether the arm has all `names` (`model`, `task`, `policy`, `recipe`)."""
        fields = {
            "model": self.models,
            "task": self.tasks,
            "policy": self.policy,
            "recipe": self.recipe,
        }
        return all(
            fields[kind] is None or name in as_list(fields[kind]) for kind, name in names.items()
        )


class OtherTest(Strict):
    task: str
    """A name in `tasks`."""

    models: str | Names
    """The models of the study whose runs are tested on this task."""


class ComparedArm(Strict):
    policy: str
    """A policy of the arm."""

    recipe: str
    """A recipe of the arm."""


class Study(Strict):
    """A study is a named set of runs with its figures and tables."""

    _name: str = PrivateAttr()
    _config: Sections = PrivateAttr()
    _analysis: Analysis | None = PrivateAttr(None)

    title: str
    """Title in figures and in the paper."""

    question: str | None = None
    """The question that the study answers, for the list of studies."""

    models: Names
    """Names in `models`: all with weights, all recorded, or all trajectories."""

    tasks: list[str]
    """Names in `tasks`. The models of an arm are trained and tested on each task of the arm. Empty ([]) if the models
    are trajectories."""

    arms: Annotated[list[Arm], Field(min_length=1)]
    """The arms that are compared. Each arm trains every combination of its policies, recipes, models and tasks."""

    seeds: Annotated[list[Annotated[int, Field(ge=0, le=4294967295)]], Field(min_length=1)]
    """Random seeds of the choice and of training, one for each replicate."""

    also_tested_on: dict[str, Annotated[list[str | OtherTest], Field(min_length=1)]] | None = None
    """For each task, further tasks on which the runs of this task are tested: names in `tasks`, or
    entries with `task` and `models`."""

    also_compared: list[Annotated[list[ComparedArm], Field(min_length=2, max_length=2)]] | None = (
        None
    )
    """Pairs of arms that are compared although both policy and recipe differ."""

    weaker_signal: list[str] | None = None
    """Tasks or models with a weaker learning signal (Table 3 of HE), which some claims are
    about."""

    aims_at: list[str] | None = None
    """Ids of claims in paper/claims.yaml. The plan states how many seeds each of these claims
    needs."""

    held_constant: (
        list[Literal["updates", "prompts", "rollouts", "completion_tokens", "labels"]] | None
    ) = None
    """Quantities that must be equal in all runs of a model on a task: `prompts` counts a prompt
    each time that it is sampled, `completion_tokens` is the limit, `labels` are all labels that
    a run buys. The summary fails if a quantity differs."""

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(name for arm in self.arms for name in as_list(arm.policy)))

    @property
    def recipes(self) -> list[str]:
        """The names of the recipes; empty if nothing is trained."""
        return list(dict.fromkeys(name for arm in self.arms for name in as_list(arm.recipe or [])))

    @property
    def first_recipe(self) -> str:
        return next(iter(self.recipes), RECORDED)

    def has_arm(self, **names: str) -> bool:
        return any(arm.has(**names) for arm in self.arms)

    def eval_tasks(self, task: str, model: str) -> list[str]:
        """The tasks on which a model's runs of `task` are tested, first `task` itself."""
        tests = (self.also_tested_on or {}).get(task, [])
        return [task] + [
            test if isinstance(test, str) else test.task
            for test in tests
            if isinstance(test, str) or model in as_list(test.models)
        ]

    @property
    def other_tests(self) -> dict[str, list[str]]:
        """{task: the tasks of `also_tested_on`, for any model}"""
        return {
            task: [test if isinstance(test, str) else test.task for test in tests]
            for task, tests in (self.also_tested_on or {}).items()
        }

    @property
    def compared_pairs(self) -> list[list[tuple[str, str]]]:
        return [[(arm.policy, arm.recipe) for arm in pair] for pair in self.also_compared or []]

    # --- the study in its configuration ---

    def in_config(self, name: str, config: Sections) -> Self:
        study = self.model_copy()
        study._name, study._config = name, config
        return study

    @classmethod
    def of_analysis(cls, analysis: Analysis) -> Self:
        """An analysis of published numbers as a study without models, tasks and arms."""
        study = cls.model_construct(title=analysis.title, models=[], tasks=[], arms=[], seeds=[])
        study._analysis = analysis
        return study

    @property
    def name(self) -> str:
        return self._name

    @property
    def config(self) -> Sections:
        """The configuration, or the part of it that the study names."""
        return self._config

    @property
    def analysis(self) -> Analysis | None:
        """The analysis of published numbers; None for a study that samples or trains."""
        return self._analysis

    @property
    def is_analysis(self) -> bool:
        return self.analysis is not None

    @cached_property
    def probing_models(self) -> set[str]:
        """The study's models, and those in `probed_by` of its policies."""
        policies = (self.config.policies.get(name) for name in self.policies)
        probing = (policy.probed_by for policy in policies if policy and policy.probed_by)
        return {*self.models, *probing}

    def bases(self, model: str) -> list[str]:
        return self.config.models[model].bases(model, self.seeds)

    @cached_property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, task); a recorded model has only the tasks of its recordings."""
        return [
            (model, task)
            for model in self.models
            for task in self.tasks
            if self.has_arm(model=model, task=task)
            and (
                not self.config.models[model].is_recorded
                or task in self.config.models[model].source.recordings
            )
        ]

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, in the order of the configuration."""
        runs = []
        for model, task in self.pairs:
            if self.config.models[model].is_recorded:
                policies = self.config.models[model].source.recordings[task].runs or {}
                arms, seeds = [(RECORDED, policy) for policy in policies], self.seeds[:1]
            else:
                arms, seeds = self._arms(model, task), self.seeds
            runs += [
                Run(model, task, recipe, policy, seed, self.config.base_of(model, seed))
                for recipe, policy in arms
                for seed in seeds
            ]
        return runs

    def _arms(self, model: str, task: str) -> list[tuple[str, str]]:
        """(recipe, policy) of the arms that train a model on a task."""
        return [
            (recipe, policy)
            for recipe in self.recipes
            for policy in self.policies
            if self.has_arm(model=model, task=task, policy=policy, recipe=recipe)
        ]

    @cached_property
    def tests(self) -> list[tuple[str, str, str]]:
        """(model, trained task, tested task)"""
        return [
            (model, task, test)
            for model, task in self.pairs
            for test in self.eval_tasks(task, model)
        ]

    @cached_property
    def tests_of_bases(self) -> list[tuple[str, str, str]]:
        """(model, base, tested task), each once"""
        tests = [
            (model, base, test)
            for model, task in self.pairs
            for base in self.bases(model)
            for test in self.eval_tasks(task, model)
        ]
        return list(dict.fromkeys(tests))

    @cached_property
    def tests_of_runs(self) -> list[tuple[Run, str]]:
        """(run, tested task)"""
        return [(run, test) for run in self.runs for test in self.eval_tasks(run.task, run.model)]

    @cached_property
    def probed_pools(self) -> list[tuple[str, str, list[int]]]:
        """(base, task, seeds of the runs from this base) of every probed pool of the study's own
        models. A recorded model may have no probe. For a trajectory, the name of its prompts
        replaces the task."""
        return [
            (base, task, [seed for seed in self.seeds if self.config.base_of(model, seed) == base])
            for model, task in self.pairs
            if not self.config.models[model].is_recorded
            or self.config.models[model].source.recordings[task].probe
            for base in self.bases(model)
        ] + [(model, prompts, self.seeds) for model, prompts in self.trajectory_prompts]

    @cached_property
    def trajectory_prompts(self) -> list[tuple[str, str]]:
        return [
            (model, self.config.models[model].source.prompts)
            for model in self.models
            if self.config.models[model].is_trajectory
        ]

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for key in ("models", "tasks"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                yield key, "a name is listed twice; remove one"
        if len(set(self.seeds)) < len(self.seeds):
            yield "seeds", f"{self.seeds} are not distinct; remove the repeated seed"
        yield from self._arm_contradictions()
        for name in self.weaker_signal or []:
            if name not in [*self.tasks, *self.models]:
                yield "weaker_signal", f"'{name}' is no task or model of this study; remove it"
        for task, tests in (self.also_tested_on or {}).items():
            if task not in self.tasks:
                yield "also_tested_on", f"'{task}' is not a task of this study; add it"
            # start with 1: every run is tested on its own task
            test_counts = Counter((task, model) for model in self.models)
            for test in tests:
                is_restricted = isinstance(test, OtherTest)
                models = as_list(test.models) if is_restricted else self.models
                test_counts.update(
                    (test.task if is_restricted else test, model) for model in models
                )
            if repeated := [name for (name, _), count in test_counts.items() if count > 1]:
                yield (
                    f"also_tested_on.{task}",
                    f"the runs are tested on '{repeated[0]}' twice, or anyway; remove it",
                )
        for number, pair in enumerate(self.also_compared or []):
            for arm in pair:
                if not self.has_arm(policy=arm.policy, recipe=arm.recipe):
                    yield (
                        f"also_compared[{number}]",
                        f"no arm has policy '{arm.policy}' and recipe '{arm.recipe}'; correct it",
                    )

    def _arm_contradictions(self) -> Iterator[tuple[str, str]]:
        for number, arm in enumerate(self.arms):
            for kind in ("models", "tasks"):
                for name in as_list(getattr(arm, kind) or []):
                    if name not in getattr(self, kind):
                        yield (
                            f"arms[{number}].{kind}",
                            f"'{name}' is not one of the study's {kind}; correct it",
                        )
        for kind, singular in (("models", "model"), ("tasks", "task")):
            for name in getattr(self, kind):
                if not self.has_arm(**{singular: name}):
                    yield "arms", f"no arm has {singular} '{name}'; add an arm"
        # (model, task, policy, recipe) -> number of the first arm that has this combination
        first_arm: dict[tuple, int] = {}
        for number, arm in enumerate(self.arms):
            values = [
                arm.models or self.models,
                arm.tasks or self.tasks,
                arm.policy,
                arm.recipe or "",
            ]
            for combination in itertools.product(*map(as_list, values)):
                if combination in first_arm:
                    names = ", ".join(filter(None, combination))
                    yield (
                        f"arms[{number}]",
                        f"{names} is also in arms[{first_arm[combination]}]; remove one",
                    )
                    return
                first_arm[combination] = number
