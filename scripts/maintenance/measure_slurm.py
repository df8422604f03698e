"""Measure the time and memory that Snakemake needs to run empty jobs through Slurm.

    python scripts/maintenance/measure_slurm.py --jobs 100 1000 --output docs/slurm_jobs.csv

The jobs go to the cluster of this shell's `sbatch`; `tests/slurm_cluster.py FOLDER` starts a
cluster on this machine. For each number of jobs, the program runs one workflow with the profile
`slurm` and writes one row: the elapsed time, the processor time of Snakemake and of the commands
that Snakemake calls on the login node (sbatch, sacct), and the memory of the largest of these
processes. Rows of --output with other numbers of jobs are kept.
"""

import benchmarks
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = {
    "jobs": int,
    "jobs_at_a_time": int,
    "wall_seconds": float,
    "processor_seconds": float,
    "memory_mb": int,
}
# `onstart` as in the project's Snakefile, without `startup.check_jobs`
WORKFLOW = """\
onstart:
    from hardgrpo.workflow import startup
    startup.quiet_scheduler()
    startup.lift_job_rate_limit(workflow)

rule all:
    input:
        expand("done/{{number}}", number=range({jobs})),

rule do_nothing:
    output:
        touch("done/{{number}}"),
    shell:
        "true"
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 1_000], help="numbers of jobs")
    parser.add_argument(
        "--at-a-time",
        type=int,
        default=100,
        help="jobs in the queue at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="folder of the temporary workflows, on the cluster's file system (default: the working folder)",
    )
    parser.add_argument("--output", type=Path, required=True, help="CSV file")
    args = parser.parse_args()
    rows = files.read_rows(args.output, COLUMNS) if args.output.exists() else []
    for jobs in args.jobs:
        with tempfile.TemporaryDirectory(dir=args.folder or Path.cwd(), prefix="slurm-") as folder:
            row = measure(Path(folder), jobs, args.at_a_time)
        rows = [entry for entry in rows if entry["jobs"] != jobs] + [row]
        files.write_rows(args.output, list(COLUMNS), sorted(rows, key=lambda row: row["jobs"]))
        print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def measure(folder: Path, jobs: int, at_a_time: int) -> dict:
    """Run a workflow of `jobs` empty jobs in a folder, with at most `at_a_time` jobs in the queue,
    and return its row of the table. Raise a `UserError` if the workflow fails."""
    (folder / "Snakefile").write_text(WORKFLOW.format(jobs=jobs))
    (folder / "empty.yaml").write_text("{}")
    command = [sys.executable, "-m", "snakemake", "--profile", str(benchmarks.ROOT / "slurm")]
    command += ["--configfile", "empty.yaml", "--jobs", str(at_a_time), "--quiet", "all"]
    started = time.monotonic()
    status, output, usage = benchmarks.run_alone(command, folder, dict(os.environ))
    wall_seconds = time.monotonic() - started
    finished_jobs = len(list(folder.glob("done/*")))
    if status or finished_jobs != jobs:
        last_lines = output.strip().splitlines()[-3:]
        raise UserError(
            f"Snakemake ended with status {status} after {finished_jobs} of {jobs} jobs: {' '.join(last_lines)}"
        )
    return {
        "jobs": jobs,
        "jobs_at_a_time": at_a_time,
        "wall_seconds": round(wall_seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mb": usage.ru_maxrss // 1024,
    }


if __name__ == "__main__":
    errors.run(main)
