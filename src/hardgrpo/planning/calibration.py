"""Correct the cost model (`durations`) with the times of finished jobs.

`results/calibration.json` holds an entry for each group of finished jobs: the jobs of a rule, device
and model, and all jobs of a rule and device. An entry holds medians over its jobs:

- `slowness`: seconds relative to the seconds that the cost model expects for the same number of
  tokens;
- `fill`: mean tokens of a completion (in SFT, of a worked solution) relative to the completion
  limit; only in groups of one model.
"""

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.runtime import files, gpu_kinds
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import model_of

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

    job: Job
    device: str
    seconds: float
    tokens: int | None  # number of tokens of completions or of worked solutions
    gpu: str | None  # a key of `gpu_kinds.GPUS`; None if the provenance names none of these

    @property
    def is_comparable(self) -> bool:
        """Whether the model's size is known, the job ran on the kind of device that the
        configuration names, and the configuration gives it work."""
        if self.job.shape is None or self.device != self.job.device:
            return False
        estimate = durations.estimate(self.job, self.gpu or next(iter(gpu_kinds.GPUS)))
        return estimate.seconds > estimate.start_seconds


def read_finished_jobs(results: str, config: Configuration) -> list[FinishedJob]:
    """The finished jobs of the rules in PROVENANCE whose entries are in `config`. Resumed jobs are
    left out, because their `seconds` count only the time since then."""
    finished_jobs = []
    for rule, pattern in PROVENANCE.items():
        wildcard_pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)
        wildcard_pattern = re.compile(wildcard_pattern.replace("(?P<seed>[^/]+)", r"(?P<seed>\d+)"))
        for path in sorted(Path(results).glob(re.sub(r"{\w+}", "*", pattern))):
            match = wildcard_pattern.fullmatch(path.relative_to(results).as_posix())
            if match is None:
                continue  # not a result of the workflow, for example a copy `seed0.old`
            job = Job.of(config, rule, match.groupdict(), results)
            if job.is_complete:
                finished_jobs.append(_read_finished_job(path, job))
    return list(filter(None, finished_jobs))


def _read_finished_job(path: Path, job: Job) -> FinishedJob | None:
    record = files.read_json(path)
    if record.get("resumed_from"):
        return None
    device = "gpu" if record.get("machine", {}).get("gpus") else "cpu"
    tokens = record.get("solution_tokens", record.get("completion_tokens"))
    kind = next(filter(None, map(gpu_kinds.kind_of, record.get("gpus", []))), None)
    return FinishedJob(job, device, record["seconds"], tokens, kind)


class Calibration:
    """Medians over groups of finished jobs: {(rule, device, model or ""): medians}."""

    def __init__(self, groups: dict[tuple, dict[str, float]], jobs: int = 0):
        self.groups, self.jobs = groups, jobs

    def find(self, job: Job) -> dict[str, float]:
        """The medians of a job's model, or else of all models."""
        return self.groups.get(_key(job, ""), {}) | self.groups.get(_key(job, job.base), {})


def _key(job: Job, model: str) -> tuple[str, str, str]:
    """A replicate's own base counts as its model. Runs on worked solutions are groups of their own,
    because their times do not predict runs that sample."""
    is_training = job.rule in durations.TRAINING
    is_supervised = is_training and job.recipe.is_supervised
    rule = "sft" if is_supervised else job.rule
    return rule, job.device, model_of(model)


def calibrate(finished_jobs: list[FinishedJob], gpu: str) -> Calibration:
    """Medians over finished jobs. `gpu` is assumed for jobs whose provenance names no known GPU."""
    ratios: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    comparable_jobs = [job for job in finished_jobs if job.is_comparable]
    for finished_job in comparable_jobs:
        job, medians = finished_job.job, {}
        if finished_job.tokens:
            medians["fill"] = finished_job.tokens / (job.texts * job.completion_limit)
        of_model = _key(job, job.base)
        with_tokens = Calibration({of_model: medians})
        expected = durations.estimate(job, finished_job.gpu or gpu, with_tokens).seconds
        medians["slowness"] = finished_job.seconds / expected
        ratios[_key(job, "")]["slowness"].append(medians["slowness"])
        for name, value in medians.items():
            ratios[of_model][name].append(value)
    groups = {
        key: {name: float(f"{statistics.median(values):.6g}") for name, values in lists.items()}
        for key, lists in sorted(ratios.items())
    }
    return Calibration(groups, len(comparable_jobs))


def read(path: str = paths.CALIBRATION) -> Calibration | None:
    """The calibration that `scripts/plan/calibrate.py` wrote; None without the file."""
    if not Path(path).exists():
        return None
    content = files.read_json(path)
    groups = {
        (group.pop("rule"), group.pop("device"), group.pop("model")): group
        for group in content["groups"]
    }
    return Calibration(groups, content["jobs"])


def write(calibration: Calibration, path: str = paths.CALIBRATION) -> None:
    groups = [
        dict(zip(("rule", "device", "model"), key)) | medians
        for key, medians in calibration.groups.items()
    ]
    files.write_json(path, {"jobs": calibration.jobs, "groups": groups})
