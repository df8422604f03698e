"""Run the commands of planned jobs, each in a fork of this process, which imports the libraries
once. Figures are saved as blank files, so that the text of a PDF has no text of figures.

    python tests/unchanged/programs.py JOBS.jsonl
"""

import json
import multiprocessing
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

WORKERS = 2


def main() -> None:
    import matplotlib.figure
    import matplotlib.pyplot
    import statsmodels.api  # noqa: F401

    blank = matplotlib.figure.Figure(figsize=(1, 1))
    save = matplotlib.figure.Figure.savefig
    matplotlib.figure.Figure.savefig = lambda figure, *args, **options: save(
        blank, *args, **options
    )
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    jobs = [job for job in map(json.loads, lines) if job["command"]]
    context = multiprocessing.get_context("fork")
    with context.Pool(WORKERS, maxtasksperchild=1) as pool:
        while jobs:
            missing = {name for job in jobs for name in job["output"]}
            ready = [job for job in jobs if missing.isdisjoint(job["input"])]
            pool.map(run, ready, chunksize=1)
            jobs = [job for job in jobs if job not in ready]


def run(job: dict) -> None:
    """Run a job's command, here if it is a single call of a program of this project."""
    for name in job["output"]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    *call, redirection, log, streams = shlex.split(job["command"])
    if call.count("python") == 1 and (call[0], redirection, streams) == ("python", ">", "2>&1"):
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        sys.stdout = sys.stderr = open(log, "w", encoding="utf-8")
        sys.argv = call[1:]
        sys.path[0] = str(Path(call[1]).parent)
        try:
            runpy.run_path(call[1], run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code
    else:
        status = subprocess.call(["bash", "-c", job["command"]])
    if status:
        raise RuntimeError(
            f"{job['rule']} {job['wildcards']}: exit status {status}; {Path(log).read_text()}"
        )


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    main()
