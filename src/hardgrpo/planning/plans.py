"""Plan a study: schedule its jobs on a number of GPUs in the order of their dependencies, and sum
up their needs."""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Estimate
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import model_of

LIGHT = "light"  # downloads, subsets, summaries, figures
ORDER = (*dict.fromkeys(durations.STAGE_OF_RULE.values()), LIGHT)
# Overhead of a job in seconds, by `Setting.cluster`. On a cluster: queueing, and Snakemake inside
# the job. On a laptop: Python's start.
AROUND_SECONDS = {True: 15.0, False: 1.0}


@dataclass(frozen=True)
class Setting:
    """The machine of a plan. On a cluster, light jobs run on the login node, any number at once."""

    gpu: str = "h100"
    gpus: int = 8
    # on a cluster: number of simultaneous compute jobs; on a laptop: number of cores, which light
    # jobs also use
    slots: int = 100
    cluster: bool = True


@dataclass
class PlannedJob:
    """A job of a plan. `needs`: numbers of the jobs whose outputs it reads. `start`, `end`:
    seconds."""

    number: int
    study: str
    rule: str
    wildcards: dict
    estimate: Estimate
    threads: int = 1
    needs: set[int] = field(default_factory=set)
    start: float = 0.0
    end: float = 0.0

    @property
    def stage(self) -> str:
        return durations.STAGE_OF_RULE.get(self.rule, LIGHT)

    @property
    def model(self) -> str:
        return model_of(self.wildcards.get("model", ""))

    @property
    def name(self) -> str:
        numbered = [key for key in ("shard", "seed") if key in self.wildcards]
        names = [str(value) for key, value in self.wildcards.items() if key not in numbered]
        return " ".join([self.rule, *names, *(f"{key} {self.wildcards[key]}" for key in numbered)])


def connect(jobs: list[PlannedJob], files: list[tuple[list[str], list[str]]]) -> None:
    makers = {name: job.number for job, (_, outputs) in zip(jobs, files) for name in outputs}
    for job, (inputs, _) in zip(jobs, files):
        job.needs = {makers[name] for name in inputs if name in makers} - {job.number}


def schedule(jobs: list[PlannedJob], setting: Setting) -> None:
    """Set `start` and `end` of each job by list scheduling (Graham 1966, with Hu's priority, 1961):
    whenever a job ends, start the ready jobs that fit, those with the longest chains of dependent
    jobs first. A job's number is its index in `jobs`."""
    for job in jobs:
        if job.estimate.gpus > setting.gpus:
            raise UserError(
                f"job '{job.name}' needs {job.estimate.gpus} GPUs at once, and the plan has {setting.gpus}; set plan.gpus to at least"
                f" {job.estimate.gpus}, or lower `gpus` of model {job.model} in config/models.yaml"
            )
    chain_seconds = _longest_chains(jobs, setting)
    order = TopologicalSorter({job.number: job.needs for job in jobs})
    order.prepare()
    now, slots, gpus = 0.0, setting.slots, setting.gpus
    ready: list[int] = []
    running: list[tuple[float, int]] = []
    while order.is_active():
        candidates = sorted(
            [*ready, *order.get_ready()], key=lambda number: (-chain_seconds[number], number)
        )
        ready = []
        for number in candidates:
            job, slots_needed = jobs[number], _slots(jobs[number], setting)
            if job.estimate.gpus > gpus or slots_needed > slots:
                ready.append(number)
                continue
            gpus, slots = gpus - job.estimate.gpus, slots - slots_needed
            job.start, job.end = now, now + _duration(job, setting)
            heapq.heappush(running, (job.end, number))
        now = running[0][0]
        while running and running[0][0] <= now:
            job = jobs[heapq.heappop(running)[1]]
            gpus, slots = gpus + job.estimate.gpus, slots + _slots(job, setting)
            order.done(job.number)


def _slots(job: PlannedJob, setting: Setting) -> int:
    if setting.cluster:
        return 0 if job.stage == LIGHT else 1
    return min(job.threads, setting.slots)


def _duration(job: PlannedJob, setting: Setting) -> float:
    around = 0.0 if setting.cluster and job.stage == LIGHT else AROUND_SECONDS[setting.cluster]
    return job.estimate.seconds + around


