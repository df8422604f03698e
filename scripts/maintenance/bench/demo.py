"""Seconds of each stage of `make demo`, from Snakemake's records of the start and end of each job.
With --before, the seconds are compared with those of another clone.

The seconds are sums over the jobs of a stage. With two cores, which run two jobs at once, the demo
takes about half the sum over all stages.
"""

import benchmarks
from benchmarks import ROOT, Skipped, row, snakemake

import json
from collections import defaultdict
from pathlib import Path

STAGES = {  # {rule: stage}; rules plot_* have the stage `figures`, unlisted rules `the rest`
    "pretrain_model": "pretraining",
    "probe": "probing",
    "train_grpo": "training",
    "evaluate_base": "evaluation",
    "sample_reach": "evaluation",
    "evaluate_run": "evaluation",
    "summarize": "summary",
    "compile_supplement": "paper",
} | dict.fromkeys(
    ["verify", "judge_claims", "write_tables", "write_numbers"], "checks, tables, numbers"
)
MIN_TRAINING_SECONDS = 10  # a smaller sum means no real training (`--touch` records 0 s)


def run(options) -> list[dict]:
    stages = seconds_by_stage(ROOT)
    if stages.get("training", 0) < MIN_TRAINING_SECONDS:
        raise Skipped(
            "Snakemake has no records of the miniature's training in this clone (or only those of `--touch`); run `make demo` first"
        )
    earlier_stages = seconds_by_stage(Path(options.before)) if options.before else {}
    return [
        row(
            f"{stage}, all jobs" + (" (before)" if earlier_stages else ""),
            "s",
            stages[stage],
            earlier_stages.get(stage),
        )
        for stage in stages
    ]


def seconds_by_stage(clone: Path) -> dict[str, float]:
    """{stage: seconds of its jobs, added up} of study mini in a clone, longest first."""
    jobs_of_demo = read_jobs_of_demo(clone)
    seconds_by_job = {}
    for path in (clone / ".snakemake/metadata").rglob("*"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            job = record["rule"], ",".join(record["log"])
            seconds = float(record["endtime"]) - float(record["starttime"])
        # a record of another version of Snakemake, or a file that is not a record of a job
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if job in jobs_of_demo:
            seconds_by_job[job] = seconds
    stages = defaultdict(float)
    for (rule, _), seconds in seconds_by_job.items():
        stages[STAGES.get(rule, "figures" if rule.startswith("plot_") else "the rest")] += seconds
    return dict(sorted(stages.items(), key=lambda item: -item[1]))


def read_jobs_of_demo(clone: Path) -> set[tuple[str, str]]:
    """(rule, log files) of the jobs that `make demo` has run in a clone, from `snakemake
    --summary`."""
    _, _, output = benchmarks.run(snakemake("--summary", "--config", "study=mini"), clone)
    rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
    rule, log = (rows[0].index(column) for column in ("rule", "log-file(s)"))
    return {(cells[rule], cells[log]) for cells in rows[1:]}
