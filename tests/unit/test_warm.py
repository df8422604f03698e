"""Programs that are forked from a process with loaded libraries behave like programs that are
started directly."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from conftest import ROOT
from hardgrpo.runtime import warm

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys, time
from hardgrpo.runtime import errors, warm

def main():
    print("warm" if "torch" in sys.modules else "cold", os.getpid(), flush=True)
    exec(sys.argv[1], globals())

if __name__ == "__main__":
    warm.run(main)
"""
COUNT = """
received = []
signal.signal(signal.SIGTERM, lambda *_: received.append("TERM"))
signal.signal(signal.SIGINT, lambda *_: received.append("INT"))
print("ready", flush=True)
while not received:
    time.sleep(0.01)
time.sleep(0.3)
print(received)
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}
# A process in place of Snakemake that starts a server, prints the path of its socket and waits
SNAKEMAKE = """
import os, time
from hardgrpo.runtime import warm
warm.start()
print(os.environ[warm.SOCKET], flush=True)
time.sleep(3600)
"""


@pytest.fixture
def start(tmp_path):
    """A function that starts a program: (the program, "warm" or "cold", the process that runs
    `code`)."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def start(code: str, *arguments: str, **environment: str) -> tuple:
        process = subprocess.Popen(
            [sys.executable, "program.py", code, *arguments],
            cwd=tmp_path, env=ENVIRONMENT | environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        origin, number = process.stdout.readline().split()
        return process, origin, int(number)

    return start


@pytest.fixture(params=["warm", "cold"])
def run(start, request):
    """A function that starts programs. The tests must pass whether a program is started directly
    or by the server."""

    def run(code: str) -> tuple:
        environment = {warm.SOCKET: warm.OFF} if request.param == "cold" else {}
        process, origin, number = start(code, **environment)
        assert origin == request.param
        return process, number

    return run


@pytest.fixture
def snakemake():
    command = [sys.executable, "-c", SNAKEMAKE]
    process = subprocess.Popen(command, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE)
    path = process.stdout.readline().strip()
    yield process, path
    process.kill()
    process.wait()
    shutil.rmtree(Path(path).parent, ignore_errors=True)  # left by a killed server


def finish(process: subprocess.Popen, text: str = "") -> tuple[str, str]:
    """Send `text`, and return the remaining output and errors. `communicate` does not know what
    `readline` has buffered."""
    process.stdin.write(text)
    process.stdin.close()
    printed = process.stdout.read(), process.stderr.read()
    process.wait()
    return printed


def has_ended(number: int) -> bool:
    try:
        psutil.Process(number).wait(60)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_fork_has_the_streams_arguments_folder_and_environment_of_the_program(run, tmp_path):
    code = """
print(sys.argv[0], os.getcwd(), os.environ["OMP_NUM_THREADS"], os.environ.get("HARDGRPO_WARM"), sys.stdin.read())
print("to stderr", file=sys.stderr)
"""
    process, _ = run(code)
    assert finish(process, "sent\n") == (f"program.py {tmp_path} 1 None sent\n\n", "to stderr\n")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('what is wrong')", 1, "what is wrong\n"),
        ("raise errors.UserError('the file F is empty')", 1, "error: the file F is empty\n"),
        ("os._exit(4)", 4, ""),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5, ""),
    ],
)
def test_the_process_ends_with_the_output_and_status_of_the_program(run, code, status, output):
    process, _ = run(code)
    assert finish(process)[1] == output and process.returncode == status


def test_a_signal_reaches_the_program_once(run):
    process, _ = run(COUNT)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert finish(process) == ("['TERM']\n", "") and process.returncode == 0


def test_a_signal_that_ends_the_program_gives_its_status(start):
    process, _, fork = start("time.sleep(3600)")
    os.kill(fork, signal.SIGKILL)
    finish(process)
    assert process.returncode == 128 + signal.SIGKILL


def test_a_program_that_is_killed_does_not_go_on(start):
    process, _, fork = start("time.sleep(3600)")
    process.kill()
    assert has_ended(fork)


def test_each_program_reads_the_current_code_of_its_folder(run, tmp_path):
    for value in ("one", "another"):
        (tmp_path / "beside.py").write_text(f"value = {value!r}")
        process, _ = run("import beside; print(beside.value)")
        assert finish(process) == (f"{value}\n", "")


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--gpus", "1"], {}),
        (["--engine", "server"], {}),
        ([], {"OMP_NUM_THREADS": "2"}),
        ([], {warm.SOCKET: "/nowhere/socket"}),
    ],
)
def test_a_program_runs_in_its_own_process(start, arguments, environment):
    process, origin, number = start("pass", *arguments, **environment)
    assert (origin, number) == ("cold", process.pid) and process.wait() == 0


@pytest.mark.parametrize("killed", ["Snakemake", "server"])
def test_the_end_of_snakemake_or_of_the_server_does_not_end_a_running_program(
    snakemake, start, killed
):
    """The server ends with Snakemake. The next program runs in its own process."""
    parent, path = snakemake
    code = "print('ready', flush=True); time.sleep(2); print('whole')"
    process, origin, _ = start(code, **{warm.SOCKET: path})
    assert origin == "warm" and process.stdout.readline() == "ready\n"
    (server,) = psutil.Process(parent.pid).children()
    if killed == "server":
        server.kill()
    else:
        parent.kill()
        parent.wait()
        assert has_ended(server.pid) and not Path(path).parent.exists()
    assert finish(process)[0] == "whole\n" and process.returncode == 0
    process, origin, _ = start("pass", **{warm.SOCKET: path})
    assert origin == "cold" and process.wait() == 0
