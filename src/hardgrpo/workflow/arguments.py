"""Parameters of rules: functions that map the wildcards of a job to arguments of the job's program.

Snakemake compares parameters as text and runs a job again when a parameter differs. A part of the
configuration that is written as JSON therefore has sorted keys.
"""

import json
import os
import shlex
from pathlib import Path

from snakemake.iocontainers import Wildcards

from hardgrpo.report import registry
from hardgrpo.runtime import code as code_files
from hardgrpo.selection import policies
from hardgrpo.study import claim_conditions, designs, paths, pool_sizes, pools, settings
from hardgrpo.study.resolved import ResolvedStudy
from hardgrpo.study.spec import Spec
from hardgrpo.workflow.entries import Entries
from hardgrpo.workflow.names import Names


def as_json(value) -> str:
    """A part of the configuration as one JSON argument, with sorted keys."""
    return json.dumps(settings.sorted_slice(value))


class Arguments(Entries):
    """Functions that map wildcards to arguments, for one configuration and its studies. `workflow`
    is Snakemake's object of this name in a Snakefile."""

    def __init__(self, config: dict, studies: dict[str, ResolvedStudy], names: Names, workflow):
        super().__init__(config, names)
        self.studies, self.workflow = studies, workflow

    def code(self, program: str, *modules: str) -> str:
        """Checksum of a program of scripts/, of the modules that the program loads by name
        (`modules`), and of all project files that the program and these modules import or name
        (`code_files.files_of`). Most cheap rules on whose output no training depends have this
        parameter, so that they run again when their code changes."""
        library = [code_files.SOURCE / f"hardgrpo/{module}.py" for module in modules]
        return code_files.checksum(Path(self.workflow.basedir) / "scripts" / program, *library)

    # --- problems and models ---

    def source(self, wildcards: Wildcards) -> str:
        """The part of a task's source that determines the problems of a split."""
        return as_json(settings.source_of_split(self._task(wildcards), wildcards.split))

    def solution_source(self, wildcards: Wildcards) -> str:
        """The part of a task's source that determines the worked solutions of the pool."""
        return as_json(
            settings.source_of_split(self._task(wildcards), "train", with_solutions=True)
        )

    def task_in_ids(self, wildcards: Wildcards) -> str:
        """The task whose name is part of the problems' ids."""
        return settings.sampled_task(self.config["tasks"], wildcards.task)

    def grader_and_policies(self, wildcards: Wildcards) -> str:
        """Arguments: the grader that must be able to read the answers, and the policies for which
        the pool must be large enough."""
        study, targets = self.studies[self.config["study"]], self.workflow.dag_settings.targets
        choosing = (
            pool_sizes.choosing_policies(study, self.config["subset"], wildcards.task, targets)
            if wildcards.split == "train"
            else {}
        )
        argument = f"--policies {shlex.quote(as_json(choosing))}" if choosing else ""
        return f"{self._task(wildcards)['grader']} {argument}"

    def unlabelled(self, wildcards: Wildcards) -> str:
        return (
            "" if settings.is_labelled(self._task(wildcards), wildcards.split) else "--unlabelled"
        )

    def answer_column(self, wildcards: Wildcards) -> str:
        return settings.answer_column(self._task(wildcards))

    def model_source(self, wildcards: Wildcards) -> str:
        return as_json(settings.weights_source(self._model(wildcards)))

    def model_parent(self, wildcards: Wildcards) -> str:
        """The folder to which the path of a model is relative."""
        is_folder = self._model(wildcards)["source"]["kind"] == "folder"
        return self.config["data"] if is_folder else "."

    def pretraining(self, wildcards: Wildcards) -> str:
        return as_json(settings.pretraining(self._model(wildcards), self.config["tasks"]))

    def chat(self, wildcards: Wildcards) -> str:
        return as_json(settings.chat(self._model(wildcards)))

    # --- probe and subsets ---

    def sampling(self, wildcards: Wildcards) -> str:
        model = self._model(wildcards)
        precision = f" --precision {model['precision']}" if "precision" in model else ""
        return f"--engine {settings.engine(model)} --chat {shlex.quote(self.chat(wildcards))}{precision}"

    def probe(self, wildcards: Wildcards) -> dict:
        return settings.sorted_slice(self._task(wildcards)["probe"])

    def probed_samples(self, wildcards: Wildcards) -> int:
        """Completions per prompt of a probe, including held-out completions."""
        return settings.probe_samples(self._task(wildcards)["probe"])

    def expected_samples(self, wildcards: Wildcards) -> str:
        if wildcards.model in self.names.recorded:
            return ""  # recordings have different numbers of completions
        probe = self._task(wildcards)["probe"]
        is_stopped = (wildcards.model, wildcards.task) == self.names.stopped_probe
        held_out = f" --held-out {probe['held_out']}" if "held_out" in probe else ""
        stopped = " --stopped" if is_stopped else ""
        return f"--samples {probe['samples']}{held_out}{stopped}"

    def fewer_samples(self, wildcards: Wildcards) -> str:
        """Arguments that reduce a probe to the task's number of samples, if the task that
        `cut_from` names has more samples."""
        task = self._task(wildcards)
        samples = task["probe"]["samples"]
        longer_samples = self.config["tasks"][task["cut_from"]]["probe"]["samples"]
        return "" if samples == longer_samples else f" --samples {samples} --of {longer_samples}"

    def stop(self, wildcards: Wildcards) -> str:
        """Arguments of a probe that stops as soon as the subset of `snakemake subset` is
        decided."""
        subset = self.config["subset"]
        policy = self._first_policy(subset["policy"]) | {"seed": subset["seed"]}
        return f"--stop-for {shlex.quote(as_json(policy))}"

    def recording_code(self, wildcards: Wildcards) -> str:
        """For recordings, the checksum of the program that measures difficulty. Empty for other
        models, so that a change of this program does not rerun their trainings."""
        return (
            self.code("probe/measure_difficulty.py")
            if wildcards.model in self.names.recorded
            else ""
        )

    def original_repository(self, wildcards: Wildcards) -> str:
        source = self._model(wildcards)["source"]
        return f"--repository {source['repository']} --commit {source['commit']}"

    def named_inputs(self, wildcards: Wildcards, input) -> str:
        """Options that pass the input files of a job, each named like the input of the rule."""
        return " ".join(f"--{name} {shlex.quote(path)}" for name, path in input.items())

    def policy(self, wildcards: Wildcards) -> str:
        """The policy that chooses a subset. With two rounds: the policy of the first round."""
        return as_json(self._first_policy(wildcards.policy))

    def second_policy(self, wildcards: Wildcards) -> str:
        """The policy that chooses in the second round, with the budget of both rounds."""
        budget = self._policy(wildcards)["budget"]
        return as_json(self._first_policy(wildcards.policy) | {"budget": budget})

    def _first_policy(self, name: str) -> dict:
        """The part of a policy that the programs of scripts/subsets read. With `rounds`, the budget
        is that of the first round."""
        policy = self.config["policies"][name]
        rule = {
            key: value
            for key, value in policy.items()
            if key not in ("probed_on", "probed_by", "rounds")
        }
        if settings.has_rounds(policy):
            rule["budget"] = policies.halve_budget(policy["budget"])
        return rule

    def annotation_column(self, wildcards: Wildcards) -> str:
        """The argument that adds a column for the answer, named as the task's column of answers.
        Empty for a file that is not to be annotated."""
        if wildcards.content == "rows":
            return ""
        return f"--to-annotate {shlex.quote(self.answer_column(wildcards))}"

    # --- training ---

    def spec(self, wildcards: Wildcards) -> str:
        return as_json(self._spec(wildcards).fields())

    def first_spec(self, wildcards: Wildcards) -> str:
        return as_json(self._spec(wildcards, first=True).fields())

    def first_checkpoint(self, wildcards: Wildcards) -> str:
        """The last checkpoint of the first of two rounds."""
        return self._spec(wildcards).model_folder

    def _spec(self, wildcards: Wildcards, first: bool = False) -> Spec:
        return Spec.of_run(
            self._run(wildcards),
            model=self._model(wildcards),
            task=self._task(wildcards),
            recipe=self._recipe(wildcards),
            policy=self.config["policies"].get(wildcards.policy, {}),
            first=first,
        )

    # --- evaluation ---

    def test(self, wildcards: Wildcards) -> str:
        task = self._test_task(wildcards)
        greedy = " --greedy" if task["test"]["greedy"] else ""
        sampling = f"--samples {task['test']['samples']}{greedy} --seed {task['test']['seed']}"
        return f"{sampling} --completion-tokens {task['completion_tokens']}"

    def reach(self, wildcards: Wildcards) -> str:
        task = self._test_task(wildcards)
        reach = task["test"]["reach"]
        return f"--samples {reach['samples']} --seed {reach['seed']} --completion-tokens {task['completion_tokens']}"

    def checkpoints(self, wildcards: Wildcards, input) -> str:
        return f"--checkpoints {os.path.dirname(input.checkpoints)}"

    # --- analyses of published numbers ---

    def analysis(self, wildcards: Wildcards) -> dict:
        return settings.sorted_slice(self.config["analyses"][wildcards.study])

    def analysis_as_json(self, wildcards: Wildcards) -> str:
        return as_json(self.config["analyses"][wildcards.study])

    # --- summaries and papers ---

    def study(self, wildcards: Wildcards) -> str:
        """The part of the configuration that determines a study's files."""
        return as_json(paths.study_part(self._study(wildcards)))

    def design(self, wildcards: Wildcards) -> str:
        return as_json(designs.design(self._study(wildcards)))

    def first_recipe(self, wildcards: Wildcards) -> str:
        """The study's first recipe. The displayed names of arms omit this recipe."""
        return self._study(wildcards).first_recipe

    def figure_design(self, wildcards: Wildcards) -> str:
        figure = registry.all_figures()[wildcards.figure]
        return as_json(figure.design(self._study(wildcards)))

    def committed_design(self, wildcards: Wildcards) -> str:
        """The configuration that the paper over all studies describes: the designs of the committed
        studies, the models that are pretrained here, the generated tasks, and the analyses."""
        studies = {
            name: designs.design(study)
            for name, study in self.studies.items()
            if not study.is_analysis and os.path.isdir(paths.reference(name))
        }
        models = {
            name: model
            for name, model in self.config["models"].items()
            if model["source"]["kind"] == "pretrain"
        }
        tasks = {
            name: task
            for name, task in self.config["tasks"].items()
            if task["source"]["kind"] == "generated"
        }
        analyses = self.config["analyses"]
        return as_json({"studies": studies, "models": models, "tasks": tasks, "analyses": analyses})

    def policies(self, wildcards: Wildcards) -> str:
        study = self._study(wildcards)
        return as_json({name: study.policies[name] for name in study.policy_names})

    def compared_policies(self, wildcards: Wildcards) -> str:
        """The arguments `policies` and `names` of `random_choice.comparisons`."""
        study, config = self._study(wildcards), self.config
        names = designs.names_of_ways(config["policies"], config["recipes"])
        used = {"ways": study.policy_names, "recipes": study.recipe_names}
        return as_json(
            {
                "policies": {name: study.policies[name] for name in study.policy_names},
                "names": {key: {name: names[key][name] for name in used[key]} for key in used},
            }
        )

    def comparisons(self, wildcards: Wildcards) -> str:
        return json.dumps(pools.comparisons(self._study(wildcards)))

    def graders(self, wildcards: Wildcards) -> str:
        """{task: grader} of the tests of a study."""
        tests = paths.study_part(self._study(wildcards))["tasks"]
        return as_json({test: self.config["tasks"][test]["grader"] for test in tests})

    def prices(self, wildcards: Wildcards) -> str:
        gpu_hour, annotating_policy = self.config["plan"]["price"], self.config["subset"]["policy"]
        return as_json(designs.prices(self._study(wildcards), gpu_hour, annotating_policy))

    def conditions(self, wildcards: Wildcards) -> str:
        return as_json(claim_conditions.conditions(self._study(wildcards)))

    def _study(self, wildcards: Wildcards) -> ResolvedStudy:
        return self.studies[wildcards.study]
