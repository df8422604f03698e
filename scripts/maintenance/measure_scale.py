"""Measure the processor time and memory that `snakemake -n` needs to plan a given number of runs.

    python scripts/maintenance/measure_scale.py --runs 100 1000 10000 --label now --output docs/scale.csv
    python scripts/maintenance/measure_scale.py --commit f63bc585 --label before --output docs/scale.csv

The program plans study `paper` in a copy of a commit's files, with the smallest number of seeds
that gives at least the given number of runs. A new row replaces the row of --output with the same
label and number of runs; the remaining rows are kept. Other processes on the machine raise the
processor time less than they raise the elapsed time. The memory is the peak of a single process.
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
        help="minimum numbers of runs; each is planned separately (default: %(default)s)",
    )
    parser.add_argument(
        "--commit", default="HEAD", help="commit whose files are measured (default: %(default)s)"
    )
    parser.add_argument("--label", required=True, help="value of column `label` in the rows")
    parser.add_argument("--output", type=Path, required=True, help="CSV file")
    args = parser.parse_args()
    rows = files.read_rows(args.output, COLUMNS) if args.output.exists() else []
    with commit_copy(args.commit) as folder:
        commit = git("rev-parse", "--short=8", args.commit).decode().strip()
        for runs in args.runs:
            row = measure(folder, runs)
            row |= {"label": args.label, "commit": commit}
            other_rows = [
                entry
                for entry in rows
                if (entry["label"], entry["runs"]) != (row["label"], row["runs"])
            ]
            rows = [*other_rows, row]
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


def measure(folder: Path, min_runs: int) -> dict:
    """Runs, jobs, processor seconds and memory of the plan of at least `min_runs` runs. Raise a
    `UserError` if the plan fails."""
    runs_per_seed = plan(folder, 1)[0]["train_grpo"]
    seeds = -(-min_runs // runs_per_seed)
    counts, usage = plan(folder, seeds)
    return {
        "runs": counts["train_grpo"],
        "jobs": counts["total"],
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_mb": usage.ru_maxrss // 1024,
    }


def plan(folder: Path, seeds: int):
    """({rule: number of jobs}, resource usage) of the plan with `seeds` seeds."""
    configuration = folder / "scale.json"
    configuration.write_text(json.dumps({"studies": {STUDY: {"seeds": list(range(seeds))}}}))
    options = ["-n", "--quiet", "rules", "--configfile", str(configuration)]
    command = benchmarks.snakemake(*options, "--config", f"study={STUDY}")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(folder / "src")}
    status, text, usage = benchmarks.run_alone(command, folder, environment)
    counts = {name: int(number) for name, number in re.findall(r"(?m)^(\w+) +(\d+)$", text)}
    if status or "train_grpo" not in counts:
        last_line = (text.strip().splitlines() or [f"exit status {status}"])[-1]
        raise UserError(f"the plan of {seeds} seeds failed: {last_line}")
    return counts, usage


if __name__ == "__main__":
    errors.run(main)
