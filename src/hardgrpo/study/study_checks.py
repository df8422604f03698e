"""Check a study against its models, tasks, policies and recipes. Contradictions between a study's
own keys are found by the class `hardgrpo.study.study.Study`.

A mistake is a pair (place in the configuration, what is wrong and what to do).
"""

import difflib
import itertools
from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import NamedTuple

from hardgrpo.selection.policies import is_by_tier
from hardgrpo.study import memory, pools
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.selector import CurriculumSelector
from hardgrpo.study.study import Study

Mistakes = Iterator[tuple[str, str]]

SINGULAR = {
    "tasks": "task",
    "models": "model",
    "policies": "policy",
    "recipes": "recipe",
    "studies": "study",
}


def unknown_names(place: str, section: str, names: Collection[str], entries: dict) -> Mistakes:
    """Report names that are not in `entries`, the entries of a section of the configuration."""
    for name in names:
        if name not in entries:
            similar = difflib.get_close_matches(str(name), entries, n=1)
            hint = f"did you mean '{similar[0]}'?" if similar else f"add it under `{section}`"
            known = f"known: {', '.join(entries)}"
            yield place, f"unknown {SINGULAR[section]} '{name}'; {hint} ({known})"


def study_mistakes(config: Configuration, name: str) -> Mistakes:
    """Report the mistakes of a study in combination with the models, tasks, policies and recipes
    that the study names. Unknown names hide no other mistake. If the study's models are unknown or
    cannot be trained or combined, only the names and the models are checked."""
    study, place = config.studies[name], f"studies.{name}"
    yield from _missing_entries(place, study, config)
    if set(study.models) - set(config.models):
        return
    if served := [model for model in study.models if config.models[model].is_served]:
        yield (
            f"{place}.models",
            f"'{served[0]}' is behind a server, so there are no weights to train; use `.venv/bin/snakemake subset`, or name it in `probed_by`",
        )
        return
    kinds = {_kind(config.models[model]) for model in study.models}
    if len(kinds) > 1:
        yield (
            f"{place}.models",
            "models with weights, recorded models and trajectories cannot be in one study; separate them",
        )
        return
    kind = kinds.pop()
    yield from _missing_parts(place, study, config, kind)
    for policy, task in _combinations(study, config, "policy", "task"):
        remedy = "leave the task out of the `tasks` of the policy's arm"
        yield from choice_mistakes(f"{place}.arms", policy, task, config, remedy)
    for check in CHECKS[kind]:
        yield from _failures(check, name, study, config)
    # Memory is checked only for the study that the key `study` names. Studies share tasks, so a
    # completion limit that the user raises for this study also applies to other studies, whose runs
    # may then need more memory than their GPUs have.
    if name == config.study:
        yield from memory_shortages(study, config)


def _kind(model: Model) -> str:
    """`recorded`, `trajectory`, or `weights` for every other source."""
    return "recorded" if model.is_recorded else "trajectory" if model.is_trajectory else "weights"


def _missing_entries(place: str, study: Study, config: Configuration) -> Mistakes:
    for section in ("models", "tasks"):
        entries = getattr(config, section)
        yield from unknown_names(f"{place}.{section}", section, getattr(study, section), entries)
    yield from unknown_names(f"{place}.arms", "policies", study.policies, config.policies)
    yield from unknown_names(f"{place}.arms", "recipes", study.recipes, config.recipes)
    for task, tests in study.other_tests.items():
        yield from unknown_names(f"{place}.also_tested_on.{task}", "tasks", tests, config.tasks)


def _missing_parts(place: str, study: Study, config: Configuration, kind: str) -> Mistakes:
    """Report what a study with models of a kind lacks: tasks, recipes, tests or recordings."""
    for task, tests in study.other_tests.items():
        for test in tests:
            if test in config.tasks and not config.tasks[test].has_test:
                problem = f"task '{test}' has no test split; add one to its source"
                yield f"{place}.also_tested_on.{task}", problem
    if not study.tasks and kind != "trajectory":
        problem = "only a study of trajectories may have no tasks; name one or more of `tasks`"
        yield f"{place}.tasks", problem
    for number, arm in enumerate(study.arms):
        if kind == "weights" and arm.recipe is None:
            yield f"{place}.arms[{number}]", "'recipe' is missing; name one or more of `recipes`"
    if kind == "recorded":
        sources = [config.models[model].source for model in study.models]
        for task in study.tasks:
            if not any(task in source.recordings for source in sources):
                problem = f"no model of the study has recordings of '{task}'; remove the task, or add recordings"
                yield f"{place}.tasks", problem
        if study.also_tested_on:
            problem = "recordings are tested on their own task only; add the other task to the study's tasks"
            yield f"{place}.also_tested_on", problem


# --- choices, also of `snakemake subset` ---


