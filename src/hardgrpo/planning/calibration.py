"""Correct the cost model (`durations`) with the times of finished jobs.

`results/calibration.json` holds an entry for each group of finished jobs, from the narrowest groups
(equal rule, device, model, task, test, recipe and policy; only seeds or shards differ) to the
widest (equal rule and device). An entry holds medians over its jobs:

- `fill`: mean tokens of a completion (in SFT, of a worked solution) relative to the completion
  limit; absent in groups that mix tasks, because limits differ between tasks;
- `slowness`: seconds of work relative to the seconds that the cost model expects for the same
  number of tokens;
- `start_seconds`: seconds outside of the work: imports, loading and writing.
"""

import json
import math
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job, ResolvedJob
from hardgrpo.runtime import files, gpu_kinds
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings

GROUPS = [  # keys of a group besides rule and device, from narrow to wide
    ("model", "task", "eval_task", "recipe", "policy"),
    ("model", "task", "eval_task", "recipe"),
    ("model", "task", "eval_task"),
    ("model",),
    (),
]
TASKS = ("task", "eval_task")
PROVENANCE = {  # {rule: the path of a finished job's provenance below the folder of results}
    "train_grpo": f"training/{paths.RUN}/provenance.json",
    "probe": "provenance/probe/{model}/{task}/shard{shard}.json",
    "evaluate_base": "provenance/evaluation/{model}/base/{eval_task}.json",
    "sample_reach": "provenance/evaluation/{model}/reach/{eval_task}.json",
    "evaluate_run": f"provenance/evaluation/{paths.RUN}/{{eval_task}}.json",
    "pretrain_model": "models/{model}/provenance.json",
}


@dataclass(frozen=True)
class FinishedJob:
    """The device, times and tokens of a finished job, from its provenance."""

    job: ResolvedJob
    device: str
    seconds: float
    work_seconds: float | None  # None if start and work were not timed separately
    tokens: int | None  # number of tokens of completions or of worked solutions
    gpu: str | None  # a key of `gpu_kinds.GPUS`; None if the provenance names none of these

    @property
    def is_comparable(self) -> bool:
        """Whether the job can be compared with an estimate: its model's size is known, it ran on
        the kind of device that the configuration names, and the configuration gives it work."""
        if self.job.shape is None or self.device != self.job.device:
            return False
        estimate = durations.estimate(self.job, self.gpu or next(iter(gpu_kinds.GPUS)))
        return estimate.seconds > estimate.start_seconds


def read_finished_jobs(results: str, config: dict) -> list[FinishedJob]:
    """The finished jobs of the rules in PROVENANCE, below the folder `results`. Three kinds of jobs
    are left out: jobs whose model, task, test, recipe or policy is not in `config`, or lacks the
    settings of the rule; jobs whose provenance cannot be read; and resumed jobs, because their
    `seconds` count only the time since the job was resumed."""
    finished_jobs = []
    for rule, pattern in PROVENANCE.items():
        wildcard_pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)
        wildcard_pattern = re.compile(wildcard_pattern.replace("(?P<seed>[^/]+)", r"(?P<seed>\d+)"))
        for path in sorted(Path(results).glob(re.sub(r"{\w+}", "*", pattern))):
            match = wildcard_pattern.fullmatch(path.relative_to(results).as_posix())
            if match is None:
                continue  # not a result of the workflow, for example a copy `seed0.old`
            job = ResolvedJob.of(config, Job.of(rule, match.groupdict()), results)
            if job.is_complete:
                finished_jobs.append(_read_finished_job(path, job))
    return list(filter(None, finished_jobs))


def _read_finished_job(path: Path, job: ResolvedJob) -> FinishedJob | None:
    try:
        record = files.read_json(path)
        gpus = record.get("machine", {}).get("gpus", 0)
        work_seconds = record.get("work_seconds", record.get("update_seconds"))
        if record.get("resumed_from"):
            return None
        tokens = record.get("solution_tokens", record.get("completion_tokens"))
        if not all(map(_is_amount, (record["seconds"], work_seconds or 0, tokens or 0))):
            return None
        return FinishedJob(
            job,
            "gpu" if gpus else "cpu",
            float(record["seconds"]),
            work_seconds,
            tokens,
            next(filter(None, map(gpu_kinds.kind_of, record.get("gpus", []))), None),
        )
    except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _is_amount(value) -> bool:
    """Whether a value is a finite number of at least 0, as seconds and tokens must be."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


class Calibration:
    """Medians over groups of finished jobs. For a job, `find` takes each median from the narrowest
    group that the job belongs to and that has this median."""

    def __init__(self, groups: list[dict], jobs: int = 0):
        self.groups, self.jobs = groups, jobs
        self.by_key = {tuple(sorted(group["of"].items())): group for group in groups}

    def find(self, job: Job, device: str) -> dict[str, float]:
        """The medians `fill`, `slowness` and `start_seconds` for a job. A median that none of the
        job's groups has is left out."""
        medians: dict[str, float] = {}
        for names in GROUPS:
            group = self.by_key.get(_key(job, device, names), {})
            for name in ("fill", "slowness", "start_seconds"):
                if name in group:
                    medians.setdefault(name, group[name])
        return medians


