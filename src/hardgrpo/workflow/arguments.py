"""Parameters of rules: functions that map the wildcards of a job to arguments of the job's program.

Snakemake compares parameters as text and runs a job again when a parameter differs. A part of the
configuration that is written as JSON therefore has sorted keys.
"""

import json
import os
import shlex
from pathlib import Path

from snakemake.iocontainers import Wildcards

from hardgrpo.runtime import code as code_files
from hardgrpo.study import claim_conditions, designs, paths, pool_sizes
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import ModelFolder
from hardgrpo.study.spec import Spec
from hardgrpo.study.strict import sorted_json
from hardgrpo.study.study import Study
from hardgrpo.workflow.entries import Entries
from hardgrpo.workflow.names import Names


class Arguments(Entries):
    """Functions that map wildcards to arguments. `workflow` is Snakemake's object of this name in a
    Snakefile."""

    def __init__(self, config: Configuration, studies: dict[str, Study], names: Names, workflow):
        super().__init__(config, names)
        self.studies, self.workflow = studies, workflow

    def code(self, program: str, *modules: str) -> str:
        """Checksum of a program of scripts/, of `modules` that it loads by name, and of all that
        these import. Cheap rules with this parameter run again when their code changes."""
        library = [code_files.SOURCE / f"hardgrpo/{module}.py" for module in modules]
        return code_files.checksum(Path(self.workflow.basedir) / "scripts" / program, *library)

    # --- problems and models ---

    def source(self, wildcards: Wildcards) -> str:
        return sorted_json(self._task(wildcards).source_of_split(wildcards.split))

    def solution_source(self, wildcards: Wildcards) -> str:
        return sorted_json(self._task(wildcards).source_of_split("train", with_solutions=True))

    def task_in_ids(self, wildcards: Wildcards) -> str:
        """The task whose name is part of the problems' ids."""
        return self.config.sampled_task(wildcards.task)

    def grader_and_policies(self, wildcards: Wildcards) -> str:
        """The grader that must read the answers, and the policies for which the pool must be large
        enough."""
        study, targets = self.studies[self.config.study], self.workflow.dag_settings.targets
        choosing = (
            pool_sizes.choosing_policies(study, self.config.subset, wildcards.task, targets)
            if wildcards.split == "train"
            else {}
        )
        argument = f"--policies {shlex.quote(sorted_json(choosing))}" if choosing else ""
        return f"{self._task(wildcards).grader} {argument}"

    def unlabelled(self, wildcards: Wildcards) -> str:
        has_answers = wildcards.split == "test" or self._task(wildcards).is_labelled
        return "" if has_answers else "--unlabelled"

    def answer_column(self, wildcards: Wildcards) -> str:
        return self._task(wildcards).answer_column

    def prompt(self, wildcards: Wildcards) -> str:
        return self._task(wildcards).prompt

    def grader(self, wildcards: Wildcards) -> str:
        return self._task(wildcards).grader

    def completion_tokens(self, wildcards: Wildcards) -> int:
        return self._task(wildcards).completion_tokens

    def model_source(self, wildcards: Wildcards) -> str:
        return sorted_json(self._model(wildcards).weights_source)

    def model_parent(self, wildcards: Wildcards) -> str:
        """The folder to which the path of a model is relative."""
        is_folder = isinstance(self._model(wildcards).source, ModelFolder)
        return self.config.data if is_folder else "."

    def pretraining(self, wildcards: Wildcards) -> str:
        """A model's source, with the source and prompt of each demonstrated task."""
        source, tasks = self._model(wildcards).source, self.config.tasks
        demonstrations = {
            task: values.entry | {"source": tasks[task].source, "prompt": tasks[task].prompt}
            for task, values in source.demonstrations.items()
        }
        return sorted_json(source.entry | {"demonstrations": demonstrations})

    def chat(self, wildcards: Wildcards) -> str:
        return sorted_json(self._model(wildcards).chat_arguments)

    # --- probe and subsets ---

    def sampling(self, wildcards: Wildcards) -> str:
        model = self._model(wildcards)
        precision = f" --precision {model.precision}" if model.precision else ""
        return f"--engine {model.engine_name} --chat {shlex.quote(self.chat(wildcards))}{precision}"

    def probe(self, wildcards: Wildcards) -> dict:
        return dict(sorted(self._task(wildcards).probe.entry.items()))

    def probed_samples(self, wildcards: Wildcards) -> int:
        return self._task(wildcards).probe.all_samples

    def expected_samples(self, wildcards: Wildcards) -> str:
        if wildcards.model in self.names.recorded:
            return ""  # recordings have different numbers of completions
        probe = self._task(wildcards).probe
        is_stopped = (wildcards.model, wildcards.task) == self.names.stopped_probe
        held_out = f" --held-out {probe.held_out}" if probe.held_out else ""
        stopped = " --stopped" if is_stopped else ""
        return f"--samples {probe.samples}{held_out}{stopped}"

    def fewer_samples(self, wildcards: Wildcards) -> str:
        """Arguments that reduce a probe to fewer samples than task `cut_from` has."""
        task = self._task(wildcards)
        samples, of = task.probe.samples, self.config.tasks[task.cut_from].probe.samples
        return "" if samples == of else f" --samples {samples} --of {of}"

    def stop(self, wildcards: Wildcards) -> str:
        subset = self.config.subset
        policy = self.config.policies[subset.policy].choice() | {"seed": subset.seed}
        return f"--stop-for {shlex.quote(sorted_json(policy))}"

    def recording_code(self, wildcards: Wildcards) -> str:
        """Checksum of the program for recordings; empty for other models, whose trainings a change
        of the program must not rerun."""
        return (
            self.code("probe/measure_difficulty.py")
            if wildcards.model in self.names.recorded
            else ""
        )

    def original_repository(self, wildcards: Wildcards) -> str:
        source = self._model(wildcards).source
        return f"--repository {source.repository} --commit {source.commit}"

    def named_inputs(self, wildcards: Wildcards, input) -> str:
        """Input files as options, each named like the input of the rule."""
        return " ".join(f"--{name} {shlex.quote(path)}" for name, path in input.items())

    def policy(self, wildcards: Wildcards) -> str:
        """The policy that chooses a subset, with two rounds that of the first round."""
        return sorted_json(self.config.policies[wildcards.policy].choice())

    def second_policy(self, wildcards: Wildcards) -> str:
        """The policy of the second round, with the budget of both rounds."""
        return sorted_json(self.config.policies[wildcards.policy].choice(whole_budget=True))

    def annotation_column(self, wildcards: Wildcards) -> str:
        """The column for answers, in a file that is to be annotated."""
        if wildcards.content == "rows":
            return ""
        return f"--to-annotate {shlex.quote(self.answer_column(wildcards))}"

    # --- training ---

    def spec(self, wildcards: Wildcards) -> str:
        return sorted_json(self._spec(wildcards).fields())

    def first_spec(self, wildcards: Wildcards) -> str:
        return sorted_json(self._spec(wildcards, first=True).fields())

    def first_checkpoint(self, wildcards: Wildcards) -> str:
        return self._spec(wildcards).model_folder

    def _spec(self, wildcards: Wildcards, first: bool = False) -> Spec:
        return Spec.of_run(
            self._run(wildcards),
            model=self._model(wildcards),
            task=self._task(wildcards),
            recipe=self.config.recipes[wildcards.recipe],
            policy=self.config.policies.get(wildcards.policy),
            first=first,
        )

    # --- evaluation ---

    def test(self, wildcards: Wildcards) -> str:
        task = self._task(wildcards)
        greedy = " --greedy" if task.test.greedy else ""
        sampling = f"--samples {task.test.samples}{greedy} --seed {task.test.seed}"
        return f"{sampling} --completion-tokens {task.completion_tokens}"

    def reach(self, wildcards: Wildcards) -> str:
        task = self._task(wildcards)
        reach = task.test.reach
        return f"--samples {reach.samples} --seed {reach.seed} --completion-tokens {task.completion_tokens}"

    def checkpoints(self, wildcards: Wildcards, input) -> str:
        return f"--checkpoints {os.path.dirname(input.checkpoints)}"

    # --- analyses of published numbers ---

    def analysis(self, wildcards: Wildcards) -> dict:
        return json.loads(self.analysis_as_json(wildcards))

    def analysis_as_json(self, wildcards: Wildcards) -> str:
        return sorted_json(self.config.analyses[wildcards.study])

    # --- summaries and papers ---

    def study(self, wildcards: Wildcards) -> str:
        return sorted_json(paths.study_part(self._study(wildcards)))

    def design(self, wildcards: Wildcards) -> str:
        return sorted_json(designs.design(self._study(wildcards)))

    def committed_design(self, wildcards: Wildcards) -> str:
        """The configuration that the paper describes: designs of committed studies, pretrained
        models, generated tasks, analyses."""
        studies = {
            name: designs.design(study)
            for name, study in self.studies.items()
            if not study.is_analysis and os.path.isdir(paths.reference(name))
        }
        models = {name: model for name, model in self.config.models.items() if model.is_pretrained}
        tasks = {name: task for name, task in self.config.tasks.items() if task.is_generated}
        analyses = self.config.analyses or {}
        return sorted_json(
            {"studies": studies, "models": models, "tasks": tasks, "analyses": analyses}
        )

    def compared_policies(self, wildcards: Wildcards) -> str:
        study, config = self._study(wildcards), self.config
        names = designs.names_of_ways(config.policies, config.recipes)
        used = {"ways": study.policies, "recipes": study.recipes}
        return sorted_json(
            {
                "policies": {name: study.config.policies[name] for name in study.policies},
                "names": {key: {name: names[key][name] for name in used[key]} for key in used},
            }
        )

    def prices(self, wildcards: Wildcards) -> str:
        gpu_hour, annotating_policy = self.config.plan.price, self.config.subset.policy
        return sorted_json(designs.prices(self._study(wildcards), gpu_hour, annotating_policy))

    def conditions(self, wildcards: Wildcards) -> str:
        return sorted_json(claim_conditions.conditions(self._study(wildcards)))

    def _study(self, wildcards: Wildcards) -> Study:
        return self.studies[wildcards.study]
