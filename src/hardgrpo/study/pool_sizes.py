"""Refuse a policy whose budget a pool cannot fill, before anything is sampled.

Three places check, because each knows another pool: `check` reads the configuration and local files when Snakemake starts; the rule
prepare_task checks the pool that it writes; `check_prepared` checks a pool that was prepared before, when the first job starts.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hardgrpo.data import sources, spreadsheets
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import paths, settings

UNREADABLE_SHARE = 0.01  # of a pool's answers that may be left out, see tasks.read_by_grader


def check(config: dict, name: str) -> None:
    """Raise a `UserError` about the first policy of `subset` or of the configured study that asks for more prompts than a pool has, or
    for less than one. `name` is the configuration's file."""
    sizes: dict[str, tuple[int, bool] | None] = {}
    for place, policy, task in _choices(config):
        budget = config["policies"][policy].get("budget")
        if budget is None or not isinstance(budget, dict) and config["tasks"][task]["source"]["kind"] == "files":
            continue  # a share is at most the pool; whether it is less than one prompt is for prepare_task to say
        if task not in sizes:
            sizes[task] = configured(config, task)
        if sizes[task] is not None:
            policies.check_pool(f"{name}: {place}: '{policy}'", config["policies"][policy], task, *sizes[task])


def of_task(config: dict, task: str) -> dict[str, dict]:
    """{name: policy} of `subset` and of the configured study that choose from a task's pool and have a budget."""
    found = {policy: config["policies"][policy] for _, policy, other in _choices(config) if other == task}
    return {name: policy for name, policy in found.items() if "budget" in policy}


def check_prepared(config: dict, chosen: Iterable[tuple[str, str]]) -> None:
    """Raise a `UserError` if one of the (policy, task) cannot choose from the task's pool, which was prepared before."""
    for policy, task in sorted(set(chosen)):
        wanted, prepared = config["policies"][policy], paths.problems(task, "train")
        if "budget" in wanted and os.path.exists(prepared):
            policies.check_pool(f"policy '{policy}'", wanted, task, _usable(config, task, prepared, wanted["budget"]))


def configured(config: dict, task: str) -> tuple[int, bool] | None:
    """(size of a task's pool, whether it is exact) by the configuration and local files; None if neither tells."""
    source = config["tasks"][task]["source"]
    if source["kind"] == "generated":
        return source["train"], True
    if source["kind"] == "hub":
        stated = source.get("problems", {}).get("train")
        return None if stated is None else (stated, False)
    if not settings.has_train(config["tasks"][task]):
        return None
    try:
        contents = [sources.read(path) for path, _ in paths.parts(config, task, "train") if Path(path).is_file()]
    except UserError:
        return None  # prepare_task says what is wrong with the file
    if len(contents) < len(settings.listed(source["train"])):
        return None
    return sum(not (one.form and spreadsheets.is_blank(row.values())) for one in contents for row in one.rows), False


def _choices(config: dict) -> Iterator[tuple[str, str, str]]:
    """(place in the configuration, policy, task) of `subset` and of the configured study."""
    chosen, study = config["subset"], config["studies"][config["study"]]
    yield "subset.policy", chosen["policy"], chosen["task"]
    for policy in study["policies"]:
        for task in study["tasks"]:
            if not settings.is_excluded(study, policy=policy, task=task):
                yield f"studies.{config['study']}.policies", policy, task


def _usable(config: dict, task: str, prepared: str, budget: float | dict) -> int:
    """How many problems of a prepared pool have an answer that the grader can read. They are counted only if the budget may ask for more."""
    problems = files.read_jsonl(prepared, {"id": str})
    few = (1 - UNREADABLE_SHARE) * len(problems)
    if not settings.is_labelled(config["tasks"][task]) or not isinstance(budget, dict) or policies.prompts_of(budget) <= few:
        return len(problems)
    from hardgrpo.grading import graders  # here, because every dry-run reads this module

    return sum(graders.readable(config["tasks"][task]["grader"], problem["answer"]) for problem in problems)
