"""Names of models, tasks and policies, grouped by the Snakemake rules that use them."""

import re
from collections.abc import Iterable

from hardgrpo.selection import policies
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.study import Study


def any_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def used_bases(config: Configuration, name: str, studies: dict[str, Study]) -> list[str]:
    """The bases of a model: itself, or the replicates' own bases that are used."""
    subset = config.subset
    seeds = [
        seed for study in studies.values() if name in study.probing_models for seed in study.seeds
    ]
    if name in (subset.model, config.policies[subset.policy].probed_by):
        seeds.append(subset.seed)
    model = config.models[name]
    return model.bases(name, seeds) if model.has_own_bases else [name]


def early_stop(
    config: Configuration, studies: dict[str, Study]
) -> tuple[tuple[str, ...], str | None]:
    """(the (base, task) whose probe stops early for `subset`, or (); why the task's `stop` is
    ignored, or None)"""
    subset, tasks = config.subset, config.tasks
    policy = config.policies[subset.policy]
    task = policy.probed_on or subset.task
    if not tasks[task].probe.stop or config.models[subset.model].is_recorded:
        return (), None
    ignored = f"tasks.{task}.probe.stop is ignored, so every prompt gets all its samples"
    if policy.probed_by:
        return (), f"{ignored}: policy '{subset.policy}' is probed by model {policy.probed_by}"
    if not policies.RULES[policy.rule].by_bounds:
        return (
            (),
            f"{ignored}: rule {policy.rule} of policy '{subset.policy}' cannot stop early",
        )
    sharers = [f"study {name}" for name, study in studies.items() if task in study.tasks]
    sharers += [f"task {name}" for name, other in tasks.items() if other.cut_from == task]
    sharers += [f"task {tasks[task].cut_from}"] if tasks[task].cut_from else []
    if sharers:
        return (), f"{ignored}: {sharers[0]} also uses this probe"
    return (config.base_of(subset.model, subset.seed), task), None


class Names:
    """The values of wildcards. `model` is the name of a base, such as tiny-seed0 if each replicate
    has its own."""

    def __init__(self, config: Configuration, studies: dict[str, Study]):
        models, tasks = config.models, config.tasks
        self.recorded = [name for name, model in models.items() if model.is_recorded]
        self.trajectories = [name for name, model in models.items() if model.is_trajectory]
        self.trajectory_prompts = [models[name].source.prompts for name in self.trajectories]
        self.sampled = [
            base
            for name, model in models.items()
            if model.is_sampled
            for base in used_bases(config, name, studies)
        ]
        self.pretrained = [base for base in self.sampled if config.model(base).is_pretrained]
        self.fetched = [base for base in self.sampled if not config.model(base).is_pretrained]
        self.tasks = list(tasks)
        self.sampled_tasks = [name for name, task in tasks.items() if not task.cut_from]
        self.tasks_with_cut_completions = [name for name, task in tasks.items() if task.cut_from]
        self.policies_in_rounds = [
            name for name, policy in config.policies.items() if policy.has_rounds
        ]
        self.analyses = list(config.analyses or {})
        self.stopped_probe, self.stop_obstacle = early_stop(config, studies)
