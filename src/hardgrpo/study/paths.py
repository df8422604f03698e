"""Which files a study is made of. The workflow asks for them, the summary reads them; both ask here."""

import os
from collections.abc import Iterable

from hardgrpo.study import settings


def computed(study: str) -> str:
    """Folder of the summaries that were computed here."""
    return f"results/summaries/{study}"


def reference(study: str) -> str:
    """Folder of the committed summaries: inputs that no rule makes."""
    return f"results/reference/{study}"


def has_tables(folder: str, names: Iterable[str]) -> bool:
    return all(os.path.isfile(f"{folder}/{name}.csv") for name in names)


def agreement(study: str) -> str:
    """How the summaries computed here agree with the reference."""
    return f"results/agreement/{study}.csv"


def of_study(config: dict, study: str) -> dict:
    """The part of the configuration that decides a study's files: small, and untouched by how models are trained."""
    plan = config["studies"][study]
    tested = {test for model, task in settings.pairs(config, plan) for test in settings.eval_tasks(plan, task, model)}
    kept = ("kind", "recordings")
    return {
        "studies": {study: plan},
        "tasks": {task: {"completion_tokens": config["tasks"][task]["completion_tokens"]} for task in sorted(tested)},
        "models": {
            model: {"source": {key: value for key, value in config["models"][model]["source"].items() if key in kept}}
            for model in plan["models"]
        },
    }


def conditions(config: dict, study: str) -> dict:
    """What decides which claims a study can be asked: how its tasks relate to each other, and where the signal is weaker.

    Tasks over the same problems share the name under `problems`.
    """
    tested = of_study(config, study)["tasks"]
    problems = {}
    for task in tested:
        source = config["tasks"][task]["source"]
        same = next((name for name in problems if config["tasks"][name]["source"] == source), task)
        problems[task] = problems.get(same, task)
    return {
        "tasks": {task: facts | {"problems": problems[task]} for task, facts in tested.items()},
        "weaker": config["studies"][study].get("weaker_signal", []),
    }


def dataset_folder(part: dict) -> str:
    """Where a dataset of the hub is downloaded to; `part` is an entry of a task's source."""
    owner, name = part["dataset"].split("/")
    return f"results/inputs/{owner}--{name}@{part['revision']}"


def runs(config: dict, study: str) -> list[settings.Run]:
    return settings.runs(config, config["studies"][study])


def eval_tasks(config: dict, study: str, task: str, model: str) -> list[str]:
    return settings.eval_tasks(config["studies"][study], task, model)


def inputs(config: dict, study: str) -> list[str]:
    """Models that are downloaded and prepared problems: what a study needs of the internet, and what is made from that alone."""
    plan = config["studies"][study]
    weighted = [model for model in plan["models"] if not settings.is_recorded(config, model)]
    pretrained = [model for model in weighted if config["models"][model]["source"]["kind"] == "pretrain"]
    splits = [(task, "train") for _, task in probed(config, study)]
    splits += [(test, "test") for model, task in settings.pairs(config, plan) for test in eval_tasks(config, study, task, model)]
    splits += [split for model in pretrained for split in settings.never_shown(config, model)]
    return [f"results/models/{model}/manifest.json" for model in weighted if model not in pretrained] + [
        f"results/tasks/{task}/{split}.jsonl" for task, split in dict.fromkeys(splits)
    ]


def evaluations(config: dict, study: str) -> list[str]:
    """Evaluation files: the base models', then the runs'."""
    base = [
        f"results/evaluation/{model}/base/{test}.csv.gz"
        for model, task in settings.pairs(config, config["studies"][study])
        for test in eval_tasks(config, study, task, model)
    ]
    return list(dict.fromkeys(base)) + [name for run in runs(config, study) for name in evaluations_of_run(config, study, run)]


def evaluations_of_run(config: dict, study: str, run: settings.Run) -> list[str]:
    return [f"results/evaluation/{run.path}/{test}.csv.gz" for test in eval_tasks(config, study, run.task, run.model)]


