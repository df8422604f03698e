"""Paths of single results, and lists of the files that a study needs or that a study's summary
reads."""

import os
from collections.abc import Iterable

from hardgrpo.study import settings

PUBLISHED = "results/published"  # the folder of published numbers, which no rule makes
CALIBRATION = "results/calibration.json"  # calibration of the cost model
GPU_CHECK = "results/gpu-check"
CHOICES = "results/choose"  # configurations of `hardgrpo`, and recordings in the project's form
# a run in the paths of rules; `model` is the name of its base
RUN = "{model}/{task}/{recipe}/{policy}/seed{seed}"
RUN_FOLDER = f"results/training/{RUN}"
# the folder of the states of unfinished runs, and of the completions that later probes use
STATES = "results/state"


def model_folder(name: str) -> str:
    return f"results/models/{name}"


def problems(task: str, split: str) -> str:
    return f"results/tasks/{task}/{split}.jsonl"


def contamination(task: str, test: str, kind: str = "csv") -> str:
    """The questions of the test split of `test` that are also in the pool of `task`; with kind
    `json`, their number."""
    return f"results/tasks/{task}/contamination.{test}.{kind}"


def pool_comparison(task: str, kind: str = "csv") -> str:
    """Duplicate and near-duplicate questions of a pool; with kind `json`, their numbers."""
    return f"results/tasks/{task}/compared.{kind}"


def pool(base: str, task: str, name: str) -> str:
    """Problems of a task that fit into a base model's context. `name` is `train`, `test` or
    `questions` (`train` without answers)."""
    return f"results/pools/{base}/{task}/{name}.jsonl"


def annotated_problems(task: str) -> str:
    """The annotated problems of a pool, with the answers of the annotators."""
    return f"results/tasks/{task}/annotated.jsonl"


def training_problems(tasks: dict, name: str) -> str:
    """The problems with answers from which a run's prompts come: the train split, or the annotated
    problems of a task without labels.

    `tasks` is the section of the configuration.
    """
    return (
        problems(name, "train") if settings.is_labelled(tasks[name]) else annotated_problems(name)
    )


def solutions(task: str) -> str:
    """Worked solutions of the train problems, for recipes that train on them."""
    return f"results/tasks/{task}/solutions.jsonl"


def dataset_folder(part: dict) -> str:
    """The folder into which a dataset of the hub is downloaded; `part` is an entry of a task's
    source."""
    owner, name = part["dataset"].split("/")
    return f"results/inputs/{owner}--{name}@{part['revision']}"


def original_folder(source: dict) -> str:
    """The folder into which files of a model's `repository` are downloaded."""
    return f"results/originals/{source['repository'].replace('/', '--')}@{source['commit']}"


def recording(model: str, task: str, part: str) -> str:
    """Converted completions: `part` is `probe`, `base`, or POLICY/checkpoint-STEP."""
    return f"results/recordings/{model}/{task}/{part}.jsonl.gz"


def published_accuracies(model: str, task: str, policy: str) -> str:
    """The accuracies by checkpoint that the authors of a run published."""
    return f"results/recordings/{model}/{task}/{policy}/published.csv"


def converted_trajectory(model: str) -> str:
    return f"results/recordings/{model}/trajectory.csv"


def probe(model: str, task: str, shard: int | str) -> str:
    return f"results/probe/{model}/{task}/shard{shard}.jsonl.gz"


def counts(study: str) -> str:
    """The numbers of right answers that an analysis of published numbers reads."""
    return f"results/counts/{study}.csv"


def trajectory(model: str, prompts: str) -> str:
    """Numbers of right rollouts by prompt and epoch, without the first epochs, which serve as the
    probe."""
    return f"results/trajectories/{model}/{prompts}.csv"


def stopped_probe(model: str, task: str) -> str:
    """Completions of a probe that stops as soon as they determine the subset."""
    return f"results/probe/{model}/{task}/stopped.jsonl.gz"


