"""Check the configuration: values that the classes of its objects refuse, and mistakes that concern
several objects, such as a reference to an unknown name."""

import os
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import configuration, pools, study_checks
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import (
    OWN_BASE_NAME,
    Demonstrations,
    Pretrained,
    SlipByOperation,
)
from hardgrpo.study.study_checks import SINGULAR, unknown_names
from hardgrpo.study.task import Probe, RecordedProblems, Task

MOST_MISTAKES = 20  # listed in one message
# Family of generated problems -> ({required key of its demonstrations: example}, {optional keys}).
DEMONSTRATIONS = {
    "swaps": ({"length": "[1, 2, 3]", "slip": 0.2}, {"restated"}),
    "arithmetic": (
        {"length": "[1, 2, 3]", "slip": '{"+": 0.1, "-": 0.1, "*": 0.5, "/": 0.5}'},
        {"misconception"},
    ),
    "facts": ({"known": "[0.5, 0.5]", "misconception": 0.7}, set()),
}


def check(config: dict, name: str, overlays: dict[str, dict] | None = None) -> Configuration:
    """The configuration. Raise a `UserError` with at most MOST_MISTAKES mistakes; a line starts
    with the last of the user's files `overlays` (name: content) that has the mistake's entry, or
    else with `name`."""
    made, mistakes = configuration.make(config)
    if made:
        mistakes = list(dict.fromkeys([*mistakes, *_mistakes_between_objects(made)]))
    if mistakes:
        lines = [
            f"{_file_of(place, overlays or {}) or name}: {place}: {problem}"
            for place, problem in mistakes[:MOST_MISTAKES]
        ]
        unlisted = len(mistakes) - len(lines)
        raise UserError(*lines, *([f"and {unlisted} more mistakes"] if unlisted else []))
    return made


def _file_of(place: str, overlays: dict[str, dict]) -> str | None:
    section, _, place_in_section = place.partition(".")
    for name, content in reversed(overlays.items()):
        entries = content.get(section) if isinstance(content, dict) else None
        if isinstance(entries, dict) and any(
            f"{place_in_section}.".startswith(f"{key}.") for key in entries
        ):
            return name
    return None


def check_writable(*folders: str) -> None:
    """Refuse folders in which results cannot be written."""
    for folder in folders:
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: expected a folder for results, found a file; move it away")
        place = path if path.exists() else Path(".")
        if not os.access(place, os.W_OK):
            raise UserError(
                f"{path.absolute()}: cannot be written; clone the repository to a folder that you may write to"
            )


def _mistakes_between_objects(config: Configuration) -> Iterator[tuple[str, str]]:
    """Mistakes that concern several objects of a configuration."""
    tasks, models = config.tasks, config.models
    yield from unknown_names("study", "studies", [config.study], config.all_studies)
    for name, task in tasks.items():
        if task.cut_from:
            yield from _cut_task_mistakes(f"tasks.{name}", task, tasks.get(task.cut_from))
        if isinstance(task.source, RecordedProblems):
            yield from _recorded_problems_mistakes(name, task.source, models)
    for name, model in models.items():
        if OWN_BASE_NAME.search(name):
            yield f"models.{name}", "this ending is that of a replicate's own base; rename it"
        if model.is_pretrained:
            yield from _pretraining_mistakes(f"models.{name}.source", model.source, tasks)
    for name, policy in config.policies.items():
        for key, section in (("probed_on", "tasks"), ("probed_by", "models")):
            named = getattr(policy, key)
            entries = getattr(config, section)
            yield from unknown_names(
                f"policies.{name}.{key}", section, [named] if named else [], entries
            )
    yield from _subset_mistakes(config)
    for name in config.studies:
        yield from study_checks.study_mistakes(config, name)


def _cut_task_mistakes(
    place: str, task: Task, source_task: Task | None
) -> Iterator[tuple[str, str]]:
    """Why a task cannot cut the completions of `source_task`."""
    name = task.cut_from
    if source_task is None or source_task.cut_from:
        yield f"{place}.cut_from", f"'{name}' is no task that is sampled; name one"
        return
    for key in sorted(set(Task.model_fields) - {"cut_from", "completion_tokens", "probe"}):
        if getattr(task, key) != getattr(source_task, key):
            yield f"{place}.{key}", f"differs from that of '{name}'; use the same value"
    probe, source_probe = task.probe, source_task.probe
    for key in sorted(set(Probe.model_fields) - {"samples"}):
        if getattr(probe, key) != getattr(source_probe, key):
            yield f"{place}.probe.{key}", f"differs from that of '{name}'; use the same value"
    if probe.samples > source_probe.samples:
        yield (
            f"{place}.probe.samples",
            f"{probe.samples} is more than the {source_probe.samples} of '{name}'; lower it",
        )
    limit, source_limit = task.completion_tokens, source_task.completion_tokens
    if limit > source_limit or limit == source_limit and probe.samples >= source_probe.samples:
        yield (
            f"{place}.completion_tokens",
            f"{limit} is not below the {source_limit} of '{name}'; lower it",
        )