def choice_mistakes(
    place: str, name: str, task: str, config: Configuration, remedy: str
) -> Mistakes:
    """Report the reasons why the policy `name` cannot choose from the pool of a task. `remedy` is
    one way to mend the configuration, in words."""
    policy = config.policies[name]
    if policy.rule == "annotated" and config.tasks[task].is_labelled:
        yield (
            place,
            f"policy '{name}' is for tasks with labelled: false, and '{task}' is labelled; {remedy}, or choose another policy",
        )
    probed_on = policy.probed_on or task
    if probed_on not in config.tasks:
        return
    sampled = config.sampled_task(task)
    if config.sampled_task(probed_on) != sampled:
        yield (
            place,
            f"policy '{name}' is probed on '{probed_on}', which has other problems than '{task}'; {remedy}, or probe on '{sampled}'",
        )
    if policy.probed_by in config.models:
        for obstacle in probe_obstacles(config.models[policy.probed_by], probed_on, config):
            yield (
                place,
                f"'{name}' is probed by '{policy.probed_by}', {obstacle}; {remedy}, or name another model",
            )


def probe_obstacles(model: Model, task: str, config: Configuration) -> Iterator[str]:
    """The reasons why a model cannot be probed on a task: ends of a sentence about the model."""
    source, sampled = model.source, config.sampled_task(task)
    if sampled not in config.tasks:
        return
    # A pretrained model solves only the tasks of its demonstrations. On a task without labels, it is
    # probed only for signals (such as agreement), which need no right answers.
    has_learned = model.is_pretrained and sampled in source.demonstrations
    if model.is_pretrained and config.tasks[task].is_labelled and not has_learned:
        yield f"which has not learned task '{task}'"
    limit = config.tasks[sampled].completion_tokens
    if model.is_pretrained and limit >= source.context_tokens:
        yield f"whose context of {source.context_tokens} tokens has no room for completions of {limit} tokens"
    if model.is_recorded and not getattr(source.recordings.get(task), "probe", None):
        yield f"which has no recorded completions of the pool of '{task}'"
    if model.is_served and config.tasks[task].cut_from:
        yield f"which is behind a server, so there is no tokenizer to cut completions to the limit of '{task}'"
    if model.is_trajectory:
        yield "a trajectory, whose prompts have no texts"


# --- combinations of a model, task, policy or recipe ---


class Check(NamedTuple):
    """A check of each combination of `kinds` that occurs in an arm: `model`, `task`, `policy`,
    `recipe`, and `test`, a task on which the model is tested after training on the task.

    `obstacle` receives the entries of the combination, each with its kind as attribute, and their
    `names` by kind. A true result is a mistake. `{obstacle}` in `problem` stands for the result,
    `{task}` for the name of the task.
    """

    kinds: str
    place: str
    obstacle: Callable[[SimpleNamespace], object]
    problem: str


def _failures(check: Check, study_name: str, study: Study, config: Configuration) -> Mistakes:
    kinds = check.kinds.split()
    sections = {singular: getattr(config, plural) for plural, singular in SINGULAR.items()}
    sections["test"] = config.tasks
    for combination in _combinations(study, config, *kinds):
        names = dict(zip(kinds, combination))
        entries = {kind: sections[kind][name] for kind, name in names.items()}
        combined = SimpleNamespace(names=names, **entries)
        if obstacle := check.obstacle(combined):
            texts = names | {"study": f"studies.{study_name}", "obstacle": obstacle}
            yield check.place.format(**texts), check.problem.format(**texts)


def _combinations(study: Study, config: Configuration, *kinds: str) -> Iterator[tuple[str, ...]]:
    """Yield the combinations of known names that occur in an arm, with one name for each of `kinds`
    (see `Check`)."""
    names = {
        singular: [name for name in getattr(study, plural) if name in getattr(config, plural)]
        for plural, singular in SINGULAR.items()
        if plural != "studies"
    }
    in_arm = [kind for kind in kinds if kind != "test"]
    for combination in itertools.product(*(names[kind] for kind in in_arm)):
        arm = dict(zip(in_arm, combination))
        if study.has_arm(**arm) and "test" not in kinds:
            yield combination
        elif study.has_arm(**arm):
            for test in study.eval_tasks(arm["task"], arm["model"]):
                if test in config.tasks:
                    yield *combination, test


def _is_unlearned(combined: SimpleNamespace, kind: str) -> bool:
    """Whether a pretrained model has no demonstrations of a task or test."""
    sampled = getattr(combined, kind).cut_from or combined.names[kind]
    return combined.model.is_pretrained and sampled not in combined.model.source.demonstrations


def _sorts_by(recipe: Recipe, measure: str) -> bool:
    """Whether a recipe has a curriculum that sorts prompts by a measure."""
    is_curriculum = isinstance(recipe.selector, CurriculumSelector)
    return is_curriculum and recipe.selector.by == measure


def _obstacle_to_rounds(recipe: Recipe) -> str | None:
    if recipe.is_supervised:
        return "trains on worked solutions"
    if recipe.adapter:
        return "trains an adapter, from which a second round cannot start"
    if recipe.beta:
        return f"has beta {recipe.beta}, which would compare the second round to the half-trained model"
    if recipe.majority_share or recipe.is_online:
        return "has a majority_share, a selector or process rewards, whose state ends with a round"
    if recipe.updates % (2 * recipe.checkpoint_every):
        return f"has {recipe.updates} updates: half is no multiple of checkpoint_every ({recipe.checkpoint_every})"
    return None


