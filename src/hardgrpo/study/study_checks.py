"""Check a study against its models, tasks, policies and recipes. Contradictions between a study's
own keys are found by the class `hardgrpo.study.study.Study`.

Each check yields the mistakes of the study as (place, what is wrong and what to do). The arguments
of a check are the study's place, the study and the configuration.
"""

import difflib
import itertools
from collections.abc import Collection, Iterator

from hardgrpo.selection.policies import is_by_tier
from hardgrpo.study import memory, pools
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model
from hardgrpo.study.recipe import CurriculumSelector, Recipe
from hardgrpo.study.strict import as_list
from hardgrpo.study.study import OtherTest, Study

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
            yield (
                place,
                f"unknown {SINGULAR[section]} '{name}'; {hint} (known: {', '.join(entries)})",
            )


def study_mistakes(config: Configuration, name: str) -> Mistakes:
    """Report the mistakes of a study in combination with the models, tasks, policies and recipes
    that the study names. If any model or all tasks are unknown, only the names are checked. If the
    study's models cannot be trained or combined, only the names and the models are checked."""
    study, place = config.studies[name], f"studies.{name}"
    yield from _missing_entries(place, study, config)
    if set(study.models) - set(config.models) or (
        study.tasks and not set(study.tasks) & set(config.tasks)
    ):
        return
    study = _without_unknown_names(study, config)
    if served := [model for model in study.models if config.models[model].is_served]:
        yield (
            f"{place}.models",
            f"'{served[0]}' is behind a server, so there are no weights to train; name it as `probed_by` of a policy, or choose prompts with"
            " `.venv/bin/snakemake subset` and train elsewhere",
        )
        return
    kinds = {_kind(config.models[model]) for model in study.models}
    if len(kinds) > 1:
        yield (
            f"{place}.models",
            "models with weights, recorded models and trajectories cannot be in one study; make a study for each kind",
        )
        return
    for check in (_impossible_choices, *CHECKS[kinds.pop()]):
        yield from check(place, study, config)
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


def _without_unknown_names(study: Study, config: Configuration) -> Study:
    known = lambda entries, names: [name for name in as_list(names) if name in entries]
    arms = [
        arm.model_copy(
            update={"policy": known(config.policies, arm.policy)}
            | ({"recipe": known(config.recipes, arm.recipe)} if arm.recipe else {})
        )
        for arm in study.arms
    ]
    name_of = lambda test: test.task if isinstance(test, OtherTest) else test
    tests = {
        task: [test for test in entries if name_of(test) in config.tasks]
        for task, entries in (study.also_tested_on or {}).items()
    }
    tasks = known(config.tasks, study.tasks)
    return study.model_copy(update={"tasks": tasks, "arms": arms, "also_tested_on": tests})


def _combinations(study: Study, *kinds: str) -> Iterator[tuple[str, ...]]:
    """Yield the combinations of names that occur in an arm, with one name for each of `kinds`
    (`model`, `task`, `policy`, `recipe`)."""
    names = {
        "model": study.models,
        "task": study.tasks,
        "policy": study.policies,
        "recipe": study.recipes,
    }
    for combination in itertools.product(*(names[kind] for kind in kinds)):
        if study.has_arm(**dict(zip(kinds, combination))):
            yield combination


# --- models of every kind ---


def _impossible_choices(place: str, study: Study, config: Configuration) -> Mistakes:
    remedy = "leave the task out of the `tasks` of the policy's arm"
    for policy, task in _combinations(study, "policy", "task"):
        yield from choice_mistakes(f"{place}.arms", policy, task, config, remedy)


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
            f"policy '{name}' is probed on '{probed_on}', which has other problems than '{task}'; {remedy}, or let probed_on name"
            f" '{sampled}' or a task that is cut from it",
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


# --- models with weights ---


def _missing_recipes(place: str, study: Study, config: Configuration) -> Mistakes:
    for number, arm in enumerate(study.arms):
        if arm.recipe is None:
            yield f"{place}.arms[{number}]", "'recipe' is missing; name one or more of `recipes`"


