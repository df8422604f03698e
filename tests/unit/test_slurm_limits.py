"""Limits of a cluster's accounting, refusals of sbatch, and states of jobs, from output of Slurm
22.05."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from conftest import ROOT
from hardgrpo.runtime import cluster, slurm_limits, submission
from hardgrpo.runtime.cluster import Request
from hardgrpo.runtime.errors import UserError

# cluster, account, user, partition, maxsubmit, grpsubmit, maxwall, maxtres, grptres, defaultqos,
# qos
ASSOCIATIONS = """\
here|Lab|me||50||1-00:00:00|cpu=64||fast|fast,normal
here|lab|me|gpu|5|||||fast|fast,normal
here|lab||||200|||mem=1T||
here|lab|you||1|||||normal|normal
here|other|me||||||||normal
here|third|me||||||||normal,slow
there|lab|me||1|||||normal|normal
"""
# name, maxsubmitpu, maxsubmitpa, grpsubmit, maxwall, maxtres, maxtrespu, grptres
QUALITIES = """\
normal|||||||
fast|100|||02:00:00|gres/gpu:h100=2,mem=512G|gres/gpu=8|
slow|7|3|||||
of_gpu||||||gres/gpu=4,node=1|
"""
ACCOUNTING = slurm_limits.read_accounting(ASSOCIATIONS, QUALITIES, "me", "Here")


def effective(account, qos=None, partition="cpu", partition_qos=None) -> dict:
    limits = {}
    for level in ACCOUNTING.levels(account, qos, partition, partition_qos):
        for kind, amount in level.limits.items():
            limits.setdefault(kind, (amount, level.owner))
    return limits


def test_limits_of_the_qos_come_before_limits_of_the_user_and_then_of_the_account():
    limits = effective("lab")
    assert limits["user", "jobs"] == (100, "QOS fast") and limits["group", "jobs"] == (
        200,
        "account lab",
    )
    assert limits["job", "minutes"] == (120, "QOS fast")
    assert limits["job", "mem"] == (512 * 1024, "QOS fast") and limits["group", "mem"] == (
        1024**2,
        "account lab",
    )
    assert limits["job", "cpu"] == (64, "account Lab")
    assert effective("lab", "normal")["user", "jobs"] == (50, "account Lab")
    assert effective("LAB", "normal", "gpu")["user", "jobs"] == (5, "account lab in partition gpu")
    assert effective("lab", "normal")["job", "minutes"] == (1440, "account Lab")
    assert effective("lab", "fast", "gpu", "of_gpu")["user", "gres/gpu"] == (4, "QOS of_gpu")


def test_each_account_has_its_default_qos():
    assert ACCOUNTING.default_qos == {"lab": "fast", "other": "normal", "third": "normal"}


@pytest.mark.parametrize(
    "request_, count, at_once, words",
    [
        (Request("probe"), 200, 100, []),
        (
            Request("probe"),
            200,
            101,
            [
                "jobs: 101 jobs requested in the queue at the same time, at most 100 allowed by QOS fast; set jobs: 100"
            ],
        ),
        (Request("probe"), 99, 500, []),
        (
            Request("probe", qos="slow"),
            9,
            9,
            ["at most 7 allowed by QOS slow", "at most 3 allowed by QOS slow"],
        ),
        (
            Request("train", minutes=121),
            1,
            1,
            [
                "runtime: 121 min requested, at most 120 allowed by QOS fast; set longest_runtime: 120"
            ],
        ),
        (
            Request("train", gpus=3, gpu_name="h100"),
            1,
            1,
            ["gpu: 3 GPUs requested, at most 2 allowed by QOS fast; lower the model's gpus"],
        ),
        (Request("train", gpus=8, gpu_name="a100"), 1, 1, []),
        (Request("train", gpus=9, gpu_name="a100"), 1, 1, ["gpu: 9 GPUs requested, at most 8"]),
        (
            Request("train", mem_mb=600_000),
            1,
            1,
            ["mem_mb: 600000 MB requested, at most 524288", "set-resources train:mem_mb"],
        ),
        (
            Request("train", cpus=65),
            1,
            1,
            ["cpus_per_task: 65 CPUs requested, at most 64 allowed by account Lab"],
        ),
    ],
)
def test_requests_beyond_a_limit_are_reported(request_, count, at_once, words):
    jobs = [(request_, ACCOUNTING.levels("lab", request_.qos, "cpu", None))] * count
    lines = [f"{resource}: {text}" for _, resource, _, text in slurm_limits.problems(jobs, at_once)]
    assert [part for part in words if not any(part in line for line in lines)] == []
    assert bool(lines) == bool(words)


def test_a_limit_that_holds_for_user_and_account_counts_each_job_once():
    accounting = slurm_limits.read_accounting(
        "here|lab|me||||||||same,none\n", "same|50|50|||||\nnone||||||node=0|\n", "me", "here"
    )
    of_qos = lambda qos: [(Request("probe"), accounting.levels("lab", qos, "cpu", None))] * 30
    assert slurm_limits.problems(of_qos("same"), 100) == []
    (_, resource, _, text), *_ = slurm_limits.problems(of_qos("none"), 100)
    assert resource == "nodes" and "1 nodes requested, at most 0 allowed by QOS none" in text
    assert "gpus" not in text and "another account" in text


def test_the_limits_of_the_cluster_are_queried_once_and_an_unknown_qos_is_named(monkeypatch):
    answers = {"qos": QUALITIES, "user": "lab\n"}
    monkeypatch.setattr(cluster, "_ask", lambda *command: answers.get(command[3], ASSOCIATIONS))
    monkeypatch.setattr(cluster.getpass, "getuser", lambda: "me")
    partitions = [cluster.Partition("cpu", default=True), cluster.Partition("gpu", qos="of_gpu")]
    requests = [Request("probe", "gpu", gpus=5, qos="slow")] * 4 + [Request("probe", qos="quick")]
    lines = cluster.limit_problems(requests, partitions, "here", 100)
    assert (
        lines[0]
        == "slurm-qos: the cluster has no QOS 'quick', expected one of normal, fast, slow, of_gpu"
    )
    assert lines[1].startswith("rule probe: gpu: 5 GPUs requested, at most 4 allowed by QOS of_gpu")
    assert (
        lines[2].startswith(
            "jobs: 4 jobs requested in the queue at the same time, at most 3 allowed by QOS slow; set jobs: 3"
        )
        and len(lines) == 3
    )


def test_without_an_answer_of_the_accounting_there_are_no_limits(monkeypatch):
    def refuse(*_):
        raise UserError("Slurm accounting storage is disabled")

    monkeypatch.setattr(cluster, "_ask", refuse)
    assert cluster.limit_problems([Request("probe", qos="x")], [], "here", 100) == []


@pytest.mark.parametrize(
    "extra, words",
    [
        ("--exclusive --signal=TERM@60 --reservation=mine --nice=5", None),
        (
            "--gres=gpu:1",
            "'--gres' cannot be set there, because Snakemake sets this option; write gpu_name in slurm/config.yaml",
        ),
        ("--gpus 2", "the model's gpus in config/models.yaml"),
        ("--account=lab", "write slurm_account in slurm/config.yaml instead"),
        ("-A lab", "'-A' cannot be set there"),
        ("--partition gpu", "write slurm_partition or gpu_partition"),
        ("--time=10", "write longest_runtime"),
        ("--mem=5G", "write set-resources probe:mem_mb instead"),
        ("--qos=long", "write slurm-qos in slurm/config.yaml"),
        ("-J name", "leave it out"),
    ],
)
def test_options_that_the_plugin_sets_itself_are_reported(extra, words):
    lines = cluster.extra_problems(
        [Request("probe", extra=extra), Request("probe", extra=extra, mem_mb=1), Request("probe")]
    )
    assert (lines == []) if words is None else (len(lines) == 1 and words in lines[0]), lines


POLICY = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
FAILED = "SLURM sbatch failed. The error message was '{}'.\n    sbatch call:\n        sbatch --comment 'MaxSubmitJob'\n"


@pytest.mark.parametrize(
    "reason, temporary",
    [
        (f"sbatch: error: AssocMaxSubmitJobLimit\n{POLICY}", True),
        (f"sbatch: error: AssocGrpSubmitJobsLimit\n{POLICY}", True),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{POLICY}", True),
        (f"sbatch: error: MaxSubmitJobsPerAccount\n{POLICY}", True),
        (f"sbatch: error: QOSGrpSubmitJobsLimit\n{POLICY}", True),
        (POLICY, True),  # the message names no limit
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            True,
        ),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            True,
        ),
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{POLICY}", False),
        (f"sbatch: error: QOSMaxCpuPerJobLimit\n{POLICY}", False),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            False,
        ),
        (
            "sbatch: error: Batch job submission failed: More processors requested than permitted",
            False,
        ),
    ],
)
def test_refusals_are_temporary_or_permanent(reason, temporary):
    refusal = submission.refusal(FAILED.format(reason))
    assert (
        submission.is_temporary(refusal) == temporary
        and "\n" not in refusal
        and "comment" not in refusal
    )


def test_a_failure_of_a_running_job_is_no_refusal():
    assert submission.refusal("SLURM-job '3' failed, SLURM status is: 'OUT_OF_MEMORY'.") is None


# --- the states of jobs


@pytest.mark.parametrize(
    "default, sacct, age, expected",
    [
        ("sacct", True, "300 sec", "sacct"),
        ("sacct", False, "300 sec", "squeue"),
        ("squeue", False, "300 sec", "squeue"),
        ("squeue", True, "300 sec", "squeue"),
        ("squeue", True, "120 sec", "sacct"),
        ("sacct", False, "3600", "squeue"),
        ("sacct", False, "120 sec", "squeue forgets a job 120 s after the job's end"),
        ("sacct", False, None, "squeue forgets a job ? s"),
    ],
)
def test_the_command_for_the_states_of_jobs_depends_on_accounting_and_min_job_age(
    default, sacct, age, expected, monkeypatch
):
    monkeypatch.setattr(cluster, "_answers", lambda *_: sacct)
    monkeypatch.setattr(cluster, "read_config", lambda: {} if age is None else {"MinJobAge": age})
    if expected in ("sacct", "squeue"):
        assert cluster.status_command(default, 20) == expected
    else:
        with pytest.raises(UserError) as error:
            cluster.status_command(default, 20)
        assert expected in str(error.value) and "MinJobAge=200" in str(error.value)


def test_a_late_first_check_needs_a_longer_min_job_age(monkeypatch):
    monkeypatch.setattr(cluster, "_answers", lambda *_: False)
    monkeypatch.setattr(cluster, "read_config", lambda: {"MinJobAge": "300 sec"})
    with pytest.raises(UserError, match="MinJobAge=360"):
        cluster.status_command("sacct", 120)


@pytest.mark.parametrize("tool", ["sacct", "squeue"])
def test_a_preempted_job_is_reported_as_cancelled(tool, tmp_path):
    """With slurm-no-requeue, the plugin would wait forever for a job with state PREEMPTED."""
    slurm_tool = tmp_path / tool
    slurm_tool.write_text(
        '#!/bin/sh\nprintf "1|PREEMPTED\\n2|CANCELLED by 1000\\n3|COMPLETED\\n"; exit $CODE\n'
    )
    slurm_tool.chmod(0o755)
    path = f"{ROOT / 'slurm/bin'}:{tmp_path}:{os.environ['PATH']}"
    for code in (0, 3):
        done = subprocess.run(
            [tool, "-x"],
            env=os.environ | {"PATH": path, "CODE": str(code)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (code, "1|CANCELLED\n2|CANCELLED\n3|COMPLETED\n")


def test_a_cluster_without_job_arrays_counts_as_one_with_arrays_of_1000_jobs(monkeypatch):
    for largest_array, expected in ((-1, 1000), (1000, 1000), (50, 50)):
        plugin = SimpleNamespace(
            get_max_array_size=lambda largest_array=largest_array: largest_array
        )
        monkeypatch.setitem(submission.sys.modules, "snakemake_executor_plugin_slurm", plugin)
        submission.start_without_arrays()
        assert plugin.get_max_array_size() == expected
