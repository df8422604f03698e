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
