"""Check a study against its models, tasks, policies and recipes. Contradictions between a study's
own keys are found by the class `hardgrpo.study.study.Study`.

Each check yields the mistakes of the study as (place, what is wrong and what to do). The arguments
of a check are the study's place, the study, and the sections of the configuration that `CHECKS`
lists.
"""

import difflib
import itertools
from collections.abc import Collection, Iterator

from hardgrpo.data import generated
from hardgrpo.selection.policies import is_by_tier
from hardgrpo.study import memory, pools
from hardgrpo.study.settings import (
    as_list,
    eval_tasks,
    has_arm,
    has_solutions,
    has_tiers,
    has_train,
    is_labelled,
    is_online,
    is_supervised,
    majority_share,
    policies_of,
    recipes_of,
    sampled_task,
    training_gpus,
)

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


def study_mistakes(config: dict, name: str) -> Mistakes:
    """Report the mistakes of a study in combination with the models, tasks, policies and recipes
    that the study names. If any model or all tasks are unknown, only the names are checked. If the
    study's models cannot be trained or combined, only the names and the models are checked."""
    study, place = config["studies"][name], f"studies.{name}"
    yield from _missing_entries(place, study, config)
    if (
        set(study["models"]) - set(config["models"])
        or study["tasks"]
        and not set(study["tasks"]) & set(config["tasks"])
    ):
        return
    study = _without_unknown_names(study, config)
    if served := [
        model for model in study["models"] if config["models"][model]["source"]["kind"] == "server"
    ]:
        yield (
            f"{place}.models",
            f"'{served[0]}' is behind a server, so there are no weights to train; name it as `probed_by` of a policy, or choose prompts with"
            " `.venv/bin/snakemake subset` and train elsewhere",
        )
        return
    kinds = {_kind(config["models"][model]) for model in study["models"]}
    if len(kinds) > 1:
        yield (
            f"{place}.models",
            "models with weights, recorded models and trajectories cannot be in one study; make a study for each kind",
        )
        return
    for check, sections in (*CHECKS["any"], *CHECKS[kinds.pop()]):
        yield from check(place, study, *(config[section] for section in sections))
    # Memory is checked only for the study that the key `study` names. Studies share tasks, so a
    # completion limit that the user raises for this study also applies to other studies, whose runs
    # may then need more memory than their GPUs have.
    if name == config["study"]:
        gpu = config["plan"]["gpu"]
        yield from memory_shortages(
            study, config["models"], config["recipes"], config["tasks"], gpu
        )


def _kind(model: dict) -> str:
    """`recorded`, `trajectory`, or `weights` for every other source."""
    kind = model["source"]["kind"]
    return kind if kind in ("recorded", "trajectory") else "weights"


def _missing_entries(place: str, study: dict, config: dict) -> Mistakes:
    for section in ("models", "tasks"):
        yield from unknown_names(f"{place}.{section}", section, study[section], config[section])
    yield from unknown_names(f"{place}.arms", "policies", policies_of(study), config["policies"])
    yield from unknown_names(f"{place}.arms", "recipes", recipes_of(study), config["recipes"])
    for task, tests in study.get("also_tested_on", {}).items():
        names = [test if isinstance(test, str) else test["task"] for test in tests]
        yield from unknown_names(f"{place}.also_tested_on.{task}", "tasks", names, config["tasks"])


def _without_unknown_names(study: dict, config: dict) -> dict:
    existing = lambda section, names: [name for name in as_list(names) if name in config[section]]
    sections = {"policy": "policies", "recipe": "recipes"}
    arms = [
        arm | {key: existing(section, arm[key]) for key, section in sections.items() if key in arm}
        for arm in study["arms"]
    ]
    tests = {
        task: [
            test
            for test in entries
            if (test if isinstance(test, str) else test["task"]) in config["tasks"]
        ]
        for task, entries in study.get("also_tested_on", {}).items()
    }
    return study | {
        "tasks": existing("tasks", study["tasks"]),
        "arms": arms,
        "also_tested_on": tests,
    }


def _combinations(study: dict, *kinds: str) -> Iterator[tuple[str, ...]]:
    """Yield the combinations of names that occur in an arm, with one name for each of `kinds`
    (`model`, `task`, `policy`, `recipe`)."""
    names = {
        "model": study["models"],
        "task": study["tasks"],
        "policy": policies_of(study),
        "recipe": recipes_of(study),
    }
    for combination in itertools.product(*(names[kind] for kind in kinds)):
        if has_arm(study, **dict(zip(kinds, combination))):
            yield combination


# --- models of every kind ---


