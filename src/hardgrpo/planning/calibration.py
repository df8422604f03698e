"""Correct the cost model (`durations`) with the times of finished jobs.

`results/calibration.json` holds an entry for each group of finished jobs, from the narrowest (the same rule, device, model, task,
recipe and policy: only seeds differ) to the widest (the same rule and device). An entry holds medians over its jobs:

- `fill`: mean tokens of a completion, or of the worked solution that is trained on, over the completion limit (not in groups that
  mix tasks, whose limits differ);
- `slowness`: seconds of work over the seconds that the cost model expects for as many tokens;
- `start_seconds`: the job's other seconds, for imports, loading and writing.
"""

import json
import math
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.planning import durations
from hardgrpo.planning.durations import Job
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings

GROUPS = [  # from narrow to wide; each also has the rule and the device
    ("model", "task", "eval_task", "recipe", "policy"),
    ("model", "task", "eval_task", "recipe"),
    ("model", "task", "eval_task"),
    ("model",),
    (),
]
TASKS = ("task", "eval_task")
PROVENANCE = {  # of each rule's finished jobs, below the folder of results
    "train_grpo": f"training/{paths.RUN}/provenance.json",
    "probe": "provenance/probe/{model}/{task}/shard{shard}.json",
    "evaluate_base": "provenance/evaluation/{model}/base/{eval_task}.json",
    "sample_reach": "provenance/evaluation/{model}/reach/{eval_task}.json",
    "evaluate_run": f"provenance/evaluation/{paths.RUN}/{{eval_task}}.json",
    "pretrain_model": "models/{model}/provenance.json",
}


@dataclass(frozen=True)
class Measured:
    """A finished job, as its provenance describes it."""

    job: Job
    device: str
    seconds: float
    work_seconds: float | None  # None: start and work were not timed separately
    tokens: int | None  # of completions, or of worked solutions


def read_measured(results: str = "results") -> list[Measured]:
    """All finished jobs below a folder of results, without those whose provenance is unreadable, and without resumed ones, which
    record the seconds of their last part only."""
    found = []
    for rule, place in PROVENANCE.items():
        wildcards = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", place))
        for path in sorted(Path(results).glob(re.sub(r"{\w+}", "*", place))):
            job = Job.of(rule, wildcards.fullmatch(path.relative_to(results).as_posix()).groupdict())
            found.append(_measured(path, job))
    return list(filter(None, found))


