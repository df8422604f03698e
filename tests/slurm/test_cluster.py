"""The workflow on a real Slurm with fake GPUs: what is submitted, what it gives, what is refused before anything is submitted."""

import re

import pytest

from conftest import OnSlurm, assert_same, results, shrink

pytestmark = pytest.mark.slurm


@pytest.fixture
def on_slurm(world, slurm):
    world.configure(shrink)
    yield OnSlurm(world, slurm)
    slurm.clear()


def test_the_miniature_through_slurm_gives_what_this_machine_gives_without_it(on_slurm, finished_world, slurm):
    on_slurm.world.clear()
    assert on_slurm.run() == 0, on_slurm.said()
    assert_same(results(on_slurm.folder, "summaries"), results(finished_world.folder, "summaries"))
    for part in ("probe", "difficulty", "subsets", "evaluation", "training", "tasks"):
        assert_same(results(on_slurm.folder, part), results(finished_world.folder, part))
    jobs = slurm.jobs()
    by_rule = {}
    for job in jobs:
        by_rule.setdefault(re.match(r"rule_(.*?)(_wildcards|$)", job["Comment"])[1], []).append(job)
    assert {rule: len(found) for rule, found in by_rule.items()} == {
        "pretrain_model": 1, "probe": 2, "evaluate_base": 2, "train_grpo": 2, "evaluate_run": 4,
    }  # fmt: skip
    for rule, found in by_rule.items():
        for job in found:
            assert job["State"] == "COMPLETED"
            gpu = rule != "pretrain_model"
            assert job["Partition"] == ("gpu" if gpu else "cpu")
            assert ("gres/gpu=1" in job["AllocTRES"]) == gpu, job
    log = next((on_slurm.folder / "results/logs/train_grpo").rglob("*.log")).read_text()
    assert "rehearsal: 1 GPUs granted, the CPU does the work" in log


REFUSED = {  # how the world is made impossible: the site's entries, arguments; what is said of it
    "more GPUs than a node has": ({}, ["--set-resources", "train_grpo:gpu=3"],
        r"rule train_grpo: gpu: 3 fake GPUs asked for on one node, at most 1 in partition gpu; .*kinds there: fake"),
    "another kind of GPU": ({"gpu_name": "h100"}, [],
        r"rule probe: gpu: 1 h100 GPUs asked for on one node, at most 0 in partition gpu; correct gpu_partition or gpu_name"),
    "more memory": ({}, ["--set-resources", "evaluate_run:mem_mb=999999"],
        r"rule evaluate_run: mem_mb: 999999 MB asked for on one node, at most 128000 in partition gpu"),
    "more CPUs": ({}, ["--set-resources", "pretrain_model:cpus_per_task=64"],
        r"rule pretrain_model: cpus_per_task: 64 CPUs asked for on one node, at most 6 in partition cpu"),
    "longer than allowed": ({}, ["--set-resources", "train_grpo:runtime=9999"],
        r"rule train_grpo: runtime: 9999 min asked for, at most 1440 allowed in partition gpu; set longest_runtime: 1440"),
    "a partition that is not there": ({"gpu_partition": "gpus"}, [],
        r"rule train_grpo: slurm_partition: the cluster has no 'gpus'; correct gpu_partition .*\(partitions: cpu, gpu, urgent\)"),
    "an account of nobody": ({"slurm_account": "stduy"}, [],
        r"rule train_grpo: slurm_account: 'stduy' is none of your accounts \(root, study\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_cluster_cannot_give_is_said_before_anything_is_submitted(case, on_slurm, slurm):
    site, arguments, expected = REFUSED[case]
    on_slurm.site(**site)
    before = len(slurm.jobs())
    assert on_slurm.run(*arguments) != 0
    said = on_slurm.said()
    assert re.search(f"^{expected}", said, re.MULTILINE), said
    assert "Traceback" not in said and "has been submitted" not in said
    assert len(slurm.jobs()) == before and not slurm.running()
    assert not list((on_slurm.folder / "results/tasks").glob("*")), "no local job either"


def test_without_slurm_one_line_says_so(on_slurm, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "which", "uname"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    assert on_slurm.run(PATH=str(tools)) != 0
    assert "profile slurm: Slurm is not on this machine (no scontrol, no sbatch); run on a login node" in on_slurm.said()
