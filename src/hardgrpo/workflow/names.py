"""Names of models, tasks and policies, grouped by the Snakemake rules that use them."""

import re
from collections.abc import Iterable

from hardgrpo.selection import policies
from hardgrpo.study import settings
from hardgrpo.study.resolved import ResolvedStudy


def any_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def used_bases(config: dict, model: str, studies: dict[str, ResolvedStudy]) -> list[str]:
    """The bases of a model: the model itself, or the replicates' own bases that a study or `subset`
    uses."""
    models, subset = config["models"], config["subset"]
    if not settings.has_own_bases(models[model]):
        return [model]
    seeds = [
        seed for study in studies.values() if model in study.probing_models for seed in study.seeds
    ]
    probing_model = config["policies"][subset["policy"]].get("probed_by")
    seeds += [subset["seed"]] if model in (subset["model"], probing_model) else []
    return settings.bases_of(models, model, seeds)


def early_stop(
    config: dict, studies: dict[str, ResolvedStudy]
) -> tuple[tuple[str, ...], str | None]:
    """(stopped probe, obstacle). The stopped probe is the (base, task) whose probe stops early for
    `subset`, or (). The obstacle is the reason why the task's `stop` is ignored, or None."""
    subset, tasks, models = config["subset"], config["tasks"], config["models"]
    policy = config["policies"][subset["policy"]]
    task = policy.get("probed_on", subset["task"])
    if not tasks[task]["probe"].get("stop") or settings.is_recorded(models[subset["model"]]):
        return (), None
    ignored = f"tasks.{task}.probe.stop is ignored, so every prompt gets all its samples"
    if "probed_by" in policy:
        return (
            (),
            f"{ignored}: policy '{subset['policy']}' is probed by model {policy['probed_by']}",
        )
    if not policies.RULES[policy["rule"]].by_bounds:
        return (
            (),
            f"{ignored}: rule {policy['rule']} of policy '{subset['policy']}' cannot stop early",
        )
    sharers = [f"study {name}" for name, study in studies.items() if task in study.task_names]
    sharers += [f"task {name}" for name, entry in tasks.items() if entry.get("cut_from") == task]
    sharers += [f"task {tasks[task]['cut_from']}"] if "cut_from" in tasks[task] else []
    if sharers:
        return (), f"{ignored}: {sharers[0]} also uses this probe"
    return (settings.base_of(models, subset["model"], subset["seed"]), task), None


class Names:
    """The values that the wildcards of Snakemake rules may take.

    The wildcard `model` is the name of a base: the model's name, or a name such as tiny-seed0 if
    each replicate has its own base. `stopped_probe` and `stop_obstacle` are the result of
    `early_stop`.
    """

    def __init__(self, config: dict, studies: dict[str, ResolvedStudy]):
        models, tasks = config["models"], config["tasks"]
        has_kind = lambda base, kind: settings.entry(models, base)["source"]["kind"] == kind
        self.recorded = [name for name, model in models.items() if settings.is_recorded(model)]
        self.trajectories = [
            name for name, model in models.items() if settings.is_trajectory(model)
        ]
        self.trajectory_prompts = [models[name]["source"]["prompts"] for name in self.trajectories]
        self.sampled = [
            base
            for name, model in models.items()
            if settings.is_sampled(model)
            for base in used_bases(config, name, studies)
        ]
        self.pretrained = [base for base in self.sampled if has_kind(base, "pretrain")]
        self.fetched = [base for base in self.sampled if not has_kind(base, "pretrain")]
        self.tasks = list(tasks)
        self.sampled_tasks = [name for name, task in tasks.items() if "cut_from" not in task]
        self.tasks_with_cut_completions = [
            name for name, task in tasks.items() if "cut_from" in task
        ]
        self.policies_in_rounds = [
            name for name, policy in config["policies"].items() if settings.has_rounds(policy)
        ]
        self.analyses = list(config.get("analyses", {}))
        self.stopped_probe, self.stop_obstacle = early_stop(config, studies)
