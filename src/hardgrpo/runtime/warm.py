"""Start programs with torch, transformers and TRL already loaded: a server process imports them once and forks for each program.

Loading takes seconds, a large part of each short job of a small study (`make bench ONLY=startup`). When Snakemake runs its jobs on
this machine, it sets HARDGRPO_WARM to the path of a socket (hardgrpo.workflow.startup); `off` turns this off. The first program that needs torch
starts the server, which ends with Snakemake. Snakemake keeps a path that is set already; the tests set one, and so share a server. The
server loads only libraries, and each program reads the current code of its own clone.

A program sends its arguments, environment, folder and streams to the server, forwards signals to the forked process, and exits with
its status. If there is no server, the program does the work itself. So do programs that need GPUs: CUDA fails in a process whose
parent has looked for a GPU, which the libraries may do on import. A program imports what takes long inside its `main`, so that it is
imported only where the work is done.
"""

import argparse
import atexit
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
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hardgrpo.runtime import environments, errors, ownership, user_settings

SOCKET = "HARDGRPO_WARM"  # FOLDER/PID: a folder that only this user can enter, and the process id of Snakemake
OFF = "off"
LIBRARIES = (
    "import torch, datasets, peft, transformers.models.qwen3.modeling_qwen3, trl.trainer.grpo_trainer"
    "; import matplotlib.backends.backend_pdf, matplotlib.pyplot, statsmodels.api"
)
SOURCE = str(Path(__file__).parents[2])  # where this package is
READ_WHEN_LOADED = ("CUDA", "GOMP_", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "MPL", "OMP_", "OPENBLAS_", "PYTHON", "TORCH", "TRL_")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def place() -> str:
    """The value of HARDGRPO_WARM if this process is Snakemake."""
    return f"{tempfile.gettempdir()}/hardgrpo-{os.getuid()}/{os.getpid()}"


def run(main: Callable[[], None], starts: bool = True) -> None:
    """`errors.run(main)` in a fork of the server, which is started if it is not running. With `starts` False and no server, run in
    this process: a program that needs no torch is done sooner than the server has started."""
    path = os.environ.pop(SOCKET, None)  # processes that this program starts (torchrun) do without the server
    connection = connect(Path(path), starts) if path not in (None, OFF) and not wants_gpus() else None
    if connection is None:
        errors.run(main)
        return
    status = hand_over(connection)
    if status < 0:
        if -status in PASSED_ON:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def others(paths: list[str]) -> list[str]:
    """The paths from which a server loads libraries: all but that of this package, so that clones share a server."""
    return [path for path in paths if path != SOURCE]


def wants_gpus() -> bool:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--gpus", default="0")
    return parser.parse_known_args()[0].gpus != "0"


def connect(path: Path, starts: bool = True) -> socket.socket | None:
    """A connection to the server, which is started if it does not run yet and `starts` is True; None if there is none."""
    modules = os.pathsep.join(others(os.getenv("PYTHONPATH", "").split(os.pathsep)))
    read = os.environ | environments.OFFLINE | {"PYTHONPATH": modules}  # what `start` gives the server
    names = [
        name for name in read if name.startswith(READ_WHEN_LOADED) and name != user_settings.COMPILED
    ]  # a folder of each clone
    settings = sorted((name, read[name]) for name in names)
    known = repr((sys.executable, settings, namespaces()))
    path = path.with_name(f"{path.name}-{hashlib.sha256(known.encode()).hexdigest()[:8]}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.parent.is_dir() or ownership.problem(path.parent, private=True):
            return None  # another user could have put a socket there
        connection = socket.socket(socket.AF_UNIX)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # only one of several programs starts the server
            if connection.connect_ex(str(path)):
                if not starts:
                    return None
                path.unlink(missing_ok=True)
                start(path)
                connection.connect(str(path))
        return connection
    except OSError:
        return None


def namespaces() -> list[str]:
    """Namespaces of processes and mounts: Snakemakes in containers that share the folder of sockets may have equal process ids."""
    with contextlib.suppress(OSError):
        return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt")]
    return []


def start(path: Path) -> None:
    """Start the server and wait until it listens or has failed."""
    waiting, listening = os.pipe()
    subprocess.Popen(
        [sys.executable, "-m", "hardgrpo.runtime.warm", str(path), str(listening)],
        cwd=SOURCE,
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
    """Let the server run this program and return its exit status; -N if signal N ended it."""
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: _tell(connection, number))
    told = {"arguments": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ), "source": SOURCE, "niceness": os.nice(0)}
    text = json.dumps(told).encode()
    try:
        socket.send_fds(connection, [b"%8d" % len(text)], [0, 1, 2])
        connection.sendall(text)
        answer = connection.makefile().readline()
    except ConnectionError:  # the server was killed
        answer = ""
    if not answer:
        print("error: the process that this program ran in was killed; start the same command again", file=sys.stderr)
        return 1
    return int(answer)


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the server is gone, and the program with it
        connection.sendall(bytes([number]))