def _impossible_choices(
    place: str, study: dict, policies: dict, tasks: dict, models: dict
) -> Mistakes:
    for policy, task in _combinations(study, "policy", "task"):
        yield from choice_mistakes(
            f"{place}.arms",
            policy,
            task,
            policies,
            tasks,
            models,
            remedy="leave the task out of the `tasks` of the policy's arm",
        )


def choice_mistakes(
    place: str, policy: str, task: str, policies: dict, tasks: dict, models: dict, remedy: str
) -> Mistakes:
    """Report the reasons why a policy cannot choose from the pool of a task. `remedy` is one way to
    mend the configuration, in words."""
    entry = policies[policy]
    if entry["rule"] == "annotated" and is_labelled(tasks[task]):
        yield (
            place,
            f"policy '{policy}' is for tasks with labelled: false, and '{task}' is labelled; {remedy}, or choose another policy",
        )
    probed_on = entry.get("probed_on", task)
    if probed_on not in tasks:
        return
    if sampled_task(tasks, probed_on) != sampled_task(tasks, task):
        yield (
            place,
            f"policy '{policy}' is probed on '{probed_on}', which has other problems than '{task}'; {remedy}, or let probed_on name"
            f" '{sampled_task(tasks, task)}' or a task that is cut from it",
        )
    if entry.get("probed_by") in models:
        model = entry["probed_by"]
        for obstacle in probe_obstacles(models[model], probed_on, tasks):
            yield (
                place,
                f"'{policy}' is probed by '{model}', {obstacle}; {remedy}, or name another model",
            )


def probe_obstacles(model: dict, task: str, tasks: dict) -> Iterator[str]:
    """The reasons why a model cannot be probed on a task: ends of a sentence about the model."""
    source = model["source"]
    # A pretrained model solves only the tasks of its demonstrations. On a task without labels, it is
    # probed only for signals (such as agreement), which need no right answers.
    has_learned = sampled_task(tasks, task) in source.get("demonstrations", [])
    if source["kind"] == "pretrain" and is_labelled(tasks[task]) and not has_learned:
        yield f"which has not learned task '{task}'"
    limit = tasks[sampled_task(tasks, task)]["completion_tokens"]
    if source["kind"] == "pretrain" and limit >= source["context_tokens"]:
        yield f"whose context of {source['context_tokens']} tokens has no room for completions of {limit} tokens"
    if source["kind"] == "recorded" and "probe" not in source["recordings"].get(task, {}):
        yield f"which has no recorded completions of the pool of '{task}'"
    if source["kind"] == "server" and "cut_from" in tasks[task]:
        yield f"which is behind a server, so there is no tokenizer to cut completions to the limit of '{task}'"
    if source["kind"] == "trajectory":
        yield "a trajectory, whose prompts have no texts"


# --- models with weights ---


def _missing_recipes(place: str, study: dict) -> Mistakes:
    for number, arm in enumerate(study["arms"]):
        if "recipe" not in arm:
            yield f"{place}.arms[{number}]", "'recipe' is missing; name one or more of `recipes`"


def _missing_solutions(place: str, study: dict, tasks: dict, recipes: dict) -> Mistakes:
    """Report tasks that have no worked solutions, but that a recipe with objective: sft trains on."""
    for recipe, task in _combinations(study, "recipe", "task"):
        if is_supervised(recipes[recipe]) and not has_solutions(tasks[task]):
            yield (
                f"{place}.tasks",
                f"task '{task}' has no worked solutions, which recipe '{recipe}' trains on (objective: sft); leave the task out of the"
                " `tasks` of the recipe's arm, or name a column with solutions in the task's source (columns: {solution: NAME})",
            )


def _missing_measures(
    place: str, study: dict, tasks: dict, policies: dict, recipes: dict
) -> Mistakes:
    """Report curricula that sort by a measure (tier or pass rate) that the chosen prompts do not
    have."""
    selectors = {name: recipes[name].get("selector") or {} for name in recipes_of(study)}
    measures = {
        name: selector.get("by", "tier")
        for name, selector in selectors.items()
        if selector.get("kind") == "curriculum"
    }
    for recipe, task in _combinations(study, "recipe", "task"):
        if measures.get(recipe) == "pass_rate" and not is_labelled(tasks[task]):
            yield (
                f"{place}.tasks",
                f"task '{task}' is not labelled, so its prompts have no pass rates by which recipe '{recipe}' could sort; leave the task"
                " out of the `tasks` of the recipe's arm, or sort by tier",
            )
        if (
            measures.get(recipe) == "tier"
            and tasks[task]["source"]["kind"] == "generated"
            and not has_tiers(tasks[task])
        ):
            yield (
                f"{place}.tasks",
                f"task '{task}' has no tiers, by which recipe '{recipe}' sorts; leave the task out of the `tasks` of the recipe's arm, or"
                " sort by pass_rate",
            )
    for recipe, policy in _combinations(study, "recipe", "policy"):
        if (
            measures.get(recipe) == "pass_rate"
            and (by := policies[policy].get("by", "pass_rate")) != "pass_rate"
        ):
            yield (
                f"{place}.arms",
                f"policy '{policy}' chooses by {by}, so its prompts have no pass rates by which recipe '{recipe}' could sort; give"
                " the policy another recipe",
            )


