"""Check what the classes of the configuration cannot: names that must exist, keys that exclude each other, tasks that a model cannot do."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import configuration, load, old_form, pools, study_checks
from hardgrpo.study.settings import (
    OF_SEED,
    has_train,
    is_labelled,
    is_recorded,
    is_trajectory,
)
from hardgrpo.study.study_checks import SINGULAR, unknown

MOST_MISTAKES = 20  # that one message lists
# Family -> (keys that its demonstrations need, each with an example, and keys that they may have).
DEMONSTRATIONS = {
    "swaps": ({"length": "[1, 2, 3]", "slip": 0.2}, {"restated"}),
    "arithmetic": ({"length": "[1, 2, 3]", "slip": '{"+": 0.1, "-": 0.1, "*": 0.5, "/": 0.5}'}, {"misconception"}),
    "facts": ({"known": "[0.5, 0.5]", "misconception": 0.7}, set()),
}


def check(config: dict, name: str, sources: Collection[Path] = ()) -> None:
    """Raise a `UserError` with every mistake in the configuration. Each names the file and line of `sources` that has it, else `name`."""
    studies = config.get("studies")
    if translation := old_form.explain(studies) if isinstance(studies, dict) else []:
        raise UserError(f"{name}: {translation[0]}", *translation[1:])
    problems = configuration.mistakes(config)
    if not problems:  # the checks between objects rely on what the classes guarantee
        try:
            for problem in _contradictions(config):
                problems.append(problem)
        except KeyError:
            if not problems:
                raise
    if problems:
        problems = list(dict.fromkeys(problems))
        shown, more = problems[:MOST_MISTAKES], len(problems) - MOST_MISTAKES
        lines = [f"{load.locate(place, list(sources)) or name}: {place}: {problem}" for place, problem in shown]
        raise UserError(*lines, *([f"and {more} more mistakes"] if more > 0 else []))


def check_writable(*folders: str) -> None:
    """Raise a `UserError` before the first job if results cannot be written."""
    for folder in folders:
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: expected a folder for results, found a file; move it away")
        place = path if path.exists() else Path(".")
        if not os.access(place, os.W_OK):
            raise UserError(f"{path.absolute()}: cannot be written; clone the repository to a folder that you may write to")


def _contradictions(config: dict) -> Iterator[tuple[str, str]]:
    """(place, what is wrong and what to do) of every mistake between objects. A `KeyError` after a mistake follows from it: an unknown name."""
    if config["study"] not in config["studies"]:
        yield from unknown(config, "study", "studies", [config["study"]])
    for kind, contradictions in (("tasks", _of_task), ("models", _of_model), ("policies", _of_policy)):
        for name, entry in config[kind].items():
            yield from contradictions(config, name, entry, f"{kind}.{name}")
    yield from _of_subset(config)
    for name, study in config["studies"].items():
        yield from study_checks.contradictions(config, study, f"studies.{name}")
        if name == config["study"]:  # a what-if may ask for limits under which runs of other studies would not fit
            yield from study_checks.too_large(config, study)


def _of_task(config: dict, name: str, task: dict, place: str) -> Iterator[tuple[str, str]]:
    if "cut_from" in task:
        yield from _not_cut(config, name, place)


def _of_model(config: dict, name: str, model: dict, place: str) -> Iterator[tuple[str, str]]:
    if OF_SEED.search(name):
        yield (
            place,
            "names that end in -seed and a number are those of replicates' own bases; give the model another",
        )
    source, place = model["source"], f"{place}.source"
    if source["kind"] == "pretrain":
        yield from unknown(config, f"{place}.demonstrations", "tasks", source["demonstrations"])
        for task, spec in source["demonstrations"].items():
            yield from _not_shown(config["tasks"][task]["source"].get("family"), spec, f"{place}.demonstrations.{task}")
        worlds = [task for task in source["demonstrations"] if config["tasks"][task]["source"].get("family") == "facts"]
        if len(worlds) > 1:
            yield (
                f"{place}.demonstrations",
                f"{' and '.join(worlds)} give different answers to the same questions; keep one task of facts",
            )
    elif source["kind"] == "recorded":
        yield from unknown(config, f"{place}.recordings", "tasks", source["recordings"])
        for task, recorded in source["recordings"].items():
            if "probe" in recorded and not has_train(config["tasks"][task]):
                yield (
                    f"{place}.recordings.{task}.probe",
                    f"task '{task}' has no train split; give it one or leave the probe out",
                )
    elif source["kind"] == "trajectory" and source["prompts"] in config["tasks"]:
        yield f"{place}.prompts", f"'{source['prompts']}' is a task; give the prompts of the trajectory another name"


def _of_policy(config: dict, name: str, policy: dict, place: str) -> Iterator[tuple[str, str]]:
    yield from unknown(config, f"{place}.probed_on", "tasks", [policy["probed_on"]] if "probed_on" in policy else [])
    yield from unknown(config, f"{place}.probed_by", "models", [policy["probed_by"]] if "probed_by" in policy else [])


def _of_subset(config: dict) -> Iterator[tuple[str, str]]:
    chosen = config["subset"]
    for kind in ("models", "tasks", "policies"):
        yield from unknown(config, f"subset.{SINGULAR[kind]}", kind, [chosen[SINGULAR[kind]]])
    if chosen["task"] in config["tasks"] and not is_labelled(config["tasks"][chosen["task"]]):
        policy = config["policies"].get(chosen["policy"], {"rule": "random"})
        needs = {"pool": "the answers of the whole pool", "sample": "the answers of a sample of the pool", "none": "tiers"}
        before = policies.labels_before(policy)
        if before != "none" or policies.is_by_tier(policy["rule"]):
            yield (
                "subset.policy",
                f"'{chosen['policy']}' needs {needs[before]} before it chooses, and task '{chosen['task']}' has none (labelled: false);"
                " choose random, or a policy `by` a measure that needs no answers, e.g. agreement_lowest",
            )
    shared = pools.shared_source(config, chosen["task"], chosen["task"]) if chosen["task"] in config["tasks"] else None
    if shared:
        yield "subset.task", f"'{chosen['task']}' has the same problems in both splits ({shared}); give the test a split of its own"
    if chosen["task"] in config["tasks"] and not has_train(config["tasks"][chosen["task"]]):
        yield "subset.task", f"task '{chosen['task']}' has no train split to choose from; give it one"
    if chosen["model"] in config["models"] and is_recorded(config, chosen["model"]):
        if chosen["task"] not in config["models"][chosen["model"]]["source"]["recordings"]:
            yield "subset.model", f"'{chosen['model']}' has no recordings of task '{chosen['task']}'; name another model or task"
    if chosen["model"] in config["models"] and is_trajectory(config, chosen["model"]):
        yield "subset.model", f"'{chosen['model']}' is a trajectory, whose prompts have no texts; name another model"


def _not_shown(family: str | None, spec: dict, place: str) -> Iterator[tuple[str, str]]:
    """What is wrong with the demonstrations of one task: a family that has none, keys that belong to another family."""
    if family not in DEMONSTRATIONS:
        yield place, f"only generated {', '.join(DEMONSTRATIONS)} have demonstrations; name a task of one of these"
        return
    needed, allowed = DEMONSTRATIONS[family]
    for key, example in needed.items():
        if key not in spec:
            yield place, f"demonstrations of {family} need '{key}'; add it, e.g. {key}: {example}"
    for key in sorted(set(spec) - set(needed) - allowed - {"share"}):
        yield f"{place}.{key}", f"demonstrations of {family} take no '{key}'; remove it"
    if "slip" in needed and "slip" in spec and (family == "arithmetic") != isinstance(spec["slip"], dict):
        yield f"{place}.slip", "expected one number for swaps, one by operation (+ - * /) for arithmetic"


def _not_cut(config: dict, name: str, place: str) -> Iterator[tuple[str, str]]:
    """Why a task cannot be cut from its `cut_from`: only its completion limit and probe samples may be smaller."""
    task, other = config["tasks"][name], config["tasks"].get(config["tasks"][name]["cut_from"])
    if other is None or "cut_from" in other:
        yield f"{place}.cut_from", f"'{task['cut_from']}' is no task, or is cut from another itself; name one that is sampled"
        return
    for key in sorted((set(task) | set(other)) - {"cut_from", "completion_tokens", "probe"}):
        if task.get(key) != other.get(key):
            yield f"{place}.{key}", f"differs from that of '{task['cut_from']}', whose completions it cuts; make them equal"
    for key in sorted((set(task["probe"]) | set(other["probe"])) - {"samples"}):
        if task["probe"].get(key) != other["probe"].get(key):
            yield f"{place}.probe.{key}", f"differs from that of '{task['cut_from']}', whose probe it takes; make them equal"
    fewer = task["probe"]["samples"] < other["probe"]["samples"]
    if task["probe"]["samples"] > other["probe"]["samples"]:
        yield (
            f"{place}.probe.samples",
            f"{task['probe']['samples']} is more than the {other['probe']['samples']} of '{task['cut_from']}'; lower it",
        )
    if task["completion_tokens"] > other["completion_tokens"] - (not fewer):
        yield (
            f"{place}.completion_tokens",
            f"{task['completion_tokens']} is not below the {other['completion_tokens']} of '{task['cut_from']}'; lower it",
        )
