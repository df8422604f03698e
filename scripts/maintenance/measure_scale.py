"""Measure what a plan costs by the number of runs: processor time and memory of `snakemake -n`.

    python scripts/maintenance/measure_scale.py --runs 100 1000 10000 --label now --output docs/scale.csv
    python scripts/maintenance/measure_scale.py --commit f63bc585 --label before --output docs/scale.csv

The plans are those of study `paper` with more seeds, in a copy of this clone's files or of a commit,
without results. --output replaces the rows of a file that have the label, and keeps other rows.
Processor time counts, because it does not depend on other processes; the memory is the most that a
process used at a time.
"""

import benchmarks
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

STUDY = "paper"
COLUMNS = {
    "label": str,
    "commit": str,
    "runs": int,
    "jobs": int,
    "processor_seconds": float,
    "memory_mb": int,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        type=int,
        nargs="+",
        default=[100, 1_000, 10_000],
        help="least numbers of runs (default: %(default)s)",
    )
    parser.add_argument(
        "--commit", default="HEAD", help="measure this commit (default: %(default)s)"
    )
    parser.add_argument("--label", required=True, help="name of the rows")
    parser.add_argument("--output", type=Path, required=True, help="CSV file")
    args = parser.parse_args()
    rows = files.read_rows(args.output, COLUMNS) if args.output.exists() else []
    with commit_copy(args.commit) as folder:
        commit = git("rev-parse", "--short=8", args.commit).decode().strip()
        for runs in args.runs:
            row = measure(folder, runs)
            row |= {"label": args.label, "commit": commit}
            rows = [
                earlier
                for earlier in rows
                if (earlier["label"], earlier["runs"]) != (row["label"], row["runs"])
            ] + [row]
            files.write_rows(args.output, list(COLUMNS), rows)
            print(
                f"{args.label}: {row['runs']} runs, {row['jobs']} jobs, {row['processor_seconds']} processor seconds, {row['memory_mb']} MB",
                flush=True,
            )


@contextlib.contextmanager
def commit_copy(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        archive = git("archive", commit)
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder)


def git(command: str, *arguments: str) -> bytes:
    """The output of a git command in this clone; the last argument is a commit."""
    process = subprocess.run(
        ["git", command, *arguments], cwd=benchmarks.ROOT, capture_output=True, check=False
    )
    if process.returncode:
        raise UserError(
            f"{arguments[-1]}: {process.stderr.decode().strip()}; name a commit of this clone"
        )
    return process.stdout


def measure(folder: Path, least_runs: int) -> dict:
    """Runs, jobs, processor seconds and memory of the plan of at least `least_runs` runs. Raise a
    `UserError` if the plan fails."""
    jobs = plan(folder, 1)[0]["train_grpo"]
    seeds = -(-least_runs // jobs)
    counts, usage = plan(folder, seeds)
    return {
        "runs": counts["train_grpo"],
        "jobs": counts["total"],
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mb": usage.ru_maxrss // 1024,
    }


def plan(folder: Path, seeds: int):
    """({rule: number of jobs}, resource usage) of the plan with so many seeds."""
    configuration = folder / "scale.json"
    configuration.write_text(json.dumps({"studies": {STUDY: {"seeds": list(range(seeds))}}}))
    options = ["-n", "--quiet", "rules", "--configfile", str(configuration)]
    command = benchmarks.snakemake(*options, "--config", f"study={STUDY}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(folder / "src")}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    counts = {name: int(number) for name, number in re.findall(r"(?m)^(\w+) +(\d+)$", text)}
    if process.returncode or "train_grpo" not in counts:
        raise UserError(f"the plan of {seeds} seeds failed: {text.strip().splitlines()[-1:]}")
    return counts, usage


if __name__ == "__main__":
    errors.run(main)