def _obstacles_to_rounds(place: str, study: dict, policies: dict, recipes: dict) -> Mistakes:
    """Report arms whose policy annotates in two rounds and whose recipe cannot train in two
    rounds."""
    for policy, recipe in _combinations(study, "policy", "recipe"):
        if "rounds" in policies[policy] and (obstacle := _obstacle_to_rounds(recipes[recipe])):
            yield (
                f"{place}.arms",
                f"policy '{policy}' annotates in two rounds, and recipe '{recipe}' {obstacle}; give the policy another recipe",
            )


def _obstacle_to_rounds(recipe: dict) -> str | None:
    if is_supervised(recipe):
        return "trains on worked solutions"
    if recipe.get("adapter"):
        return "trains an adapter, from which a second round cannot start"
    if recipe.get("beta", 0) > 0:
        return f"has beta {recipe['beta']}: its KL term would compare the second round to the half-trained model, not to the base"
    if majority_share(recipe) or is_online(recipe):
        return "has a majority_share, a selector or process rewards, whose state is not passed on to a second round"
    if recipe["updates"] % (2 * recipe["checkpoint_every"]):
        return f"has {recipe['updates']} updates, and half of this number is not a multiple of checkpoint_every ({recipe['checkpoint_every']})"
    return None


def _missing_answers(place: str, study: dict, tasks: dict, policies: dict) -> Mistakes:
    """Report tasks that cannot be trained on, and policies that do not fit a task's labels."""
    for task in study["tasks"]:
        if not has_train(tasks[task]):
            yield (
                f"{place}.tasks",
                f"task '{task}' has no train split to choose from; add one, or name the task in also_tested_on",
            )
        if not is_labelled(tasks[task]) and "annotated" not in tasks[task]:
            yield (
                f"{place}.tasks",
                f"task '{task}' has no reference answers (labelled: false), so nothing can be trained on it;"
                " annotate the prompts that `.venv/bin/snakemake subset` writes, and name the filled-in file in the task's key `annotated`",
            )
    for task, policy in _combinations(study, "task", "policy"):
        if policies[policy]["rule"] != "annotated" and not is_labelled(tasks[task]):
            yield (
                f"{place}.arms",
                f"policy '{policy}' is for tasks whose prompts have answers, and '{task}' has labelled: false; choose policy annotated,"
                " which takes the annotated prompts",
            )


def _unsuitable_models(place: str, study: dict, tasks: dict, models: dict) -> Mistakes:
    """Report tasks that a model has not learned, completion limits that leave no room for a prompt
    in a model's context, and models that have `gpus` but no `shape`."""
    for model, task in _combinations(study, "model", "task"):
        source = models[model]["source"]
        is_pretrained = source["kind"] == "pretrain"
        if is_pretrained and sampled_task(tasks, task) not in source["demonstrations"]:
            yield (
                f"{place}.tasks",
                f"model '{model}' has not learned task '{task}'; add the task to models.{model}.source.demonstrations",
            )
        for test in eval_tasks(study, task, model):
            is_memorised = tasks[test]["source"].get("family") in generated.MEMORISED
            if (
                is_pretrained
                and test != task
                and is_memorised
                and sampled_task(tasks, test) not in source["demonstrations"]
            ):
                yield (
                    f"{place}.also_tested_on",
                    f"model '{model}' has not learned the facts of task '{test}'; add the task to models.{model}.source.demonstrations",
                )
            if is_pretrained and tasks[test]["completion_tokens"] >= source["context_tokens"]:
                yield (
                    f"tasks.{test}.completion_tokens",
                    f"model '{model}' has a context of {source['context_tokens']} tokens for prompt and completion; lower completion_tokens",
                )
    for model in study["models"]:
        if "gpus" in models[model] and "shape" not in models[model]:
            yield (
                f"models.{model}.shape",
                "a model for GPUs needs its shape, from which its memory is estimated; add the key `shape`",
            )


def _shared_problems(place: str, study: dict, tasks: dict) -> Mistakes:
    """Report tasks whose train split contains problems of a test split."""
    for task in study["tasks"]:
        for test in dict.fromkeys(
            test for model in study["models"] for test in eval_tasks(study, task, model)
        ):
            if part := pools.shared_part(tasks[task], tasks[test]):
                yield (
                    f"{place}.tasks",
                    f"the train split of '{task}' and the test split of '{test}' share problems ({part}); name another test split",
                )


