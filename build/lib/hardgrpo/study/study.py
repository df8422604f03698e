"""A study: its arms, seeds and tests."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study.settings import as_list, has_arm
from hardgrpo.study.strict import Names, Strict


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
    """Tasks or models with a weaker learning signal, for the table weaker_signal (Table 3 of
    HE)."""

    aims_at: list[str] | None = None
    """Ids of claims in paper/claims.yaml. The plan states how many seeds each of these claims
    needs."""

    held_constant: (
        list[Literal["updates", "prompts", "rollouts", "completion_tokens", "labels"]] | None
    ) = None
    """Quantities that must be equal in all runs of a model on a task: `prompts` counts a prompt
    each time that it is sampled, `completion_tokens` is the limit, `labels` are all labels that
    a run buys. The summary fails if a quantity differs."""

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for key in ("models", "tasks"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                yield key, "a name is listed twice; remove one"
        if len(set(self.seeds)) < len(self.seeds):
            yield (
                "seeds",
                f"{self.seeds} are not distinct; a repeated seed counts one replicate twice: remove it",
            )
        study = self.model_dump(exclude_unset=True)
        yield from _arm_contradictions(study)
        for name in self.weaker_signal or []:
            if name not in [*self.tasks, *self.models]:
                yield (
                    "weaker_signal",
                    f"'{name}' is neither a task nor a model of this study; add '{name}' to the study, or take '{name}' out of this list",
                )
        for task, tests in (self.also_tested_on or {}).items():
            if task not in self.tasks:
                yield (
                    "also_tested_on",
                    f"'{task}' is not a task of this study; add it to the study's tasks",
                )
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
                    f"the runs are tested on '{repeated[0]}' twice, or '{repeated[0]}' is their own task, on which they are tested anyway; remove it",
                )
            other_tests = [test for test in tests if isinstance(test, OtherTest)]
            for model in [model for test in other_tests for model in as_list(test.models)]:
                if model not in self.models:
                    yield (
                        f"also_tested_on.{task}",
                        f"'{model}' is not a model of this study; add '{model}' to the study's models, or take '{model}' out of this list",
                    )
        for number, pair in enumerate(self.also_compared or []):
            for arm in pair:
                if not has_arm(study, policy=arm.policy, recipe=arm.recipe):
                    yield (
                        f"also_compared[{number}]",
                        f"no arm of the study has policy '{arm.policy}' and recipe '{arm.recipe}'; name two arms of the study",
                    )


def _arm_contradictions(study: dict) -> Iterator[tuple[str, str]]:
    """Report models and tasks of arms that are not in the study, models and tasks of the study
    without an arm, and the first combination (model, task, policy, recipe) that is listed twice."""
    for number, arm in enumerate(study["arms"]):
        for kind in ("models", "tasks"):
            for name in as_list(arm.get(kind, [])):
                if name not in study[kind]:
                    yield (
                        f"arms[{number}].{kind}",
                        f"'{name}' is not one of the study's {kind}; correct it",
                    )
    for kind, singular in (("models", "model"), ("tasks", "task")):
        for name in study[kind]:
            if not has_arm(study, **{singular: name}):
                yield (
                    "arms",
                    f"no arm has {singular} '{name}'; add an arm, or take '{name}' out of `{kind}`",
                )
    # (model, task, policy, recipe) -> number of the first arm that has this combination
    first_arm: dict[tuple, int] = {}
    for number, arm in enumerate(study["arms"]):
        values = [
            arm.get("models", study["models"]),
            arm.get("tasks", study["tasks"]),
            arm["policy"],
            arm.get("recipe", ""),
        ]
        for combination in itertools.product(*map(as_list, values)):
            if combination in first_arm:
                names = ", ".join(filter(None, combination))
                yield (
                    f"arms[{number}]",
                    f"the combination {names} is listed twice, first in arms[{first_arm[combination]}]; remove one of the two",
                )
                return
            first_arm[combination] = number
