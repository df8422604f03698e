"""Names of models, tasks and policies, grouped by the rules that use them."""

import re
from collections.abc import Iterable

from hardgrpo.study import settings


def any_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


class Names:
    """The values that the wildcards of a rule may take.

    The wildcard `model` of a path is the name of a base: the model's name, or a name such as
    tiny-seed0 if each replicate has its own base.
    """

    def __init__(self, config: dict):
        models, tasks = config["models"], config["tasks"]
        has_kind = lambda base, kind: settings.entry(config, base)["source"]["kind"] == kind
        self.recorded = [name for name in models if settings.is_recorded(config, name)]
        self.trajectories = [name for name in models if settings.is_trajectory(config, name)]
        self.trajectory_prompts = [models[name]["source"]["prompts"] for name in self.trajectories]
        self.sampled = [
            base
            for name in models
            if settings.is_sampled(config, name)
            for base in settings.used_bases(config, name)
        ]
        self.pretrained = [base for base in self.sampled if has_kind(base, "pretrain")]
        self.fetched = [base for base in self.sampled if not has_kind(base, "pretrain")]
        self.tasks = list(tasks)
        self.sampled_tasks = [name for name, task in tasks.items() if "cut_from" not in task]
        self.cut_tasks = [name for name, task in tasks.items() if "cut_from" in task]
        self.policies_in_rounds = [
            name for name, policy in config["policies"].items() if settings.has_rounds(policy)
        ]
        self.analyses = list(config.get("analyses", {}))
        # (base, task) of the probe that stops early, or (); the reason why `probe.stop` is ignored,
        # or None.
        self.stopped_probe, self.stop_obstacle = settings.early_stop(config)
