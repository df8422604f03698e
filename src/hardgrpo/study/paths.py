"""Paths of single results, and lists of the files that a study needs or that a study's summary
reads."""

import os
import re
from collections.abc import Callable, Collection, Iterable

from hardgrpo.selection import trainer_rows
from hardgrpo.study.configuration import ChosenSubset
from hardgrpo.study.model import Repository, model_of
from hardgrpo.study.policy import Policy
from hardgrpo.study.published_analysis import Original
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.resolved import withheld_splits
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import as_list, plain
from hardgrpo.study.study import RECORDED, Run, Study
from hardgrpo.study.task import Files, Part, RecordedProblems, Split, Task

# Files of results. The names in braces are the wildcards of the rules that make the files; `model`
# is the name of a base.
MANIFEST = "results/models/{model}/manifest.json"
PROBLEMS = "results/tasks/{task}/{split}.jsonl"
POOL_PROBLEMS = "results/tasks/{task}/train.jsonl"
TEST_PROBLEMS = "results/tasks/{eval_task}/test.jsonl"
SOLUTIONS = "results/tasks/{task}/solutions.jsonl"  # worked solutions of the train problems
ANNOTATED = "results/tasks/{task}/annotated.jsonl"  # problems of a pool with annotators' answers
# The questions that match an earlier question of a pool (compared), or of a pool or the test split
# (contamination). The JSON files hold the numbers of matches.
POOL_COMPARISON = "results/tasks/{task}/compared"
CONTAMINATION = "results/tasks/{task}/contamination.{test}"
# The problems that fit into a base model's context. `split` is also `questions` (`train` without
# answers).
POOL = "results/pools/{model}/{task}/{split}.jsonl"
PROBE = "results/probe/{model}/{task}/shard{shard}.jsonl.gz"
# completions of a probe that stops as soon as they determine the subset
STOPPED_PROBE = "results/probe/{model}/{task}/stopped.jsonl.gz"
DIFFICULTY = "results/difficulty/{model}/{task}.csv"
SIGNALS = "results/signals/{model}/{task}.csv"
SUBSET = "results/subsets/{model}/{task}/{policy}/seed{seed}"
RUN = "{model}/{task}/{recipe}/{policy}/seed{seed}"
RUN_FOLDER = f"results/training/{RUN}"
# `sampler` is BASE/base, BASE/reach or the path of a run.
EVALUATION = "results/evaluation/{sampler}/{eval_task}.csv.gz"
# Recorded completions in the project's format. `part` is probe, base, or POLICY/checkpoint-STEP.
RECORDING = "results/recordings/{model}/{task}/{part}.jsonl.gz"
# the accuracies by checkpoint that the authors of a run published
PUBLISHED_ACCURACIES = "results/recordings/{model}/{task}/{policy}/published.csv"
CONVERTED_TRAJECTORY = "results/recordings/{model}/trajectory.csv"
# Numbers of right rollouts by prompt and epoch, without the first epochs, which serve as the probe.
TRAJECTORY = "results/trajectories/{model}/{task}.csv"
COUNTS = "results/counts/{study}.csv"  # what an analysis of published numbers reads
AGREEMENT = "results/agreement/{study}.csv"  # computed summaries compared with committed ones

PUBLISHED = "results/published"  # the folder of published numbers, which no rule makes
CALIBRATION = "results/calibration.json"  # calibration of the cost model
# states of unfinished runs, and completions that later jobs reuse
STATES = "results/state"


def _fill(pattern: str) -> Callable[..., str]:
    names = re.findall(r"{(\w+)}", pattern)
    return lambda *values: pattern.format(**dict(zip(names, values, strict=True)))


