"""Compare what the project plans, computes and writes with baselines that were made before the
redesign: `make unchanged`. Needs latexmk and pdftotext.

Everything runs in a copy of this clone without results, so that finished results do not change
what Snakemake plans. A kind of outcome is a dictionary {name: value}; baseline/KIND.xz has one line
per name. decided.yaml lists the wanted differences, each with its reason. `make unchanged WRITE=1`
makes the baselines anew; ONLY="specs grades" compares only these kinds.
"""

import argparse
import functools
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SHOWN_NAMES = 10
WORKERS = 2
PYTHON = ".venv/bin/python"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make the baselines anew")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        clone = copy_tracked_files(Path(folder))
        for kind in args.only:
            print(f"{kind} ...", flush=True)
            outcome = KINDS[kind](clone)
            if args.write:
                write(kind, outcome)
                print(f"{kind}: {len(outcome)} names written")
            else:
                differences += compare(kind, read(kind), outcome)
    if not args.write:
        differences += compare_demo()
    if differences:
        decisions = (HERE / "decided.yaml").relative_to(ROOT)
        sys.exit(f"{differences} undecided differences; undo them, or list them in {decisions}")


# --- baselines


def read(kind: str) -> dict[str, str]:
    with lzma.open(HERE / f"baseline/{kind}.xz", "rt", encoding="utf-8") as stream:
        return dict(line.rstrip("\n").split("\t") for line in stream)


def write(kind: str, outcome: dict[str, str]) -> None:
    (HERE / "baseline").mkdir(exist_ok=True)
    with lzma.open(HERE / f"baseline/{kind}.xz", "wt", preset=9, encoding="utf-8") as stream:
        stream.writelines(f"{name}\t{value}\n" for name, value in sorted(outcome.items()))


def compare(kind: str, before: dict[str, str], after: dict[str, str]) -> int:
    """Print and count the differences that decided.yaml does not list."""
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    differences = [
        *(("removed", name) for name in sorted(before.keys() - after.keys())),
        *(("added", name) for name in sorted(after.keys() - before.keys())),
        *(("changed", name) for name in sorted(changed)),
    ]
    decisions = [
        decision
        for decision in yaml.safe_load((HERE / "decided.yaml").read_text(encoding="utf-8")) or []
        if decision["kind"] == kind and decision["reason"]
    ]
    undecided = [
        (change, name)
        for change, name in differences
        if not any(
            decision["change"] == change and re.fullmatch(decision["name"], name)
            for decision in decisions
        )
    ]
    decided_count = len(differences) - len(undecided)
    print(f"{kind}: {len(after)} names, {len(undecided)} differ, {decided_count} differ as decided")
    for change, name in undecided[:SHOWN_NAMES]:
        values = f": {before[name]} -> {after[name]}" if change == "changed" else ""
        print(f"  {change}: {name}{values}")
    return len(undecided)


# --- outcomes


def copy_tracked_files(folder: Path) -> Path:
    """A copy of the files that git tracks or would add, with a link to the environment."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def call(clone: Path, *command: str, **variables: str) -> str:
    """The output of a program that runs in the copy."""
    environment = os.environ | {"PYTHONPATH": "src"} | variables
    result = subprocess.run(
        command,
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        sys.exit(f"{' '.join(command)[:300]} failed:\n{result.stdout[-3000:]}")
    return result.stdout


def plan(clone: Path, *arguments: str) -> list[dict]:
    """The jobs of a dry-run."""
    path = clone / f"{uuid.uuid4()}.jsonl"
    plugins = f"{clone}/scripts/plan/plugins"
    variables = {"HARDGRPO_PLAN": str(path), "PYTHONPATH": f"{plugins}:{clone}/src"}
    options = ["--profile", "laptop", "--logger", "plan", "-n"]
    call(clone, PYTHON, "-m", "snakemake", *arguments, *options, **variables)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@functools.cache
def plan_study(clone: Path, study: str) -> list[dict]:
    return plan(clone, "--config", f"study={study}")


def jobs(clone: Path) -> dict[str, str]:
    """{study and output: rule and wildcards} of the dry-runs of all studies and analyses"""
    paths = [*clone.glob("config/studies/*.yaml"), *clone.glob("config/analyses/*.yaml")]
    studies = [path.stem for path in paths]
    with ThreadPoolExecutor(WORKERS) as pool:
        plans = pool.map(functools.partial(plan_study, clone), studies)
        return {
            f"{study} {output}": f"{job['rule']} {json.dumps(job['wildcards'], sort_keys=True)}"
            for study, planned in zip(studies, plans)
            for job in planned
            for output in job["output"] or ["no output"]
        }


def from_library(kind: str):
    """A function that computes one kind of outcome with library.py."""

    def compute(clone: Path) -> dict[str, str]:
        output = call(clone, PYTHON, "tests/unchanged/library.py", kind)
        return json.loads(output.splitlines()[-1])

    return compute


@functools.cache
def draw(clone: Path) -> list[Path]:
    """Make all that is made from the committed results: the figures, tables and texts of the
    studies, and the paper. Return the files."""
    targets = {
        output
        for folder in (clone / "results/reference").iterdir()
        if folder.name != "all"
        for job in plan_study(clone, folder.name)
        for output in job["output"]
        if output.startswith("paper/") and not output.endswith("explorer.html")
    }
    planned = plan(clone, "paper", *sorted(targets), "--config", "draw=reference")
    path = clone / "planned.jsonl"
    path.write_text("".join(json.dumps(job) + "\n" for job in planned), encoding="utf-8")
    call(clone, PYTHON, "tests/unchanged/programs.py", path.name)
    outputs = [clone / output for job in planned for output in job["output"]]
    files = [output.rglob("*.*") if output.is_dir() else [output] for output in outputs]
    return sorted(path for paths in files for path in paths)


def shown(clone: Path) -> dict[str, str]:
    """{table, drawn rows of a figure, or text: hash}"""
    return {
        path.relative_to(clone).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in draw(clone)
        if path.suffix in (".csv", ".tex", ".html", ".md", ".txt")
    }


def texts(clone: Path) -> dict[str, str]:
    """{line of the paper or of a supplement: how often it is there}"""
    outcome = {}
    for path in draw(clone):
        if path.name in ("paper.pdf", "supplement.pdf"):
            text = call(clone, "pdftotext", "-raw", str(path), "-")
            lines = Counter(" ".join(line.split()) for line in text.splitlines())
            name = path.relative_to(clone).as_posix()
            outcome |= {f"{name}: {line}": str(count) for line, count in lines.items()}
    return outcome


def compare_demo() -> int:
    """Compare the summaries of a finished demo with the committed summaries."""
    computed = ROOT / "results/summaries/mini"
    if not computed.is_dir():
        print("demo: not compared, results/summaries/mini does not exist")
        return 0
    before, after = (
        {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            for path in folder.glob("*.csv")
            if len(path.read_text().splitlines()) > 1  # committed tables without rows have no file
        }
        for folder in (ROOT / "results/reference/mini", computed)
    )
    return compare("demo", before, after)


KINDS = {
    "jobs": jobs,
    "specs": from_library("specs"),
    "grades": from_library("grades"),
    "selections": from_library("selections"),
    "schedules": from_library("schedules"),
    "shown": shown,
    "texts": texts,
}


if __name__ == "__main__":
    main()
