"""Input functions of rules: functions that map the wildcards of a job to the files that the job
reads.

For an input that the configuration lacks, a function returns a message instead of a path. Snakemake
reports the message as a missing file, but only if a job needs the input.
"""

import functools
import os
import re
from collections.abc import Callable

from snakemake.io import glob_wildcards
from snakemake.iocontainers import Wildcards
from snakemake.logging import logger

from hardgrpo.data import inputs
from hardgrpo.study import paths, pools, resolved
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Recording, Repository, model_of
from hardgrpo.study.published_analysis import Original
from hardgrpo.study.study import Run, Study
from hardgrpo.workflow.entries import Entries
from hardgrpo.workflow.failures import WorkflowError
from hardgrpo.workflow.names import Names


class InputFiles(Entries):
    def __init__(self, config: Configuration, studies: dict[str, Study], names: Names, workflow):
        super().__init__(config, names)
        self.studies, self.workflow = studies, workflow
        self.original_checkpoints = functools.cache(self._original_checkpoints)
        self.original_recording = self._originals(self.original_names)
        self.original_accuracies = self._originals(self.accuracies_names)

    # --- problems and models ---

    def source_files(self, wildcards: Wildcards) -> list[str]:
        return self._parts(wildcards, wildcards.split)

    def solution_files(self, wildcards: Wildcards) -> list[str]:
        return self._parts(wildcards, "train")

    def annotated_rows(self, wildcards: Wildcards) -> str:
        name = self._task(wildcards).annotated
        if name is None:  # the name of a missing file, which Snakemake reports
            return f"config.yaml: tasks.{wildcards.task}.annotated"
        return os.path.join(self.config.data, name)

    def hidden_problems(self, wildcards: Wildcards) -> list[str]:
        """The problems withheld from the pretraining of a base model."""
        return [
            paths.problems(*split)
            for split in resolved.withheld_splits(
                self.config, wildcards.model, self.studies.values()
            )
        ]

    # --- probe and subsets ---

    def pool(self, wildcards: Wildcards) -> str:
        return pools.problems(self.config, wildcards.model, wildcards.task)

    def pool_questions(self, wildcards: Wildcards) -> str:
        return pools.questions(self.config, wildcards.model, wildcards.task)

    def probe(self, wildcards: Wildcards) -> str | list[str]:
        """One file per shard, or the file of a probe that stops early."""
        base, task = wildcards.model, wildcards.task
        if (base, task) == self.names.stopped_probe:
            return paths.stopped_probe(base, task)
        shards = 1 if base in self.names.recorded else self._task(wildcards).probe.shards
        return [paths.probe(base, task, shard) for shard in range(shards)]

    def longer_probe(self, wildcards: Wildcards) -> str:
        return paths.probe(wildcards.model, self._task(wildcards).cut_from, wildcards.shard)

    def recorded_probe(self, wildcards: Wildcards) -> str:
        return self._recorded_part(wildcards.model, wildcards.task, "probe")

    def recorded_trajectory(self, wildcards: Wildcards) -> str:
        if self._model(wildcards).is_of_repository:
            return paths.converted_trajectory(wildcards.model)
        return f"{self.config.data}/{self._source(wildcards.model).file}"

    def questions_to_choose_from(self, wildcards: Wildcards) -> str:
        return pools.questions(self.config, *self._deciding_probe(wildcards))

    def pass_rates(self, wildcards: Wildcards) -> str:
        return paths.difficulty(*self._deciding_probe(wildcards))

    def measures(self, wildcards: Wildcards) -> dict[str, str]:
        """The files that a policy chooses by: pass rates, or signals (with the labelled sample if
        pass rates are predicted), or questions (with the annotated problems for rule
        `annotated`)."""
        base, task, name, seed = wildcards.model, wildcards.task, wildcards.policy, wildcards.seed
        policy = self.config.policies[name]
        if policy.measure != "pass_rate":
            sample = (
                {"sample": paths.subset(base, task, name, seed, "sample.csv")}
                if policy.by == "predicted"
                else {}
            )
            return {"signals": paths.signals(*self._deciding_probe(wildcards))} | sample
        # prompts of a trajectory belong to no task
        if task not in self.config.tasks or self.config.tasks[task].is_labelled:
            return {"difficulty": self.pass_rates(wildcards)}
        annotated = (
            {"annotated": paths.annotated_problems(task)} if policy.rule == "annotated" else {}
        )
        # Without labels, the policy has a rule that uses no pass rates.
        return {"questions": paths.questions(task)} | annotated

    def _deciding_probe(self, wildcards: Wildcards) -> tuple[str, str]:
        """(base, task) of the probe that decides a subset."""
        policy = self.config.policies[wildcards.policy]
        model = model_of(wildcards.model)
        base = self.config.probing_base(model, policy, int(wildcards.seed))
        return base, policy.probed_on or wildcards.task

    # --- training ---

    def training_problems(self, wildcards: Wildcards) -> str:
        return paths.training_problems(wildcards.task, self._task(wildcards))

    def training_subset(self, wildcards: Wildcards) -> str:
        return paths.subset_of_run(self._run(wildcards), self.config.policies[wildcards.policy])

    def training_extras(self, wildcards: Wildcards) -> list[str]:
        """Worked solutions, the pool's questions, and (for a second round) the first round's
        checkpoints, if the run needs them."""
        recipe = self.config.recipes[wildcards.recipe]
        extras = list(paths.more_inputs(wildcards.task, recipe).values())
        if wildcards.policy not in self.names.policies_in_rounds:
            return extras
        return [*extras, paths.first_round(self._run(wildcards), "checkpoints/manifest.json")]

    # --- evaluation ---

    def test_problems(self, wildcards: Wildcards) -> str:
        return pools.problems(self.config, wildcards.model, wildcards.eval_task, "test")

    def longer_grades(self, wildcards: Wildcards) -> str:
        task = self._task(wildcards).cut_from
        return paths.evaluation(f"{wildcards.model}/{wildcards.run}", task)

    def longer_completions(self, wildcards: Wildcards) -> str:
        return paths.completions(self.longer_grades(wildcards))

    def run_evaluations(self, wildcards: Wildcards) -> list[str]:
        run, study = self._run(wildcards), self.studies[self.config.study]
        if run not in self._configured_runs:
            return [f"config.yaml: studies.{study.name} has no run {run.path}"]
        return paths.evaluations_of_run(study, run)

    @functools.cached_property
    def _configured_runs(self) -> frozenset[Run]:
        return frozenset(self.studies[self.config.study].runs)

    def recorded_base(self, wildcards: Wildcards) -> str:
        return self._recorded_part(wildcards.model, wildcards.eval_task, "base")

    def recorded_checkpoints(self, wildcards: Wildcards) -> list[str]:
        return list(self.recorded_steps(wildcards).values())

    def recorded_steps(self, wildcards: Wildcards) -> dict[int | str, str]:
        """{step: file} of a run's recorded checkpoints. Without checkpoints, one entry whose file
        is missing: committed summaries can be drawn without recordings."""
        model, task, policy = wildcards.model, wildcards.task, wildcards.policy
        if self.config.models[model].is_of_repository:
            steps = self.original_checkpoints(model, task, policy)
            source = self._source(model)
            folder = os.path.join(self.config.data, source.local or "LOCAL")
            missing = (
                f"config: models.{model}.source.recordings.{task}.runs.{policy}: no checkpoint in inputs.lock or {folder} (key `local`);"
                f" put the files of {source.repository} there"
            )
            return {
                step: paths.recording(model, task, f"{policy}/checkpoint-{step}") for step in steps
            } or {"N": missing}
        pattern = self._recording(model, task).runs[policy]
        matches = glob_wildcards(os.path.join(self.config.data, pattern)).step
        steps = {int(step): step for step in matches if step.isdigit() and int(step) > 0} or {
            "N": "N"
        }
        return {
            step: os.path.join(self.config.data, pattern.replace("{step}", steps[step]))
            for step in sorted(steps)
        }

    def _recorded_part(self, model: str, task: str, part: str) -> str:
        if self.config.models[model].is_of_repository:
            return paths.recording(model, task, part)
        return f"{self.config.data}/{getattr(self._recording(model, task), part)}"

    # --- files as their authors published them ---

    def _originals(self, names: Callable) -> Callable[[Wildcards], dict[str, str]]:
        """The files as their authors published them. `names` maps wildcards to their paths in the
        repository."""
        return lambda wildcards: {
            key: self._original(self._source(wildcards.model), name)
            for key, name in names(wildcards).items()
        }

    def original_names(self, wildcards: Wildcards) -> dict[str, str]:
        """Completions, questions and published pass rates (`scores`)."""
        model, task, part = wildcards.model, wildcards.task, wildcards.part
        recording = self._recording(model, task)
        if part in ("probe", "base"):
            missing = f"config: models.{model}.source.recordings.{task}.{part}"
            name = getattr(recording, part) or missing
        else:
            policy, step = part.split("/checkpoint-")
            name = self.original_checkpoints(model, task, policy).get(
                int(step), recording.runs[policy].replace("{step}", step)
            )
        split = "train" if part == "probe" else "test"
        names = {"original": name, "questions": getattr(recording.questions, split)}
        scores = getattr(recording.scores, split, None) if part in ("probe", "base") else None
        return names | ({"scores": scores} if scores else {})

    def converted(self, name: str) -> list[str]:
        """The files of a study that are converted from files of other authors; of an analysis,
        these files themselves."""
        study = self.studies[name]
        if study.is_analysis:
            return self.originals(Wildcards(fromdict={"study": name}))
        converted = [
            paths.converted_trajectory(model)
            for model, _ in study.trajectory_prompts
            if study.config.models[model].is_of_repository
        ]
        for model, task in study.pairs:
            if not (
                study.config.models[model].is_recorded
                and study.config.models[model].is_of_repository
            ):
                continue
            recording = self._recording(model, task)
            converted += [
                paths.recording(model, task, part)
                for part in ("probe", "base")
                if getattr(recording, part)
            ]
            for policy in recording.runs or {}:
                steps = self.original_checkpoints(model, task, policy)
                converted += [
                    paths.recording(model, task, f"{policy}/checkpoint-{step}") for step in steps
                ]
        return converted + paths.published_files(study)

    def accuracies_names(self, wildcards: Wildcards) -> dict[str, str]:
        recording = self._recording(wildcards.model, wildcards.task)
        scores = getattr(recording.scores, "test", None)
        names = {"original": recording.published[wildcards.policy]}
        return names | ({"scores": scores} if scores else {})

    def original_trajectory(self, wildcards: Wildcards) -> str:
        return self._original(self._source(wildcards.model), self._source(wildcards.model).file)

    def _original_checkpoints(self, model: str, task: str, policy: str) -> dict[int, str]:
        """{step: name in the repository} of a run's checkpoints in inputs.lock and in the folder
        `local`. Empty files are left out and logged."""
        source, pattern = self._source(model), self._recording(model, task).runs[policy]
        pinned = self._pinned_originals(source)
        before, after = pattern.split("{step}")
        form = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
        sizes = {name: entry["bytes"] for name, entry in pinned.items()}
        if source.local:
            folder = os.path.join(self.config.data, source.local)
            names = [
                pattern.replace("{step}", step)
                for step in glob_wildcards(os.path.join(folder, pattern)).step
            ]
            sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in names} | sizes
        steps = {
            int(match[1]): name
            for name in sizes
            if (match := form.fullmatch(name)) and int(match[1]) > 0
        }
        for step in sorted(steps):
            if sizes[steps[step]] == 0:
                if self.workflow.is_main_process:
                    logger.info(
                        f"{source.repository}: {steps[step]} is empty (0 bytes); checkpoint {step} of {policy} is left out"
                    )
                del steps[step]
        return dict(sorted(steps.items()))

    def _pinned_originals(self, source: Repository) -> dict[str, dict]:
        repositories = inputs.read_lock("inputs.lock").get("repositories", {})
        return repositories.get(f"{source.repository}@{source.commit}", {})

    def _original(self, source: Repository | Original, name: str, local: str | None = None) -> str:
        """An original below `data` if it exists there, else the path to which it is downloaded."""
        local = local or source.local
        # `local` of a trajectory may be the file itself instead of its folder.
        copies = [local, os.path.join(local, name)] if local else []
        return next(
            (
                path
                for copy in copies
                if os.path.isfile(path := os.path.join(self.config.data, copy))
            ),
            f"{paths.original_folder(source)}/{name}",
        )

    def _source(self, model: str) -> Repository:
        return self.config.models[model].source

    def _recording(self, model: str, task: str) -> Recording:
        return self._source(model).recording(task)

    # --- analyses of published numbers ---

    def originals(self, wildcards: Wildcards) -> list[str]:
        source = self.config.analyses[wildcards.study].source
        local = lambda name: os.path.join(source.local, os.path.basename(name))
        return [
            self._original(source, name, local(name)) for name in self.names_of_originals(wildcards)
        ]

    def names_of_originals(self, wildcards: Wildcards) -> list[str]:
        source = self.config.analyses[wildcards.study].source
        return [f"{source.folder}/{name}" for name in source.files]

    # --- papers ---

    def texts(self, wildcards: Wildcards) -> list[str]:
        if files := paths.texts(self.studies[wildcards.study]):
            return files
        raise WorkflowError(
            f"study {wildcards.study} has no completions, so there is nothing to explore"
        )
