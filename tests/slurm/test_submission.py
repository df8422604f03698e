"""A Slurm that limits a user, accepts no further job, or has no accounting: errors before any
submission, jobs that wait, and how Snakemake learns the states of jobs."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from conftest import OnSlurm, World, until

pytestmark = pytest.mark.slurm

PROBE = "results/probe/tiny/swaps/shard0.jsonl.gz"


def on_slurm(world: World, cluster: slurm_cluster.Cluster) -> Iterator[OnSlurm]:
    """A copy of the finished study on Slurm, without the files of the probe."""
    run = OnSlurm(world, cluster)
    shutil.rmtree(run.folder / "results/probe")
    yield run
    run.stop()
    cluster.clear()


@pytest.fixture
def run(finished, slurm):
    yield from on_slurm(finished, slurm)


@pytest.fixture
def limits(slurm):
    """A function that sets limits of the cluster's accounting until the test ends, such as
    `limits("qos", "normal", "MaxWall=00:05:00")`."""
    changed = []

    def modify(*words: str) -> None:
        changed.append(words)
        slurm.call("sacctmgr", "-i", "modify", words[0], words[1], "set", *words[2:])

    yield modify
    for kind, name, *settings in changed.copy():
        modify(kind, name, *(f"{setting.rpartition('=')[0]}=-1" for setting in settings))


def submit_sleeping_jobs(slurm, count: int) -> list[str]:
    """Submit `count` jobs of the user who runs Snakemake, so that they occupy places in the
    queue."""
    call = (
        "sbatch",
        "--parsable",
        "-A",
        slurm_cluster.ACCOUNT,
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 900",
    )
    return [slurm.call(*call).strip() for _ in range(count)]


def jobs_of_run(run) -> list[dict]:
    return [job for job in run.cluster.jobs() if job["WorkDir"] == str(run.folder)]


def test_a_limit_that_slurm_denies_is_reported_before_anything_is_submitted(run, limits):
    limits("qos", "normal", "Flags=DenyOnLimit", "MaxWall=00:05:00")
    assert run.run(PROBE) != 0
    output = run.read_output()
    assert re.search(
        r"^rule probe: QOSMaxWallDurationPerJobLimit.*runtime=\d+", output, re.MULTILINE
    )
    assert "Traceback" not in output and not jobs_of_run(run)


def test_a_submission_that_slurm_refuses_for_now_does_not_count_as_a_failed_attempt(
    run, slurm, limits
):
    """The user's other jobs leave no room for this job."""
    other_jobs = submit_sleeping_jobs(slurm, 2)
    limits("user", "root", "MaxSubmitJobs=2")
    snakemake = run.start(PROBE)
    until(lambda: is_waiting(run), what="the refusal")
    time.sleep(25)  # the job is refused more than once
    assert snakemake.poll() is None
    slurm.call("scancel", *other_jobs)
    assert run.finish(snakemake) == 0, run.read_output()
    output = run.read_output()
    assert (
        "Trying to restart" not in output
        and "Error in rule" not in output
        and output.count("Slurm takes no job of rule probe at present: AssocMaxSubmitJobLimit") == 1
    )
    (job,) = jobs_of_run(run)
    assert job["State"] == "COMPLETED" and f"up to {job['TimelimitRaw']} min" in output, (
        "the walltime increased, although no attempt failed"
    )


def is_waiting(run) -> bool:
    log = run.folder / "results/logs/slurm/waiting.log"
    return log.exists() and "AssocMaxSubmitJobLimit" in log.read_text()


def test_ctrl_c_while_a_job_waits_prevents_its_submission(run, slurm, limits):
    submit_sleeping_jobs(slurm, 2)
    limits("user", "root", "MaxSubmitJobs=2")
    snakemake = run.start(PROBE)
    until(lambda: is_waiting(run), what="the refusal")
    os.killpg(snakemake.pid, signal.SIGINT)  # as the terminal does
    assert run.finish(snakemake) != 0
    slurm.clear()
    assert not jobs_of_run(run) and "Trying to restart" not in run.read_output()
    assert "interrupted before Slurm accepted the job" in run.read_output()


def test_a_submission_that_slurm_refuses_for_good_is_tried_once(run):
    assert run.run(PROBE, "--set-resources", "probe:slurm_extra='--licenses=none_of_these'") != 0
    assert (
        run.read_output().count("Invalid license specification") == 1
        and "Trying to restart" not in run.read_output()
    )


# --- without accounting


@pytest.fixture(scope="module")
def plain():
    """A Slurm without slurmdbd."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = slurm_cluster.Cluster(folder, accounting=False)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def configure(cluster, **values) -> None:
    """Change slurm.conf."""
    path = cluster.base / "slurm.conf"
    lines = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in values]
    path.write_text(
        "\n".join([*lines, *(f"{name}={value}" for name, value in values.items())]) + "\n"
    )
    cluster.call("scontrol", "reconfigure")


@pytest.fixture
def unaccounted(finished, plain):
    yield from on_slurm(finished, plain)


def test_without_accounting_squeue_shows_when_jobs_end(unaccounted, finished_world, plain):
    """squeue also shows that the first job was cancelled, and Snakemake submits the job again."""
    snakemake = unaccounted.start(
        PROBE, "--set-resources", "probe:slurm_extra='--hold' if attempt == 1 else ''"
    )
    (job,) = until(plain.running, what="the job")
    plain.call("scancel", job)
    assert unaccounted.finish(snakemake) == 0, unaccounted.read_output()
    assert "The states of jobs come from squeue" in unaccounted.read_output()
    assert unaccounted.read_output().count("has been submitted") == 2
    assert (unaccounted.folder / PROBE).read_bytes() == (finished_world.folder / PROBE).read_bytes()


def test_a_squeue_that_forgets_jobs_too_soon_is_reported(unaccounted, plain):
    configure(plain, MinJobAge=60)
    try:
        assert unaccounted.run(PROBE) != 0
    finally:
        configure(plain, MinJobAge=3600)
    output = unaccounted.read_output()
    assert (
        "squeue forgets a job 60 s after" in output
        and "MinJobAge=200" in output
        and "has been submitted" not in output
    )
