"""In this project, Snakemake starts no timer when a job finishes. By default it does, which costs
much processor time (see hardgrpo.workflow.startup)."""

import os
import subprocess
import sys

COUNTED = """
import atexit, threading
started, start = [], threading.Timer.start
threading.Timer.start = lambda timer: (started.append(timer), start(timer))
atexit.register(lambda: print(f"{len(started)} timers"))
from snakemake.cli import main
main()
"""


def test_no_timer_is_started_for_each_finished_job(finished):
    command = [
        sys.executable,
        "-c",
        COUNTED,
        "--profile",
        "laptop",
        "--cores",
        "2",
        "--forcerun",
        "write_spec",
        "--",
    ]
    done = subprocess.run(
        [*command, "results/training/tiny/swaps/mini/hard/seed0/spec.yaml", "results/training/tiny/swaps/mini/random/seed0/spec.yaml"],
        cwd=finished.folder, capture_output=True, text=True, env=os.environ, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "2 of 2 steps (100%) done" in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )
    assert "0 timers" in done.stdout.splitlines()