def _missing_solutions(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report tasks that have no worked solutions, but that a recipe with objective: sft trains on."""
    for recipe, task in _combinations(study, "recipe", "task"):
        if config.recipes[recipe].is_supervised and not config.tasks[task].has_solutions:
            yield (
                f"{place}.tasks",
                f"task '{task}' has no worked solutions, which recipe '{recipe}' trains on (objective: sft); leave the task out of the"
                " `tasks` of the recipe's arm, or name a column with solutions in the task's source (columns: {solution: NAME})",
            )


def _missing_measures(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report curricula that sort by a measure (tier or pass rate) that the chosen prompts do not
    have."""
    selectors = {name: config.recipes[name].selector for name in study.recipes}
    measures = {
        name: selector.by or "tier"
        for name, selector in selectors.items()
        if isinstance(selector, CurriculumSelector)
    }
    for recipe, task in _combinations(study, "recipe", "task"):
        if measures.get(recipe) == "pass_rate" and not config.tasks[task].is_labelled:
            yield (
                f"{place}.tasks",
                f"task '{task}' is not labelled, so its prompts have no pass rates by which recipe '{recipe}' could sort; leave the task"
                " out of the `tasks` of the recipe's arm, or sort by tier",
            )
        if (
            measures.get(recipe) == "tier"
            and config.tasks[task].is_generated
            and not config.tasks[task].has_tiers
        ):
            yield (
                f"{place}.tasks",
                f"task '{task}' has no tiers, by which recipe '{recipe}' sorts; leave the task out of the `tasks` of the recipe's arm, or"
                " sort by pass_rate",
            )
    for recipe, policy in _combinations(study, "recipe", "policy"):
        if (
            measures.get(recipe) == "pass_rate"
            and (by := config.policies[policy].measure) != "pass_rate"
        ):
            yield (
                f"{place}.arms",
                f"policy '{policy}' chooses by {by}, so its prompts have no pass rates by which recipe '{recipe}' could sort; give"
                " the policy another recipe",
            )


def _obstacles_to_rounds(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report arms whose policy annotates in two rounds and whose recipe cannot train in two
    rounds."""
    for policy, recipe in _combinations(study, "policy", "recipe"):
        obstacle = _obstacle_to_rounds(config.recipes[recipe])
        if config.policies[policy].has_rounds and obstacle:
            yield (
                f"{place}.arms",
                f"policy '{policy}' annotates in two rounds, and recipe '{recipe}' {obstacle}; give the policy another recipe",
            )


def _obstacle_to_rounds(recipe: Recipe) -> str | None:
    if recipe.is_supervised:
        return "trains on worked solutions"
    if recipe.adapter:
        return "trains an adapter, from which a second round cannot start"
    if recipe.beta:
        return f"has beta {recipe.beta}: its KL term would compare the second round to the half-trained model, not to the base"
    if recipe.majority_share or recipe.is_online:
        return "has a majority_share, a selector or process rewards, whose state is not passed on to a second round"
    if recipe.updates % (2 * recipe.checkpoint_every):
        return f"has {recipe.updates} updates, and half of this number is not a multiple of checkpoint_every ({recipe.checkpoint_every})"
    return None


def _missing_answers(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report tasks that cannot be trained on, and policies that do not fit a task's labels."""
    for task in study.tasks:
        if not config.tasks[task].has_train:
            yield (
                f"{place}.tasks",
                f"task '{task}' has no train split to choose from; add one, or name the task in also_tested_on",
            )
        if not config.tasks[task].is_labelled and not config.tasks[task].annotated:
            yield (
                f"{place}.tasks",
                f"task '{task}' has no reference answers (labelled: false), so nothing can be trained on it;"
                " annotate the prompts that `.venv/bin/snakemake subset` writes, and name the filled-in file in the task's key `annotated`",
            )
    for task, policy in _combinations(study, "task", "policy"):
        if config.policies[policy].rule != "annotated" and not config.tasks[task].is_labelled:
            yield (
                f"{place}.arms",
                f"policy '{policy}' is for tasks whose prompts have answers, and '{task}' has labelled: false; choose policy annotated,"
                " which takes the annotated prompts",
            )


def _unsuitable_models(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report tasks that a model has not learned, completion limits that leave no room for a prompt
    in a model's context, and models that have `gpus` but no `shape`."""
    for model, task in _combinations(study, "model", "task"):
        source, is_pretrained = config.models[model].source, config.models[model].is_pretrained
        if is_pretrained and config.sampled_task(task) not in source.demonstrations:
            yield (
                f"{place}.tasks",
                f"model '{model}' has not learned task '{task}'; add the task to models.{model}.source.demonstrations",
            )
        for test in study.eval_tasks(task, model):
            if (
                is_pretrained
                and test != task
                and config.tasks[test].is_memorised
                and config.sampled_task(test) not in source.demonstrations
            ):
                yield (
                    f"{place}.also_tested_on",
                    f"model '{model}' has not learned the facts of task '{test}'; add the task to models.{model}.source.demonstrations",
                )
            if is_pretrained and config.tasks[test].completion_tokens >= source.context_tokens:
                yield (
                    f"tasks.{test}.completion_tokens",
                    f"model '{model}' has a context of {source.context_tokens} tokens for prompt and completion; lower completion_tokens",
                )
    for model in study.models:
        if config.models[model].gpus and not config.models[model].shape:
            yield (
                f"models.{model}.shape",
                "a model for GPUs needs its shape, from which its memory is estimated; add the key `shape`",
            )


def _shared_problems(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report tasks whose train split contains problems of a test split."""
    for task in study.tasks:
        for test in dict.fromkeys(
            test for model in study.models for test in study.eval_tasks(task, model)
        ):
            if part := pools.shared_part(config.tasks[task], config.tasks[test]):
                yield (
                    f"{place}.tasks",
                    f"the train split of '{task}' and the test split of '{test}' share problems ({part}); name another test split",
                )


def memory_shortages(study: Study, config: Configuration) -> Mistakes:
    """Report runs that do not fit the GPUs of their model, which are of kind `plan.gpu`."""
    for model, recipe, task in _combinations(study, "model", "recipe", "task"):
        entry, training = config.models[model], config.recipes[recipe]
        shape = entry.shape
        if shape is None or entry.gpus is None:
            continue
        gpus = entry.training_gpus(training)
        limit = config.tasks[task].completion_tokens
        run, gpu = f"recipe {recipe} on {task}", config.plan.gpu
        if problem := memory.shortage(shape, training, limit, gpus, run, gpu):
            yield f"models.{model}.gpus.{'adapter' if training.adapter else 'full'}", problem


# --- recorded models; `_missing_tests` also checks models with weights ---


def _missing_recordings(place: str, study: Study, config: Configuration) -> Mistakes:
    recorded_tasks = {
        task for model in study.models for task in config.models[model].source.recordings
    }
    for task in study.tasks:
        if task not in recorded_tasks:
            yield (
                f"{place}.tasks",
                f"no model of the study has recordings of '{task}'; remove the task, or add recordings",
            )
    if study.also_tested_on:
        yield (
            f"{place}.also_tested_on",
            "recordings are tested on their own task only; add the other task to the study's tasks",
        )


def _missing_tests(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report a study without tasks, tested tasks without a test split or without the key `test`,
    and entries of `also_tested_on` without a test split."""
    if not study.tasks:
        yield (
            f"{place}.tasks",
            "only a study of trajectories may have no tasks; name one or more of `tasks`",
        )
    for model, task in _combinations(study, "model", "task"):
        for test in study.eval_tasks(task, model):
            if not (config.tasks[test].test and config.tasks[test].has_test):
                yield (
                    f"tasks.{test}",
                    "a study tests on this task; add a test split (key `test` of its source) and the key `test` of the task",
                )
    for task, tests in study.other_tests.items():
        for test in tests:
            if not config.tasks[test].has_test:
                yield (
                    f"{place}.also_tested_on.{task}",
                    f"task '{test}' has no test split; add one to its source",
                )


def _policies_without_rates(place: str, study: Study, config: Configuration) -> Mistakes:
    """Report policies that need more than pass rates, which is all that a trajectory has."""
    for name in study.policies:
        policy = config.policies[name]
        has_other_rule = is_by_tier(policy.rule) or policy.rule == "annotated"
        if has_other_rule or policy.measure != "pass_rate" or policy.probed_on or policy.probed_by:
            yield (
                f"{place}.arms",
                f"policy '{name}' needs more than the pass rates, and a trajectory has only pass rates; remove the policy",
            )


# {kind of the study's models: checks}
CHECKS = {
    "weights": [
        _missing_recipes,
        _missing_solutions,
        _missing_measures,
        _obstacles_to_rounds,
        _missing_answers,
        _unsuitable_models,
        _shared_problems,
        _missing_tests,
    ],
    "recorded": [_missing_recordings, _missing_tests],
    "trajectory": [_policies_without_rates],
}