def memory_shortages(study: dict, models: dict, recipes: dict, tasks: dict, gpu: str) -> Mistakes:
    """Report runs that do not fit the GPUs of their model, which are of kind `gpu`."""
    for model, recipe, task in _combinations(study, "model", "recipe", "task"):
        shape, training = models[model].get("shape"), recipes[recipe]
        if shape is None or "gpus" not in models[model]:
            continue
        gpus = training_gpus(models[model], training)
        limit = tasks[task]["completion_tokens"]
        name = f"recipe {recipe} on {task}"
        if problem := memory.shortage(shape, training, limit, gpus, name, gpu):
            yield f"models.{model}.gpus.{'adapter' if training.get('adapter') else 'full'}", problem


# --- recorded models; `_missing_tests` also checks models with weights ---


def _missing_recordings(place: str, study: dict, tasks: dict, models: dict) -> Mistakes:
    recorded_tasks = {
        task for model in study["models"] for task in models[model]["source"]["recordings"]
    }
    for task in study["tasks"]:
        if "cut_from" in tasks[task]:
            yield (
                f"{place}.tasks",
                f"recorded completions cannot be cut, but task '{task}' has cut_from; remove the task",
            )
        if task not in recorded_tasks:
            yield (
                f"{place}.tasks",
                f"no model of the study has recordings of '{task}'; remove the task, or add recordings",
            )
    if len(study["seeds"]) != 1:
        yield f"{place}.seeds", "recorded completions have no seeds; expected a list of one number"
    if study.get("also_tested_on"):
        yield (
            f"{place}.also_tested_on",
            "recordings are tested on their own task only; add the other task to the study's tasks",
        )


def _missing_tests(place: str, study: dict, tasks: dict) -> Mistakes:
    """Report a study without tasks, tested tasks without a test split or without the key `test`,
    and entries of `also_tested_on` without a test split."""
    if not study["tasks"]:
        yield (
            f"{place}.tasks",
            "only a study of trajectories may have no tasks; name one or more of `tasks`",
        )
    for model, task in _combinations(study, "model", "task"):
        for test in eval_tasks(study, task, model):
            if not (tasks[test].get("test") and tasks[test]["source"].get("test")):
                yield (
                    f"tasks.{test}",
                    "a study tests on this task; add a test split (key `test` of its source) and the key `test` of the task",
                )
    for task, tests in study.get("also_tested_on", {}).items():
        for test in (test if isinstance(test, str) else test["task"] for test in tests):
            if not tasks[test]["source"].get("test"):
                yield (
                    f"{place}.also_tested_on.{task}",
                    f"task '{test}' has no test split; add one to its source",
                )


# --- trajectories ---


def _trajectory_mistakes(place: str, study: dict, policies: dict) -> Mistakes:
    """Report keys about tasks and runs, which a study of trajectories does not have, and policies
    that need more than pass rates."""
    for key in ("tasks", "also_tested_on", "weaker_signal", "held_constant"):
        if study.get(key):
            yield (
                f"{place}.{key}",
                "trajectories have neither tasks nor runs; "
                + ("write []" if key == "tasks" else "remove it"),
            )
    for number, arm in enumerate(study["arms"]):
        for key in sorted({"recipe", "tasks"} & set(arm)):
            yield (
                f"{place}.arms[{number}].{key}",
                "trajectories have neither tasks nor runs; remove it",
            )
    for name in policies_of(study):
        policy = policies[name]
        is_by_rates = (
            not is_by_tier(policy["rule"])
            and policy["rule"] != "annotated"
            and policy.get("by", "pass_rate") == "pass_rate"
        )
        if not is_by_rates or not {"probed_on", "probed_by"}.isdisjoint(policy):
            yield (
                f"{place}.arms",
                f"policy '{name}' needs more than the pass rates, and a trajectory has only pass rates; remove the policy",
            )


# {kind of the study's models: [(check, sections of the configuration that the check takes)]}
CHECKS = {
    "any": [(_impossible_choices, ["policies", "tasks", "models"])],
    "weights": [
        (_missing_recipes, []),
        (_missing_solutions, ["tasks", "recipes"]),
        (_missing_measures, ["tasks", "policies", "recipes"]),
        (_obstacles_to_rounds, ["policies", "recipes"]),
        (_missing_answers, ["tasks", "policies"]),
        (_unsuitable_models, ["tasks", "models"]),
        (_shared_problems, ["tasks"]),
        (_missing_tests, ["tasks"]),
    ],
    "recorded": [(_missing_recordings, ["tasks", "models"]), (_missing_tests, ["tasks"])],
    "trajectory": [(_trajectory_mistakes, ["policies"])],
}