def _pretraining_mistakes(place: str, source: Pretrained, tasks: dict) -> Iterator[tuple[str, str]]:
    yield from unknown_names(f"{place}.demonstrations", "tasks", source.demonstrations, tasks)
    families = {name: tasks[name].family for name in source.demonstrations if name in tasks}
    for name, family in families.items():
        yield from _demonstration_mistakes(
            f"{place}.demonstrations.{name}", source.demonstrations[name], family
        )
    facts = [name for name, family in families.items() if family == "facts"]
    if len(facts) > 1:
        yield (
            f"{place}.demonstrations",
            f"{' and '.join(facts)} answer the same questions; keep one",
        )


def _demonstration_mistakes(
    place: str, demonstrations: Demonstrations, family: str | None
) -> Iterator[tuple[str, str]]:
    if family not in DEMONSTRATIONS:
        yield place, f"only tasks of the families {', '.join(DEMONSTRATIONS)} have demonstrations"
        return
    required, optional = DEMONSTRATIONS[family]
    for key, example in required.items():
        if getattr(demonstrations, key) is None:
            yield place, f"demonstrations of {family} need '{key}'; add it, e.g. {key}: {example}"
    for key in sorted(demonstrations.model_fields_set - set(required) - optional - {"share"}):
        yield f"{place}.{key}", f"demonstrations of {family} take no '{key}'; remove it"
    if (
        "slip" in required
        and demonstrations.slip is not None
        and (family == "arithmetic") != isinstance(demonstrations.slip, SlipByOperation)
    ):
        yield (
            f"{place}.slip",
            "expected one number (swaps), or one for each of + - * / (arithmetic)",
        )


def _recorded_problems_mistakes(
    task: str, source: RecordedProblems, models: dict
) -> Iterator[tuple[str, str]]:
    for split in ("train", "test"):
        if not (recording := getattr(source, split)):
            continue
        place, (name, part) = f"tasks.{task}.source.{split}", recording.split("/")
        if name not in models or not models[name].is_recorded:
            yield place, f"'{name}' is not a model of kind recorded; name one"
        elif not getattr(models[name].source.recordings.get(task), part, None):
            yield place, f"'{name}' has no recording '{part}' of '{task}'; name another"


def _subset_mistakes(config: Configuration) -> Iterator[tuple[str, str]]:
    """Why `snakemake subset` cannot choose the subset."""
    subset = config.subset
    for section in ("models", "tasks", "policies"):
        key = SINGULAR[section]
        yield from unknown_names(
            f"subset.{key}", section, [getattr(subset, key)], getattr(config, section)
        )
    name = subset.task
    task, policy = config.tasks.get(name), config.policies.get(subset.policy)
    if task and policy:
        yield from study_checks.choice_mistakes(
            "subset.policy", subset.policy, name, config, "name another task"
        )
    if task and not task.has_train:
        yield "subset.task", f"task '{name}' has no train split; give it one"
    if task and (part := pools.shared_part(task, task)):
        yield "subset.task", f"'{name}' has {part} in both splits; give the test its own split"
    if policy and policy.rounds:
        problem = "needs a training between its rounds; name a policy without rounds"
        yield "subset.policy", f"'{subset.policy}' {problem}"
    if task and policy and not task.is_labelled:
        labels, is_annotated = policies.labels_before(policy.entry), policy.rule == "annotated"
        if labels != "none" or policies.is_by_tier(policy.rule):
            needs = {"pool": "answers", "sample": "answers of a sample", "none": "tiers"}[labels]
            problem = f"needs {needs}, and task '{name}' has none (labelled: false)"
            remedy = "choose random, or a measure without answers, e.g. agreement_lowest"
            yield "subset.policy", f"'{subset.policy}' {problem}; {remedy}"
        if is_annotated and not task.annotated:
            problem = f"'{name}' has no annotated prompts; annotate those of another policy"
            yield "subset.policy", f"{problem}, and name the file as the task's `annotated`"
        if subset.format and not is_annotated:
            problem = f"the prompts of '{name}' have no answers to train on (labelled: false)"
            yield "subset.format", f"{problem}; leave format out until they are annotated"
    model, probed_on = config.models.get(subset.model), (policy and policy.probed_on) or name
    # On a task without labels, only a policy with `by` chooses by a probe.
    has_measure = policy is None or task is None or task.is_labelled or policy.by
    is_probed = has_measure and not (policy and policy.probed_by)
    if model and probed_on in config.tasks and (is_probed or model.is_trajectory):
        for obstacle in study_checks.probe_obstacles(model, probed_on, config):
            yield "subset.model", f"'{subset.model}', {obstacle}; name another model or task"
