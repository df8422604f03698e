"""The resources of a cluster compared with the requests of jobs, the parsing of Slurm's output, and
the GPUs that a job was granted."""

import argparse
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import path_of
from hardgrpo.runtime import cluster, environments, submission
from hardgrpo.runtime.cluster import Request
from hardgrpo.runtime.errors import UserError

PARTITIONS = """\
PartitionName=cpu AllowAccounts=ALL Default=YES MaxTime=2-00:00:00 Nodes=c[1-2] State=UP TotalNodes=2
PartitionName=gpu AllowAccounts=ALL Default=NO MaxTime=1-00:00:00 Nodes=g[1-3] State=UP TotalNodes=3
PartitionName=old AllowAccounts=ALL Default=NO MaxTime=UNLIMITED Nodes=g3 State=INACTIVE TotalNodes=1
PartitionName=sxm AllowAccounts=ALL Default=NO MaxTime=1-00:00:00 Nodes=g4 State=UP TotalNodes=1
"""
NODES = """\
NodeName=c1 CPUEfctv=30 CPUTot=32 AvailableFeatures=(null) Gres=(null) RealMemory=64000 MemSpecLimit=1000 Partitions=cpu
NodeName=c2 CPUTot=64 AvailableFeatures=avx512 Gres=lustre:1 RealMemory=32000 Partitions=cpu
NodeName=g1 CPUTot=48 AvailableFeatures=hbm,ib Gres=gpu:h100:4(S:0-1) RealMemory=512000 Partitions=gpu
NodeName=g2 CPUTot=16 AvailableFeatures=hbm Gres=gpu:nvidia_a100_80gb:8(IDX:0-7),gpu:1g.10gb:7 RealMemory=1024000 Partitions=gpu
NodeName=g3 CPUTot=16 AvailableFeatures=(null) Gres=gpu:2 RealMemory=128000 Partitions=gpu,old State=DOWN
NodeName=g4 CPUTot=64 AvailableFeatures=(null) Gres=gpu:nvidia_a100-sxm4-80gb:8(S:0-1),gpu:a+b:1 RealMemory=512000 Partitions=sxm
"""
CLUSTER_PARTITIONS = cluster.read_partitions(PARTITIONS, NODES)


def problems(*requests, partitions=CLUSTER_PARTITIONS, accounts=None) -> list[str]:
    return cluster.problems(requests, partitions, accounts)


def test_partitions_and_nodes_are_read_from_slurms_output():
    cpu, gpu, old, sxm = CLUSTER_PARTITIONS
    assert (cpu.default, cpu.minutes, cpu.open) == (True, 2880, True)
    assert (gpu.default, gpu.minutes, old.minutes, old.open) == (False, 1440, math.inf, False)
    assert [(node.cpus, node.mem_mb) for node in cpu.nodes] == [(30, 63000), (64, 32000)]
    assert [node.gpus for node in gpu.nodes] == [
        {"h100": 4},
        {"nvidia_a100_80gb": 8, "1g.10gb": 7},
        {"": 2},
    ]
    assert sxm.nodes[0].gpus == {"nvidia_a100-sxm4-80gb": 8, "a+b": 1}
    assert (
        gpu.nodes[0].features == {"hbm", "ib"}
        and gpu.nodes[2] is not None
        and old.nodes == (gpu.nodes[2],)
    )


@pytest.mark.parametrize(
    "text, minutes",
    [("02:00:00", 120), ("1-12:30:00", 2190), ("00:01:30", 1.5), ("UNLIMITED", math.inf)],
)
def test_a_time_limit_is_read_in_minutes(text, minutes):
    assert cluster.minutes(text) == minutes


@pytest.mark.parametrize(
    "request_",
    [
        Request("probe"),
        Request("probe", "cpu", cpus=64, mem_mb=32000, minutes=2880),
        Request(
            "train",
            "gpu",
            gpus=4,
            gpu_name="h100",
            cpus=48,
            mem_mb=512000,
            minutes=1440,
            constraint="hbm&ib",
        ),
        Request("train", "gpu", gpus=15, mem_mb=1),  # GPUs of any kind
        Request("train", "sxm", gpus=8, gpu_name="nvidia_a100-sxm4-80gb"),
        Request("train", "gpu", gpus=1, gpu_name="1g.10gb"),
        Request("train", "gpu,cpu", minutes=2880, cpus=64),
        # Slurm checks constraints that hardgrpo.runtime.cluster does not parse
        Request("train", "gpu", constraint="[hbm*2&ib]"),
    ],
)
def test_requests_that_a_node_fulfils_give_no_problem(request_):
    assert problems(request_) == []


