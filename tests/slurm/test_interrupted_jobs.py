"""A training on Slurm that is stopped by scancel, a full disk, a job of higher priority, a time
limit or a failed node, or whose controller or Snakemake stops. At the end of a test, the files of
the training equal those of an undisturbed run, byte for byte."""

import json
import os
import re
import shutil
import signal
import subprocess
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


@nightly
def test_a_job_preempted_by_a_more_urgent_job_resumes(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    # the job must not finish before it is preempted; Slurm sends SIGCONT before SIGTERM
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    options = ("--parsable", "-p", "urgent", "-N", "2", "--exclusive", "-o", "/dev/null")
    urgent = slurm.call("sbatch", *options, "--wrap", "sleep 600")
    until(lambda: state_of_first(slurm_run) == "PREEMPTED", what="preemption")
    slurm.call("scancel", urgent.strip())
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert re.search(r"stopped by SIGTERM after update \d+ of", slurm_run.read_output())
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


@nightly
def test_a_job_that_hangs_until_its_time_limit_resumes(slurm_run, undisturbed, slurm):
    """SIGSTOP makes the program hang until Slurm ends the job at the time limit of one minute. The
    program saves its state between Slurm's SIGTERM and SIGKILL."""
    snakemake = slurm_run.start(
        TARGET,
        "--set-resources",
        "train_grpo:runtime=1 if attempt == 1 else 10",
        "train_grpo:slurm_extra=''",
    )
    wait_for_checkpoint(slurm_run)
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert jobs(slurm_run)[0]["State"] == "TIMEOUT"
    assert re.search(r"stopped by SIGTERM after update \d+ of", slurm_run.read_output())
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


@nightly
def test_a_job_that_is_warned_before_its_time_limit_resumes(slurm_run, undisturbed, slurm):
    """Before the time limit, Slurm sends SIGTERM to the job's steps, which run the training. The
    job saves its state and ends, and the next attempt resumes the training. Slurm sends the signal
    up to a minute earlier than requested, here one to two minutes after the start."""
    warned = "train_grpo:slurm_extra='--signal=TERM@60' if attempt == 1 else ''"
    snakemake = slurm_run.start(
        TARGET, "--set-resources", "train_grpo:runtime=3 if attempt == 1 else 10", warned
    )
    wait_for_checkpoint(slurm_run)
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    program = process_id(slurm_run)
    until(lambda: warned_or_gone(program), what="the warning")
    if os.path.exists(f"/proc/{program}"):
        os.kill(program, signal.SIGCONT)
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert jobs(slurm_run)[0]["State"] == "FAILED", "the job ended at its time limit (TIMEOUT)"
    assert re.search(r"stopped by SIGTERM after update \d+ of", slurm_run.read_output())
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


def warned_or_gone(pid: int) -> bool:
    """Whether SIGTERM is pending for a stopped process, or the process has continued and ended."""
    try:
        status = open(f"/proc/{pid}/status").read()
    except FileNotFoundError:
        return True
    return any(
        int(mask, 16) >> (signal.SIGTERM - 1) & 1
        for mask in re.findall(r"(?:ShdPnd|SigPnd):\s*(\w+)", status)
    )


@nightly
def test_a_job_of_a_failed_node_resumes_on_the_other_node(slurm_run, undisturbed, slurm):
    """The node's slurmd dies, but the job's processes continue. The second job, on the other node,
    is refused as long as the first trains the run; the third job resumes the training."""
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    node = until(lambda: jobs(slurm_run) and jobs(slurm_run)[0]["NodeList"])
    # the job must not finish before the second job starts
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    orphan = process_id(slurm_run)
    slurm.kill(node)
    try:
        until(
            lambda: "NODE_FAIL" in state_of_first(slurm_run), what="Slurm's report of the failure"
        )
        until(lambda: "is training this run" in log(slurm_run), what="the second job")
        os.kill(orphan, signal.SIGKILL)
        assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    finally:
        slurm.start_node(node)
    assert jobs(slurm_run)[1]["NodeList"] != node
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
    assert jobs(slurm_run)[0]["State"].startswith("CANCELLED")
    assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


def test_a_start_is_refused_while_jobs_of_a_killed_snakemake_run(slurm_run, undisturbed, slurm):
    """The job continues without a Snakemake. The next Snakemake names it and submits nothing; once
    the job is cancelled, the training is resumed."""
    snakemake = slurm_run.start(TARGET)
    job = wait_for_checkpoint(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    # the job must not finish before the second start
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    assert slurm_run.run(TARGET) != 0 and "--unlock" in slurm_run.read_output()
    assert slurm_run.run("--unlock") == 0
    assert slurm_run.run(TARGET) != 0
    assert f"jobs of an earlier start in this folder still run: {job};" in slurm_run.read_output()
    assert f"scancel {job}" in slurm_run.read_output()
    assert "Traceback" not in slurm_run.read_output() and len(jobs(slurm_run)) == 1
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
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=1, state_suffix=".finished")


@nightly
def test_a_training_stopped_by_a_full_disk_resumes(slurm_run, undisturbed, slurm):
    """The state is on a separate disk that becomes full. When the disk has free space again, the
    same command resumes the training."""
    state = slurm_run.folder / "results/state"
    state.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", state], check=True)
    try:
        assert slurm_run.run(TARGET, "--retries", "0") != 0
        errors = [line for line in log(slurm_run).splitlines() if line.startswith("error")]
        assert len(errors) == 1 and re.match(
            "error: the disk is full.*: free some space and run the same command again", errors[0]
        ), log(slurm_run)
        assert "Traceback" not in log(slurm_run)
        subprocess.run(["mount", "-o", "remount,size=100M", state], check=True)
        assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
        assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)
    finally:
        slurm.clear()
        subprocess.run(["umount", "-l", state], check=True)