def updates(config: dict, study: str) -> list[str]:
    return [f"results/training/{run.path}/updates.csv" for run in runs(config, study) if run.recipe != "recorded"]


def probed(config: dict, study: str) -> list[tuple[str, str]]:
    """(model, task) with completions of the pool; a recording may have none."""
    return [
        (model, task)
        for model, task in settings.pairs(config, config["studies"][study])
        if not settings.is_recorded(config, model) or "probe" in config["models"][model]["source"]["recordings"][task]
    ]


def difficulties(config: dict, study: str) -> list[str]:
    return [f"results/difficulty/{model}/{task}.csv" for model, task in probed(config, study)]


def subsets(config: dict, study: str) -> list[str]:
    """The JSON files that say how each subset was chosen; the subset itself stands beside each as CSV."""
    plan = config["studies"][study]
    return [
        f"results/subsets/{model}/{task}/{policy}/seed{seed}.json"
        for model, task in probed(config, study)
        for policy in plan["policies"]
        if not settings.is_excluded(plan, model=model, task=task, policy=policy)
        for seed in plan["seeds"]
    ]


def recorded_probes(config: dict, study: str) -> list[tuple[str, str, str]]:
    """(completions, difficulty, difficulty graded with the prompt) of recorded models."""
    return [
        (
            f"results/probe/{model}/{task}/shard0.jsonl.gz",
            f"results/difficulty/{model}/{task}.csv",
            f"results/difficulty/{model}/{task}.with_prompt.csv",
        )
        for model, task in probed(config, study)
        if settings.is_recorded(config, model)
    ]


def parts(config: dict, task: str, split: str) -> list[tuple[str, str]]:
    """(file that must be there, file or folder to read) of each part of a task's split. A local copy comes before the hub.

    Where the split has no source the path says so, and Snakemake reports it as missing.
    """
    source, data = config["tasks"][task]["source"], config["data"]
    if source["kind"] == "generated":
        return []
    if split not in source:
        missing = f"config.yaml: tasks.{task}.source.{split}"
        return [(missing, missing)]
    if source["kind"] == "files":
        path = os.path.join(data, source[split])
        return [(path, path)]
    found = []
    for part in source[split]:
        local = os.path.join(data, part["local"]) if "local" in part else None
        folder = dataset_folder(part)
        found.append((local, local) if local and os.path.exists(local) else (f"{folder}/manifest.json", folder))
    return found


def chosen_rows(config: dict) -> str:
    """The rows of the subset that `snakemake subset` chooses, in the form of the file that they come from."""
    subset = config["subset"]
    source = config["tasks"][subset["task"]]["source"]
    kind = "csv" if source["kind"] == "files" and source.get("train", "").endswith(".csv") else "jsonl"
    return f"results/subsets/{subset['model']}/{subset['task']}/{subset['policy']}/seed{subset['seed']}.rows.{kind}"


def results(config: dict, study: str) -> list[str]:
    """The runs of a study and all that they were judged by."""
    return [name for files in (evaluations, subsets, difficulties, updates) for name in files(config, study)]


def texts(config: dict, study: str) -> list[str]:
    """Evaluations, the completions that were graded in them, and the problems."""
    graded = evaluations(config, study)
    completions = [name.replace(".csv.gz", ".jsonl.gz") for name in graded]
    return graded + completions + [f"results/tasks/{test}/test.jsonl" for test in of_study(config, study)["tasks"]]


def prunings(config: dict, study: str) -> list[str]:
    """The runs of a study whose checkpoints may be thinned out; those that another study has yet to evaluate stay whole."""
    if config["keep_checkpoints"] == "all":
        return []
    here = set(evaluations(config, study))
    needed = {
        run
        for other in config["studies"]
        for run in runs(config, other)
        for name in evaluations_of_run(config, other, run)
        if name not in here and not os.path.exists(name)
    }
    kept = [run for run in runs(config, study) if run.recipe != "recorded" and run not in needed]
    return [f"results/training/{run.path}/pruned.json" for run in kept]
