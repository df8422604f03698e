"""Check what a study of config.yaml asks of its models, tasks, policies and recipes. Part of `checks`.

Every function yields what is wrong: mostly (place in config.yaml, words).
"""

from collections.abc import Iterator

from hardgrpo.data import generated
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import memory
from hardgrpo.study.settings import (
    eval_tasks,
    has_solutions,
    has_tiers,
    is_excluded,
    is_online,
    is_supervised,
    majority_share,
    sampled_as,
)


def not_for_trajectories(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """What a study of trajectories cannot have: tasks, and policies that need more than pass rates."""
    for key in ("tasks", "recipes", "also_tested_on", "weaker_signal", "held_constant"):
        if study.get(key):
            yield f"{place}.{key}", "trajectories have neither tasks nor runs; " + ("write []" if key == "tasks" else "remove it")
    for name in study["policies"]:
        policy = config["policies"][name]
        by_rates = policy["rule"] not in (*policies.TIERED, "annotated") and policy.get("by", "pass_rate") == "pass_rate"
        if not by_rates or not {"probed_on", "probed_by"}.isdisjoint(policy):
            yield f"{place}.policies", f"'{name}' needs more than the pass rates, and a trajectory has nothing else; take it out"


def cannot_choose(config: dict, study: dict) -> Iterator[str]:
    """What is wrong with policies that go by the completions of a model other than the one that is trained."""
    for policy in study["policies"]:
        by = config["policies"].get(policy, {}).get("probed_by")
        if by not in config["models"]:
            continue
        source, remedy = config["models"][by]["source"], "exclude the pair, or name another model"
        for task in study["tasks"]:
            if is_excluded(study, policy=policy, task=task) or task not in config["tasks"]:
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
    for task in (name for name in study["tasks"] if not is_excluded(study, model=model, task=name)):
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
    if "gpus" not in config["models"][model]:
        return
    if "shape" not in config["models"][model]:
        yield f"models.{model}.shape", "a model for GPUs needs its shape, from which memory is estimated; add it"
        return
    for recipe in (name for name in study["recipes"] if name in config["recipes"]):
        kind = "adapter" if config["recipes"][recipe].get("adapter") else "full"
        for task in (name for name in study["tasks"] if name in config["tasks"]):
            try:
                memory.check_fits(config, model, recipe, task)
            except UserError as error:
                yield f"models.{model}.gpus.{kind}", str(error)


def without_solutions(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Tasks that a recipe with objective: sft is to train on, and that have no worked solutions."""
    for recipe in (name for name in study["recipes"] if is_supervised(config["recipes"].get(name, {}))):
        for task in study["tasks"]:
            if (
                task in config["tasks"]
                and not is_excluded(study, task=task, recipe=recipe)
                and not has_solutions(config["tasks"][task])
            ):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' has no worked solutions, which recipe '{recipe}' trains on (objective: sft); exclude the pair, or"
                    " name a column with solutions in the task's source (columns: {solution: NAME})",
                )


def curricula(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Recipes with a curriculum whose measure a task or a policy of the study does not have."""
    for recipe in (name for name in study["recipes"] if name in config["recipes"]):
        selector = config["recipes"][recipe].get("selector") or {}
        if selector.get("kind") != "curriculum":
            continue
        by = selector.get("by", "tier")
        for task in (
            name for name in study["tasks"] if name in config["tasks"] and not is_excluded(study, task=name, recipe=recipe)
        ):
            source = config["tasks"][task]["source"]
            if by == "pass_rate" and not config["tasks"][task].get("labelled", True):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' is not labelled, so that its prompts have no pass rates for recipe '{recipe}' to sort by; exclude the"
                    " pair, or sort by tier",
                )
            if by == "tier" and source["kind"] == "generated" and not has_tiers(config["tasks"][task]):
                yield (
                    f"{place}.tasks",
                    f"task '{task}' has no tiers, by which recipe '{recipe}' sorts; exclude the pair, or sort by pass_rate",
                )
        for policy in (name for name in study["policies"] if name in config["policies"]):
            measure = config["policies"][policy].get("by", "pass_rate")
            if by == "pass_rate" and measure != "pass_rate" and not is_excluded(study, policy=policy, recipe=recipe):
                yield (
                    f"{place}.policies",
                    f"'{policy}' goes by {measure}, so that its prompts have no pass rates for recipe '{recipe}' to sort by; exclude the pair",
                )


def also_compared(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Pairs of arms that the study does not have."""
    first, *others = study["recipes"] or [""]
    for number, pair in enumerate(study.get("also_compared", [])):
        for arm in pair:
            policy, _, recipe = arm.partition(", ")
            known = policy in study["policies"] and (recipe in others if recipe else True)
            if not known or is_excluded(study, policy=policy, recipe=recipe or first):
                yield (
                    f"{place}.also_compared[{number}]",
                    f"the study trains nothing as '{arm}'; write a policy that its first recipe trains on ('{first}'), or 'POLICY, RECIPE'"
                    " for another recipe",
                )


def in_rounds(config: dict, study: dict, place: str) -> Iterator[tuple[str, str]]:
    """Recipes that cannot train in two rounds, with a policy that annotates in two."""
    for policy in (name for name in study["policies"] if config["policies"].get(name, {}).get("rounds")):
        for name in study["recipes"]:
            recipe = config["recipes"].get(name)
            if recipe is None or is_excluded(study, policy=policy, recipe=name):
                continue
            why = None
            if is_supervised(recipe):
                why = "trains on worked solutions"
            elif recipe.get("adapter"):
                why = "trains an adapter, from which a second round cannot start"
            elif majority_share(recipe) or is_online(recipe):
                why = "has a majority_share, a selector or process rewards, whose state a second round would not have"
            elif recipe["updates"] % (2 * recipe["checkpoint_every"]):
                why = f"has {recipe['updates']} updates, half of which are no multiple of checkpoint_every ({recipe['checkpoint_every']})"
            if why:
                yield f"{place}.policies", f"'{policy}' annotates in two rounds, and recipe '{name}' {why}; exclude the pair"
