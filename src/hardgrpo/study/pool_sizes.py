"""Refuse a policy whose budget a pool cannot fill, before anything is sampled.

Three places check, because each knows another pool: `too_small` reads the configuration and local files when jobs are planned; the rule
prepare_task checks the pool that it writes; `check_prepared` checks a pool that was prepared before, when the first job starts.
"""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from hardgrpo.data import sources, spreadsheets
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import paths, settings

UNREADABLE_SHARE = 0.01  # of a pool's answers that may be left out, see tasks.read_by_grader


def too_small(config: dict, policy: str, task: str) -> str | None:
    """Why a task's pool is too small for a policy, as far as the configuration and local files tell; else None."""
    wanted = config["policies"][policy]
    if "budget" not in wanted or not isinstance(wanted["budget"], dict) and config["tasks"][task]["source"]["kind"] == "files":
        return None  # a share is at most the pool; whether it is less than one prompt is for prepare_task to say
    size = configured_size(config, task)
    if size is None:
        return None
    try:
        policies.check_pool(f"policies.{policy}.budget", wanted, task, *size)
    except UserError as error:
        return str(error)
    return None


def choosing_policies(config: dict, task: str, targets: Collection[str]) -> dict[str, dict]:
    """{name: policy} of the policies with a budget that are to choose from a task's pool: by Snakemake's targets, that of `subset`, or
    those of the configured study."""
    chosen, study = config["subset"], config["studies"][config["study"]]
    names = [chosen["policy"]] if "subset" in targets and chosen["task"] == task else []
    if (not targets or "all" in targets) and task in study["tasks"]:
        names += [name for name in settings.policies_of(study) if settings.has_arm(study, policy=name, task=task)]
    return {name: config["policies"][name] for name in names if "budget" in config["policies"][name]}


def check_prepared(config: dict, chosen: Iterable[tuple[str, str]]) -> None:
    """Raise a `UserError` if one of the (policy, task) cannot choose from the task's pool, which was prepared before."""
    for policy, task in sorted(set(chosen)):
        wanted, prepared = config["policies"][policy], paths.problems(task, "train")
        if "budget" in wanted and os.path.exists(prepared):
            policies.check_pool(f"policy '{policy}'", wanted, task, _usable(config, task, prepared, wanted["budget"]))


def configured_size(config: dict, task: str) -> tuple[int, bool] | None:
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
    if len(contents) < len(settings.as_list(source["train"])):
        return None
    return sum(not (content.form and spreadsheets.is_blank(row.values())) for content in contents for row in content.rows), False


def _usable(config: dict, task: str, prepared: str, budget: float | dict) -> int:
    """How many problems of a prepared pool have an answer that the grader can read. They are counted only if the budget may ask for more."""
    problems = files.read_jsonl(prepared, {"id": str})
    few = (1 - UNREADABLE_SHARE) * len(problems)
    if not settings.is_labelled(config["tasks"][task]) or not isinstance(budget, dict) or policies.prompts_of(budget) <= few:
        return len(problems)
    from hardgrpo.grading import graders  # here, because every dry-run reads this module

    return sum(graders.readable(config["tasks"][task]["grader"], problem["answer"]) for problem in problems)
