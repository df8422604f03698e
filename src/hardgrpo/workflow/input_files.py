"""Input functions of rules: functions that map the wildcards of a job to the files that the job
reads.

For an input that the configuration lacks, a function returns a message instead of a path. Snakemake
reports the message as a missing file, but only if a job needs the input.
"""

import functools
import os
import re

from snakemake.io import glob_wildcards
from snakemake.iocontainers import Wildcards
from snakemake.logging import logger

from hardgrpo.data import inputs
from hardgrpo.study import paths, pool_sizes, pools, resolved, settings
from hardgrpo.study.resolved import ResolvedStudy
from hardgrpo.workflow.entries import Entries
from hardgrpo.workflow.failures import WorkflowError
from hardgrpo.workflow.names import Names


class InputFiles(Entries):
    """Input functions for one configuration and its studies. `workflow` is Snakemake's object of
    this name in a Snakefile."""

    def __init__(self, config: dict, studies: dict[str, ResolvedStudy], names: Names, workflow):
        super().__init__(config, names)
        self.studies, self.workflow = studies, workflow
        self._models_and_tasks = config["models"], config["tasks"]
        self.too_small = functools.cache(self._too_small)
        self.original_checkpoints = functools.cache(self._original_checkpoints)

    # --- problems and models ---

    def source_files(self, wildcards: Wildcards) -> list[str]:
        """The files that must exist before a split is prepared."""
        return self._parts(wildcards, wildcards.split)

    def solution_files(self, wildcards: Wildcards) -> list[str]:
        """The files that must exist before the worked solutions of a pool are written."""
        return self._parts(wildcards, "train")

    def annotated_rows(self, wildcards: Wildcards) -> str:
        name = self._task(wildcards).get("annotated")
        if name is None:  # the name of a missing file, which Snakemake reports
            return f"config.yaml: tasks.{wildcards.task}.annotated"
        return os.path.join(self.config["data"], name)

    def hidden_problems(self, wildcards: Wildcards) -> list[str]:
        """The problems that are withheld from the pretraining of a base model."""
        return [
            paths.problems(*split)
            for split in resolved.withheld_splits(
                self.config["models"],
                self.config["tasks"],
                wildcards.model,
                self.studies.values(),
            )
        ]

    # --- probe and subsets ---

    def pool(self, wildcards: Wildcards) -> str:
        """The problems that a model is probed on."""
        return pools.problems(*self._models_and_tasks, wildcards.model, wildcards.task)

    def pool_questions(self, wildcards: Wildcards) -> str:
        """The problems that a model is probed on, without their answers."""
        return pools.questions(*self._models_and_tasks, wildcards.model, wildcards.task)

    def probe(self, wildcards: Wildcards) -> str | list[str]:
        """The completions of a probe: one file per shard, or the file of a probe that stops
        early."""
        base, task = wildcards.model, wildcards.task
        if (base, task) == self.names.stopped_probe:
            return paths.stopped_probe(base, task)
        shards = 1 if base in self.names.recorded else self._task(wildcards)["probe"]["shards"]
        return [paths.probe(base, task, shard) for shard in range(shards)]

    def longer_probe(self, wildcards: Wildcards) -> str:
        """The shard of the probe of task `cut_from`, whose completions are cut for this task."""
        return paths.probe(wildcards.model, self._task(wildcards)["cut_from"], wildcards.shard)

    def recorded_probe(self, wildcards: Wildcards) -> str:
        return self._recorded_part(wildcards.model, wildcards.task, "probe")

    def recorded_trajectory(self, wildcards: Wildcards) -> str:
        source = self._source(wildcards.model)
        if "repository" in source:
            return paths.converted_trajectory(wildcards.model)
        return f"{self.config['data']}/{source['file']}"

    def questions_to_choose_from(self, wildcards: Wildcards) -> str:
        """The questions of the pool, without answers, from the task whose probe decides the
        subset."""
        return pools.questions(*self._models_and_tasks, *self._deciding_probe(wildcards))

    def pass_rates(self, wildcards: Wildcards) -> str:
        return paths.difficulty(*self._deciding_probe(wildcards))

    def measures(self, wildcards: Wildcards) -> dict[str, str]:
        """The files that a policy chooses by, as named inputs: pass rates, or signals (and the
        labelled sample if the policy predicts pass rates), or only the questions (and the annotated
        problems for rule `annotated`)."""
        base, task, name, seed = wildcards.model, wildcards.task, wildcards.policy, wildcards.seed
        policy = self._policy(wildcards)
        # The check is skipped for an existing subset: Snakemake keeps an output whose input is
        # missing, so it would not report the message.
        is_chosen = os.path.exists(paths.subset(base, task, name, seed))
        if not is_chosen and (problem := self.too_small(name, task)):
            return {"pool": problem}
        if policy.get("by", "pass_rate") != "pass_rate":
            sample = (
                {"sample": paths.subset(base, task, name, seed, "sample.csv")}
                if policy["by"] == "predicted"
                else {}
            )
            return {"signals": paths.signals(*self._deciding_probe(wildcards))} | sample
        # prompts of a trajectory belong to no task
        if settings.is_labelled(self.config["tasks"].get(task, {})):
            return {"difficulty": self.pass_rates(wildcards)}
        annotated = (
            {"annotated": paths.annotated_problems(task)} if policy["rule"] == "annotated" else {}
        )
        # Without labels, the policy has a rule that uses no pass rates.
        return {"questions": paths.questions(task)} | annotated

    def _deciding_probe(self, wildcards: Wildcards) -> tuple[str, str]:
        """(base, task) of the probe that decides a subset."""
        policy = self._policy(wildcards)
        model, models = settings.model_of(wildcards.model), self.config["models"]
        base = settings.probing_base(models, model, policy, int(wildcards.seed))
        return base, policy.get("probed_on", wildcards.task)

    def _too_small(self, policy: str, task: str) -> str | None:
        """A message that says why a pool is too small for a policy; None if the pool is large
        enough, its size is unknown, or this process is the Snakemake of a single job."""
        # prompts of a trajectory belong to no task
        if task not in self.config["tasks"] or not self.workflow.is_main_process:
            return None
        problem = pool_sizes.too_small(
            policy,
            self.config["policies"][policy],
            settings.Split(task, "train", self.config["tasks"][task]),
            self.config["data"],
        )
        return (
            problem and f"{', '.join(map(os.path.relpath, self.workflow.configfiles))}: {problem}"
        )

    # --- training ---

    def training_problems(self, wildcards: Wildcards) -> str:
        """The problems, with answers, from which a run's prompts are chosen."""
        return paths.training_problems(wildcards.task, self._task(wildcards))

    def training_subset(self, wildcards: Wildcards) -> str:
        return paths.subset_of_run(self._run(wildcards), self._policy(wildcards))

    def training_extras(self, wildcards: Wildcards) -> list[str]:
        """Further inputs that some runs need: worked solutions, the pool's questions, and (for a
        second round) the checkpoints of the first round."""
        extras = list(paths.more_inputs(wildcards.task, self._recipe(wildcards)).values())
        if wildcards.policy not in self.names.policies_in_rounds:
            return extras
        return [*extras, paths.first_round(self._run(wildcards), "checkpoints/manifest.json")]

    # --- evaluation ---

    def test_problems(self, wildcards: Wildcards) -> str:
        return pools.problems(*self._models_and_tasks, wildcards.model, wildcards.eval_task, "test")

    def longer_grades(self, wildcards: Wildcards) -> str:
        """The graded completions on task `cut_from`, which are cut for this task."""
        task = self._test_task(wildcards)["cut_from"]
        return paths.evaluation(f"{wildcards.model}/{wildcards.run}", task)

    def longer_completions(self, wildcards: Wildcards) -> str:
        """The texts of the completions in `longer_grades`."""
        return paths.completions(self.longer_grades(wildcards))

    def run_evaluations(self, wildcards: Wildcards) -> list[str]:
        """The evaluations of a run in the configured study. Pruning waits for them."""
        run, study = self._run(wildcards), self.studies[self.config["study"]]
        if run not in self._configured_runs:
            return [f"config.yaml: studies.{study.name} has no run {run.path}"]
        return paths.evaluations_of_run(study, run)

    @functools.cached_property
    def _configured_runs(self) -> frozenset[settings.Run]:
        """The runs of the configured study, as a set, in which each pruning job looks up its
        run."""
        return frozenset(self.studies[self.config["study"]].runs)

    def recorded_base(self, wildcards: Wildcards) -> str:
        return self._recorded_part(wildcards.model, wildcards.eval_task, "base")

    def recorded_checkpoints(self, wildcards: Wildcards) -> list[str]:
        return list(self.recorded_steps(wildcards).values())

    def recorded_steps(self, wildcards: Wildcards) -> dict[int | str, str]:
        """{step: file} of the recorded checkpoints of a run. If there are none, return a single
        entry whose file does not exist. Missing checkpoints are no error here, because committed
        summaries can be drawn without recordings."""
        model, task, policy = wildcards.model, wildcards.task, wildcards.policy
        if "repository" in self._source(model):
            steps = self.original_checkpoints(model, task, policy)
            source = self._source(model)
            folder = (
                os.path.join(self.config["data"], source["local"])
                if "local" in source
                else "the folder that key `local` names"
            )
            missing = (
                f"config: models.{model}.source.recordings.{task}.runs.{policy}: no checkpoint in inputs.lock or {folder}; put the files"
                f" of {source['repository']} into {folder}, or take the run out of the configuration"
            )
            return {
                step: paths.recording(model, task, f"{policy}/checkpoint-{step}") for step in steps
            } or {"N": missing}
        pattern = self._recording(model, task)["runs"][policy]
        matches = glob_wildcards(os.path.join(self.config["data"], pattern)).step
        steps = {int(step): step for step in matches if step.isdigit() and int(step) > 0} or {
            "N": "N"
        }
        return {
            step: os.path.join(self.config["data"], pattern.replace("{step}", steps[step]))
            for step in sorted(steps)
        }

    def _recorded_part(self, model: str, task: str, part: str) -> str:
        """The file of a part of a recording (`probe` or `base`), in the format of this project."""
        if "repository" in self._source(model):
            return paths.recording(model, task, part)
        return f"{self.config['data']}/{self._recording(model, task)[part]}"

    # --- files as their authors published them ---

    def original_recording(self, wildcards: Wildcards) -> dict[str, str]:
        """The originals of converted completions, as named inputs: completions, questions, and
        published pass rates (`scores`)."""
        return {
            key: self._original(self._source(wildcards.model), name)
            for key, name in self.original_names(wildcards).items()
        }

    def original_names(self, wildcards: Wildcards) -> dict[str, str]:
        """The paths, in the repository, of the files of `original_recording`."""
        model, task, part = wildcards.model, wildcards.task, wildcards.part
        recording = self._recording(model, task)
        if part in ("probe", "base"):
            name = recording.get(part, f"config: models.{model}.source.recordings.{task}.{part}")
        else:
            policy, step = part.split("/checkpoint-")
            name = self.original_checkpoints(model, task, policy).get(
                int(step), recording["runs"][policy].replace("{step}", step)
            )
        split = "train" if part == "probe" else "test"
        scores = recording.get("scores", {}) if part in ("probe", "base") else {}
        questions = {"original": name, "questions": recording["questions"][split]}
        return questions | ({"scores": scores[split]} if split in scores else {})

    def converted(self, name: str) -> list[str]:
        """The files of a study that are converted from files of other authors. For an analysis,
        which converts nothing, the files of the authors themselves."""
        study = self.studies[name]
        if study.is_analysis:
            return self.originals(Wildcards(fromdict={"study": name}))
        converted = [
            paths.converted_trajectory(model)
            for model, _ in study.trajectory_prompts
            if "repository" in self._source(model)
        ]
        for model, task in study.pairs:
            if not settings.is_recorded(study.models[model]) or "repository" not in self._source(
                model
            ):
                continue
            recording = self._recording(model, task)
            converted += [
                paths.recording(model, task, part)
                for part in ("probe", "base")
                if part in recording
            ]
            for policy in recording.get("runs", {}):
                steps = self.original_checkpoints(model, task, policy)
                converted += [
                    paths.recording(model, task, f"{policy}/checkpoint-{step}") for step in steps
                ]
        return converted + paths.published_files(study)

    def original_accuracies(self, wildcards: Wildcards) -> dict[str, str]:
        """The originals of published accuracies, as named inputs: accuracies, and published pass
        rates of the test questions."""
        return {
            key: self._original(self._source(wildcards.model), name)
            for key, name in self.accuracies_names(wildcards).items()
        }

    def accuracies_names(self, wildcards: Wildcards) -> dict[str, str]:
        """The paths, in the repository, of the files of `original_accuracies`."""
        recording = self._recording(wildcards.model, wildcards.task)
        scores = (
            {"scores": recording["scores"]["test"]} if "test" in recording.get("scores", {}) else {}
        )
        return {"original": recording["published"][wildcards.policy]} | scores

    def original_trajectory(self, wildcards: Wildcards) -> str:
        return self._original(self._source(wildcards.model), self._source(wildcards.model)["file"])

    def _original_checkpoints(self, model: str, task: str, policy: str) -> dict[int, str]:
        """{step: name in the repository} of a run's checkpoints, from inputs.lock and from the
        folder `local`, in the order of steps. Empty files are left out and logged."""
        source, pattern = self._source(model), self._recording(model, task)["runs"][policy]
        pinned = self._pinned_originals(source)
        before, after = pattern.split("{step}")
        form = re.compile(re.escape(before) + r"(\d+)" + re.escape(after))
        sizes = {name: entry["bytes"] for name, entry in pinned.items()}
        if "local" in source:
            folder = os.path.join(self.config["data"], source["local"])
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
                        f"{source['repository']}: {steps[step]} is empty (0 bytes); checkpoint {step} of {policy} is left out"
                    )
                del steps[step]
        return dict(sorted(steps.items()))

    def _pinned_originals(self, source: dict) -> dict[str, dict]:
        """{name: bytes and sha256} of the files of a repository in inputs.lock."""
        repositories = inputs.read_lock("inputs.lock").get("repositories", {})
        return repositories.get(inputs.repository_entry(source), {})

    def _original(self, source: dict, name: str) -> str:
        """The path of an original on this machine: below `data` if the file exists there, else the
        path to which the file is downloaded."""
        local = os.path.join(self.config["data"], source.get("local", ""))
        # `local` of a trajectory may be the file itself instead of its folder.
        copies = [local, os.path.join(local, name)] if "local" in source else []
        return next(
            (path for path in copies if os.path.isfile(path)),
            f"{paths.original_folder(source)}/{name}",
        )

    def _source(self, model: str) -> dict:
        return self.config["models"][model]["source"]

    def _recording(self, model: str, task: str) -> dict:
        """A recording of a model; `{model}` in its texts is replaced by the source's `name`."""
        source = self._source(model)
        return settings.replace_in_texts(
            source["recordings"][task], "{model}", source.get("name", "{model}")
        )

    # --- analyses of published numbers ---

    def originals(self, wildcards: Wildcards) -> list[str]:
        """The files that an analysis reads, as their authors published them."""
        source = self.config["analyses"][wildcards.study]["source"]
        return [
            self._original(
                source | {"local": os.path.join(source["local"], os.path.basename(name))}, name
            )
            for name in self.names_of_originals(wildcards)
        ]

    def names_of_originals(self, wildcards: Wildcards) -> list[str]:
        """The paths, in the repository, of the files of `originals`."""
        source = self.config["analyses"][wildcards.study]["source"]
        return [f"{source['folder']}/{name}" for name in source["files"]]

    # --- papers ---

    def texts(self, wildcards: Wildcards) -> list[str]:
        """The evaluations of a study, the texts of their completions, and the problems. Raise a
        `WorkflowError` for a study without completions."""
        if files := paths.texts(self.studies[wildcards.study]):
            return files
        raise WorkflowError(
            f"study {wildcards.study} has no completions, so there is nothing to explore"
        )
