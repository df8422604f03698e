"""A training on Slurm whose node or whose Snakemake ends before its job does."""

import os
import signal

import pytest

from conftest import until
from slurm_training import TARGET, check, jobs, log, process, state_of_first, under_way

pytestmark = pytest.mark.slurm


def test_a_node_that_fails(slurm_run, undisturbed, slurm):
    """Its slurmd dies and the job's processes live on, unseen: the job is submitted again, to the
    other node, and takes over."""
    snakemake = slurm_run.start(TARGET)
    under_way(slurm_run)
    node = until(lambda: jobs(slurm_run) and jobs(slurm_run)[0]["NodeList"])
    os.kill(process(slurm_run), signal.SIGSTOP)  # it must not finish before Slurm has noticed
    orphan = process(slurm_run)
    slurm.kill(node)
    try:
        until(lambda: "NODE_FAIL" in state_of_first(slurm_run), what="Slurm's notice")
        os.kill(orphan, signal.SIGCONT)
        assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    finally:
        slurm.start_node(node)
    assert jobs(slurm_run)[1]["NodeList"] != node
    check(slurm_run, undisturbed, attempts=2)


def test_ctrl_c_cancels_the_jobs_and_the_next_start_goes_on(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    under_way(slurm_run)
    snakemake.send_signal(signal.SIGINT)
    assert slurm_run.finish(snakemake) != 0
    until(lambda: not slurm.running(), what="the end of the job")
    assert jobs(slurm_run)[0]["State"].startswith("CANCELLED")
    assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
    check(slurm_run, undisturbed, attempts=2)


def test_a_killed_snakemake_and_its_orphan(slurm_run, undisturbed, slurm):
    """The job runs on without a Snakemake. The next one, after --unlock, starts its own, which asks
    the orphan to save and stop."""
    snakemake = slurm_run.start(TARGET)
    under_way(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    os.kill(process(slurm_run), signal.SIGSTOP)  # it must not finish before the second job is there
    orphan = process(slurm_run)
    assert slurm_run.run(TARGET) != 0 and "--unlock" in slurm_run.read_output()
    assert slurm_run.run("--unlock") == 0
    second_snakemake = slurm_run.start(TARGET)
    until(lambda: "asked it to stop (SIGTERM)" in log(slurm_run), what="the second job")
    assert not [line for line in log(slurm_run).splitlines() if line.startswith("error")]
    os.kill(orphan, signal.SIGCONT)
    assert slurm_run.finish(second_snakemake) == 0, slurm_run.read_output()
    assert sorted(job["State"] for job in jobs(slurm_run)) == ["COMPLETED", "FAILED"]
    check(slurm_run, undisturbed, attempts=2)


def test_a_job_that_finishes_after_its_snakemake_was_killed(slurm_run, undisturbed, slurm):
    """The Snakemake within the job has marked its files as whole: the next one takes them as they
    are."""
    snakemake = slurm_run.start(TARGET)
    under_way(slurm_run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    until(lambda: not slurm.running(), what="the end of the job")
    assert (slurm_run.folder / TARGET).exists()
    assert slurm_run.run("--unlock") == 0
    assert slurm_run.run(TARGET) == 0, slurm_run.read_output()
    # until a Snakemake that has something to do removes it
    check(slurm_run, undisturbed, attempts=1, state_suffix=".finished")
