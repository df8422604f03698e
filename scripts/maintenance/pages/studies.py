"""The table of docs/reproduce.md: every study with its question, its number of runs, and the
GPU-hours to train and test the runs on H100s by the uncalibrated cost model, or what the study
needs instead of GPUs. The names of studies with committed summaries are bold."""

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import ResolvedStudy

from pathlib import Path


def table(root: Path, config: dict) -> str:
    lines = ["| study | question | runs | GPU-hours |", "|---|---|---|---|"]
    checked = Configuration.of(config)
    for name, entry in config["studies"].items():
        study = ResolvedStudy.of(checked, name)
        needs = trained_on(study)
        if needs == "GPUs":
            jobs = jobs_with_gpus(checked, study)
            needs = f"{sum(durations.estimate(job, 'h100').gpu_hours for job in jobs):,.0f}"
        title = shown_name(name, (root / paths.reference(name)).is_dir())
        question = entry.get("question") or entry["title"]
        lines.append(f"| {title} | {question} | {len(study.runs)} | {needs} |")
    for name, analysis in config.get("analyses", {}).items():
        title = shown_name(name, (root / paths.reference(name)).is_dir())
        lines.append(f"| {title} | {analysis['question']} | 0 | none: published numbers |")
    return "\n".join(lines)


def shown_name(name: str, is_committed: bool) -> str:
    return f"**`{name}`**" if is_committed else f"`{name}`"


def trained_on(study: ResolvedStudy) -> str:
    """`GPUs`, or what a study needs instead of GPUs."""
    models = [study.models[name] for name in study.model_names]
    if not any(model.is_sampled for model in models):
        return "none: recorded"
    return "GPUs" if any(model.gpus for model in models) else "none: a CPU"


def jobs_with_gpus(config: Configuration, study: ResolvedStudy) -> list[Job]:
    """The jobs that train and test the runs of a study."""
    names = lambda run: (run.model, run.task, run.recipe, run.policy)
    training = [Job(config, "train_grpo", *names(run)) for run in study.runs]
    testing = [Job(config, "evaluate_run", *names(run), test) for run, test in study.tests_of_runs]
    return training + testing
