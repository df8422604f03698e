"""A training on Slurm that is stopped by scancel, a job of higher priority, a time limit or a failed
node, or whose controller or Snakemake stops. At the end of a test, the files of the training equal those of an
undisturbed run, byte for byte."""

import json
import os
import re
import shutil
import signal
import time

import pytest

from conftest import OnSlurm, World, assert_same, results, shrink, until

pytestmark = pytest.mark.slurm
nightly = pytest.mark.nightly

RUN = "tiny/swaps/mini/random/seed0"
TARGET = f"results/training/{RUN}/updates.csv"
UPDATES, EVERY = 96, 16  # EVERY: updates between checkpoints


def study(config: dict) -> None:
    """Change the configuration to a small study whose model solves some problems before the
    training, and whose training takes long enough to be stopped."""
    shrink(config)
    config["models"]["tiny"]["source"]["steps"] = 400
    config["recipes"]["mini"].update(updates=UPDATES, checkpoint_every=EVERY)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> World:
    """A world in which the training and all earlier stages have finished without Slurm and without
    a fault. Tests must not change the world."""
    world = World(tmp_path_factory.mktemp("undisturbed") / "world")
    world.configure(study)
    world.clear()
    world.run(TARGET)
    files = results(world.folder, "training")
    assert sum(path.endswith(".safetensors") for path in files) == UPDATES // EVERY
    assert files[TARGET].count(b"\n") == UPDATES + 1
    return world


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


def state_of_first(run) -> str:
    return next((job["State"] for job in run.jobs()), "")


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


def assert_same_as_undisturbed(run, undisturbed, attempts: int, *states_left: str) -> None:
    """Assert that the files equal those of the undisturbed run, that there were `attempts` jobs,
    that the last of several jobs resumed the training, and that no folder of the run's state
    remains except one with a suffix of `states_left`."""
    assert_same(results(run.folder, "training"), results(undisturbed.folder, "training"))
    states = [job["State"].split()[0] for job in run.jobs()]
    assert len(states) == attempts and states[-1] == "COMPLETED", states
    record = json.loads((run.folder / f"results/training/{RUN}/provenance.json").read_text())
    assert (record["resumed_from"] > 0) == (attempts > 1), record["resumed_from"]
    assert {path.suffix for path in run.folder.glob("results/state/*")} <= {*states_left}


@nightly
def test_a_job_survives_a_controller_that_is_gone_for_40_seconds(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    slurm.kill("slurmctld")
    try:
        time.sleep(40)
        assert snakemake.poll() is None
    finally:
        slurm.start_controller()
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=1)


def test_a_cancelled_job_resumes(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    slurm.call("scancel", wait_for_checkpoint(slurm_run))
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert (
        "SIGTERM: training stops after this update and saves its state" in slurm_run.read_output()
    )
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


def hang(run) -> int:
    """Stop the training process, so that it does not finish before the fault. Return its id."""
    program = process_id(run)
    os.kill(program, signal.SIGSTOP)
    return program


@nightly
@pytest.mark.parametrize("fault", ["preempted", "at the time limit", "warned before the limit"])
def test_a_stopped_job_saves_its_state_and_its_retry_resumes(slurm_run, undisturbed, slurm, fault):
    """The program hangs until Slurm ends its job, or warns it by SIGTERM (up to a minute earlier
    than requested, here one to two minutes after the start), and then saves its state."""
    minutes = {"at the time limit": 1, "warned before the limit": 3}.get(fault, 10)
    warning = "'--signal=TERM@60'" if fault == "warned before the limit" else "''"
    resources = (f"runtime={minutes} if attempt == 1 else 10", f"slurm_extra={warning} if attempt == 1 else ''")  # fmt: skip
    changes = [f"train_grpo:{resource}" for resource in resources]
    snakemake = slurm_run.start(TARGET, "--set-resources", *changes)
    wait_for_checkpoint(slurm_run)
    program = hang(slurm_run)
    if fault == "preempted":  # Slurm sends SIGCONT before SIGTERM
        options = ("--parsable", "-p", "urgent", "-N", "2", "--exclusive", "-o", "/dev/null")
        urgent = slurm.call("sbatch", *options, "--wrap", "sleep 600")
        until(lambda: state_of_first(slurm_run) == "PREEMPTED", what="preemption")
        slurm.call("scancel", urgent.strip())
    if fault == "warned before the limit":
        until(lambda: warned_or_gone(program), what="the warning")
        if os.path.exists(f"/proc/{program}"):
            os.kill(program, signal.SIGCONT)
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    states = {"preempted": "PREEMPTED", "at the time limit": "TIMEOUT"}
    assert slurm_run.jobs()[0]["State"] == states.get(fault, "FAILED")
    assert re.search(r"stopped by SIGTERM after update \d+ of", slurm_run.read_output())
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


def warned_or_gone(pid: int) -> bool:
    """Whether SIGTERM is pending for a stopped process, or the process has continued and ended."""
    try:
        status = open(f"/proc/{pid}/status").read()
    except FileNotFoundError:
        return True
    masks = re.findall(r"(?:ShdPnd|SigPnd):\s*(\w+)", status)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)