def difficulty(model: str, task: str) -> str:
    return f"results/difficulty/{model}/{task}.csv"


def questions(task: str) -> str:
    """The pool without its answers."""
    return f"results/tasks/{task}/questions.jsonl"


def signals(model: str, task: str) -> str:
    """The signals of each prompt of the pool."""
    return f"results/signals/{model}/{task}.csv"


def subset(model: str, task: str, policy: str, seed: int, kind: str = "csv") -> str:
    return f"results/subsets/{model}/{task}/{policy}/seed{seed}.{kind}"


def training(run: settings.Run, name: str) -> str:
    return f"results/training/{run.path}/{name}"


def tracking(model: str, task: str, recipe: str, policy: str, seed: int) -> str:
    """The folder of TensorBoard's log of a run."""
    return f"results/tracking/{model}/{task}/{recipe}/{policy}/{seed}"


def first_round(run: settings.Run, name: str) -> str:
    """A file of the first round of a run whose policy annotates in two rounds."""
    return training(run, f"first/{name}")


def subset_of_run(run: settings.Run, policy: dict) -> str:
    """The prompts that a run is trained on. With a policy in two rounds: the prompts of both
    rounds."""
    if settings.has_rounds(policy):
        return training(run, "second.csv")
    return subset(run.base, run.task, run.policy, run.seed)


def evaluation(sampler: str, test: str) -> str:
    """The graded completions on the task `test`. `sampler` is BASE/base, BASE/reach or the path of
    a run."""
    return f"results/evaluation/{sampler}/{test}.csv.gz"


def completions(grades: str) -> str:
    """The texts of completions. `grades` is the file of their grades, a path of `evaluation`."""
    return grades.removesuffix(".csv.gz") + ".jsonl.gz"


def computed(study: str) -> str:
    """The folder of the summaries that this clone computes."""
    return f"results/summaries/{study}"


def reference(study: str) -> str:
    """The folder of the committed summaries, which no rule makes."""
    return f"results/reference/{study}"


def is_committed(path: str) -> bool:
    """Whether the repository holds a file: code, or a committed table."""
    return path.startswith(("src/", reference(""), f"{PUBLISHED}/"))


def committed_table(table: str) -> str:
    """The file of a committed table: 'mini/gains' is results/reference/mini/gains.csv, and
    'docs/claims' is docs/claims.csv."""
    return f"{table}.csv" if table.startswith("docs/") else f"{reference('')}{table}.csv"


def pair_of(path: str) -> tuple[str, str]:
    """(base, task) of a file `{base}/{task}.csv`, a path of `difficulty` or `trajectory`."""
    base, task = path.removesuffix(".csv").split("/")[-2:]
    return base, task


def choice_of(path: str) -> tuple[str, str, str]:
    """(base, task, policy) of a subset's file: a path of `subset`, or `second.csv` or `second.json`
    in a run's folder."""
    parts = path.split("/")
    base, task, policy = (
        (parts[-6], parts[-5], parts[-3]) if parts[-1].startswith("second.") else parts[-4:-1]
    )
    return base, task, policy


def of_base(config: dict, model: str, test: str) -> tuple[str, ...]:
    """The sets of completions that a base model samples on a test: `base`, and `reach` if the
    model's reach is measured."""
    return ("base", "reach") if has_reach(config, model, test) else ("base",)


def has_reach(config: dict, model: str, test: str) -> bool:
    """Whether a base model's reach on a test is measured. A task that is cut from another uses the
    other task's samples."""
    return "reach" in config["tasks"][settings.sampled_task(config["tasks"], test)][
        "test"
    ] and not settings.is_recorded(config, model)


def has_tables(folder: str, names: Iterable[str]) -> bool:
    return all(os.path.isfile(f"{folder}/{name}.csv") for name in names)


def agreement(study: str) -> str:
    """The table that compares the computed summaries with the committed ones."""
    return f"results/agreement/{study}.csv"


