"""Look up the entries of the configuration that a job's wildcards refer to."""

from snakemake.iocontainers import Wildcards

from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, model_of
from hardgrpo.study.study import Run
from hardgrpo.study.task import Task
from hardgrpo.workflow.names import Names


class Entries:
    def __init__(self, config: Configuration, names: Names):
        self.config, self.names = config, names

    def _task(self, wildcards: Wildcards) -> Task:
        """The task that a job tests, else the task that it trains on or probes."""
        return self.config.tasks[getattr(wildcards, "eval_task", None) or wildcards.task]

    def _model(self, wildcards: Wildcards) -> Model:
        return self.config.model(wildcards.model)

    def _run(self, wildcards: Wildcards) -> Run:
        return Run(
            model_of(wildcards.model),
            wildcards.task,
            wildcards.recipe,
            wildcards.policy,
            int(wildcards.seed),
            wildcards.model,
        )

    def _parts(self, wildcards: Wildcards, split: str) -> list[str]:
        return paths.parts(self.config.split(wildcards.task, split), self.config.data)
