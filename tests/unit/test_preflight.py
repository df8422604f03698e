"""The GPUs that a job was granted, compared with the GPUs that it requested."""

import os
from types import SimpleNamespace

import pytest

from hardgrpo.runtime import environments
from hardgrpo.runtime.errors import UserError


@pytest.mark.parametrize(
    "requested, device, matches",
    [
        ("h100", "NVIDIA H100 80GB HBM3", True),
        ("nvidia_h100_80gb_hbm3", "NVIDIA H100 PCIe", True),
        ("a100_80", "NVIDIA A100-SXM4-80GB", True),
        ("rtx3090", "NVIDIA GeForce RTX 3090", True),
        ("l40s", "NVIDIA L40S", True),
        ("h100", "NVIDIA A100-SXM4-80GB", False),
        ("big", "NVIDIA A100-SXM4-80GB", True),  # a name that the site chose does not tell the kind
        ("h100", "Graphics Device", True),
        # neither an A40 nor an H200
        ("h100", "NVIDIA RTX A4000", True),
        ("h100", "NVIDIA GH200 480GB", True),
    ],
)
def test_the_kind_of_gpu_is_checked_if_the_resource_names_a_kind(
    requested, device, matches, monkeypatch
):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    properties = SimpleNamespace(name=device, total_memory=80 * 10**9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    if matches:
        environments.check_gpus(1, requested, 70.0)
    else:
        with pytest.raises(UserError, match=f"GPU 0 is a {device}, requested: {requested}"):
            environments.check_gpus(1, requested, 70.0)
    with pytest.raises(UserError, match="has 75 GiB, the run needs about 76|requested"):
        environments.check_gpus(1, requested, 76.0)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A function that sets CUDA_VISIBLE_DEVICES and HARDGRPO_REHEARSAL for this test, or removes
    those without a value."""

    def set_environment(**entries):
        for name in ("CUDA_VISIBLE_DEVICES", environments.REHEARSAL):
            monkeypatch.setenv(name, entries.get(name, ""))
            if name not in entries:
                monkeypatch.delenv(name)

    set_environment()
    return set_environment


@pytest.mark.parametrize("visible", [{}, {"CUDA_VISIBLE_DEVICES": "0,1"}])
def test_a_program_that_requests_no_gpu_sees_none(environment, visible):
    environment(**visible)
    assert environments.granted_gpus(0) == 0 and os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_rehearsal_checks_the_granted_gpus_and_computes_on_the_cpu(environment):
    environment(CUDA_VISIBLE_DEVICES="3", HARDGRPO_REHEARSAL="1")
    assert environments.granted_gpus(1) == 0 and os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert environments.granted_gpus(1) == 0, (
        "a program that starts itself again in another environment must not fail the second check"
    )
    environment(CUDA_VISIBLE_DEVICES="3", HARDGRPO_REHEARSAL="1")
    with pytest.raises(UserError, match="granted: 1"):
        environments.granted_gpus(2)
    # for a job without GPUs, Slurm sets the variable to NoDevFiles
    for visible in ({}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}):
        environment(HARDGRPO_REHEARSAL="1", **visible)
        with pytest.raises(UserError, match="granted: 0"):
            environments.granted_gpus(1)