def _measured(path: Path, job: Job) -> Measured | None:
    try:
        facts = files.read_json(path)
        gpus = facts.get("machine", {}).get("gpus", 0)
        work = facts.get("work_seconds", facts.get("update_seconds"))
        if facts.get("resumed_from"):
            return None
        tokens = facts.get("solution_tokens", facts.get("completion_tokens"))
        if not all(map(_is_amount, (facts["seconds"], work or 0, tokens or 0))):
            return None
        return Measured(job, "gpu" if gpus else "cpu", float(facts["seconds"]), work, tokens)
    except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _is_amount(value) -> bool:
    """Whether a value is a finite number of at least 0, as seconds and tokens must be."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


class Calibration:
    """Medians over groups of finished jobs. `find` takes each median from the narrowest group that a job belongs to."""

    def __init__(self, groups: list[dict], jobs: int = 0):
        self.groups, self.jobs = groups, jobs
        self.by_key = {tuple(sorted(group["of"].items())): group for group in groups}

    def find(self, job: Job, device: str) -> dict[str, float]:
        """`fill`, `slowness` and `start_seconds`, as far as they are known for this job."""
        found: dict[str, float] = {}
        for names in GROUPS:
            group = self.by_key.get(_key(job, device, names), {})
            for name in ("fill", "slowness", "start_seconds"):
                if name in group:
                    found.setdefault(name, group[name])
        return found


def _key(job: Job, device: str, names: tuple[str, ...]) -> tuple:
    fields = {"rule": job.rule, "device": device} | {name: getattr(job, name) for name in names}
    return tuple(sorted((name, value) for name, value in fields.items() if value is not None))


def calibrate(config: dict, measured: list[Measured], gpu: str) -> Calibration:
    """Medians over the finished jobs that `config` describes. Jobs of an older configuration are left out."""
    ratios: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    used = 0
    for one in measured:
        found = _ratios(config, one, gpu)
        if not found:
            continue
        used += 1
        recipe = config["recipes"].get(one.job.recipe, {}) if one.job.rule == "train_grpo" else {}
        for names in GROUPS:
            if settings.is_supervised(recipe) and "recipe" not in names:
                continue  # SFT says nothing about runs that sample rollouts
            for name, value in found.items():
                if name != "fill" or set(names) & set(TASKS):
                    ratios[_key(one.job, one.device, names)][name].append(value)
    groups = [
        {"of": dict(key), "jobs": max(map(len, lists.values()))}
        | {name: float(f"{statistics.median(values):.6g}") for name, values in lists.items()}
        for key, lists in sorted(ratios.items())
    ]
    return Calibration(groups, used)


def _ratios(config: dict, one: Measured, gpu: str) -> dict[str, float]:
    if not _is_described(config, one.job) or durations.model_shape(config, one.job.model) is None:
        return {}
    expected = durations.estimate(config, one.job, gpu)
    if one.device != durations.device(config, one.job):
        return {}
    if not one.tokens:  # pretraining
        work = max(0.0, one.seconds - expected.start_seconds)  # a small model's whole job may be shorter than the assumed start
        return {"slowness": work / (expected.seconds - expected.start_seconds)}
    fill = one.tokens / (durations.texts(config, one.job) * durations.completion_limit(config, one.job))
    with_tokens = durations.estimate(
        config, one.job, gpu, Calibration([{"of": dict(_key(one.job, one.device, GROUPS[0])), "fill": fill}])
    )
    work = one.work_seconds if one.work_seconds is not None else max(0.0, one.seconds - expected.start_seconds)
    return {
        "fill": fill,
        "slowness": work / (with_tokens.seconds - with_tokens.start_seconds),
        "start_seconds": max(0.0, one.seconds - work),
    }


def _is_described(config: dict, job: Job) -> bool:
    kinds = {
        "models": [job.model and settings.model_of(job.model)],
        "tasks": [job.task, job.eval_task],
        "recipes": [job.recipe],
        "policies": [job.policy],
    }
    return all(name is None or name in config[kind] for kind, names in kinds.items() for name in names)


def read(path: str = paths.CALIBRATION) -> Calibration | None:
    """The calibration that `scripts/plan/calibrate.py` wrote; None without the file. Raise a `UserError` if it is malformed."""
    if not Path(path).exists():
        return None
    try:
        found = files.read_json(path)
        for group in found["groups"]:
            measured = [group.get(name) for name in ("fill", "slowness", "start_seconds")]
            if not all(value is None or _is_amount(value) for value in measured):
                raise ValueError
        return Calibration(found["groups"], found["jobs"] + 0)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UserError(f"{path}: not a calibration; delete it, or write it again with scripts/plan/calibrate.py") from None


def write(calibration: Calibration, path: str = paths.CALIBRATION) -> None:
    files.write_text(path, json.dumps({"jobs": calibration.jobs, "groups": calibration.groups}, indent=1) + "\n")


@dataclass(frozen=True)
class Comparison:
    """A finished job, and the seconds that a calibration on another seed expects for it."""

    measured: Measured
    expected_seconds: float

    @property
    def error(self) -> float:
        """The relative error: 0.25 if the expected time is a quarter too long or too short."""
        return abs(self.expected_seconds - self.measured.seconds) / self.measured.seconds


def compare(config: dict, measured: list[Measured], gpu: str, seed: int) -> list[Comparison]:
    """Predict the jobs of all other seeds from a calibration on `seed` (and on jobs without a seed)."""
    known = calibrate(config, [one for one in measured if one.job.seed in (None, seed)], gpu)
    return [
        Comparison(one, durations.estimate(config, one.job, gpu, known).seconds)
        for one in measured
        if one.job.seed not in (None, seed) and _is_described(config, one.job)
    ]