def _longest_chains(jobs: list[PlannedJob], setting: Setting) -> dict[int, float]:
    """{number of a job: seconds of the longest chain of dependent jobs from this job on}"""
    chain_seconds = {job.number: _duration(job, setting) for job in jobs}
    order = TopologicalSorter({job.number: job.needs for job in jobs}).static_order()
    for number in reversed(list(order)):
        for needed_number in jobs[number].needs:
            chain_seconds[needed_number] = max(
                chain_seconds[needed_number],
                _duration(jobs[needed_number], setting) + chain_seconds[number],
            )
    return chain_seconds


def critical_path(jobs: list[PlannedJob], setting: Setting) -> list[PlannedJob]:
    """The longest chain of jobs in which each job needs the previous job."""
    chain_seconds = _longest_chains(jobs, setting)
    path, readers = [], [job for job in jobs if not job.needs]
    while readers:
        path.append(max(readers, key=lambda job: chain_seconds[job.number]))
        readers = [job for job in jobs if path[-1].number in job.needs]
    return path


def table(jobs: list[PlannedJob], studies: list[str], models: list[str]) -> list[dict]:
    """A row of `sum_jobs` for each study, stage and model; a study's light jobs are one row."""
    groups: dict[tuple, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        groups[job.study, job.stage, job.model if job.stage != LIGHT else ""].append(job)
    ordered = sorted(
        groups,
        key=lambda key: (studies.index(key[0]), ORDER.index(key[1]), ["", *models].index(key[2])),
    )
    return [
        {"study": study, "stage": stage, "model": model} | sum_jobs(groups[study, stage, model])
        for study, stage, model in ordered
    ]


def sum_jobs(jobs: list[PlannedJob]) -> dict:
    return {
        "jobs": len(jobs),
        "gpu_hours": sum(job.estimate.gpu_hours for job in jobs),
        "job_hours": sum(job.estimate.seconds for job in jobs) / 3600,
        "completions": sum(job.estimate.completions for job in jobs),
        "tokens_generated": sum(job.estimate.tokens_generated for job in jobs),
        "tokens_trained": sum(job.estimate.tokens_trained for job in jobs),
        "kept_gb": sum(job.estimate.kept_bytes for job in jobs) / 1e9,
    }


def totals(jobs: list[PlannedJob], setting: Setting, price: float) -> dict:
    """`sum_jobs` with cost, wall time, critical path, peak disk and the number of jobs of unknown
    duration."""
    job_sums = sum_jobs(jobs)
    hours = max((job.end for job in jobs), default=0.0) / 3600
    return job_sums | {
        "cost": job_sums["gpu_hours"] * price,
        "wall_hours": hours,
        "critical_path_hours": sum(_duration(job, setting) for job in critical_path(jobs, setting))
        / 3600,
        "peak_disk_gb": peak_disk(jobs) / 1e9,
        "unknown": sum(not job.estimate.is_known for job in jobs),
    }


def peak_disk(jobs: list[PlannedJob]) -> float:
    """The largest number of bytes that the plan needs at once besides existing files."""
    events = [(job.start, 1, job.estimate.scratch_bytes) for job in jobs]
    events += [(job.end, 0, job.estimate.kept_bytes - job.estimate.scratch_bytes) for job in jobs]
    now = peak = 0.0
    for _, _, change in sorted(events):
        now += change
        peak = max(peak, now)
    return peak


def plan_jobs(
    dry_run: list[dict], config: Configuration, setting: Setting, calibration
) -> list[PlannedJob]:
    """The jobs of a dry-run (`snakemake_logger_plugin_plan`) that write files, with estimates and a
    schedule."""
    # Snakemake lists jobs in a different order each time. Sorted jobs give the same plan.
    writing_jobs = sorted((job for job in dry_run if job["output"]), key=lambda job: job["output"])
    jobs = [
        PlannedJob(
            number,
            job["study"],
            job["rule"],
            job["wildcards"],
            durations.estimate(
                durations.Job.of(config, job["rule"], job["wildcards"]),
                setting.gpu,
                calibration,
            ),
            job["threads"],
        )
        for number, job in enumerate(writing_jobs)
    ]
    connect(jobs, [(job["input"], job["output"]) for job in writing_jobs])
    schedule(jobs, setting)
    return jobs