problems = _fill(PROBLEMS)
solutions = _fill(SOLUTIONS)
annotated_problems = _fill(ANNOTATED)
pool = _fill(POOL)
probe = _fill(PROBE)
stopped_probe = _fill(STOPPED_PROBE)
difficulty = _fill(DIFFICULTY)
signals = _fill(SIGNALS)
evaluation = _fill(EVALUATION)
recording = _fill(RECORDING)
published_accuracies = _fill(PUBLISHED_ACCURACIES)
converted_trajectory = _fill(CONVERTED_TRAJECTORY)
trajectory = _fill(TRAJECTORY)
counts = _fill(COUNTS)
agreement = _fill(AGREEMENT)


def model_folder(name: str) -> str:
    return f"results/models/{name}"


def contamination(task: str, test: str, kind: str = "csv") -> str:
    return f"{CONTAMINATION.format(task=task, test=test)}.{kind}"


def pool_comparison(task: str, kind: str = "csv") -> str:
    return f"{POOL_COMPARISON.format(task=task)}.{kind}"


def questions(task: str) -> str:
    return problems(task, "questions")


def training_problems(name: str, task: Task) -> str:
    """The problems with answers from which a run's prompts come: the train split, or the annotated
    problems of a task without labels."""
    return problems(name, "train") if task.is_labelled else annotated_problems(name)


def dataset_file(part: Part) -> str:
    return f"results/inputs/{part.dataset.replace('/', '--')}@{part.revision}/{part.file}"


def original_folder(source: Repository | Original) -> str:
    return f"results/originals/{source.repository.replace('/', '--')}@{source.commit}"


def subset(model: str, task: str, policy: str, seed: int, kind: str = "csv") -> str:
    return f"{SUBSET.format(model=model, task=task, policy=policy, seed=seed)}.{kind}"


def training(run: Run, name: str) -> str:
    return f"results/training/{run.path}/{name}"


def tracking(model: str, task: str, recipe: str, policy: str, seed: int) -> str:
    return f"results/tracking/{model}/{task}/{recipe}/{policy}/{seed}"


def first_round(run: Run, name: str) -> str:
    return training(run, f"first/{name}")


def subset_of_run(run: Run, policy: Policy | None) -> str:
    """The prompts that a run is trained on, with two rounds those of both."""
    if policy and policy.has_rounds:
        return training(run, "second.csv")
    return subset(run.base, run.task, run.policy, run.seed)


def completions(grades: str) -> str:
    """The texts of the completions that `grades` (a path of `evaluation`) grades."""
    return grades.removesuffix(".csv.gz") + ".jsonl.gz"


def computed(study: str) -> str:
    return f"results/summaries/{study}"


def reference(study: str) -> str:
    return f"results/reference/{study}"


def is_committed(path: str) -> bool:
    return path.startswith(("src/", reference(""), f"{PUBLISHED}/"))


def committed_table(table: str) -> str:
    """The file of a committed table: 'mini/gains' is results/reference/mini/gains.csv,
    'all/claims' the table of all studies, and 'src/TABLE' is src/TABLE.csv."""
    return f"{table}.csv" if table.startswith("src/") else f"{reference('')}{table}.csv"


def pair_of(path: str) -> tuple[str, str]:
    """(base, task) of a path `.../{base}/{task}.csv`."""
    base, task = path.removesuffix(".csv").split("/")[-2:]
    return base, task


def choice_of(path: str) -> tuple[str, str, str]:
    """(base, task, policy) of a path of `subset`, or of `second.csv` or `second.json` of a run."""
    parts = path.split("/")
    if parts[-1].startswith("second."):
        return parts[-6], parts[-5], parts[-3]
    return parts[-4], parts[-3], parts[-2]


def base_sample_sets(study: Study, model: str, test: str) -> tuple[str, ...]:
    """The sets of completions of a base model on a test: `base`, and `reach` if it is measured."""
    return ("base", "reach") if has_reach(study, model, test) else ("base",)


def has_reach(study: Study, model: str, test: str) -> bool:
    """Whether a base model's reach is measured, for a task with `cut_from` by that task's
    samples."""
    sampled = study.config.tasks[study.config.sampled_task(test)]
    return bool(sampled.test.reach) and not study.config.models[model].is_recorded


