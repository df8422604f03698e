"""Check what a study of config.yaml asks of its models, tasks, policies and recipes. Part of `checks`.

Every function yields (place in config.yaml, what is wrong); `cannot_choose` yields what is wrong alone.
"""

import difflib
import itertools
from collections.abc import Iterator

from hardgrpo.data import generated
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import memory, pools
from hardgrpo.study.settings import (
    eval_tasks,
    has_arm,
    has_solutions,
    has_tiers,
    has_train,
    has_weights,
    is_labelled,
    is_online,
    is_supervised,
    is_trajectory,
    listed,
    majority_share,
    policies_of,
    recipes_of,
    sampled_as,
)

SINGULAR = {"tasks": "task", "models": "model", "policies": "policy", "recipes": "recipe", "studies": "study"}


def unknown(config: dict, place: str, kind: str, names) -> Iterator[tuple[str, str]]:
    """Names that the section `kind` of the configuration does not have."""
    for name in names:
        if name not in config[kind]:
            close = difflib.get_close_matches(str(name), config[kind], n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"add it under `{kind}`"
            yield place, f"unknown {SINGULAR[kind]} '{name}'; {hint} (known: {', '.join(config[kind])})"


def contradictions(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """(place, what is wrong and what to do) of every mistake in a study."""
    for kind in ("models", "tasks"):
        yield from unknown(config, f"{place}.{kind}", kind, study[kind])
        if len(set(study[kind])) < len(study[kind]):
            yield f"{place}.{kind}", "a name stands here twice; remove one"
    yield from arms(config, study, f"{place}.arms")
    if len(set(study["seeds"])) < len(study["seeds"]):
        yield f"{place}.seeds", f"{study['seeds']} are not distinct; a seed that stands twice is one replicate counted twice"
    for policy in policies_of(study):
        for task in study["tasks"]:
            other = config["policies"].get(policy, {}).get("probed_on", task)
            if not has_arm(study, policy=policy, task=task) or {task, other} - set(config["tasks"]):
                continue
            if sampled_as(config, other) != sampled_as(config, task):
                yield (
                    f"{place}.arms",
                    f"policy '{policy}' is probed on '{other}', whose problems are not those of '{task}'; give its arm `tasks` without"
                    f" '{task}', or name a task with the same cut_from",
                )
    for problem in cannot_choose(config, study):
        yield f"{place}.arms", problem
    kinds = {(has_weights(config, model), is_trajectory(config, model)) for model in study["models"]}
    if len(kinds) > 1:
        yield f"{place}.models", "models with weights, recorded ones and trajectories cannot share a study; make one for each"
    if is_trajectory(config, study["models"][0]):
        yield from not_for_trajectories(config, study, place)
        return
    if not study["tasks"]:
        yield f"{place}.tasks", "there is none, which is for trajectories alone; name one or more of `tasks`"
    trained = has_weights(config, study["models"][0])
    yield from (_of_training if trained else _of_recordings)(config, study, place)
    yield from _of_tests(config, study, place)


def arms(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Arms with unknown names, with models or tasks that the study does not list, or that other arms have, too."""
    yield from unknown(config, place, "policies", policies_of(study))
    yield from unknown(config, place, "recipes", recipes_of(study))
    arm_of: dict[tuple, int] = {}
    for number, arm in enumerate(study["arms"]):
        for kind in ("models", "tasks"):
            for name in listed(arm.get(kind, [])):
                if name not in study[kind]:
                    yield f"{place}[{number}].{kind}", f"'{name}' is not one of the study's {kind}; correct it"
        parts = [arm.get("models", study["models"]), arm.get("tasks", study["tasks"]), arm["policy"], arm.get("recipe", "")]
        for combination in itertools.product(*map(listed, parts)):
            if arm_of.setdefault(combination, number) != number or sum(map(list.count, map(listed, parts), combination)) > 4:
                names = ", ".join(name for name in combination if name)
                yield f"{place}[{number}]", f"{names}: stands here twice, or in arms[{arm_of[combination]}], too; remove one"
                return
    for kind, name in (("models", "model"), ("tasks", "task")):
        for value in study[kind]:
            if not has_arm(study, **{name: value}):
                yield f"{place}", f"no arm has {name} '{value}'; add one, or take '{value}' out of `{kind}`"


def _of_training(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    for number, arm in enumerate(study["arms"]):
        if "recipe" not in arm:
            yield f"{place}.arms[{number}]", "'recipe' is missing; name one or more of `recipes`"
    yield from without_solutions(config, study, place)
    yield from curricula(config, study, place)
    yield from in_rounds(config, study, place)
    yield from also_compared(study, place)
    for task in study["tasks"]:
        if not has_train(config["tasks"][task]):
            yield (
                f"{place}.tasks",
                f"task '{task}' has no train split to choose from; give it one or name it in also_tested_on",
            )
        if not is_labelled(config["tasks"][task]) and "annotated" not in config["tasks"][task]:
            yield (
                f"{place}.tasks",
                f"task '{task}' has no reference answers (labelled: false), so nothing can be trained on it;"
                " `.venv/bin/snakemake subset` says which of its prompts to annotate: name the filled-in file as its `annotated`",
            )
        for policy in (name for name in policies_of(study) if has_arm(study, task=task, policy=name)):
            wanted = config["policies"].get(policy, {}).get("rule") == "annotated"
            if wanted == is_labelled(config["tasks"][task]):
                yield (
                    f"{place}.arms",
                    f"policy '{policy}' is for tasks {'' if wanted else 'whose prompts have answers, not for those '}that are not labelled,"
                    f" and '{task}' is{'' if wanted else ' not'}; "
                    + ("choose another policy" if wanted else "choose policy annotated, which takes what was annotated"),
                )
    for model in study["models"]:
        yield from unable(config, study, model, place)
    for task in study["tasks"]:
        for test in dict.fromkeys(test for model in study["models"] for test in eval_tasks(study, task, model)):
            shared = pools.shared_source(config, task, test) if test in config["tasks"] else None
            if shared:
                yield (
                    f"{place}.tasks",
                    f"'{task}' would be trained and '{test}' tested on the same problems ({shared}); give the test a split of its own",
                )


def _of_recordings(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    for task in study["tasks"]:
        if "cut_from" in config["tasks"][task]:
            yield f"{place}.tasks", f"recorded completions are taken as they are, but task '{task}' cuts them; take it out"
    if len(study["seeds"]) != 1:
        yield f"{place}.seeds", "recorded completions have one seed; expected one"
    if study.get("also_tested_on"):
        yield (
            f"{place}.also_tested_on",
            "recordings are tested on their own task only; make the other a task of the study",
        )
    recorded = {task for model in study["models"] for task in config["models"][model]["source"]["recordings"]}
    for task in study["tasks"]:
        if task not in recorded:
            yield f"{place}.tasks", f"no model of the study has recordings of '{task}'; take it out or add them"


def _of_tests(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    for task in study.get("weaker_signal", []):
        if task not in [*study["tasks"], *study["models"]]:
            yield f"{place}.weaker_signal", f"'{task}' is neither a task nor a model of this study; add it or take it out"
    for task, tests in study.get("also_tested_on", {}).items():
        if task not in study["tasks"]:
            yield f"{place}.also_tested_on", f"'{task}' is not a task of this study; add it to its tasks"
        names = [test if isinstance(test, str) else test["task"] for test in tests]
        yield from unknown(config, f"{place}.also_tested_on.{task}", "tasks", names)
        for model in (name for test in tests if isinstance(test, dict) for name in listed(test.get("models", []))):
            if model not in study["models"]:
                yield f"{place}.also_tested_on.{task}", f"'{model}' is not a model of this study; add it or take it out"
        for test in names:
            if test in config["tasks"] and not config["tasks"][test]["source"].get("test"):
                yield f"{place}.also_tested_on.{task}", f"task '{test}' has no test split; give it one"


def not_for_trajectories(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """What a study of trajectories cannot have: tasks, and policies that need more than pass rates."""
    for key in ("tasks", "also_tested_on", "weaker_signal", "held_constant"):
        if study.get(key):
            yield f"{place}.{key}", "trajectories have neither tasks nor runs; " + ("write []" if key == "tasks" else "remove it")
    for number, arm in enumerate(study["arms"]):
        for key in sorted({"recipe", "tasks"} & set(arm)):
            yield f"{place}.arms[{number}].{key}", "trajectories have neither tasks nor runs; remove it"
    for name in policies_of(study):
        policy = config["policies"][name]
        by_rates = (
            not policies.is_by_tier(policy["rule"])
            and policy["rule"] != "annotated"
            and policy.get("by", "pass_rate") == "pass_rate"
        )
        if not by_rates or not {"probed_on", "probed_by"}.isdisjoint(policy):
            yield f"{place}.arms", f"policy '{name}' needs more than the pass rates, and a trajectory has nothing else; take it out"


def cannot_choose(config: dict, study: dict) -> Iterator[str]:
    """Policies whose `probed_by` names a model that cannot probe a task of the study."""
    for policy in policies_of(study):
        by = config["policies"].get(policy, {}).get("probed_by")
        if by not in config["models"]:
            continue
        source, remedy = config["models"][by]["source"], "give its arm other `tasks`, or name another model"
        for task in study["tasks"]:
            if not has_arm(study, policy=policy, task=task) or task not in config["tasks"]:
                continue
            if source["kind"] == "pretrain" and sampled_as(config, task) not in source["demonstrations"]:
                yield f"'{policy}' is probed by '{by}', which has not learned task '{task}'; {remedy}"
            if source["kind"] == "recorded" and "probe" not in source["recordings"].get(task, {}):
                yield f"'{policy}' is probed by '{by}', of which no completions of the pool of '{task}' are recorded; {remedy}"
            if source["kind"] == "trajectory":
                yield f"'{policy}' is probed by '{by}', a trajectory, whose prompts have no texts; {remedy}"


def unable(config: dict, study: dict, model: str, place: str) -> Iterator[tuple[str, str]]:
    """What a model of a study cannot do: tasks that it has not learned, completions longer than its context."""
    source = config["models"][model]["source"]
    for task in (name for name in study["tasks"] if has_arm(study, model=model, task=name)):
        if source["kind"] == "pretrain" and sampled_as(config, task) not in source["demonstrations"]:
            yield (
                f"{place}.tasks",
                f"model '{model}' has not learned task '{task}'; add it to models.{model}.source.demonstrations",
            )
        for test in eval_tasks(study, task, model):
            if test in config["tasks"] and not ("test" in config["tasks"][test] and config["tasks"][test]["source"].get("test")):
                yield f"tasks.{test}", "a study tests on it, so it needs a test split in its source and `test`; add them"
            if source["kind"] == "pretrain" and test in config["tasks"]:
                looked_up = config["tasks"][test]["source"].get("family") in generated.LOOKED_UP
                if test != task and looked_up and sampled_as(config, test) not in source["demonstrations"]:
                    yield (
                        f"{place}.also_tested_on",
                        f"model '{model}' was never shown the facts of task '{test}'; add it to models.{model}.source.demonstrations",
                    )
                if config["tasks"][test]["completion_tokens"] >= source["context_tokens"]:
                    yield (
                        f"tasks.{test}.completion_tokens",
                        f"model '{model}' has a context of {source['context_tokens']} tokens for prompt and completion; lower it",
                    )
    if "gpus" in config["models"][model] and "shape" not in config["models"][model]:
        yield f"models.{model}.shape", "a model for GPUs needs its shape, from which memory is estimated; add it"


def too_large(config: dict, study: dict) -> Iterator[tuple[str, str]]:
    """Runs that do not fit the GPUs of their model."""
    models = [name for name in study["models"] if {"gpus", "shape"} <= config["models"][name].keys()]
    for model, recipe, task in itertools.product(models, recipes_of(study), study["tasks"]):
        kind = "adapter" if config["recipes"][recipe].get("adapter") else "full"
        try:
            memory.check_fits(config, model, recipe, task)
        except UserError as error:
            yield f"models.{model}.gpus.{kind}", str(error)


def without_solutions(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Tasks that a recipe with objective: sft is to train on, and that have no worked solutions."""
    for recipe in (name for name in recipes_of(study) if is_supervised(config["recipes"].get(name, {}))):
        for task in study["tasks"]:
            if task in config["tasks"] and has_arm(study, task=task, recipe=recipe) and not has_solutions(config["tasks"][task]):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' has no worked solutions, which recipe '{recipe}' trains on (objective: sft); give its arm other `tasks`, or"
                    " name a column with solutions in the task's source (columns: {solution: NAME})",
                )


def curricula(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Recipes with a curriculum whose measure a task or a policy of the study does not have."""
    for recipe in (name for name in recipes_of(study) if name in config["recipes"]):
        selector = config["recipes"][recipe].get("selector") or {}
        if selector.get("kind") != "curriculum":
            continue
        by = selector.get("by", "tier")
        for task in (name for name in study["tasks"] if name in config["tasks"] and has_arm(study, task=name, recipe=recipe)):
            source = config["tasks"][task]["source"]
            if by == "pass_rate" and not config["tasks"][task].get("labelled", True):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' is not labelled, so that its prompts have no pass rates for recipe '{recipe}' to sort by; give its arm"
                    " other `tasks`, or sort by tier",
                )
            if by == "tier" and source["kind"] == "generated" and not has_tiers(config["tasks"][task]):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' has no tiers, by which recipe '{recipe}' sorts; give its arm other `tasks`, or sort by pass_rate",
                )
        for policy in (name for name in policies_of(study) if name in config["policies"]):
            measure = config["policies"][policy].get("by", "pass_rate")
            if by == "pass_rate" and measure != "pass_rate" and has_arm(study, policy=policy, recipe=recipe):
                yield (
                    f"{place}.arms",
                    f"policy '{policy}' goes by {measure}, so that its prompts have no pass rates for recipe '{recipe}' to sort by; give it"
                    " another recipe",
                )


def also_compared(study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Pairs of arms that the study does not have."""
    for number, pair in enumerate(study.get("also_compared", [])):
        for arm in pair:
            if not has_arm(study, policy=arm["policy"], recipe=arm["recipe"]):
                yield (
                    f"{place}.also_compared[{number}]",
                    f"no arm of the study trains by policy '{arm['policy']}' and recipe '{arm['recipe']}'; name two of its arms",
                )


def in_rounds(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Recipes that cannot train in two rounds, with a policy that annotates in two."""
    for policy in (name for name in policies_of(study) if config["policies"].get(name, {}).get("rounds")):
        for name in recipes_of(study):
            recipe = config["recipes"].get(name)
            if recipe is None or not has_arm(study, policy=policy, recipe=name):
                continue
            why = None
            if is_supervised(recipe):
                why = "trains on worked solutions"
            elif recipe.get("adapter"):
                why = "trains an adapter, from which a second round cannot start"
            elif recipe.get("beta", 0) > 0:
                why = f"has beta {recipe['beta']}: its KL term would compare the second round to the half-trained model, not to the base"
            elif majority_share(recipe) or is_online(recipe):
                why = "has a majority_share, a selector or process rewards, whose state a second round would not have"
            elif recipe["updates"] % (2 * recipe["checkpoint_every"]):
                why = f"has {recipe['updates']} updates, half of which are no multiple of checkpoint_every ({recipe['checkpoint_every']})"
            if why:
                yield (
                    f"{place}.arms",
                    f"policy '{policy}' annotates in two rounds, and recipe '{name}' {why}; give the policy another recipe",
                )
