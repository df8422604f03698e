"""The small study on Slurm: the submitted jobs, their results, and errors before any submission.
One training runs on a disk that becomes full."""

import re
import subprocess

import pytest

from conftest import OnSlurm, assert_same, results, shrink
from slurm_training import TARGET, assert_same_as_undisturbed, jobs, log

pytestmark = pytest.mark.slurm


@pytest.fixture
def on_slurm(world, slurm):
    world.configure(shrink)
    yield OnSlurm(world, slurm)
    slurm.clear()


def test_the_miniature_gives_the_same_results_with_and_without_slurm(on_slurm, finished_world):
    on_slurm.world.clear()
    assert on_slurm.run() == 0, on_slurm.read_output()
    assert_same(results(on_slurm.folder, "summaries"), results(finished_world.folder, "summaries"))
    for part in ("probe", "difficulty", "subsets", "evaluation", "training", "tasks"):
        assert_same(results(on_slurm.folder, part), results(finished_world.folder, part))
    by_rule = {}
    for job in jobs(on_slurm):
        by_rule.setdefault(re.match(r"rule_(.*?)(_wildcards|$)", job["Comment"])[1], []).append(job)
    assert {rule: len(rule_jobs) for rule, rule_jobs in by_rule.items()} == {
        "pretrain_model": 1, "probe": 2, "evaluate_base": 2, "sample_reach": 2, "train_grpo": 2, "evaluate_run": 4,
    }  # fmt: skip
    for rule, rule_jobs in by_rule.items():
        for job in rule_jobs:
            assert job["State"] == "COMPLETED"
            gpu = rule != "pretrain_model"
            assert job["Partition"] == ("gpu" if gpu else "cpu")
            assert ("gres/gpu=1" in job["AllocTRES"]) == gpu, job
    log = next((on_slurm.folder / "results/logs/train_grpo").rglob("*.log")).read_text()
    assert "rehearsal: 1 GPUs granted, the CPU does the work" in log


REFUSED = {  # (changes to the profile's section for the cluster, arguments, words of the error)
    "more GPUs than a node has": ({}, ["--set-resources", "train_grpo:gpu=3"],
        r"rule train_grpo: .*Requested node configuration is not available .*gpu=3, gpu_model=nvidia_fake_80gb"),
    "a kind of GPU that no node has": ({"gpu_name": "h100"}, [],
        r"rule probe: .*Requested node configuration is not available .*gpu_model=h100"),
    "a name of a GPU with a dash": ({"gpu_name": "a100-sxm4"}, [],
        r"rule probe: Invalid GPU model format: a100-sxm4"),
    "more memory than a node has": ({}, ["--set-resources", "evaluate_run:mem_mb=999999"],
        r"rule evaluate_run: .*Requested node configuration is not available .*mem_mb=999999"),
    "more CPUs than a node has": ({}, ["--set-resources", "pretrain_model:cpus_per_task=64"],
        r"rule pretrain_model: .*More processors requested than permitted .*cpus_per_task=64"),
    "a longer runtime than allowed": ({}, ["--set-resources", "train_grpo:runtime=9999"],
        r"rule train_grpo: .*Requested time limit is invalid .*runtime=9999"),
    "a missing partition": ({"gpu_partition": "gpus"}, [],
        r"rule train_grpo: .*Invalid partition name specified .*slurm_partition=gpus"),
    "an account that the user does not have": ({"slurm_account": "stduy"}, [],
        r"rule train_grpo: The given account stduy appears to be invalid. Available accounts: (root, study|study, root) .*slurm_account=stduy"),
    "an option that Snakemake sets itself": ({}, ["--set-resources", "probe:slurm_extra='--gres=gpu:1'"],
        r"rule probe: .*not allowed in the 'slurm_extra' parameter.*slurm_extra=--gres=gpu:1"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_requests_that_the_cluster_cannot_fulfil_are_reported_before_anything_is_submitted(
    case, on_slurm, slurm
):
    site, arguments, expected = REFUSED[case]
    on_slurm.site(**site)
    before = len(slurm.jobs())
    assert on_slurm.run(*arguments) != 0
    output = on_slurm.read_output()
    assert re.search(f"^{expected}", output, re.MULTILINE), output
    assert "slurm/config.yaml" in output and "--set-resources" in output
    assert "Traceback" not in output and "has been submitted" not in output
    assert len(slurm.jobs()) == before and not slurm.running()
    assert not list((on_slurm.folder / "results/tasks").glob("*")), "a job ran locally"


def test_a_missing_slurm_is_reported(on_slurm, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "which", "uname"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    assert on_slurm.run(PATH=str(tools)) != 0
    assert (
        "profile slurm: Slurm is not on this machine (no sbatch); run on a login node"
        in on_slurm.read_output()
    )


def test_requests_that_are_impossible_in_three_ways_are_reported_together(on_slurm, slurm):
    """Each rule is named with Slurm's reason, and nothing is submitted."""
    requests = ["train_grpo:runtime=9999", "evaluate_run:mem_mb=999999", "probe:gpu=2"]
    before = len(slurm.jobs())
    assert on_slurm.run("--set-resources", *requests) != 0
    output = on_slurm.read_output()
    for rule, request in [
        ("train_grpo", "runtime=9999"),
        ("evaluate_run", "mem_mb=999999"),
        ("probe", "gpu=2"),
    ]:
        lines = re.findall(f"^rule {rule}: .*", output, re.MULTILINE)
        assert len(lines) == 1 and request in lines[0], output
    assert output.count("rule pretrain_model: ") == 0 and len(slurm.jobs()) == before


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
