"""Start programs with torch, transformers and TRL already loaded: a server process imports the
libraries once and forks for each program.

Loading takes several seconds, a large part of each short job of a small study. If jobs run on the
same machine as Snakemake, the workflow (hardgrpo.workflow.startup) sets HARDGRPO_WARM to a path from which the path of a socket is made;
HARDGRPO_WARM=off turns the server off. The first program that needs torch starts the server, which
ends with Snakemake. The workflow keeps a path that is already set, so the tests can share a server.
The server loads only libraries; each fork loads the project's current code from the clone of its
program.

A program sends its arguments, environment, folder and streams to the server, forwards signals to
the forked process, and exits with the status of that process. Without a server, the program does
the work itself. Programs that need GPUs never use the server: CUDA fails in a process whose parent
has looked for a GPU, and the libraries may look for GPUs on import. A program imports heavy
libraries inside its `main`, so that only the process that does the work imports them.
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

# The variable's value is FOLDER/PID: a folder that only this user can enter, and the id of the
# process with which the server ends.
SOCKET = "HARDGRPO_WARM"
OFF = "off"
LIBRARIES = (
    "import torch, datasets, peft, transformers.models.qwen3.modeling_qwen3, trl.trainer.grpo_trainer"
    "; import matplotlib.backends.backend_pdf, matplotlib.pyplot, statsmodels.api"
)
SOURCE = str(Path(__file__).parents[2])  # the folder that holds the package
LIBRARY_VARIABLES = (
    "ATEN_",
    "CUDA",
    "GOMP_",
    "HF_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "MPL",
    "OMP_",
    "OPENBLAS_",
    "PYTHON",
    "TORCH",
    "TRL_",
)
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def socket_path() -> str:
    """The value of HARDGRPO_WARM for a server that ends with the calling process: Snakemake, or
    pytest, so that all tests share a server."""
    return f"{tempfile.gettempdir()}/hardgrpo-{os.getuid()}/{os.getpid()}"


def run(main: Callable[[], None], may_start: bool = True) -> None:
    """Run `errors.run(main)` in a fork of the server, which is started if necessary.

    If `may_start` is false, no server is started: if no server is running, `main` runs in this
    process. This is for programs that need no torch: for them, starting a server takes longer than
    running `main` in this process.
    """
    environments.prepare_exact()
    path = os.environ.pop(SOCKET, None)  # child processes (torchrun) do not use the server
    connection = (
        connect(Path(path), may_start)
        if path not in (None, OFF) and not wants_own_process()
        else None
    )
    if connection is None:
        errors.run(main)
        return
    status = hand_over(connection)
    if status < 0:
        if -status in FORWARDED_SIGNALS:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def library_paths(paths: list[str]) -> list[str]:
    """The paths from which a server loads libraries: all of `paths` except the folder of this
    package, so that several clones can share a server."""
    return [path for path in paths if path != SOURCE]


def wants_own_process() -> bool:
    """Whether this program must not run in a fork: it requests GPUs (--gpus), or it needs no torch,
    because an inference server samples the completions (--engine server)."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--engine")
    arguments = parser.parse_known_args()[0]
    return arguments.gpus != "0" or arguments.engine == "server"


def connect(path: Path, may_start: bool = True) -> socket.socket | None:
    """A connection to the server, which is started if it is not running and `may_start` is true;
    None if there is no server to connect to."""
    modules = os.pathsep.join(library_paths(os.getenv("PYTHONPATH", "").split(os.pathsep)))
    # the environment that `start` gives to the server, but PYTHONPATH without this clone's folder
    server_environment = os.environ | environments.OFFLINE | {"PYTHONPATH": modules}
    # INDUCTOR_VARIABLE is left out, because its value differs between clones that share a server.
    settings = sorted(
        (name, value)
        for name, value in server_environment.items()
        if name.startswith(LIBRARY_VARIABLES) and name != user_settings.INDUCTOR_VARIABLE
    )
    server_key = repr((sys.executable, settings, namespaces()))
    path = path.with_name(f"{path.name}-{hashlib.sha256(server_key.encode()).hexdigest()[:8]}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.parent.is_dir() or ownership.problem(path.parent, private=True):
            return None  # another user could have created a socket there
        connection = socket.socket(socket.AF_UNIX)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may call `connect` at once
            if connection.connect_ex(str(path)):
                if not may_start:
                    return None
                path.unlink(missing_ok=True)
                start(path)
                connection.connect(str(path))
        return connection
    except OSError:
        return None


def namespaces() -> list[str]:
    """Identifiers of this process's PID and mount namespaces. They distinguish processes of
    Snakemake that have the same id in different containers, if the containers share the folder of
    sockets."""
    with contextlib.suppress(OSError):
        return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt")]
    return []


def start(path: Path) -> None:
    """Start the server, and wait until it listens or has failed."""
    read_end, write_end = os.pipe()
    subprocess.Popen(
        [sys.executable, "-m", "hardgrpo.runtime.warm", str(path), str(write_end)],
        cwd=SOURCE,
        env=os.environ | environments.OFFLINE,
        pass_fds=[write_end],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write_end)
    os.read(read_end, 1)
    os.close(read_end)


def hand_over(connection: socket.socket) -> int:
    """Let the server run this program. Return its exit status; -N if signal N ended it."""
    for number in FORWARDED_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: _forward_signal(connection, number))
    program = {
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "source": SOURCE,
        "niceness": os.nice(0),
    }
    text = json.dumps(program).encode()
    try:
        socket.send_fds(connection, [b"%8d" % len(text)], [0, 1, 2])
        connection.sendall(text)
        reply = connection.makefile().readline()
    except ConnectionError:  # the server was killed
        reply = ""
    if not reply:
        print(
            "error: the process that this program ran in was killed; start the same command again",
            file=sys.stderr,
        )
        return 1
    return int(reply)