@pytest.mark.parametrize(
    "request_, message",
    [
        (
            Request("train", "gpus", gpus=1),
            "slurm_partition: the cluster has no partition 'gpus'; correct gpu_partition or slurm_partition",
        ),
        (Request("train", "old"), "slurm_partition: 'old' accepts no jobs at present"),
        (
            Request("train", "gpu", gpus=5, gpu_name="h100"),
            "gpu: 5 h100 GPUs requested on one node, at most 4 in partition gpu",
        ),
        (
            Request("train", "gpu", gpus=1, gpu_name="v100"),
            "at most 0 in partition gpu; correct gpu_partition or gpu_name",
        ),
        (
            Request("train", "gpu", gpus=1, gpu_name="v100"),
            "(GPUs of these nodes: 1g.10gb, h100, nvidia_a100_80gb)",
        ),
        (
            Request("train", "gpu", gpus=2, gpu_name="1g.10gb"),
            "gpu: 2 slices 1g.10gb requested, but CUDA shows only one MIG slice to a process",
        ),
        (
            Request("train", "sxm", gpus=1, gpu_name="a+b"),
            "gpu_name: 'a+b' has characters that Snakemake's plugin refuses",
        ),
        (
            Request("train", "cpu", gpus=1),
            "gpu: 1 GPUs requested on one node, at most 0 in partition cpu",
        ),
        (
            Request("train", "cpu", mem_mb=64000),
            "mem_mb: 64000 MB requested on one node, at most 63000 in partition cpu",
        ),
        (
            Request("train", "cpu", cpus=65),
            "cpus_per_task: 65 CPUs requested on one node, at most 64 in partition cpu",
        ),
        (
            Request("train", minutes=2881),
            "runtime: 2881 min requested, at most 2880 allowed in partition cpu; set longest_runtime",
        ),
        (
            Request("train", "gpu", constraint="mi300"),
            "constraint: no node in partition gpu has 'mi300' (features: hbm, ib)",
        ),
        (
            Request("train", "gpu", 4, "h100", cpus=16, mem_mb=1000000),
            "no single node in partition gpu has 4 h100 GPUs, 1000000 MB",
        ),
    ],
)
def test_a_request_that_no_node_fulfils_is_reported_with_what_the_nodes_have(request_, message):
    (line,) = problems(request_)
    assert line.startswith("rule train: ") and message in line


@pytest.mark.parametrize(
    "resources, options",
    [
        ({"gpu": 2, "gpu_model": "nvidia_a100-sxm4-80gb"}, " --gpus=nvidia_a100-sxm4-80gb:2"),
        ({"gpu": 1, "gpu_model": "a100-sxm4-40gb_1g.5gb"}, " --gpus=a100-sxm4-40gb_1g.5gb:1"),
        ({"gpu": 1, "gpu_model": "h100"}, " --gpus=h100:1"),
        ({"gpu": 1}, " --gpus=1"),
        ({"gres": "lustre:1", "gpu": 1, "gpu_model": "a-b"}, " --gres=lustre:1 --gpus=a-b:1"),
        ({}, ""),
    ],
)
def test_snakemakes_plugin_requests_gpus_whose_name_has_a_dash(resources, options, monkeypatch):
    import snakemake_executor_plugin_slurm as plugin

    # monkeypatch restores the plugin after the test
    monkeypatch.setattr(plugin, "set_gres_string", plugin.set_gres_string)
    submission.allow_dashes_in_gpu_names()
    assert plugin.set_gres_string(SimpleNamespace(resources=Resources(resources))) == options


class Resources(dict):
    """A stand-in for Snakemake's resources, with access by name and by attribute."""

    __getattr__ = dict.get


def test_each_rule_and_resource_has_one_line_with_the_largest_amount():
    lines = problems(
        *(Request("train", "cpu", mem_mb=mem) for mem in (70000, 90000, 80000)),
        Request("probe", "cpu", mem_mb=70000),
    )
    assert [line.split(" MB")[0] for line in lines] == [
        "rule train: mem_mb: 90000",
        "rule probe: mem_mb: 70000",
    ]


def test_a_request_without_a_partition_is_reported_if_the_cluster_has_no_default():
    (line,) = problems(Request("train"), partitions=CLUSTER_PARTITIONS[1:])
    assert (
        "slurm_partition: not set, and the cluster has no default partition; set slurm_partition in slurm/config.yaml to one of gpu, old, sxm"
        in line
    )


def test_accounts_are_checked_if_the_cluster_lists_accounts():
    request = Request("train", account="Lab_A")
    assert problems(request, accounts={"lab_a", "lab_b"}) == problems(request, accounts=None) == []
    (line,) = problems(request, accounts={"lab_b"})
    assert (
        "slurm_account: 'Lab_A' is not among your accounts (lab_b); correct slurm_account" in line
    )