def serve(path: Path, listening: int) -> None:
    """Listen at `path` and fork for each connection, until Snakemake has ended. Returns only in the forked processes, which then run
    the program of the connection."""
    # A terminal also signals the programs, which forward the signal. Block signals before libraries start threads that could receive
    # them; ignoring instead would lose signals to a process that has just been forked.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    exec(LIBRARIES, {})
    gc.freeze()  # garbage collection then does not write to memory that forks share
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    os.close(listening)
    running: dict[int, socket.socket] = {}
    snakemake, serving = Watched(int(path.name.partition("-")[0])), True
    while running or serving:
        watched = snakemake.files if serving else []  # readable from its end on
        ready, _, _ = select.select([listener, woken, *watched, *running.values()], [], [], 1)
        serving = serving and snakemake.is_alive(ready)
        if woken in ready:
            os.read(woken, 4096)
        for child, connection in running.items():
            if connection in ready:
                try:
                    asked = connection.recv(1)
                except OSError:
                    asked = b""
                os.kill(child, asked[0] if asked else signal.SIGKILL)  # no byte: the program is gone
                if not asked:  # the job's next attempt must not overlap with it
                    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError), running.pop(child) as connection:
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        if listener in ready:
            connection, _ = listener.accept()
            streams = []
            try:
                length, streams, _, _ = socket.recv_fds(connection, 8, 3)
                told = json.loads(_received(connection, int(length)))
            except (OSError, ValueError):  # the program is gone
                connection.close()
                for stream in streams:  # else their readers would not see the end of file
                    os.close(stream)
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


def _received(connection: socket.socket, length: int) -> bytes:
    """Read `length` bytes, or fewer if the connection ends. A single `recv` may return only some of them."""
    found = b""
    while len(found) < length and (more := connection.recv(length - len(found))):
        found += more
    return found


class Watched:
    """Tells whether a process has ended. Linux has pidfds for this: they also report zombies, and never mean a later process with
    the same id. Elsewhere signal 0 asks."""

    def __init__(self, process: int):
        self.process, self.files = process, []
        with contextlib.suppress(AttributeError, OSError):
            self.files = [os.pidfd_open(process)]

    def is_alive(self, ready: list) -> bool:
        """`ready`: what `select` found among `files` and others."""
        if self.files:
            return self.files[0] not in ready
        try:
            os.kill(self.process, 0)
        except OSError:
            return False
        return True


def become(arguments: list[str], folder: str, environment: dict[str, str], source: str, niceness: int, streams: list[int]) -> None:
    """Turn this forked process into the program: its process group, priority, signals, streams, folder, environment, arguments and
    modules."""
    os.setpgid(0, 0)  # a terminal's signals come once, through the program
    os.nice(max(0, niceness - os.nice(0)))
    with contextlib.suppress(AttributeError):  # Linux only: end with the server, which reports this process's status
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # `errors.run` catches it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", 1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[:] = [str(Path(sys.argv[0]).absolute().parent), source, *others(sys.path[1:])]
    for name in [name for name in sys.modules if name.partition(".")[0] == "hardgrpo"]:
        del sys.modules[name]  # reload them: this project's code may have changed


class Ending:
    """Ends this process right after all exit handlers: Python's teardown of loaded libraries takes longer than drawing a figure."""

    def __init__(self):
        self.status: int | None = None
        atexit.register(self.leave)  # registered before all others, so called last

    def leave(self) -> None:
        if self.status is not None:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:  # a full disk, or a closed pipe
                self.status = self.status or 120  # Python's own status in this case
            os._exit(self.status)


def main() -> None:
    ending = Ending()
    serve(Path(sys.argv[1]), int(sys.argv[2]))
    if sys.argv[0] == __file__:
        return
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        ending.status = 0
    except SystemExit as end:  # a code that is neither a number nor None is a message
        ending.status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


if __name__ == "__main__":
    main()
