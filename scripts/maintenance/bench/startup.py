"""What programs load before they work: processor time of `--help`, against Python alone, and whether torch comes with it.

Programs that plan, select, summarise or draw have no business with torch, and neither has `snakemake -n`. Those that need it find it
loaded where the workflow runs its jobs on one machine (src/hardgrpo/runtime/warm.py).
"""

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

import benchmarks
from benchmarks import ROOT, snakemake
from hardgrpo.runtime import warm

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
PROGRAMS += ["cut_completions", "summarize", "judge_claims", "draw_figure", "write_tables", "write_numbers", "plan"]
NEEDS_ALL = f"""import sys
sys.path.insert(0, {str(ROOT / "src")!r})
from hardgrpo.runtime import warm
def main():
    exec(warm.LIBRARIES, dict())
if __name__ == "__main__":
    warm.run(main)
"""
LOADED = "-X", "importtime"
row = functools.partial(benchmarks.row, "startup")


def run(options) -> list[dict]:
    rows = []
    alone = functools.partial(processor, "-c", "pass")
    for name in PROGRAMS:
        ours, baseline, ratio = benchmarks.paired(functools.partial(processor, place(name), "--help"), alone, options.repeats)
        rows.append(row(f"{name}.py --help; Python alone", ours, baseline, "processor s", ratio=ratio))
    rows.append(forked(options.repeats))
    loading = [name for name in PROGRAMS if loads_torch([sys.executable, *LOADED, place(name), "--help"])]
    rows.append(row("programs that load torch before they need it, of these", len(loading), len(PROGRAMS), "programs", "ours == 0"))
    command = snakemake("-n", "--quiet", "all", "--config", "study=paper")
    rows.append(row("snakemake -n loads torch", loads_torch([command[0], *LOADED, *command[1:]]), None, "yes or no", "ours == 0"))
    return rows


def place(name: str) -> str:
    (path,) = (ROOT / "scripts").glob(f"*/{name}.py")
    return str(path)


def forked(repeats: int) -> dict:
    """Wall time: what the forked process takes is not counted as the program's own."""
    with tempfile.TemporaryDirectory(prefix="hardgrpo-bench-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(NEEDS_ALL)
        snakemake = subprocess.Popen(["sleep", "600"])  # in its part: what forks ends with it
        told = {warm.SOCKET: f"{folder}/sockets/{snakemake.pid}", "OMP_NUM_THREADS": "1"}
        try:
            benchmarks.run([sys.executable, str(program)], **told)  # starts what forks
            ours, baseline, ratio = benchmarks.paired(
                lambda: benchmarks.run([sys.executable, str(program)], **told)[0],
                lambda: benchmarks.run([sys.executable, str(program)], **(told | {warm.SOCKET: warm.OFF}))[0],
                repeats,
            )
        finally:
            snakemake.kill()
            snakemake.wait()
    return row("a program with torch and TRL, forked; started alone", ours, baseline, "s", ratio=ratio)


def processor(*arguments: str) -> float:
    return benchmarks.run([sys.executable, *arguments])[1]


def loads_torch(command: list[str]) -> int:
    _, _, output = benchmarks.run(command, ROOT)
    return int(any(line.rsplit("|", 1)[-1].strip() == "torch" for line in output.splitlines() if line.startswith("import time:")))
