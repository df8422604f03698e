"""Look-ups in the sections of a configuration."""

from hardgrpo.study.model import Model, model_of
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.task import Split, Task


class Sections:
    """Sections of a configuration: {name: entry}. A base is a name of weights: a model's, or that
    of a replicate's own base (tiny-seed3)."""

    tasks: dict[str, Task]
    models: dict[str, Model]
    policies: dict[str, Policy]
    recipes: dict[str, Recipe]

    def model(self, base: str) -> Model:
        """The model of a base, in which the base's seed replaces `seed: own`."""
        if base in self.models:
            return self.models[base]
        model = self.models[model_of(base)]
        return model.with_seed(int(base.rpartition("-seed")[2])) if model.has_own_bases else model

    def base_of(self, model: str, seed: int) -> str:
        return self.models[model].base(model, seed)

    def probing_base(self, model: str, policy: Policy, seed: int) -> str:
        """The base by whose completions a policy chooses for a replicate of `model`."""
        return self.base_of(policy.probed_by or model, seed)

    def split(self, task: str, name: str) -> Split:
        return Split(task, name, self.tasks[task])

    def sampled_task(self, name: str) -> str:
        """The task whose completions are sampled for `name`: `cut_from`, or `name`."""
        return self.tasks[name].cut_from or name
