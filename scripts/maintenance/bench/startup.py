"""The startup of programs: the processor time of `--help` compared with that of Python alone.
`--help` and `snakemake -n` must not load torch.

Programs that need torch but no GPU, and run on the same machine as Snakemake, are forked from a
process that has loaded torch (src/hardgrpo/runtime/warm.py).
"""

import benchmarks
from benchmarks import ROOT, compare, program, row, snakemake
from hardgrpo.runtime import warm

import subprocess
import sys
from pathlib import Path

PROGRAMS = "prepare_task probe measure_difficulty select_subset write_spec train_grpo evaluate grade_recording cut_completions"
PROGRAMS = f"{PROGRAMS} summarize judge_claims draw_figure write_tables write_numbers plan".split()
NEEDS_ALL = f"""import sys
sys.path.insert(0, {str(ROOT / "src")!r})
from hardgrpo.runtime import warm
def main():
    exec(warm.LIBRARIES, dict())
if __name__ == "__main__":
    warm.run(main)
"""


def run(options) -> list[dict]:
    processor = lambda command: lambda: benchmarks.run(command)[1]
    python_alone = processor([sys.executable, "-c", "pass"])
    rows = [
        compare(
            f"{name}.py --help; Python alone",
            "processor s",
            processor(program(name, "--help")),
            python_alone,
            options.repeats,
        )
        for name in PROGRAMS
    ]
    rows.append(compare_forked(options.repeats))
    loading = [name for name in PROGRAMS if loads_torch(program(name, "--help"))]
    name = "programs that load torch for --help; programs tested"
    rows.append(row(name, "programs", len(loading), len(PROGRAMS), target="ours == 0"))
    plan = loads_torch(snakemake("-n", "--quiet", "all", "--config", "study=paper"))
    return [*rows, row("snakemake -n loads torch", "yes or no", plan, None, target="ours == 0")]


def compare_forked(repeats: int) -> dict:
    """The row that compares a forked program with the same program started alone. The row holds
    wall time, because `benchmarks.run` does not measure the processor time of the forked
    process."""
    with benchmarks.scratch() as folder:
        command = [sys.executable, f"{folder}/program.py"]
        Path(command[1]).write_text(NEEDS_ALL)
        # `sleep` stands in for Snakemake: the server that forks programs ends when `sleep` ends.
        sleep = subprocess.Popen(["sleep", "600"])
        environment = {warm.SOCKET: f"{folder}/sockets/{sleep.pid}", "OMP_NUM_THREADS": "1"}
        try:
            benchmarks.run(command, **environment)  # starts the server
            wall = lambda environment: lambda: benchmarks.run(command, **environment)[0]
            name = "a program with torch and TRL, forked; started alone"
            return compare(
                name, "s", wall(environment), wall(environment | {warm.SOCKET: warm.OFF}), repeats
            )
        finally:
            sleep.kill()
            sleep.wait()


def loads_torch(command: list[str]) -> int:
    """1 if a command imports torch, else 0."""
    _, _, output = benchmarks.run([command[0], "-X", "importtime", *command[1:]])
    return int(
        any(
            line.rsplit("|", 1)[-1].strip() == "torch"
            for line in output.splitlines()
            if line.startswith("import time:")
        )
    )
