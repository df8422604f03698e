"""What programs load before they work: processor time of `--help`, against Python alone, and whether torch comes with it.

Programs that plan, select, summarise or draw have no business with torch, and neither has `snakemake -n`.
"""

import functools
import sys

from hardgrpo import benchmarks
from hardgrpo.benchmarks import ROOT, snakemake

PROGRAMS = [
    "prepare_task",
    "probe",
    "measure_difficulty",
    "select_subset",
    "write_spec",
    "train_grpo",
    "evaluate",
    "grade_recording",
]
PROGRAMS += ["cut_completions", "summarize", "judge_claims", "plot_accuracy", "write_tables", "write_numbers", "plan"]
LOADED = "-X", "importtime"
row = functools.partial(benchmarks.row, "startup")


def run(options) -> list[dict]:
    rows = []
    alone = functools.partial(processor, "-c", "pass")
    for name in PROGRAMS:
        ours, baseline, ratio = benchmarks.paired(
            functools.partial(processor, f"scripts/{name}.py", "--help"), alone, options.repeats
        )
        rows.append(row(f"{name}.py --help; Python alone", ours, baseline, "processor s", ratio=ratio))
    loading = [name for name in PROGRAMS if loads_torch([sys.executable, *LOADED, f"scripts/{name}.py", "--help"])]
    rows.append(row("programs that load torch before they need it, of these", len(loading), len(PROGRAMS), "programs", "ours == 0"))
    command = snakemake("-n", "--quiet", "all", "--config", "study=paper")
    rows.append(row("snakemake -n loads torch", loads_torch([command[0], *LOADED, *command[1:]]), None, "yes or no", "ours == 0"))
    return rows


def processor(*arguments: str) -> float:
    return benchmarks.run([sys.executable, *arguments])[1]


def loads_torch(command: list[str]) -> int:
    _, _, output = benchmarks.run(command, ROOT)
    return int(any(line.rsplit("|", 1)[-1].strip() == "torch" for line in output.splitlines() if line.startswith("import time:")))
