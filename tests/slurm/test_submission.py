"""A study on Slurm: equal bytes, requests that the cluster cannot fulfil, limits of a user, jobs
that wait, and how Snakemake learns the states of jobs without accounting."""

import collections
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator

import pytest

import slurm_cluster
from conftest import OnSlurm, World, assert_same, results, shrink, until

pytestmark = pytest.mark.slurm
nightly = pytest.mark.nightly

PROBE = "results/probe/tiny/swaps/shard0.jsonl.gz"
PARTS = ("probe", "difficulty", "subsets", "evaluation", "training", "tasks")


@pytest.fixture
def new_study(world, slurm):
    """A world on Slurm without results."""
    world.configure(shrink)
    world.clear()
    run = OnSlurm(world, slurm)
    yield run
    run.stop()
    slurm.clear()


def test_a_study_gives_equal_bytes_with_and_without_slurm(new_study, finished_world):
    """Each rule that asks for a GPU runs at least once."""
    done = results(finished_world.folder, *PARTS)
    targets = [path for path in done if path.endswith("swaps.csv.gz") and "/random/" not in path]
    assert new_study.run(*targets) == 0, new_study.read_output()
    files = results(new_study.folder, *PARTS)
    assert set(targets) <= files.keys()
    assert_same(files, {path: done[path] for path in files})
    by_rule = collections.defaultdict(list)
    for job in new_study.jobs():
        by_rule[re.match(r"rule_(.*?)(_wildcards|$)", job["Comment"])[1]].append(job)
    assert {rule: len(jobs) for rule, jobs in by_rule.items()} == {
        "pretrain_model": 1, "probe": 2, "evaluate_base": 1, "sample_reach": 1, "train_grpo": 1,
        "evaluate_run": 1,
    }  # fmt: skip
    for rule, jobs in by_rule.items():
        gpu = rule != "pretrain_model"
        expected = ("COMPLETED", "gpu" if gpu else "cpu", gpu)
        for job in jobs:
            state = (job["State"], job["Partition"], "gres/gpu=1" in job["AllocTRES"])
            assert state == expected, job
    log = next((new_study.folder / "results/logs/train_grpo").rglob("*.log")).read_text()
    assert "rehearsal: 1 GPUs granted, the CPU does the work" in log


UNAVAILABLE = ".*Requested node configuration is not available .*"
REFUSED = {  # (changes to the profile's section for the cluster, {resource: words of the error})
    "more than a node has, and an option that Snakemake sets itself": ({}, {
        "train_grpo:gpu=3": f"rule train_grpo: {UNAVAILABLE}gpu=3, gpu_model=nvidia_fake_80gb",
        "evaluate_run:mem_mb=999999": f"rule evaluate_run: {UNAVAILABLE}mem_mb=999999",
        "pretrain_model:cpus_per_task=64":
            "rule pretrain_model: .*More processors requested than permitted .*cpus_per_task=64",
        "evaluate_base:runtime=9999":
            "rule evaluate_base: .*Requested time limit is invalid .*runtime=9999",
        "probe:slurm_extra='--gres=gpu:1'":
            "rule probe: .*not allowed in the 'slurm_extra' parameter.*slurm_extra=--gres=gpu:1",
    }),
    "a kind of GPU that no node has": (
        {"gpu_name": "h100"}, {"": f"rule probe: {UNAVAILABLE}gpu_model=h100"}),
    "a name of a GPU with a dash": (
        {"gpu_name": "a100-sxm4"}, {"": "rule probe: Invalid GPU model format: a100-sxm4"}),
    "a missing partition": (
        {"gpu_partition": "gpus"},
        {"": "rule train_grpo: .*Invalid partition name specified .*slurm_partition=gpus"}),
    "an account that the user does not have": (
        {"slurm_account": "stduy"},
        {"": "rule train_grpo: The given account stduy appears to be invalid. Available accounts: "
             "(root, study|study, root) .*slurm_account=stduy"}),
}  # fmt: skip
FIRST, *OTHERS = REFUSED


@pytest.mark.parametrize("case", [FIRST, *(pytest.param(name, marks=nightly) for name in OTHERS)])
def test_requests_that_the_cluster_cannot_fulfil_are_reported_before_anything_is_submitted(
    case, new_study, slurm
):
    """Each rule is named with Slurm's reason."""
    site, refused = REFUSED[case]
    new_study.site(**site)
    resources = list(filter(None, refused))
    assert new_study.run(*(["--set-resources", *resources] if resources else [])) != 0
    output = new_study.read_output()
    for line in refused.values():
        assert len(re.findall(f"^{line}", output, re.MULTILINE)) == 1, output
    assert "slurm/config.yaml" in output and "--set-resources" in output
    assert "Traceback" not in output and "has been submitted" not in output
    assert not new_study.jobs() and not slurm.running()
    assert not list((new_study.folder / "results/tasks").glob("*")), "a job ran locally"


