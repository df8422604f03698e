"""A training on Slurm for tests that stop the training. At the end of a test, the files of the
training must equal those of an undisturbed run, byte for byte."""

import json
import re
import shutil

import pytest

from conftest import OnSlurm, World, assert_same, one_worker_at_a_time, results, shrink, until

RUN = "tiny/swaps/mini/random/seed0"
TARGET = f"results/training/{RUN}/updates.csv"
UPDATES, EVERY = 96, 16  # EVERY: updates between checkpoints


def study(config: dict) -> None:
    """Change the configuration to a small study whose model solves some problems before the
    training, and whose training takes long enough to be stopped."""
    shrink(config)
    config["models"]["tiny"]["source"]["steps"] = 400
    config["recipes"]["mini"].update(updates=UPDATES, checkpoint_every=EVERY)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> World:
    """A world in which the training and all earlier stages have finished without Slurm and without
    a fault. The first worker that needs the world makes it. Tests must not change the world."""
    with one_worker_at_a_time(tmp_path_factory, "undisturbed") as folder:
        if not (folder / "done").exists():
            world = World(folder / "world")
            world.configure(study)
            world.clear()
            done = world.snakemake(TARGET)
            assert done.returncode == 0, done.stdout + done.stderr
            files = results(world.folder, "training")
            assert sum(path.endswith(".safetensors") for path in files) == UPDATES // EVERY
            assert files[TARGET].count(b"\n") == UPDATES + 1
            (folder / "done").touch()
    return World.at(folder / "world")


@pytest.fixture
def slurm_run(undisturbed, slurm, tmp_path):
    """A world on Slurm that contains the results of all stages before the training."""
    world = undisturbed.copy(tmp_path / "world")
    shutil.rmtree(world.folder / "results/training")
    shutil.rmtree(world.folder / "results/logs")
    run = OnSlurm(world, slurm)
    yield run
    run.stop()
    slurm.clear()


def jobs(run) -> list[dict]:
    """The Slurm jobs of this test in the accounting database."""
    return [job for job in run.cluster.jobs() if job["WorkDir"] == str(run.folder)]


def state_of_first(run) -> str:
    return next((job["State"] for job in jobs(run)), "")


def log(run) -> str:
    path = run.folder / f"results/logs/train_grpo/{RUN}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def wait_for_checkpoint(run) -> str:
    """Wait until the training has written its first checkpoint. Return the id of the Slurm job."""
    first_checkpoint = f"results/state/*/checkpoint-{EVERY}"
    until(lambda: list(run.folder.glob(first_checkpoint)), what="the first checkpoint")
    (job,) = run.cluster.running()
    return job


def process_id(run) -> int:
    """The id of the training process, read from the lock of the run's state."""
    (lock,) = run.folder.glob("results/state/*/lock")
    return int(re.match(r"process (\d+)", lock.read_text())[1])


def assert_same_as_undisturbed(
    run, undisturbed, attempts: int, state_suffix: str | None = None
) -> None:
    """Assert that the files equal those of the undisturbed run, that there were `attempts` jobs,
    that the last of several jobs resumed the training, and that no folder of the run's state
    remains except one with the suffix `state_suffix`."""
    assert_same(results(run.folder, "training"), results(undisturbed.folder, "training"))
    states = [job["State"].split()[0] for job in jobs(run)]
    assert len(states) == attempts and states[-1] == "COMPLETED", states
    record = json.loads((run.folder / f"results/training/{RUN}/provenance.json").read_text())
    assert (record["resumed_from"] > 0) == (attempts > 1), record["resumed_from"]
    suffixes = [path.suffix for path in run.folder.glob("results/state/*")]
    assert suffixes in ([], [state_suffix]), f"suffixes of the remaining state folders: {suffixes}"
