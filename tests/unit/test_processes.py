"""Ports of training runs that share a machine."""

import os
import socket

import pytest

from hardgrpo.training import processes

pytestmark = pytest.mark.slow  # imports torch

# the ports that TRL tries first if MASTER_PORT is not set (trl.trainer.utils)
TRL_PORTS = ("29500", "23456", "12355", "12345")


def test_a_run_listens_on_a_free_port_that_the_system_chooses(monkeypatch):
    """vLLM opens the port only seconds after TRL has chosen it. If runs took the first free port of
    TRL_PORTS, another run could take the same port in the meantime."""
    from trl.trainer.utils import ensure_master_addr_port

    monkeypatch.delenv(processes.LAUNCH_VARIABLE, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29500")  # as a job script may set it for all its runs
    processes.take_free_port()
    port = os.environ["MASTER_PORT"]
    ensure_master_addr_port()
    assert os.environ["MASTER_PORT"] == port not in TRL_PORTS
    with socket.socket() as listener:
        listener.bind(("localhost", int(port)))


def test_the_processes_of_one_run_keep_the_port_of_torchrun(monkeypatch):
    monkeypatch.setenv(processes.LAUNCH_VARIABLE, "1")
    monkeypatch.setenv("MASTER_PORT", "43210")
    processes.take_free_port()
    assert os.environ["MASTER_PORT"] == "43210"
