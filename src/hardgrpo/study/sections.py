"""Look-ups in the sections of a configuration."""

from hardgrpo.study.model import Model, model_of
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.task import Split, Task


class Sections:
    """An object with sections of a configuration: {name: entry}.

    A base is the name of weights: a model's name, or the name of a replicate's own base
    (tiny-seed3).
    """

    tasks: dict[str, Task]
    models: dict[str, Model]
    policies: dict[str, Policy]
    recipes: dict[str, Recipe]

    def model(self, base: str) -> Model:
        """The model of a base. For a replicate's own base, the base's seed replaces `seed: own`."""
        if base in self.models:
            return self.models[base]
        model = self.models[model_of(base)]
        return model.with_seed(int(base.rpartition("-seed")[2])) if model.has_own_bases else model

    def base_of(self, model: str, seed: int) -> str:
        """The base from which a replicate of a model starts."""
        return self.models[model].base(model, seed)

    def probing_base(self, model: str, policy: Policy, seed: int) -> str:
        """The base whose completions a policy uses to choose prompts, for a replicate of
        `model`."""
        return self.base_of(policy.probed_by or model, seed)

    def split(self, task: str, name: str) -> Split:
        """The split `name` (`train` or `test`) of a task."""
        return Split(task, name, self.tasks[task])

    def sampled_task(self, name: str) -> str:
        """The name of the task whose completions are sampled for task `name`: the task from which
        they are cut (`cut_from`), or `name`."""
        return self.tasks[name].cut_from or name
