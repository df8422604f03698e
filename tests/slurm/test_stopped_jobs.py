"""A training on Slurm finishes even if the controller is down for a while, or if Slurm ends its
job: by scancel, for a job of higher priority, or at the time limit."""

import os
import re
import signal
import time

import pytest

from conftest import until
from slurm_training import (
    TARGET,
    assert_same_as_undisturbed,
    jobs,
    process_id,
    state_of_first,
    wait_for_checkpoint,
)

pytestmark = pytest.mark.slurm


def test_a_job_survives_a_controller_that_is_gone_for_40_seconds(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    slurm.kill("slurmctld")
    time.sleep(40)
    assert snakemake.poll() is None
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


def test_a_job_preempted_by_a_more_urgent_job_resumes(slurm_run, undisturbed, slurm):
    snakemake = slurm_run.start(TARGET)
    wait_for_checkpoint(slurm_run)
    # the job must not finish before it is preempted; Slurm sends SIGCONT before SIGTERM
    os.kill(process_id(slurm_run), signal.SIGSTOP)
    urgent = slurm.call(
        "sbatch",
        "--parsable",
        "-p",
        "urgent",
        "-N",
        "2",
        "--exclusive",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 600",
    )
    until(lambda: state_of_first(slurm_run) == "PREEMPTED", what="preemption")
    slurm.call("scancel", urgent.strip())
    assert slurm_run.finish(snakemake) == 0, slurm_run.read_output()
    assert re.search(r"stopped by SIGTERM after update \d+ of", slurm_run.read_output())
    assert_same_as_undisturbed(slurm_run, undisturbed, attempts=2)


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