def of_study(config: dict, study: str) -> dict:
    """The part of the configuration that determines the files of a study. Settings of training are
    left out."""
    plan, tasks = config["studies"][study], config["tasks"]
    tests = {
        test
        for model, task in settings.pairs(config, plan)
        for test in settings.eval_tasks(plan, task, model)
    }
    source_keys = ("kind", "repository", "recordings", "seed", "prompts", "chosen_from")
    by_signals = _by_signals(config.get("policies", {}), plan)
    return ({"policies": by_signals} if by_signals else {}) | {
        "studies": {study: plan},
        "tasks": {
            test: _keep(tasks[test], ("completion_tokens", "labelled"))
            | {"test": _keep(tasks[settings.sampled_task(tasks, test)]["test"], ["reach"])}
            for test in sorted(tests)
        },
        "models": {
            model: {"source": _keep(config["models"][model]["source"], source_keys)}
            for model in plan["models"]
        },
    }


def _by_signals(policies: dict, plan: dict) -> dict[str, dict]:
    """{name: `by` and `rounds`} of a study's policies that use another measure than the pass
    rate."""
    entries = {name: policies.get(name, {}) for name in settings.policies_of(plan)}
    return {
        name: _keep(entry, ("by", "rounds"))
        for name, entry in entries.items()
        if entry.get("by", "pass_rate") != "pass_rate"
    }


def _keep(entry: dict, keys: Iterable[str]) -> dict:
    return {key: value for key, value in entry.items() if key in keys}


def runs(config: dict, study: str) -> list[settings.Run]:
    return (
        []
        if settings.is_analysis(config, study)
        else settings.runs(config, config["studies"][study])
    )


def eval_tasks(config: dict, study: str, task: str, model: str) -> list[str]:
    return settings.eval_tasks(config["studies"][study], task, model)


def inputs(config: dict, study: str) -> list[str]:
    """The files for which a study needs the internet: downloaded models, and problems in the form
    that the programs read."""
    if settings.is_analysis(config, study):
        return []
    plan = config["studies"][study]
    models = [
        model
        for model in sorted(settings.probing_models(config["policies"], plan))
        if settings.is_sampled(config, model)
    ]
    pretrained = [
        model for model in models if config["models"][model]["source"]["kind"] == "pretrain"
    ]
    splits = [
        (task, "train") for _, task, _ in probed_pools(config, study) if task in config["tasks"]
    ]
    # The policy of a recorded run has no entry in `policies`.
    policies = (config["policies"].get(run.policy, {}) for run in runs(config, study))
    probed_tasks = dict.fromkeys(
        policy["probed_on"] for policy in policies if "probed_on" in policy
    )
    splits += [(settings.sampled_task(config["tasks"], task), "train") for task in probed_tasks]
    splits += [
        (test, "test")
        for model, task in settings.pairs(config, plan)
        for test in eval_tasks(config, study, task, model)
    ]
    splits += [split for model in pretrained for split in settings.withheld_splits(config, model)]
    manifests = [f"{model_folder(name)}/manifest.json" for name in models if name not in pretrained]
    return manifests + [problems(*split) for split in dict.fromkeys(splits)]


def evaluations(config: dict, study: str) -> list[str]:
    """Evaluations of the base models, including evaluations of their reach, then evaluations of the
    runs."""
    plan = config["studies"][study]
    base_evaluations = [
        evaluation(f"{base}/{sample_set}", test)
        for model, task in settings.pairs(config, plan)
        for base in settings.bases_of(config, model, plan["seeds"])
        for test in eval_tasks(config, study, task, model)
        for sample_set in of_base(config, model, test)
    ]
    run_evaluations = [
        name for run in runs(config, study) for name in evaluations_of_run(config, study, run)
    ]
    return list(dict.fromkeys(base_evaluations)) + run_evaluations


def evaluations_of_run(config: dict, study: str, run: settings.Run) -> list[str]:
    return [evaluation(run.path, test) for test in eval_tasks(config, study, run.task, run.model)]