def _key(job: Job, device: str, names: tuple[str, ...]) -> tuple:
    """The key of a group of jobs. A replicate's own base counts as its model (`model_of`)."""
    fields = {"rule": job.rule, "device": device} | {name: getattr(job, name) for name in names}
    if fields.get("model"):
        fields["model"] = settings.model_of(fields["model"])
    return tuple(sorted((name, value) for name, value in fields.items() if value is not None))


def calibrate(finished_jobs: list[FinishedJob], gpu: str) -> Calibration:
    """Medians over finished jobs. `gpu`, a key of `gpu_kinds.GPUS`, is assumed for jobs whose
    provenance names no GPU of a known kind."""
    ratios: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    job_count = 0
    for finished_job in finished_jobs:
        job, job_ratios = finished_job.job, _ratios(finished_job, gpu)
        if not job_ratios:
            continue
        job_count += 1
        recipe = job.recipe if job.names.rule == "train_grpo" else {}
        for names in GROUPS:
            if settings.is_supervised(recipe) and "recipe" not in names:
                continue  # times of SFT do not predict runs that sample rollouts
            for name, value in job_ratios.items():
                if name != "fill" or set(names) & set(TASKS):
                    ratios[_key(job.names, finished_job.device, names)][name].append(value)
    groups = [
        {"of": dict(key), "jobs": max(map(len, lists.values()))}
        | {name: float(f"{statistics.median(values):.6g}") for name, values in lists.items()}
        for key, lists in sorted(ratios.items())
    ]
    return Calibration(groups, job_count)


def _ratios(finished_job: FinishedJob, gpu: str) -> dict[str, float]:
    """The values of one job over which `calibrate` takes medians; {} if the job is not
    comparable."""
    job, gpu = finished_job.job, finished_job.gpu or gpu
    if not finished_job.is_comparable:
        return {}
    estimate = durations.estimate(job, gpu)
    # a small model's whole job may take less time than the cost model assumes for the start
    work = max(0.0, finished_job.seconds - estimate.start_seconds)
    if not finished_job.tokens:  # pretraining
        return {"slowness": work / (estimate.seconds - estimate.start_seconds)}
    fill = finished_job.tokens / (job.texts * job.completion_limit)
    with_tokens = durations.estimate(
        job,
        gpu,
        Calibration([{"of": dict(_key(job.names, finished_job.device, GROUPS[0])), "fill": fill}]),
    )
    if finished_job.work_seconds is not None:
        work = finished_job.work_seconds
    return {
        "fill": fill,
        "slowness": work / (with_tokens.seconds - with_tokens.start_seconds),
        "start_seconds": max(0.0, finished_job.seconds - work),
    }


def read(path: str = paths.CALIBRATION) -> Calibration | None:
    """The calibration that `scripts/plan/calibrate.py` wrote; None without the file. Raise a
    `UserError` if the file is malformed."""
    if not Path(path).exists():
        return None
    try:
        content = files.read_json(path)
        for group in content["groups"]:
            medians = [group.get(name) for name in ("fill", "slowness", "start_seconds")]
            if not all(value is None or _is_amount(value) for value in medians):
                raise ValueError
        return Calibration(content["groups"], content["jobs"] + 0)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UserError(
            f"{path}: not a calibration; delete it, or write it again with scripts/plan/calibrate.py"
        ) from None


def write(calibration: Calibration, path: str = paths.CALIBRATION) -> None:
    """Write a calibration as JSON."""
    files.write_text(
        path, json.dumps({"jobs": calibration.jobs, "groups": calibration.groups}, indent=1) + "\n"
    )


@dataclass(frozen=True)
class Comparison:
    """A finished job, and the job's expected seconds according to a calibration on another seed."""

    finished_job: FinishedJob
    expected_seconds: float

    @property
    def error(self) -> float:
        """The relative error: 0.25 if the expected time is a quarter too long or too short."""
        return abs(self.expected_seconds - self.finished_job.seconds) / self.finished_job.seconds


def compare(finished_jobs: list[FinishedJob], gpu: str, seed: int) -> list[Comparison]:
    """Calibrate on the jobs of `seed` and the jobs without a seed, and compare the calibration with
    the jobs of all other seeds. Jobs that are not comparable are left out. `gpu` is as in
    `calibrate`."""
    is_calibrated = lambda finished_job: finished_job.job.names.seed in (None, seed)
    calibration = calibrate(list(filter(is_calibrated, finished_jobs)), gpu)
    return [
        Comparison(
            finished_job,
            durations.estimate(finished_job.job, finished_job.gpu or gpu, calibration).seconds,
        )
        for finished_job in finished_jobs
        if not is_calibrated(finished_job) and finished_job.is_comparable
    ]