def has_tables(folder: str, names: Iterable[str]) -> bool:
    return all(os.path.isfile(f"{folder}/{name}.csv") for name in names)


def existing_tables(folder: str, names: Iterable[str]) -> list[str]:
    """The files of those tables that a folder has: a committed table without rows has none."""
    return [path for name in names if os.path.isfile(path := f"{folder}/{name}.csv")]


def study_part(study: Study) -> dict:
    """The part of the configuration that a study names, which `resolve_study` accepts."""
    tasks = {*study.tasks, *(test for _, _, test in study.tests)}
    tasks |= {study.config.sampled_task(task) for task in tasks}
    policies = {name for name in study.policies if name in study.config.policies}
    if study.is_analysis:
        return plain({"analyses": {study.name: study.analysis}})
    sections = {
        "studies": {study.name: study},
        "tasks": {name: study.config.tasks[name] for name in tasks},
        "models": {name: study.config.models[name] for name in study.probing_models},
        "policies": {name: study.config.policies[name] for name in policies},
        "recipes": {name: study.config.recipes[name] for name in study.recipes},
    }
    return plain(sections)


def _chooses_by_signals(study: Study) -> bool:
    policies = (study.config.policies.get(name) for name in study.policies)
    return any(policy and policy.measure != "pass_rate" for policy in policies)


def inputs(study: Study, studies: Collection[Study]) -> list[str]:
    """The files for which a study may need the internet: downloaded models, and problems. All
    `studies` determine which problems are left out of demonstrations (`withheld_splits`)."""
    models = [
        model for model in sorted(study.probing_models) if study.config.models[model].is_sampled
    ]
    pretrained = [model for model in models if study.config.models[model].is_pretrained]
    splits = [(task, "train") for _, task, _ in study.probed_pools if task in study.config.tasks]
    # The policy of a recorded run may have no entry in `policies`.
    policies = (study.config.policies.get(run.policy) for run in study.runs)
    probed_tasks = dict.fromkeys(
        policy.probed_on for policy in policies if policy and policy.probed_on
    )
    splits += [(study.config.sampled_task(task), "train") for task in probed_tasks]
    splits += [(test, "test") for _, _, test in study.tests]
    for model in pretrained:
        splits += withheld_splits(study.config, model, studies)
    manifests = [f"{model_folder(name)}/manifest.json" for name in models if name not in pretrained]
    return manifests + [problems(*split) for split in dict.fromkeys(splits)]


def evaluations(study: Study) -> list[str]:
    base_evaluations = [
        evaluation(f"{base}/{sample_set}", test)
        for model, base, test in study.tests_of_bases
        for sample_set in base_sample_sets(study, model, test)
    ]
    run_evaluations = [evaluation(run.path, test) for run, test in study.tests_of_runs]
    return base_evaluations + run_evaluations


def evaluations_of_run(study: Study, run: Run) -> list[str]:
    return [evaluation(run.path, test) for test in study.eval_tasks(run.task, run.model)]


def updates(study: Study) -> list[str]:
    return [training(run, "updates.csv") for run in study.runs if run.recipe != RECORDED]


def trajectories(study: Study) -> list[str]:
    return [trajectory(model, prompts) for model, prompts in study.trajectory_prompts]


def difficulties(study: Study) -> list[str]:
    # prompts of a trajectory belong to no task
    is_labelled = lambda task: (
        task not in study.config.tasks or study.config.tasks[task].is_labelled
    )
    return [difficulty(base, task) for base, task, _ in study.probed_pools if is_labelled(task)]


def signal_files(study: Study) -> list[str]:
    if not _chooses_by_signals(study):
        return []
    return [signals(base, task) for base, task, _ in study.probed_pools]


