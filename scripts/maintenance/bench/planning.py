"""The time that Snakemake needs before a job runs, in three cases: `snakemake -n` for a study,
`snakemake -n` for the same study with ten times the seeds, and `snakemake` for a finished study.

Times are processor times, which depend less on other processes than elapsed times do. The baseline of the first and the
third case is Snakemake's start with a workflow of one rule. The baseline of the second case is the
first case.
"""

import benchmarks
from benchmarks import compare, snakemake
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import load

import functools
import json
from pathlib import Path

EMPTY = 'rule all:\n    shell: "true"\n'


def run(options) -> list[dict]:
    with benchmarks.clone_copy() as folder:
        (folder / "empty.smk").write_text(EMPTY)
        seeds = load.read(folder)["studies"]["paper"]["seeds"]
        (folder / "more.json").write_text(
            json.dumps({"studies": {"paper": {"seeds": list(range(10 * len(seeds)))}}})
        )
        start = functools.partial(
            seconds, folder, "-n", "--quiet", "all", "--snakefile", "empty.smk"
        )
        plan = functools.partial(seconds, folder, "-n", "--quiet", "all", "--config", "study=paper")
        large = functools.partial(
            seconds,
            folder,
            "-n",
            "--quiet",
            "all",
            "--configfile",
            "more.json",
            "--config",
            "study=paper",
        )
        nothing = functools.partial(seconds, folder, "--config", "study=mini")

        measure = functools.partial(compare, unit="processor s", repeats=options.repeats)
        rows = [
            measure(
                "snakemake -n of study paper; Snakemake alone",
                project=plan,
                baseline=start,
                target="ours <= 5",
            )
        ]
        rows.append(
            measure(
                "snakemake -n of study paper with 10 times the seeds; with the configured seeds",
                project=large,
                baseline=plan,
                target="ratio <= 12",
            )
        )
        finish(folder, "mini")
        name = "nothing to be done in study mini; Snakemake alone"
        return [*rows, measure(name, project=nothing, baseline=start, target="ours <= 3")]


def seconds(folder: Path, *arguments: str) -> float:
    """Processor seconds of a call of Snakemake. Raise a `UserError` if a call with -n plans no job,
    or a call without -n does not print "Nothing to be done"."""
    _, processor, output = benchmarks.run(snakemake(*arguments), folder)
    if ("Nothing to be done" in output) == ("-n" in arguments):
        expected_jobs = "jobs" if "-n" in arguments else "no jobs"
        raise UserError(
            f"snakemake {' '.join(arguments)}: expected a plan with {expected_jobs}; the last line of its output is: {output.strip().splitlines()[-1]}"
        )
    return processor


def finish(folder: Path, study: str) -> None:
    """Make a study look finished to Snakemake: write an empty file for every output, and
    Snakemake's records of these files."""
    options = ["--config", f"study={study}"]
    _, _, summary = benchmarks.run(snakemake("--summary", *options), folder)
    table = summary[summary.index("output_file\t") :].splitlines()[1:]
    for name in (line.split("\t")[0] for line in table):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    # The Snakefile's hook would read results from the empty files.
    benchmarks.run(snakemake("--touch", "--no-hooks", *options), folder)