@nightly
def test_a_job_of_a_failed_node_resumes_on_the_other_node(slurm_run, undisturbed, slurm):
    """The node's slurmd dies, but the job's processes continue. The second job, on the other node,
    is refused as long as the first trains the run; the third job resumes the training."""
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    node = until(lambda: slurm_run.jobs() and slurm_run.jobs()[0]["NodeList"])
    orphan = hang(slurm_run)
    slurm.kill(node)
    try:
        until(lambda: "NODE_FAIL" in state_of_first(slurm_run), what="the report of the failure")
        until(lambda: "is training this run" in log(slurm_run), what="the second job")
        os.kill(orphan, signal.SIGKILL)
        assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    finally:
        slurm.start_node(node)
    assert slurm_run.jobs()[1]["NodeList"] != node
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=3)


@nightly
def test_ctrl_c_cancels_the_job_and_the_next_snakemake_resumes_the_training(
    slurm_run, undisturbed, slurm
):
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    snakemake.send_signal(signal.SIGINT)
    assert slurm_run.finish(snakemake) != 0
    until(lambda: not slurm.running(), what="the end of the job")
    assert slurm_run.jobs()[0]["State"].startswith("CANCELLED")
    assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


def test_a_start_is_refused_while_jobs_of_a_killed_snakemake_run(slurm_run, undisturbed, slurm):
    """The job continues without a Snakemake. The next Snakemake names it and submits nothing; once
    the job is cancelled, the training is resumed."""
    snakemake = slurm_run.start(TARGET)
    job = wait_for_checkpoint(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    hang(slurm_run)
    assert slurm_run.run(TARGET) != 0 and "--unlock" in slurm_run.read_output()
    assert slurm_run.run("--unlock") == 0
    assert slurm_run.run(TARGET) != 0
    output = slurm_run.read_output()
    assert f"jobs of an earlier start in this folder still run: {job};" in output
    assert f"scancel {job}" in output and "Traceback" not in output and len(slurm_run.jobs()) == 1
    slurm.call("scancel", job)
    until(lambda: not slurm.running(), what="the end of the job")
    until(lambda: slurm_run.run(TARGET) == 0, what="the end of the processes of the job")
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


@nightly
def test_files_of_a_job_that_ends_after_its_snakemake_was_killed_are_accepted(
    slurm_run, undisturbed, slurm
):
    """The Snakemake within the job has marked the files as complete, so the next Snakemake accepts
    them."""
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    until(lambda: not slurm.running(), what="the end of the job")
    assert (slurm_run.folder / TARGET).exists()
    assert slurm_run.run("--unlock") == 0
    assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
    # The folder *.finished remains, because only a Snakemake that runs a job removes the folder.
    assert_same_as_undisturbed(slurm_run, undisturbed, 1, ".finished")
