"""What people wait for before anything runs: `snakemake -n`, the same for ten times the runs, and a study in which nothing is to be done.

Processor time, which on a busy machine is the same. The baseline is Snakemake's own start with a workflow of one rule.
"""

import functools
import json
from pathlib import Path

import yaml

import benchmarks
from benchmarks import snakemake
from hardgrpo.runtime.errors import UserError

EMPTY = 'rule all:\n    shell: "true"\n'
row = functools.partial(benchmarks.row, "planning")


def run(options) -> list[dict]:
    with benchmarks.copy() as folder:
        (folder / "empty.smk").write_text(EMPTY)
        seeds = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["studies"]["paper"]["seeds"]
        (folder / "more.json").write_text(json.dumps({"studies": {"paper": {"seeds": list(range(10 * len(seeds)))}}}))
        start = functools.partial(seconds, folder, "-n", "--quiet", "all", "--snakefile", "empty.smk")
        plan = functools.partial(seconds, folder, "-n", "--quiet", "all", "--config", "study=paper")
        large = functools.partial(seconds, folder, "-n", "--quiet", "all", "--configfile", "more.json", "--config", "study=paper")
        nothing = functools.partial(seconds, folder, "--config", "study=mini")

        rows = []
        ours, baseline, ratio = benchmarks.paired(plan, start, options.repeats)
        rows.append(row("snakemake -n of study paper; Snakemake alone", ours, baseline, "processor s", "ours <= 5", ratio))
        ours, baseline, ratio = benchmarks.paired(large, plan, options.repeats)
        rows.append(row("the same with 10 times the seeds; without", ours, baseline, "processor s", "ratio <= 12", ratio))
        finish(folder, "mini")
        ours, baseline, ratio = benchmarks.paired(nothing, start, options.repeats)
        rows.append(row("nothing to be done in study mini; Snakemake alone", ours, baseline, "processor s", "ours <= 3", ratio))
    return rows


def seconds(folder: Path, *arguments: str) -> float:
    """Processor time of a call of Snakemake, which must plan something with -n and nothing without."""
    _, processor, output = benchmarks.run(snakemake(*arguments), folder)
    if ("Nothing to be done" in output) == ("-n" in arguments):
        raise UserError(f"snakemake {' '.join(arguments)}: planned the wrong thing: {output.strip().splitlines()[-1]}")
    return processor


def finish(folder: Path, study: str) -> None:
    """Make Snakemake take a study for finished: an empty file for every output, and its records of how they were made."""
    asked = ["--config", f"study={study}"]
    _, _, summary = benchmarks.run(snakemake("--summary", *asked), folder)
    table = summary[summary.index("output_file\t") :].splitlines()[1:]
    for name in (line.split("\t")[0] for line in table):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    benchmarks.run(snakemake("--touch", *asked), folder)