def updates(config: dict, study: str) -> list[str]:
    return [training(run, "updates.csv") for run in runs(config, study) if run.recipe != "recorded"]


def probed_pools(config: dict, study: str) -> list[tuple[str, str, list[int]]]:
    """(base, task, seeds of the runs that start from this base) of every probed pool. A recorded
    model may have no probe. For a trajectory, the name of its prompts replaces the task."""
    plan = config["studies"][study]
    return [
        (
            base,
            task,
            [seed for seed in plan["seeds"] if settings.base_of(config, model, seed) == base],
        )
        for model, task in settings.pairs(config, plan)
        if not settings.is_recorded(config, model)
        or "probe" in config["models"][model]["source"]["recordings"][task]
        for base in settings.bases_of(config, model, plan["seeds"])
    ] + [(model, prompts, plan["seeds"]) for model, prompts in trajectory_prompts(config, study)]


def trajectory_prompts(config: dict, study: str) -> list[tuple[str, str]]:
    """(model, name of the model's prompts) of a study's trajectories."""
    models = [
        model
        for model in config["studies"][study]["models"]
        if settings.is_trajectory(config, model)
    ]
    return [(model, config["models"][model]["source"]["prompts"]) for model in models]


def trajectories(config: dict, study: str) -> list[str]:
    return [trajectory(model, prompts) for model, prompts in trajectory_prompts(config, study)]


def difficulties(config: dict, study: str) -> list[str]:
    # prompts of a trajectory belong to no task
    is_labelled = lambda task: settings.is_labelled(config["tasks"].get(task, {}))
    return [
        difficulty(base, task) for base, task, _ in probed_pools(config, study) if is_labelled(task)
    ]


def signal_files(config: dict, study: str) -> list[str]:
    """The signals of the probed pools, if a policy of the study chooses by signals."""
    if not _by_signals(config.get("policies", {}), config["studies"][study]):
        return []
    return [signals(base, task) for base, task, _ in probed_pools(config, study)]


def subsets(config: dict, study: str) -> list[str]:
    """The JSON files that record how each subset was chosen. The CSV file of the same name contains
    the subset. With a policy in two rounds, the subset of a run is the subset of the second round,
    which includes the subset of the first round."""
    plan, policies = config["studies"][study], config.get("policies", {})
    in_rounds = [
        name for name in settings.policies_of(plan) if settings.has_rounds(policies.get(name, {}))
    ]
    subsets_of_bases = [
        subset(base, task, policy, seed, "json")
        for base, task, seeds in probed_pools(config, study)
        for policy in settings.policies_of(plan)
        if policy not in in_rounds
        and settings.has_arm(plan, model=settings.model_of(base), task=task, policy=policy)
        for seed in seeds
    ]
    return subsets_of_bases + [
        training(run, "second.json") for run in runs(config, study) if run.policy in in_rounds
    ]


def published_runs(config: dict, study: str) -> list[tuple[str, str, str]]:
    """(model, task, policy) of the recorded runs whose authors published accuracies by
    checkpoint."""
    return [
        (model, task, policy)
        for model, task in settings.pairs(config, config["studies"][study])
        if settings.is_recorded(config, model)
        for policy in config["models"][model]["source"]["recordings"][task].get("published", {})
    ]


def published_files(config: dict, study: str) -> list[str]:
    return [published_accuracies(*run) for run in published_runs(config, study)]


def recorded_probes(config: dict, study: str) -> list[tuple[str, str, str]]:
    """(completions, difficulty, difficulty graded with the prompt) of recorded models."""
    return [
        (probe(model, task, 0), difficulty(model, task), difficulty(model, f"{task}.with_prompt"))
        for model, task, _ in probed_pools(config, study)
        if settings.is_recorded(config, model)
    ]