def _forward_signal(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the server and its forks have ended
        connection.sendall(bytes([number]))


def serve(path: Path, ready_pipe: int) -> None:
    """Listen at `path` and fork for each connection, until Snakemake has ended. `ready_pipe` is
    closed once the server listens.

    This function returns in each forked process, which then runs the program of its connection. In
    the server, it returns after Snakemake has ended.
    """
    # Ctrl-C in a terminal must not end the server. The terminal also signals the programs, which
    # forward the signal to their forks. The server blocks signals instead of ignoring them, so that
    # a new fork does not lose a signal that arrives before `become` unblocks signals. The server
    # blocks signals before the import, so that threads of the libraries inherit the block.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED_SIGNALS)
    exec(LIBRARIES, {})
    gc.freeze()  # keeps garbage collection from writing to memory that forks share
    wakeup_reader, wakeup_writer = os.pipe()
    os.set_blocking(wakeup_writer, False)
    signal.set_wakeup_fd(wakeup_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    os.close(ready_pipe)
    running: dict[int, socket.socket] = {}
    snakemake, serving = WatchedProcess(int(path.name.partition("-")[0])), True
    while running or serving:
        watched_files = snakemake.files if serving else []  # readable once Snakemake has ended
        ready, _, _ = select.select(
            [listener, wakeup_reader, *watched_files, *running.values()], [], [], 1
        )
        serving = serving and snakemake.is_alive(ready)
        if wakeup_reader in ready:
            os.read(wakeup_reader, 4096)
        for child, connection in running.items():
            if connection in ready:
                try:
                    signal_byte = connection.recv(1)
                except OSError:
                    signal_byte = b""
                # no byte: the program has ended
                os.kill(child, signal_byte[0] if signal_byte else signal.SIGKILL)
                # wait, so that the job's next attempt does not overlap with the killed process
                if not signal_byte:
                    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        for child in list(running):
            child_id, status = os.waitpid(child, os.WNOHANG)
            if child_id:
                with contextlib.suppress(OSError), running.pop(child) as connection:
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        if listener in ready:
            connection, _ = listener.accept()
            streams = []
            try:
                length, streams, _, _ = socket.recv_fds(connection, 8, 3)
                program = json.loads(_receive(connection, int(length)))
            except (OSError, ValueError):  # the program has ended
                connection.close()
                # a stream's reader waits for the end of file until this process closes the stream
                for stream in streams:
                    os.close(stream)
                continue
            child = os.fork()
            if not child:
                os.close(wakeup_reader)
                os.close(wakeup_writer)
                become(**program, streams=streams)
                return
            running[child] = connection
            for stream in streams:
                os.close(stream)
    path.unlink()


def _receive(connection: socket.socket, length: int) -> bytes:
    """`length` bytes, or fewer if the connection ends. A single `recv` may return fewer bytes."""
    data = b""
    while len(data) < length and (part := connection.recv(length - len(data))):
        data += part
    return data


class WatchedProcess:
    """A process whose end is detected: on Linux with a pidfd, which is not misled by zombies or
    reused process ids; elsewhere with signal 0."""

    def __init__(self, process: int):
        self.process, self.files = process, []
        with contextlib.suppress(AttributeError, OSError):
            self.files = [os.pidfd_open(process)]

    def is_alive(self, ready: list) -> bool:
        """Whether the process is alive. `ready` are the readable files of a `select` that included
        `files`."""
        if self.files:
            return self.files[0] not in ready
        try:
            os.kill(self.process, 0)
        except OSError:
            return False
        return True


def become(
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    source: str,
    niceness: int,
    streams: list[int],
) -> None:
    """Turn this forked process into the program: set process group, priority, signals, streams,
    folder, environment, arguments and modules."""
    # A terminal sends its signals to the program, which forwards them to this process. In a process
    # group of its own, this process does not also receive them from the terminal.
    os.setpgid(0, 0)
    os.nice(max(0, niceness - os.nice(0)))
    # Linux only: this process is killed when the server ends, because only the server can report
    # the exit status of this process
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED_SIGNALS)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, closefd=False),
        open(1, "w", closefd=False),
        open(2, "w", 1, closefd=False),
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.path[:] = [str(Path(sys.argv[0]).absolute().parent), source, *library_paths(sys.path[1:])]
    for name in [name for name in sys.modules if name.partition(".")[0] == "hardgrpo"]:
        del sys.modules[name]  # to reload the project's code, which may have changed


class QuickExit:
    """Ends this process after all exit handlers, without Python's teardown of loaded libraries,
    which takes longer than drawing a figure."""

    def __init__(self):
        self.status: int | None = None
        atexit.register(self.leave)  # registered first, so called last

    def leave(self) -> None:
        """Flush the streams and end the process, if the program has ended."""
        if self.status is not None:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:  # a full disk, or a closed pipe
                self.status = self.status or 120  # Python's own status in this case
            os._exit(self.status)


def main() -> None:
    quick_exit = QuickExit()
    serve(Path(sys.argv[1]), int(sys.argv[2]))
    if sys.argv[0] == __file__:  # the server itself: `become` replaces sys.argv in a fork
        return
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        quick_exit.status = 0
    except SystemExit as end:  # a code that is neither a number nor None is an error message
        quick_exit.status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


if __name__ == "__main__":
    main()
