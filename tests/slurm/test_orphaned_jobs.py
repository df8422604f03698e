"""A training on Slurm whose node fails, or whose Snakemake stops, while the job runs."""

import os
import signal

import pytest

from conftest import until
from slurm_training import (
    TARGET,
    assert_same_as_undisturbed,
    jobs,
    log,
    process_id,
    state_of_first,
    wait_for_checkpoint,
)

pytestmark = pytest.mark.slurm


def test_a_job_of_a_failed_node_resumes_on_the_other_node(slurm_run, undisturbed, slurm):
    """The node's slurmd dies, but the job's processes continue. Snakemake submits a second job,
    which runs on the other node and takes over the training."""
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
        until(lambda: "received SIGTERM" in log(slurm_run), what="the second job")
        os.kill(orphan, signal.SIGCONT)
        assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    finally:
        slurm.start_node(node)
    assert jobs(slurm_run)[1]["NodeList"] != node
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


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


def test_a_second_job_stops_the_job_of_a_killed_snakemake_and_resumes_its_training(
    slurm_run, undisturbed, slurm
):
    """The job continues without a Snakemake. After --unlock, the next Snakemake submits its own
    job, which asks the orphaned job to save its state and stop."""
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    # the job must not finish before the second job starts
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    orphan = process_id(slurm_run)
    assert slurm_run.run(TARGET) != 0 and "--unlock" in slurm_run.read_output()
    assert slurm_run.run("--unlock") == 0
    second_snakemake = slurm_run.start(TARGET)
    until(lambda: "received SIGTERM" in log(slurm_run), what="the second job")
    assert not [line for line in log(slurm_run).splitlines() if line.startswith("error")]
    os.kill(orphan, signal.SIGCONT)
    assert slurm_run.finish(second_snakemake) == 0, slurm_run.read_output()
    assert sorted(job["State"] for job in jobs(slurm_run)) == ["COMPLETED", "FAILED"]
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


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