def parts(config: dict, task: str, split: str) -> list[tuple[str, str]]:
    """(file that must exist, file or folder to read) of each part of a task's split. A local copy
    takes precedence over the hub.

    If the split has no source, return a path that cannot exist and names the missing key. Snakemake
    reports it as a missing file.
    """
    source, data = config["tasks"][task]["source"], config["data"]
    if source["kind"] == "generated":
        return []
    if split not in source:
        missing = f"config.yaml: tasks.{task}.source.{split}"
        return [(missing, missing)]
    if source["kind"] == "recorded":
        model, part = source[split].split("/")
        return [(recording(model, task, part),) * 2]
    if source["kind"] == "files":
        return [
            (path, path)
            for path in (os.path.join(data, name) for name in settings.as_list(source[split]))
        ]
    files = []
    for part in source[split]:
        local = os.path.join(data, part["local"]) if "local" in part else None
        folder = dataset_folder(part)
        files.append(
            (local, local)
            if local and os.path.exists(local)
            else (f"{folder}/manifest.json", folder)
        )
    return files


def chosen_rows(config: dict) -> str:
    """The rows of the subset that `snakemake subset` chooses, in the format of the pool's file."""
    choice = config["subset"]
    task = config["tasks"][choice["task"]]
    names = (
        settings.as_list(task["source"].get("train", []))
        if task["source"]["kind"] == "files"
        else []
    )
    kinds = {
        kind if (kind := name.lower().rpartition(".")[2]) in ("csv", "tsv") else "jsonl"
        for name in names
    } or {"jsonl"}
    kind = "jsonl" if "jsonl" in kinds else min(kinds)
    base = settings.base_of(config, choice["model"], choice["seed"])
    name = "rows" if settings.is_labelled(task) else "to_annotate"
    return subset(base, choice["task"], choice["policy"], choice["seed"], f"{name}.{kind}")


def trainer_rows(config: dict) -> list[str]:
    """The subset that `snakemake subset` chooses, in the form of the trainer that `subset.format`
    names; empty without the key."""
    choice = config["subset"]
    if "format" not in choice:
        return []
    base, kind = (
        settings.base_of(config, choice["model"], choice["seed"]),
        settings.TRAINER_FILES[choice["format"]],
    )
    return [
        subset(base, choice["task"], choice["policy"], choice["seed"], f"{choice['format']}.{kind}")
    ]


def results(config: dict, study: str) -> list[str]:
    """The evaluations and logs of a study's runs, the subsets, difficulties and signals of its
    pools, its trajectories, and published accuracies of recorded runs."""
    lists = (
        evaluations,
        subsets,
        difficulties,
        signal_files,
        updates,
        trajectories,
        published_files,
    )
    return [name for list_files in lists for name in list_files(config, study)]


def texts(config: dict, study: str) -> list[str]:
    """The evaluations of a study, the texts of their completions, and the problems of the tests."""
    grades = evaluations(config, study)
    return (
        grades
        + [completions(name) for name in grades]
        + [problems(test, "test") for test in of_study(config, study)["tasks"]]
    )


def prunings(config: dict, study: str) -> list[str]:
    """The outputs of the rule that prunes checkpoints, for a study's runs except those that another
    study has not evaluated yet."""
    if config["keep_checkpoints"] == "all":
        return []
    study_evaluations = set(evaluations(config, study))
    needed_runs = {
        run
        for name in config["studies"]
        for run in runs(config, name)
        for path in evaluations_of_run(config, name, run)
        if path not in study_evaluations and not os.path.exists(path)
    }
    return [
        training(run, "pruned.json")
        for run in runs(config, study)
        if run.recipe != "recorded" and run not in needed_runs
    ]


def more_inputs(task: str, recipe: dict) -> dict[str, str]:
    """Files that some recipes need in addition to the subset: worked solutions (`solutions`), or
    the pool without answers (`questions`)."""
    return ({"solutions": solutions(task)} if settings.is_supervised(recipe) else {}) | (
        {"questions": questions(task)} if settings.majority_share(recipe) else {}
    )
