"""A study: its arms, seeds and tests."""

from typing import Annotated, Literal

from pydantic import Field

from hardgrpo.study.strict import Names, Strict


class Arm(Strict):
    policy: str | Names
    """Names in `policies`. Where completions are recorded or the model is a trajectory, an arm chooses subsets and
    trains nothing."""

    recipe: str | Names | None = None
    """Names in `recipes`, needed where models have weights. Figures name the recipe of an arm unless it is the study's
    first."""

    models: str | Names | None = None
    """Models of the study. The default is all of them."""

    tasks: str | Names | None = None
    """Tasks of the study, trained on. The default is all of them."""


class OtherTest(Strict):
    task: str
    """A name in `tasks`."""

    models: str | Names
    """The models of the study whose runs are tested on it."""


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
    """The question that the study asks, for a reader of the list of studies."""

    models: Names
    """Names in `models`: all with weights, all recorded, or all trajectories."""

    tasks: list[str]
    """Names in `tasks`. Models are trained and tested on each. Empty ([]) where the models are trajectories."""

    arms: Annotated[list[Arm], Field(min_length=1)]
    """What is compared. Each arm trains every combination of its policies, recipes, models and tasks."""

    seeds: Annotated[list[Annotated[int, Field(ge=0, le=4294967295)]], Field(min_length=1)]
    """The replicates. A seed breaks the ties of the subset and sets the randomness of training."""

    also_tested_on: dict[str, Annotated[list[str | OtherTest], Field(min_length=1)]] | None = None
    """For each task, other tasks that its runs are tested on, too."""

    also_compared: list[Annotated[list[ComparedArm], Field(min_length=2, max_length=2)]] | None = None
    """Pairs of arms that are compared although both policy and recipe differ."""

    weaker_signal: list[str] | None = None
    """Tasks or models that table weaker_signal shows (HE's Table 3)."""

    aims_at: list[str] | None = None
    """Ids of claims in paper/claims.yaml that the number of seeds was chosen for. The plan says what each takes."""

    held_constant: list[Literal["updates", "prompts", "rollouts", "completion_tokens", "labels"]] | None = None
    """What must be equal in all runs on a task, of one model: `prompts` counts a prompt each time that it is sampled,
    `completion_tokens` is the limit, `labels` are all that a run buys. The summary stops where it differs (`parity`
    in src/hardgrpo/analysis/training_logs.py)."""