def subsets(study: Study) -> list[str]:
    """The JSON files that record how each subset was chosen; a CSV file of the same name has the
    subset. With two rounds, that of the second, which includes the first."""
    in_rounds = [
        name
        for name in study.policies
        if name in study.config.policies and study.config.policies[name].has_rounds
    ]
    subsets_of_bases = [
        subset(base, task, policy, seed, "json")
        for base, task, seeds in study.probed_pools
        for policy in study.policies
        if policy not in in_rounds and study.has_arm(model=model_of(base), task=task, policy=policy)
        for seed in seeds
    ]
    return subsets_of_bases + [
        training(run, "second.json") for run in study.runs if run.policy in in_rounds
    ]


def published_runs(study: Study) -> list[tuple[str, str, str]]:
    """(model, task, policy) of the recorded runs with published accuracies."""
    return [
        (model, task, policy)
        for model, task in study.pairs
        if study.config.models[model].is_recorded
        for policy in study.config.models[model].source.recordings[task].published or {}
    ]


def published_files(study: Study) -> list[str]:
    return [published_accuracies(*run) for run in published_runs(study)]


def parts(split: Split, data: str) -> list[str]:
    """The file of each part of a split; a local copy takes precedence. Without a source, the path
    names the missing key, and Snakemake reports it as a missing file."""
    source = split.task.source
    if split.task.is_generated:
        return []
    named = getattr(source, split.name)
    if named is None:
        return [f"config.yaml: tasks.{split.task_name}.source.{split.name}"]
    if isinstance(source, RecordedProblems):
        model, part = named.split("/")
        return [recording(model, split.task_name, part)]
    if isinstance(source, Files):
        return [os.path.join(data, name) for name in as_list(named)]
    files = []
    for part in named:
        local = os.path.join(data, part.local) if part.local else None
        files.append(local if local and os.path.exists(local) else dataset_file(part))
    return files


def chosen_rows(choice: ChosenSubset, sections: Sections) -> str:
    task = sections.tasks[choice.task]
    is_from_files = isinstance(task.source, Files)
    names = as_list(task.source.train or []) if is_from_files else []
    kinds = {
        kind if (kind := name.lower().rpartition(".")[2]) in ("csv", "tsv") else "jsonl"
        for name in names
    } or {"jsonl"}
    kind = "jsonl" if "jsonl" in kinds else min(kinds)
    name = "rows" if task.is_labelled else "to_annotate"
    base = sections.base_of(choice.model, choice.seed)
    return subset(base, choice.task, choice.policy, choice.seed, f"{name}.{kind}")


def trainer_rows_of(choice: ChosenSubset, sections: Sections) -> list[str]:
    """The chosen subset in the format of `subset.format`; empty without the key."""
    if choice.format is None:
        return []
    base = sections.base_of(choice.model, choice.seed)
    name = f"{choice.format}.{trainer_rows.FILES[choice.format]}"
    return [subset(base, choice.task, choice.policy, choice.seed, name)]


def results(study: Study) -> list[str]:
    return [
        *evaluations(study),
        *subsets(study),
        *difficulties(study),
        *signal_files(study),
        *updates(study),
        *trajectories(study),
        *published_files(study),
    ]


def texts(study: Study) -> list[str]:
    grades = evaluations(study)
    return (
        grades
        + [completions(name) for name in grades]
        + [problems(test, "test") for test in sorted({test for _, _, test in study.tests})]
    )


def prunings(study: Study, studies: Collection[Study]) -> list[str]:
    """The outputs of pruning a study's runs, except runs that another study still has to
    evaluate."""
    study_evaluations = set(evaluations(study))
    needed_runs = {
        run
        for other_study in studies
        for run in other_study.runs
        for path in evaluations_of_run(other_study, run)
        if path not in study_evaluations and not os.path.exists(path)
    }
    return [
        training(run, "pruned.json")
        for run in study.runs
        if run.recipe != RECORDED and run not in needed_runs
    ]


def more_inputs(task: str, recipe: Recipe) -> dict[str, str]:
    """Further inputs of a run: worked solutions, or the pool without answers."""
    inputs = {}
    if recipe.is_supervised:
        inputs["solutions"] = solutions(task)
    if recipe.majority_share:
        inputs["questions"] = questions(task)
    return inputs
