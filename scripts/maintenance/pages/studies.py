"""The table of docs/reproduce.md: every study, its question, its runs and whether its summaries are
committed."""

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.study import paths, settings

from pathlib import Path


def table(root: Path, config: dict) -> str:
    lines = [
        "| study | question | trains on | runs | GPU-hours | summaries |",
        "|---|---|---|---|---|---|",
    ]
    for name, study in config["studies"].items():
        committed = "committed" if (root / paths.reference(name) / "gains.csv").is_file() else ""
        runs = len(paths.runs(config, name))
        lines.append(
            f"| `{name}` | {study.get('question') or study['title']} | {trained_on(config, study)} | {runs} | {gpu_hours(config, name)} | {committed} |"
        )
    for name, analysis in config.get("analyses", {}).items():
        committed = "committed" if (root / paths.reference(name)).is_dir() else ""
        lines.append(
            f"| `{name}` | {analysis['question']} | nothing: published numbers | 0 |  | {committed} |"
        )
    return "\n".join(lines)


def trained_on(config: dict, study: dict) -> str:
    """The hardware that trains the runs of a study."""
    if not any(settings.is_sampled(config, model) for model in study["models"]):
        return "nothing: recorded"
    return (
        "GPUs" if any("gpus" in config["models"][model] for model in study["models"]) else "a CPU"
    )


def gpu_hours(config: dict, study: str) -> str:
    """GPU-hours to train and test the runs on H100s, by the uncalibrated cost model; "" for a study
    without GPUs."""
    if trained_on(config, config["studies"][study]) != "GPUs":
        return ""
    jobs = []
    for run in paths.runs(config, study):
        of_run = (run.model, run.task, run.recipe, run.policy, run.seed)
        jobs.append(Job("train_grpo", *of_run))
        jobs += [
            Job("evaluate_run", *of_run, test)
            for test in paths.eval_tasks(config, study, run.task, run.model)
        ]
    return f"{sum(durations.estimate(config, job, 'h100').gpu_hours for job in jobs):,.0f}"
