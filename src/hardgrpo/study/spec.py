"""The specification of a run: all settings that determine the run's result. The workflow writes
`spec.yaml`; the trainer and the analysis read it."""

import hashlib
import json
from pathlib import Path
from typing import Self

import yaml
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths
from hardgrpo.study.model import Model
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.study import Run
from hardgrpo.study.task import Task


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class Spec:
    """The content of `spec.yaml`. Paths are relative to the working directory."""

    model: str
    task: str
    policy: str
    recipe: str
    seed: int
    model_folder: str
    problems: str
    subset: str
    prompt: str
    chat: dict
    grader: str
    completion_tokens: int
    training: dict
    solutions: str | None = None  # worked solutions, if the recipe's objective is sft
    questions: str | None = None  # the pool without answers, if the recipe has a majority_share
    # in the second of two rounds: the folder of the first round, whose last checkpoint is
    # model_folder
    continues: str | None = None

    @classmethod
    def of_run(
        cls,
        run: Run,
        *,
        model: Model,
        task: Task,
        recipe: Recipe,
        policy: Policy | None,
        first: bool = False,
    ) -> Self:
        """The specification of a run; with two rounds that of the second, or of the `first`."""
        fields = {
            "model": run.base,
            "task": run.task,
            "policy": run.policy,
            "recipe": run.recipe,
            "seed": run.seed,
            "model_folder": paths.model_folder(run.base),
            "problems": paths.training_problems(run.task, task),
            "subset": paths.subset(run.base, run.task, run.policy, run.seed),
            "prompt": task.prompt,
            "chat": model.chat_arguments,
            "grader": task.grader,
            "completion_tokens": task.completion_tokens,
            "training": {"adapter": None} | recipe.entry,
        }
        fields |= paths.more_inputs(run.task, recipe)
        if not (policy and policy.has_rounds):
            return cls(**fields)
        half = fields["training"]["updates"] // 2
        fields["training"] = fields["training"] | {"updates": half}
        if not first:
            fields["subset"] = paths.subset_of_run(run, policy)
            fields["model_folder"] = paths.first_round(run, f"checkpoints/step-{half}")
            fields["continues"] = paths.training(run, "first")
        return cls(**fields)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        fields = files.read_yaml(path)
        if not isinstance(fields, dict):
            raise UserError(f"{path}: expected keys {', '.join(cls.__dataclass_fields__)}")
        try:
            spec = cls(**fields)
        except ValidationError as error:
            details = [(detail["loc"][0], detail["msg"]) for detail in error.errors()]
            raise UserError(
                f"{path}: " + "; ".join(f"'{k}': {msg}" for k, msg in details)
            ) from None
        needed = {
            "solutions": spec.training.get("objective") == "sft",
            "questions": spec.training.get("majority_share"),
        }
        for name in needed:
            if needed[name] and getattr(spec, name) is None:
                raise UserError(f"{path}: '{name}' is missing, which this recipe needs; add it")
        return spec

    def write(self, path: str | Path) -> None:
        objective = self.training.get("objective", "grpo").upper()
        head = f"# One {objective} run. By hand: python scripts/training/train_grpo.py --spec THIS_FILE --output FOLDER\n"
        content = yaml.safe_dump(self.fields(), sort_keys=True, allow_unicode=True)
        files.write_text(path, head + content)

    def fields(self) -> dict:
        """The content of `spec.yaml`: all fields that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def digest(self, *contents: str) -> str:
        """A hash of the specification and `contents` (checksums of files, versions), which names
        the folder of the run's state; without `contents`, it is in the manifests of checkpoints."""
        text = json.dumps([self.fields(), contents], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_run_of_checkpoints(folder: Path) -> None:
    """Refuse a manifest in `folder` or its step folders of another specification than `spec.yaml`
    beside `folder`. Without `spec.yaml`, or in manifests of older versions, nothing is checked."""
    path = folder.parent / "spec.yaml"
    if not path.is_file():
        return
    digest = Spec.read(path).digest()
    for manifest in [folder / "manifest.json", *sorted(folder.glob("step-*/manifest.json"))]:
        recorded_digest = files.read_json(manifest).get("spec")
        if recorded_digest not in (None, digest):
            raise UserError(
                f"{manifest}: the checkpoints were trained with another specification than {path};"
                f" delete {folder} and run again"
            )
