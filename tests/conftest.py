"""Small worlds for tests: a copy of the project in a temporary folder, with a configuration small enough for seconds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

settings.register_profile("busy", deadline=None)  # a machine under load is no counterexample
settings.load_profile("busy")

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
PARTS = [
    "Snakefile",
    "config.yaml",
    "rules",
    "scripts",
    "laptop",
    "slurm",
    "envs",
    "inputs.lock",
    "paper/main.tex",
    "paper/references.bib",
    "results/summaries",
]
RECORDINGS = os.environ.get("HARDGRPO_DATA")
VLLM = os.environ.get("HARDGRPO_VLLM_PYTHON") or next(
    (str(path) for name in (".venv-gpu", ".venv-vllm-cpu") if (path := ROOT / name / "bin/python").exists()), None
)
if VLLM:
    os.environ["HARDGRPO_VLLM_PYTHON"] = VLLM  # also for the copies of the project that tests work in
TEX = shutil.which("latexmk") or shutil.which("tectonic")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def pytest_report_header(config):
    return [
        f"recordings: {RECORDINGS or 'none; set HARDGRPO_DATA to the folder that holds recordings/ to run the tests on real ones'}",
        f"vLLM: {VLLM or 'none; make vllm-cpu for the tests of vLLM'}",
        f"Chromium: {CHROMIUM or 'none; install chromium to open the pages that are made in it'}",
        f"TeX: {TEX or 'none; install latexmk and TeX Live to compile the paper in the tests'}",
    ]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("recordings") and not RECORDINGS:
            item.add_marker(pytest.mark.skip(reason="HARDGRPO_DATA does not name a folder of recordings"))
        if item.get_closest_marker("vllm") and not VLLM:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed (make vllm-cpu)"))
        if item.get_closest_marker("chromium") and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason="Chromium is not installed"))
        if item.get_closest_marker("tex") and not TEX:
            item.add_marker(pytest.mark.skip(reason="neither latexmk nor tectonic is installed"))


class World:
    """A copy of the project whose study is the miniature. `snakemake` runs in it; `plan` gives the jobs of a dry-run by rule."""

    def __init__(self, folder: Path):
        self.folder = folder
        for part in PARTS:
            source, target = ROOT / part, folder / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            elif source.exists():
                shutil.copy2(source, target)
        self.edit("config.yaml", lambda text: text.replace("study: paper", "study: mini", 1))

    def edit(self, name: str, change) -> None:
        """Rewrite a file: `change` takes and returns its text."""
        path = self.folder / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    def configure(self, change) -> None:
        """Change config.yaml as a dictionary, in place."""
        path = self.folder / "config.yaml"
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        change(config)
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def snakemake(self, *arguments: str, profile: str = "laptop", env: dict | None = None) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "snakemake", "--profile", profile, *(["--cores", "2"] if profile == "laptop" else [])]
        command += arguments
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env=os.environ | (env or {}), check=False)

    def plan(self, *arguments: str, profile: str = "laptop") -> dict[str, int]:
        done = self.snakemake("-n", *arguments, profile=profile)
        assert done.returncode == 0, done.stdout + done.stderr
        table = re.search(r"\njob +count\n[- ]+\n(.*?)\ntotal +\d+", done.stdout + done.stderr, re.DOTALL)
        return (
            {}
            if table is None
            else {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table.group(1), re.MULTILINE)}
        )


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "world")


def shrink(config: dict) -> None:
    """The miniature in seconds: one task and its harder twin, a model that learns nothing, two policies, one seed."""
    for name, task in config["tasks"].items():
        source = task["source"]
        if source["kind"] == "generated":
            source.update(train=24 if source["train"] else 0, test=8)
            task["probe"].update(samples=3, shards=2 if name == "swaps" else 1)
            task["test"].update(samples=2)
    config["models"]["tiny"]["source"].update(
        hidden_size=32, intermediate_size=64, heads=2, key_value_heads=2, head_size=32, layers=2, steps=40, batch_size=16
    )
    config["recipes"]["mini"].update(updates=4, prompts_per_update=3, group_size=4, checkpoint_every=2)
    config["policies"]["hard"]["budget"] = config["policies"]["random"]["budget"] = 0.25
    config["studies"]["mini"].update(
        tasks=["swaps"],
        policies=["hard", "random"],
        seeds=[0],
        also_tested_on={"swaps": ["swaps_hard"]},
        weaker_signal=["swaps"],
    )


@pytest.fixture(scope="session")
def finished_world(tmp_path_factory) -> World:
    """A small study, really pretrained, probed, trained, evaluated and drawn. Not to be changed: see `finished`."""
    world = World(tmp_path_factory.mktemp("finished") / "world")
    world.configure(shrink)
    shutil.rmtree(world.folder / "results", ignore_errors=True)
    world.first_run = world.snakemake()
    assert world.first_run.returncode == 0, world.first_run.stdout[-5000:] + world.first_run.stderr[-5000:]
    return world


@pytest.fixture
def finished(finished_world, tmp_path) -> World:
    """A copy of the finished study that a test may change; times of files are kept."""
    copy = object.__new__(World)
    copy.folder = tmp_path / "world"
    shutil.copytree(finished_world.folder, copy.folder, symlinks=True)
    return copy