def _needs_more_than_rates(policy: Policy) -> bool:
    has_other_rule = is_by_tier(policy.rule) or policy.rule == "annotated"
    is_probed = policy.probed_on or policy.probed_by
    return bool(has_other_rule or policy.measure != "pass_rate" or is_probed)


MISSING_TEST = Check(
    "model task test",
    "tasks.{test}",
    lambda c: not (c.test.test and c.test.has_test),
    "a study tests on this task; add a test split (key `test` of its source) and the key `test` of the task",
)
# {kind of the study's models: checks}
CHECKS = {
    "weights": [
        Check(
            "recipe task",
            "{study}.tasks",
            lambda c: c.recipe.is_supervised and not c.task.has_solutions,
            "task '{task}' has no worked solutions, on which recipe '{recipe}' trains; name their column (columns: {{solution: NAME}})",
        ),
        Check(
            "recipe task",
            "{study}.tasks",
            lambda c: _sorts_by(c.recipe, "pass_rate") and not c.task.is_labelled,
            "task '{task}' has no labels, so no pass rates by which recipe '{recipe}' sorts; sort by tier",
        ),
        Check(
            "recipe task",
            "{study}.tasks",
            lambda c: _sorts_by(c.recipe, "tier") and c.task.is_generated and not c.task.has_tiers,
            "task '{task}' has no tiers, by which recipe '{recipe}' sorts; sort by pass_rate",
        ),
        Check(
            "recipe policy",
            "{study}.arms",
            lambda c: (
                _sorts_by(c.recipe, "pass_rate")
                and c.policy.measure != "pass_rate"
                and c.policy.measure
            ),
            "policy '{policy}' chooses by {obstacle}, and recipe '{recipe}' sorts by pass rates; give the policy another recipe",
        ),
        Check(
            "policy recipe",
            "{study}.arms",
            lambda c: c.policy.has_rounds and _obstacle_to_rounds(c.recipe),
            "policy '{policy}' has two rounds, and recipe '{recipe}' {obstacle}; give the policy another recipe",
        ),
        Check(
            "task",
            "{study}.tasks",
            lambda c: not c.task.has_train,
            "task '{task}' has no train split to choose from; add one, or name the task in also_tested_on",
        ),
        Check(
            "task",
            "{study}.tasks",
            lambda c: not c.task.is_labelled and not c.task.annotated,
            "task '{task}' has no answers to train on (labelled: false); annotate what `.venv/bin/snakemake subset` writes (key `annotated`)",
        ),
        Check(
            "task policy",
            "{study}.arms",
            lambda c: c.policy.rule != "annotated" and not c.task.is_labelled,
            "policy '{policy}' needs answers, and '{task}' has labelled: false; choose policy annotated",
        ),
        Check(
            "model task",
            "{study}.tasks",
            lambda c: _is_unlearned(c, "task"),
            "model '{model}' has not learned task '{task}'; add the task to models.{model}.source.demonstrations",
        ),
        Check(
            "model task test",
            "{study}.also_tested_on",
            lambda c: (
                c.names["test"] != c.names["task"]
                and c.test.is_memorised
                and _is_unlearned(c, "test")
            ),
            "model '{model}' has not learned the facts of task '{test}'; add the task to models.{model}.source.demonstrations",
        ),
        Check(
            "model task test",
            "tasks.{test}.completion_tokens",
            lambda c: (
                c.model.is_pretrained
                and c.test.completion_tokens >= c.model.source.context_tokens
                and c.model.source.context_tokens
            ),
            "model '{model}' has a context of {obstacle} tokens for prompt and completion; lower completion_tokens",
        ),
        Check(
            "model",
            "models.{model}.shape",
            lambda c: c.model.gpus and not c.model.shape,
            "a model for GPUs needs its shape, from which its memory is estimated; add the key `shape`",
        ),
        Check(
            "model task test",
            "{study}.tasks",
            lambda c: pools.shared_part(c.task, c.test),
            "the train split of '{task}' and the test split of '{test}' share problems ({obstacle}); name another test split",
        ),
        MISSING_TEST,
    ],
    "recorded": [MISSING_TEST],
    "trajectory": [
        Check(
            "policy",
            "{study}.arms",
            lambda c: _needs_more_than_rates(c.policy),
            "policy '{policy}' needs more than the pass rates, and a trajectory has only pass rates; remove the policy",
        )
    ],
}


def memory_shortages(study: Study, config: Configuration) -> Mistakes:
    """Report runs that do not fit the GPUs of their model, which are of kind `plan.gpu`."""
    for model, recipe, task in _combinations(study, config, "model", "recipe", "task"):
        entry, training = config.models[model], config.recipes[recipe]
        shape = entry.shape
        if shape is None or entry.gpus is None:
            continue
        gpus = entry.training_gpus(training)
        limit = config.tasks[task].completion_tokens
        run, gpu = f"recipe {recipe} on {task}", config.plan.gpu
        if problem := memory.shortage(shape, training, limit, gpus, run, gpu):
            yield f"models.{model}.gpus.{'adapter' if training.adapter else 'full'}", problem