def test_a_missing_slurm_is_reported(new_study, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "which", "uname"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    assert new_study.run(PATH=str(tools)) != 0
    message = "profile slurm: Slurm is not on this machine (no sbatch); run on a login node"
    assert message in new_study.read_output()


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
    options = ("--parsable", "-A", slurm_cluster.ACCOUNT, "-o", "/dev/null")
    return [slurm.call("sbatch", *options, "--wrap", "sleep 900").strip() for _ in range(count)]


def test_a_limit_that_slurm_denies_is_reported_before_anything_is_submitted(run, limits):
    limits("qos", "normal", "Flags=DenyOnLimit", "MaxWall=00:05:00")
    assert run.run(PROBE) != 0
    output = run.read_output()
    assert re.search(r"(?m)^rule probe: QOSMaxWallDurationPerJobLimit.*runtime=\d+", output)
    assert "Traceback" not in output and not run.jobs()


@nightly
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
    assert "Trying to restart" not in output and "Error in rule" not in output
    message = "Slurm takes no job of rule probe at present: AssocMaxSubmitJobLimit"
    assert output.count(message) == 1
    (job,) = run.jobs()
    assert job["State"] == "COMPLETED" and f"up to {job['TimelimitRaw']} min" in output, (
        "the walltime increased, although no attempt failed"
    )


def is_waiting(run) -> bool:
    log = run.folder / "results/logs/slurm/waiting.log"
    return log.exists() and "AssocMaxSubmitJobLimit" in log.read_text()


@nightly
def test_ctrl_c_while_a_job_waits_prevents_its_submission(run, slurm, limits):
    submit_sleeping_jobs(slurm, 2)
    limits("user", "root", "MaxSubmitJobs=2")
    snakemake = run.start(PROBE)
    until(lambda: is_waiting(run), what="the refusal")
    os.killpg(snakemake.pid, signal.SIGINT)  # as the terminal does
    assert run.finish(snakemake) != 0
    slurm.clear()
    assert not run.jobs() and "Trying to restart" not in run.read_output()
    assert "interrupted before Slurm accepted the job" in run.read_output()


@nightly
def test_a_submission_that_slurm_refuses_for_good_is_tried_once(run):
    assert run.run(PROBE, "--set-resources", "probe:slurm_extra='--licenses=none_of_these'") != 0
    output = run.read_output()
    assert output.count("Invalid license specification") == 1 and "Trying to restart" not in output


# --- without accounting


@pytest.fixture(scope="module")
def plain():
    """A Slurm without slurmdbd."""
    with slurm_cluster.running(accounting=False) as cluster:
        yield cluster


def set_job_age(cluster, seconds: int) -> None:
    """Change MinJobAge in slurm.conf."""
    path = cluster.base / "slurm.conf"
    path.write_text(re.sub("(?m)^MinJobAge=.*", f"MinJobAge={seconds}", path.read_text()))
    cluster.call("scontrol", "reconfigure")


@pytest.fixture
def unaccounted(finished, plain):
    yield from on_slurm(finished, plain)


@nightly
def test_without_accounting_squeue_shows_when_jobs_end(unaccounted, finished_world, plain):
    """squeue also shows that the first job was cancelled, and Snakemake submits the job again."""
    snakemake = unaccounted.start(
        PROBE, "--set-resources", "probe:slurm_extra='--hold' if attempt == 1 else ''"
    )
    (job,) = until(plain.running, what="the job")
    plain.call("scancel", job)
    assert unaccounted.finish(snakemake) == 0, unaccounted.read_output()
    output = unaccounted.read_output()
    assert "The states of jobs come from squeue" in output
    assert output.count("has been submitted") == 2
    assert (unaccounted.folder / PROBE).read_bytes() == (finished_world.folder / PROBE).read_bytes()


@nightly
def test_a_squeue_that_forgets_jobs_too_soon_is_reported(unaccounted, plain):
    set_job_age(plain, 60)
    try:
        assert unaccounted.run(PROBE) != 0
    finally:
        set_job_age(plain, 3600)
    output = unaccounted.read_output()
    assert "squeue forgets a job 60 s after" in output and "MinJobAge=200" in output
    assert "has been submitted" not in output
