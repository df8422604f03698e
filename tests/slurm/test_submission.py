"""A Slurm that limits a user, accepts no further job, or has no accounting: errors before any
submission, jobs that wait, and how Snakemake learns the states of jobs."""

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


def test_limits_are_reported_before_anything_is_submitted(run, slurm, limits):
    """The user, the QOS and the partition have limits. The test also sets options in slurm_extra
    that Snakemake sets itself; the check refuses these options."""
    limits("user", "root", "MaxSubmitJobs=1")
    limits("qos", "normal", "MaxWall=00:05:00", "MaxTRESPerJob=gres/gpu=0")
    slurm.call("scontrol", "update", "partitionname=gpu", "MaxMemPerNode=1500", "MaxCPUsPerNode=2")
    try:
        extra = "probe:slurm_extra='--gres=gpu:1 --account=other --output x'"
        assert run.run(PROBE, PROBE.replace("shard0", "shard1"), "--set-resources", extra) != 0
    finally:
        slurm.call(
            "scontrol", "update", "partitionname=gpu", "MaxMemPerNode=0", "MaxCPUsPerNode=UNLIMITED"
        )
    output = run.read_output()
    for line in (
        r"jobs: 2 jobs requested in the queue at the same time, at most 1 allowed by account study; set jobs: 1 in slurm/config.yaml",
        r"rule probe: runtime: \d+ min requested, at most 5 allowed by QOS normal; set longest_runtime: 5",
        r"rule probe: gpu: 1 GPUs requested, at most 0 allowed by QOS normal",
        r"rule probe: mem_mb: 64000 MB requested on one node, at most 1500 in partition gpu",
        r"rule probe: cpus_per_task: 4 CPUs requested on one node, at most 2 in partition gpu",
        r"slurm_extra: '--gres' cannot be set there.*; write gpu_name in slurm/config.yaml",
        r"slurm_extra: '--account' cannot be set there.*; write slurm_account in slurm/config.yaml",
        r"slurm_extra: '--output' cannot be set there.*; leave it out",
    ):
        assert re.search(f"^{line}", output, re.MULTILINE), (line, output)
    assert "Traceback" not in output and not jobs_of_run(run)


def test_a_submission_that_slurm_refuses_for_now_does_not_count_as_a_failed_attempt(
    run, slurm, limits
):
    """The user's other jobs leave no room for this job."""
    other_jobs = submit_sleeping_jobs(slurm, 2)
    limits("user", "root", "MaxSubmitJobs=2")
    snakemake = run.start(PROBE)
    until(
        lambda: (
            "Slurm takes no further job at present (AssocMaxSubmitJobLimit" in run.read_output()
        ),
        what="the refusal",
    )
    time.sleep(7)  # the job is refused more than once
    slurm.call("scancel", *other_jobs)
    assert run.finish(snakemake) == 0, run.read_output()
    output = run.read_output()
    assert (
        "Trying to restart" not in output
        and "Error in rule" not in output
        and output.count("Slurm takes no further job") == 1
    )
    (job,) = jobs_of_run(run)
    assert job["State"] == "COMPLETED" and f"up to {job['TimelimitRaw']} min" in output, (
        "the walltime increased, although no attempt failed"
    )


def test_ctrl_c_while_a_job_waits_prevents_its_submission(run, slurm, limits):
    submit_sleeping_jobs(slurm, 2)
    limits("user", "root", "MaxSubmitJobs=2")
    snakemake = run.start(PROBE)
    until(lambda: "Slurm takes no further job at present" in run.read_output(), what="the refusal")
    snakemake.send_signal(signal.SIGINT)
    assert run.finish(snakemake) != 0
    slurm.clear()
    assert not jobs_of_run(run) and "Error in rule" not in run.read_output()


def test_a_submission_that_slurm_refuses_for_good_is_tried_once(run):
    assert run.run(PROBE, "--set-resources", "probe:slurm_extra='--licenses=none_of_these'") != 0
    assert (
        run.read_output().count("Invalid license specification") == 1
        and "Trying to restart" not in run.read_output()
    )


# --- without accounting


@pytest.fixture(scope="module")
def plain():
    """A Slurm without slurmdbd and without job arrays."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = slurm_cluster.Cluster(folder, accounting=False)
    try:
        cluster.start()
        configure(cluster, MaxArraySize=0)
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
