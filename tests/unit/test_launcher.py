"""A training with several processes, one of which fails, prints one line instead of torchrun's
report."""

import pytest

from command_line import run_python

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
