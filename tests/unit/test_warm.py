"""Programs that are forked from a process with loaded libraries behave like programs that are
started directly."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from conftest import ROOT

# A test that ends its server starts a server that loads only torch, because loading all libraries
# takes long.
TORCH_ALONE = "LIBRARIES = 'import torch'"

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, os.environ["SOURCE"])
from hardgrpo.runtime import errors, warm

def main():
    print("warm" if "torch" in sys.modules else "cold", os.getpid(), os.getppid(), flush=True)
    exec(sys.argv[1], globals())

if __name__ == "__main__":
    warm.run(main, may_start="DOES_WITHOUT" not in os.environ)
"""
COUNT = """
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append("TERM"))
signal.signal(signal.SIGINT, lambda *_: got.append("INT"))
print("ready", flush=True)
while not got:
    time.sleep(0.01)
time.sleep(0.3)
print(got)
"""


class World:
    """A folder with a program, and a process in place of Snakemake."""

    def __init__(self, folder: Path, libraries: str = ""):
        self.folder, self.sockets, source = folder, folder / "sockets", ROOT / "src"
        (folder / "program.py").write_text(PROGRAM)
        if libraries:
            source = folder / "src"
            shutil.copytree(ROOT / "src/hardgrpo/runtime", source / "hardgrpo/runtime")
            (source / "hardgrpo/__init__.py").touch()
            text = (source / "hardgrpo/runtime/warm.py").read_text()
            assert text.count("\nSOURCE = ") == 1
            (source / "hardgrpo/runtime/warm.py").write_text(
                text.replace("\nSOURCE = ", f"\n{libraries}\nSOURCE = ")
            )
        self.snakemake = subprocess.Popen(["sleep", "7200"])
        self.environment = os.environ | {
            "HARDGRPO_WARM": f"{self.sockets}/{self.snakemake.pid}",
            "OMP_NUM_THREADS": "1",
        }
        self.environment |= {"SOURCE": str(source)}

    def end(self) -> None:
        self.snakemake.kill()
        self.snakemake.wait()

    def start(self, code: str, *arguments: str, **environment) -> tuple:
        """(the program, "warm" or "cold", the process that it runs in, the parent of this process).
        A process that has already ended is None."""
        process = subprocess.Popen(
            [sys.executable, "program.py", code, *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            text=True,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        origin, number, parent = process.stdout.readline().split()
        return process, origin, running(int(number)), running(int(parent))


def running(number: int) -> psutil.Process | None:
    return psutil.Process(number) if psutil.pid_exists(number) else None


def finish(process: subprocess.Popen, sent: str = "") -> tuple[str, str]:
    """Return the remaining output and errors. `communicate` is not used, because it does not know
    what `readline` has buffered."""
    process.stdin.write(sent)
    process.stdin.close()
    printed = process.stdout.read(), process.stderr.read()
    process.wait()
    return printed


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("warm"))
    yield world
    world.end()


@pytest.fixture(params=["warm", "cold"])
def start(world, request):
    """A function that starts programs. The tests must pass whether a program is started directly
    or by the server."""

    def start(code: str):
        process, origin, *processes = world.start(
            code, **{"HARDGRPO_WARM": "off"} if request.param == "cold" else {}
        )
        assert origin == request.param
        return process, *processes

    return start


def test_a_fork_has_the_streams_arguments_folder_and_environment_of_the_program(start, world):
    code = """
print(sys.argv[0], os.getcwd(), os.environ["OMP_NUM_THREADS"], os.environ.get("HARDGRPO_WARM") or None, sys.stdin.read())
print("to stderr", file=sys.stderr)
"""
    process, *_ = start(code)
    assert finish(process, "sent\n") == (
        f"program.py {world.folder} 1 None sent\n\n",
        "to stderr\n",
    )
    assert process.returncode == 0


def test_the_program_waits_for_threads_and_calls_exit_handlers_at_its_end(start):
    code = """
import atexit, threading
atexit.register(print, "handler", end="")
threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
sys.exit(2)
"""
    process, *_ = start(code)
    assert finish(process) == ("thread\nhandler", "")
    assert process.returncode == 2


def test_a_program_with_closed_output_fails_without_a_traceback(start):
    process, *_ = start("sys.stdin.read()\nprint('to nobody')")
    process.stdout.close()
    process.stdin.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait()


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('what is wrong')", 1, "what is wrong\n"),
        ("raise errors.UserError('the file F is empty')", 1, "error: the file F is empty\n"),
        ("os._exit(4)", 4, ""),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_the_process_ends_with_the_output_and_status_of_the_program(start, code, status, output):
    process, *_ = start(code)
    assert finish(process)[1] == output and process.returncode == status


def test_a_signal_reaches_the_program_once(start):
    process, *_ = start(COUNT)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert finish(process) == ("['TERM']\n", "") and process.returncode == 0


def test_signals_have_their_default_effect_on_the_program(start):
    """No signal is blocked or ignored. A signal for which the program has set no handler ends the
    program."""
    code = """
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), [signal.getsignal(n) == signal.SIG_DFL for n in (1, 15, signal.SIGCHLD)])
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
    process, *_ = start(code)
    assert finish(process) == ("set() [True, True, True]\nTrue\n", "")
    process, *_ = start("time.sleep(3600)")
    process.terminate()
    finish(process)
    assert process.returncode == -signal.SIGTERM


def test_ctrl_c_reaches_the_program_once(start):
    """A terminal sends Ctrl-C to the whole process group."""
    process, *_ = start(COUNT)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert finish(process) == ("['INT']\n", "")


def test_a_program_that_is_killed_does_not_go_on(start):
    process, real, _ = start("time.sleep(3600)")
    process.kill()
    assert has_ended(real)


def test_each_program_reads_the_current_code_of_its_clone(start, world):
    for value in ("one", "another"):
        (world.folder / "beside.py").write_text(f"value = {value!r}")
        process, *_ = start("import beside; print(beside.value)")
        assert finish(process) == (f"{value}\n", "")


def test_a_program_that_needs_no_torch_starts_no_server_but_uses_a_running_server(world):
    starts = []
    for environment in (
        {"DOES_WITHOUT": "1", "HARDGRPO_WARM": f"{world.sockets}/{os.getpid()}"},
        {},
        {"DOES_WITHOUT": "1"},
    ):
        process, origin, *_ = world.start("print('done')", **environment)
        assert finish(process) == ("done\n", "")
        starts.append(origin)
    assert starts == ["cold", "warm", "warm"]


def test_a_program_with_another_number_of_threads_gets_another_server(world):
    first_process, first_origin, _, parent = world.start("pass")
    threads = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    second_process, second_origin, _, other_parent = world.start(
        "import torch; print(torch.get_num_threads())", **threads
    )
    assert first_origin == second_origin == "warm"
    assert parent and other_parent and parent != other_parent
    assert finish(second_process)[0] == "2\n" and first_process.wait() == 0


def test_a_program_reports_a_killed_server_and_the_next_program_starts_a_new_server(tmp_path):
    world = World(tmp_path, TORCH_ALONE)
    process, _, real, parent = world.start("time.sleep(3600)")
    parent.kill()
    assert finish(process)[1].startswith("error: the process that this program ran in was killed")
    assert process.returncode == 1
    if sys.platform == "linux":
        assert has_ended(real)
    next_process, origin, *_ = world.start("pass")
    assert origin == "warm" and next_process.wait() == 0
    world.end()


def test_the_server_ends_with_snakemake_and_leaves_no_socket(tmp_path):
    world = World(tmp_path, TORCH_ALONE)
    process, _, real, parent = world.start(
        "print('ready', flush=True); time.sleep(2); print('whole')"
    )
    assert process.stdout.readline() == "ready\n"
    before = sum(parent.cpu_times()[:2])
    # the killed process stays a zombie, as in a container without an init
    world.snakemake.kill()
    time.sleep(1.5)
    assert sum(parent.cpu_times()[:2]) - before < 0.5, "the server must wait without polling"
    assert finish(process)[0] == "whole\n", "a running program must not be ended"
    assert has_ended(parent) and [path.name for path in world.sockets.iterdir()] == ["lock"]
    world.end()


@pytest.mark.parametrize(("gpus", "expected"), [("0", "warm"), ("1", "cold")])
def test_a_program_that_uses_gpus_is_not_run_by_the_server(world, gpus, expected):
    process, origin, *_ = world.start("pass", "--engine", "transformers", "--gpus", gpus)
    assert origin == expected and process.wait() == 0


def test_a_folder_of_sockets_that_others_can_write_to_is_not_used(tmp_path):
    world = World(tmp_path)
    world.sockets.mkdir()
    world.sockets.chmod(0o777)
    process, origin, *_ = world.start("pass")
    assert origin == "cold" and process.wait() == 0
    world.end()


def has_ended(process: psutil.Process) -> bool:
    try:
        process.wait(600)
    except psutil.TimeoutExpired:
        return False
    return True


def test_a_fork_has_the_priority_of_its_program(world):
    command = ["nice", "-n", "5", sys.executable, "program.py", "print(os.nice(0))"]
    done = subprocess.run(
        command, cwd=world.folder, env=world.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("warm") and done.stdout.splitlines()[-1] == str(
        min(19, os.nice(0) + 5)
    )


def test_a_signal_after_the_death_of_the_server_gives_no_traceback():
    import socket

    from hardgrpo.runtime import warm

    client, server = socket.socketpair()
    server.close()
    warm._forward_signal(client, signal.SIGTERM)
    warm._forward_signal(client, signal.SIGTERM)


def test_streams_of_a_program_that_dies_during_its_request_are_closed(world):
    import socket

    world.start("pass")[0].wait()  # the server still runs
    reader, writer = os.pipe()
    connection = socket.socket(socket.AF_UNIX)
    # the socket of an earlier server may still exist
    for place in (path for path in world.sockets.iterdir() if path.is_socket()):
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(str(place))
            break
    socket.send_fds(connection, [b"%8d" % 100], [writer] * 3)
    connection.close()
    os.close(writer)
    assert os.read(reader, 1) == b"", "the pipe's write end must be closed in all processes"


def test_a_server_that_dies_during_a_request_gives_a_one_line_error(monkeypatch, capsys):
    import socket

    from hardgrpo.runtime import warm

    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    client, server = socket.socketpair()
    server.close()
    assert warm.hand_over(client) == 1
    assert (
        capsys.readouterr().err
        == "error: the process that this program ran in was killed; start the same command again\n"
    )


def test_a_message_in_two_parts_is_received_whole():
    import socket

    from hardgrpo.runtime import warm

    client, server = socket.socketpair()
    client.sendall(b"two ")
    threading.Timer(0.1, client.sendall, [b"parts"]).start()
    assert warm._receive(server, 9) == b"two parts"
    client.close()
    assert warm._receive(server, 1) == b"", "a closed connection must give an empty message"
