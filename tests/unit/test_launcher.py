"""Trainings with several processes: an error of one line instead of torchrun's report, and ports."""

import os
import socket

import pytest

from command_line import run_python
from hardgrpo.training import processes

pytestmark = pytest.mark.slow  # imports torch

# torchrun ends the second process by a signal when the first fails. A Python that receives a signal
# while it starts may print a traceback. Therefore the first process fails only after the second has
# started.
PROGRAM = """import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
if os.environ["RANK"] == "1":
    open("started", "w").close()
    time.sleep(60)
while not os.path.exists("started"):
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    "failure, words",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "error: SIGKILL ended a process of this training"),
        ("os.abort()", "error: SIGABRT ended a process of this training"),
        ("sys.exit('error: something is wrong')", "error: something is wrong"),
        (
            "os.kill(os.getppid(), signal.SIGINT); time.sleep(60)",
            "error: stopped by SIGINT; start the same command again",
        ),
    ],
)
def test_a_failure_gives_a_one_line_error(failure, words, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM + failure + "\n")
    launcher = ("-m", "hardgrpo.training.launcher", "--standalone", "--nproc_per_node", "2")
    signals = ("--signals-to-handle", "SIGINT,SIGHUP,SIGQUIT")
    done = run_python(*launcher, *signals, tmp_path / "program.py", folder=tmp_path)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1 and len(errors) == 1 and errors[0].startswith(words), done.stderr
    assert "Traceback" not in done.stderr


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
