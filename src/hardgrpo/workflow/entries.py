"""Look up the entries of the configuration that a job's wildcards refer to."""

from snakemake.iocontainers import Wildcards

from hardgrpo.study import paths, settings
from hardgrpo.study.settings import Run, Split
from hardgrpo.workflow.names import Names


class Entries:
    """Look-ups of entries by wildcards, for subclasses that return inputs, arguments or resources."""

    def __init__(self, config: dict, names: Names):
        self.config, self.names = config, names

    def _task(self, wildcards: Wildcards) -> dict:
        return self.config["tasks"][wildcards.task]

    def _test_task(self, wildcards: Wildcards) -> dict:
        return self.config["tasks"][wildcards.eval_task]

    def _model(self, wildcards: Wildcards) -> dict:
        """The entry of a model; `wildcards.model` may be a replicate's base model (tiny-seed3)."""
        return settings.entry(self.config["models"], wildcards.model)

    def _policy(self, wildcards: Wildcards) -> dict:
        return self.config["policies"][wildcards.policy]

    def _recipe(self, wildcards: Wildcards) -> dict:
        return self.config["recipes"][wildcards.recipe]

    def _run(self, wildcards: Wildcards) -> Run:
        return Run(
            settings.model_of(wildcards.model),
            wildcards.task,
            wildcards.recipe,
            wildcards.policy,
            int(wildcards.seed),
            wildcards.model,
        )

    def _parts(self, wildcards: Wildcards, split_name: str) -> list[str]:
        """The file of each part of a split."""
        split = Split(wildcards.task, split_name, self._task(wildcards))
        return paths.parts(split, self.config["data"])
