"""The table of docs/reproduce.md: every study that needs GPUs with its question, its number of runs,
and the GPU-hours to train and test the runs on H100s by the uncalibrated cost model."""

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_study
from hardgrpo.study.study import Study

from pathlib import Path


def table(root: Path, config: dict) -> str:
    lines = ["| study | question | runs | GPU-hours |", "|---|---|---|---|"]
    checked = Configuration.of(config)
    for name in config["studies"]:
        study = resolve_study(checked, name)
        if any(study.config.models[model].gpus for model in study.models):
            jobs = jobs_with_gpus(checked, study)
            hours = sum(durations.estimate(job, "h100").gpu_hours for job in jobs)
            question = config["studies"][name].get("question") or config["studies"][name]["title"]
            lines.append(f"| `{name}` | {question} | {len(study.runs)} | {hours:,.0f} |")
    return "\n".join(lines)


def jobs_with_gpus(config: Configuration, study: Study) -> list[Job]:
    """The jobs that train and test the runs of a study."""
    names = lambda run: (run.model, run.task, run.recipe, run.policy)
    training = [Job(config, "train_grpo", *names(run)) for run in study.runs]
    testing = [Job(config, "evaluate_run", *names(run), test) for run, test in study.tests_of_runs]
    return training + testing
