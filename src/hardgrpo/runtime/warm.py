"""Programs that start with torch, transformers and TRL loaded: a process that has imported them forks for each program.

Loading takes seconds, a large part of each of the many short jobs of a small study (`make bench ONLY=startup`). Where Snakemake
runs its jobs on this machine it names a socket in HARDGRPO_WARM, unless that is `off` (see rules/common.smk). The first program
starts the process behind it, which ends with that Snakemake; it loads libraries alone, so that each program reads this
project's code as it is.

The program that was started hands over its arguments, environment, folder and streams, passes signals on and ends as the forked one ends.
Where that cannot be, it does the work itself, and so it does with GPUs: CUDA does not work in a process forked from one that has looked
for a GPU, as the libraries may do when they are loaded.
"""

import argparse
import contextlib
import ctypes
import fcntl
import gc
import hashlib
import json
import os
import runpy
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hardgrpo.runtime import environments, errors

SOCKET = "HARDGRPO_WARM"  # FOLDER/PID: a folder of this user alone, the process id of Snakemake
OFF = "off"
LIBRARIES = "import torch, datasets, peft, transformers.models.qwen3.modeling_qwen3, trl.trainer.grpo_trainer"
READ_WHEN_LOADED = ("CUDA", "GOMP_", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRL_")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def place() -> str:
    """What HARDGRPO_WARM says where this process is Snakemake."""
    return f"{tempfile.gettempdir()}/hardgrpo-{os.getuid()}/{os.getpid()}"


def run(main: Callable[[], None]) -> None:
    """`errors.run(main)`, in a process with the libraries loaded where there is one."""
    path = os.environ.pop(SOCKET, None)  # what this program starts itself (torchrun's processes) starts as ever
    connection = connect(Path(path)) if path not in (None, OFF) and not wants_gpus() else None
    if connection is None:
        errors.run(main)
        return
    status = hand_over(connection)
    if status < 0:
        if -status in PASSED_ON:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def wants_gpus() -> bool:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--gpus", default="0")
    return parser.parse_known_args()[0].gpus != "0"


def connect(path: Path) -> socket.socket | None:
    """A connection to the process that forks, which is started if nobody has yet; None where that does not work."""
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(READ_WHEN_LOADED))
    path = path.with_name(f"{path.name}-{hashlib.sha256(repr((sys.executable, settings)).encode()).hexdigest()[:8]}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        folder = path.parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.getuid() or folder.st_mode & 0o077:
            return None  # somebody else could have put a socket there
        connection = socket.socket(socket.AF_UNIX)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several programs that look at once, one starts it
            if connection.connect_ex(str(path)):
                path.unlink(missing_ok=True)
                start(path)
                connection.connect(str(path))
        return connection
    except OSError:
        return None


def start(path: Path) -> None:
    """Start the process that forks and wait until it listens or has failed."""
    waiting, listening = os.pipe()
    subprocess.Popen(
        [sys.executable, "-m", "hardgrpo.runtime.warm", str(path), str(listening)],
        cwd=Path(__file__).parents[2],
        env=os.environ | environments.OFFLINE,
        pass_fds=[listening],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(listening)
    os.read(waiting, 1)
    os.close(waiting)


def hand_over(connection: socket.socket) -> int:
    """The exit status of this program run by the other process; -N where signal N ended it."""
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    told = {"arguments": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}
    text = json.dumps(told).encode()
    socket.send_fds(connection, [b"%8d" % len(text)], [0, 1, 2])
    connection.sendall(text)
    answer = connection.makefile().readline()
    if not answer:
        print("error: the process that this program ran in was killed; start the same command again", file=sys.stderr)
        return 1
    return int(answer)


def serve(path: Path, listening: int) -> None:
    """Listen at `path` and fork for each connection until Snakemake has ended; returns in the forked processes alone, ready to run
    what was handed over."""
    # A terminal sends them to the programs that were started, too, which pass them on. Blocked and not ignored, so that none is lost on a
    # process that has just been forked; before libraries start threads, which would take them.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    exec(LIBRARIES, {})
    gc.freeze()  # so that collecting does not write to memory that all share
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    os.close(listening)
    running: dict[int, socket.socket] = {}
    while running or is_alive(int(path.name.partition("-")[0])):
        ready, _, _ = select.select([listener, woken, *running.values()], [], [], 1)
        if woken in ready:
            os.read(woken, 4096)
        for child, connection in running.items():
            if connection in ready:
                try:
                    asked = connection.recv(1)
                except OSError:
                    asked = b""
                os.kill(child, asked[0] if asked else signal.SIGKILL)  # nothing: the program that was started is gone
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError), running.pop(child) as connection:
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        if listener in ready:
            connection, _ = listener.accept()
            try:
                length, streams, _, _ = socket.recv_fds(connection, 8, 3)
                told = json.loads(connection.recv(int(length), socket.MSG_WAITALL))
            except (OSError, ValueError):  # the program that was started is gone
                connection.close()
                continue
            child = os.fork()
            if not child:
                os.close(woken)
                os.close(wake)
                become(**told, streams=streams)
                return
            running[child] = connection
            for stream in streams:
                os.close(stream)
    path.unlink()


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Make this forked process what the program that was started would be."""
    os.setpgid(0, 0)  # a terminal's signals come once, by way of that program
    with contextlib.suppress(AttributeError):  # Linux alone: not to outlive the process that says how this one ended
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", 1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[0] = str(Path(sys.argv[0]).absolute().parent)
    for name in [name for name in sys.modules if name.partition(".")[0] == "hardgrpo"]:
        del sys.modules[name]  # this project's code may have changed


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
    if sys.argv[0] != __file__:
        runpy.run_path(sys.argv[0], run_name="__main__")