@pytest.mark.parametrize(
    "requested, device, matches",
    [
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("nvidia_h100_80gb_hbm3", "NVIDIA H100 PCIe", True),
        ("a100_80", "NVIDIA A100-SXM4-80GB", True),
        ("rtx3090", "NVIDIA GeForce RTX 3090", True),
        ("l40s", "NVIDIA L40S", True),
        ("v100", "Tesla V100-SXM2-32GB", True),
        ("h100", "NVIDIA A100-SXM4-80GB", False),
        ("h200", "NVIDIA GH200 480GB", False),
        ("a40", "NVIDIA RTX A4000", False),
        ("big", "NVIDIA A100-SXM4-80GB", True),  # a name that the site chose does not tell the kind
        ("h100", "Graphics Device", True),
    ],
)
def test_the_kind_of_gpu_is_checked_if_the_resource_names_a_kind(
    requested, device, matches, monkeypatch
):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda _: SimpleNamespace(name=device, total_memory=80 * 10**9),
    )
    if matches:
        environments.check_gpus(1, requested, 70.0)
    else:
        with pytest.raises(UserError, match=f"GPU 0 is a {device}, requested: {requested}"):
            environments.check_gpus(1, requested, 70.0)
    with pytest.raises(UserError, match="has 75 GiB, the run needs about 76|requested"):
        environments.check_gpus(1, requested, 76.0)


@pytest.fixture
def environment(monkeypatch):
    """A function that sets CUDA_VISIBLE_DEVICES and HARDGRPO_REHEARSAL for this test, or removes
    those without a value."""

    def set_environment(**entries):
        for name in ("CUDA_VISIBLE_DEVICES", environments.REHEARSAL):
            monkeypatch.setenv(name, "")  # makes monkeypatch restore variables that the code sets
            monkeypatch.delenv(name)
            if name in entries:
                monkeypatch.setenv(name, entries[name])

    return set_environment


def test_fewer_granted_than_requested_gpus_are_an_error(environment):
    environment(CUDA_VISIBLE_DEVICES="0,1")
    assert environments.granted_gpus(2) == 2 and environments.granted_gpus(1) == 1
    with pytest.raises(
        UserError,
        match=r"GPUs requested: 4, granted: 2 \(CUDA_VISIBLE_DEVICES is '0,1'\); check partition",
    ):
        environments.granted_gpus(4)
    environment(CUDA_VISIBLE_DEVICES="")
    with pytest.raises(UserError, match="granted: 0"):
        environments.granted_gpus(1)
    environment()
    assert environments.granted_gpus(4) == 4, "without a scheduler, check_gpus checks the machine"


@pytest.mark.parametrize("visible", [{}, {"CUDA_VISIBLE_DEVICES": "0,1"}])
def test_a_program_that_requests_no_gpu_sees_none(environment, visible):
    environment(**visible)
    assert environments.granted_gpus(0) == 0 and os.environ["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    "entries, count",
    [
        ("0", 1),
        ("3, 1", 2),
        ("GPU-8d6e7a01-3f,GPU-1c", 2),
        ("MIG-5c9b1d2e-77aa-5b1c-8f4b-0a6f2f1c9d10", 1),
        ("MIG-5c9b,MIG-8f4b", 1),
        ("MIG-GPU-5c9b/1/0,MIG-GPU-5c9b/2/0", 1),
        ("NoDevFiles", 0),
        ("-1", 0),
        ("0,-1,1", 1),
        ("", 0),
    ],
)
def test_gpus_are_counted_from_cuda_visible_devices(entries, count, environment):
    """In CUDA_VISIBLE_DEVICES, Slurm names MIG slices of a GPU by their UUIDs. For a job without
    GPUs, Slurm sets the variable to NoDevFiles."""
    assert environments.visible_gpus(entries) == count
    for rehearsal in ({}, {environments.REHEARSAL: "1"}):
        environment(CUDA_VISIBLE_DEVICES=entries, **rehearsal)
        with pytest.raises(
            UserError,
            match="one MIG slice to a process: ask for whole GPUs"
            if "MIG" in entries
            else "check partition and GPUs",
        ):
            environments.granted_gpus(count + 1)
        if count:
            assert environments.granted_gpus(count) == (0 if rehearsal else count)


def test_a_rehearsal_checks_the_granted_gpus_and_computes_on_the_cpu(environment):
    environment(CUDA_VISIBLE_DEVICES="3", HARDGRPO_REHEARSAL="1")
    assert environments.granted_gpus(1) == 0 and os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert environments.granted_gpus(1) == 0, (
        "a program that starts itself again in another environment must not fail the second check"
    )
    environment(CUDA_VISIBLE_DEVICES="3", HARDGRPO_REHEARSAL="1")
    with pytest.raises(UserError, match="granted: 1"):
        environments.granted_gpus(2)
    environment(HARDGRPO_REHEARSAL="1")
    with pytest.raises(UserError, match="granted: unknown, CUDA_VISIBLE_DEVICES is not set"):
        environments.granted_gpus(1)


@pytest.mark.slow
def test_the_programs_take_the_same_arguments_about_gpus():
    parser = argparse.ArgumentParser()
    environments.add_gpu_arguments(parser)
    assert vars(parser.parse_args(["--gpus", "2", "--gpu-name", "h100", "--gpu-gib", "70"])) == {
        "gpus": 2, "gpu_name": "h100", "gpu_gib": 70.0,
    }  # fmt: skip
    for program in ("probe", "evaluate", "train_grpo"):
        process = subprocess.run(
            [sys.executable, path_of(program), "--help"], capture_output=True, text=True, check=True
        )
        assert "--gpu-name" in process.stdout
