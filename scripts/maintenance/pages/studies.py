"""The table of docs/reproduce.md: for every study its question, its runs, their GPU-hours of
training and testing on H100s by the uncalibrated cost model, and whether its summaries are
committed."""

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job, ResolvedJob
from hardgrpo.study import paths, settings
from hardgrpo.study.resolved import ResolvedStudy

from pathlib import Path


def table(root: Path, config: dict) -> str:
    lines = [
        "| study | question | trains on | runs | GPU-hours | summaries |",
        "|---|---|---|---|---|---|",
    ]
    for name, entry in config["studies"].items():
        committed = "committed" if (root / paths.reference(name) / "gains.csv").is_file() else ""
        study, gpu_hours = ResolvedStudy.of(config, name), ""
        if trained_on(study) == "GPUs":
            jobs = [ResolvedJob.of(config, job) for job in jobs_with_gpus(study)]
            hours = sum(durations.estimate(job, "h100").gpu_hours for job in jobs)
            gpu_hours = f"{hours:,.0f}"
        lines.append(
            f"| `{name}` | {entry.get('question') or entry['title']} | {trained_on(study)} | {len(study.runs)} | {gpu_hours} | {committed} |"
        )
    for name, analysis in config.get("analyses", {}).items():
        committed = "committed" if (root / paths.reference(name)).is_dir() else ""
        lines.append(
            f"| `{name}` | {analysis['question']} | nothing: published numbers | 0 |  | {committed} |"
        )
    return "\n".join(lines)


def trained_on(study: ResolvedStudy) -> str:
    """The hardware that trains the runs of a study."""
    models = [study.models[name] for name in study.model_names]
    if not any(map(settings.is_sampled, models)):
        return "nothing: recorded"
    return "GPUs" if any("gpus" in model for model in models) else "a CPU"


def jobs_with_gpus(study: ResolvedStudy) -> list[Job]:
    """The jobs that train and test the runs of a study."""
    names = lambda run: (run.model, run.task, run.recipe, run.policy, run.seed)
    training = [Job("train_grpo", *names(run)) for run in study.runs]
    testing = [Job("evaluate_run", *names(run), test) for run, test in study.tests_of_runs]
    return training + testing
