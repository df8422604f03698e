"""Seconds of each stage of `make demo`, from Snakemake's records of when each job began and ended; with --before beside another
clone's.

They are sums over the jobs of a stage: with two cores, which run two jobs at once, the demo takes about half the sum.
"""

from benchmarks import ROOT, Skipped, row
from hardgrpo.study import load

import json
import re
from collections import defaultdict
from pathlib import Path

STAGES = {  # by rule; rules plot_* are `figures`, all others `the rest`
    "pretrain_model": "pretraining",
    "probe": "probing",
    "train_grpo": "training",
    "evaluate_base": "evaluation",
    "sample_reach": "evaluation",
    "evaluate_run": "evaluation",
    "summarize": "summary",
    "compile_paper": "paper",
} | dict.fromkeys(["verify", "judge_claims", "write_tables", "write_numbers"], "checks, tables, numbers")
SHORTEST = 10  # fewer seconds of training mean that it did not run here


def run(options) -> list[dict]:
    here = seconds_by_stage(ROOT)
    if here.get("training", 0) < SHORTEST:
        raise Skipped(
            "Snakemake has no records of the miniature's training in this clone (or only those of `--touch`); run `make demo` first"
        )
    before = seconds_by_stage(Path(options.before)) if options.before else {}
    return [row(f"{stage}, all jobs" + (" (before)" if before else ""), "s", here[stage], before.get(stage)) for stage in here]


def seconds_by_stage(clone: Path) -> dict[str, float]:
    """{stage: seconds of its jobs, added up} of study mini in a clone, longest first."""
    seeds = load.read(clone)["studies"]["mini"]["seeds"]
    jobs = {}
    for path in (clone / ".snakemake/metadata").rglob("*"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            log, rule = str(record["log"]), record["rule"]
            begun, ended = float(record["starttime"]), float(record["endtime"])
        except (OSError, ValueError, KeyError, TypeError):  # the record of another version, or not of a job
            continue
        seed = re.search(r"seed(\d+)", log)  # study mini_reference has more seeds
        if not any(other in log for other in ("mini_", "wordy", "recorded")) and (seed is None or int(seed[1]) in seeds):
            jobs[rule, log] = ended - begun
    stages = defaultdict(float)
    for (rule, _), seconds in jobs.items():
        stages[STAGES.get(rule, "figures" if rule.startswith("plot_") else "the rest")] += seconds
    return dict(sorted(stages.items(), key=lambda item: -item[1]))
