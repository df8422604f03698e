"""Run programs in forks of a server process that has already imported torch, TRL and Matplotlib.

The imports take 5 to 8 s of each job, and a small study has hundreds of jobs. Snakemake starts the
server before its first job (`start`), and HARDGRPO_WARM names the server's socket. The server
imports the libraries when the first program connects, and ends with Snakemake. A program whose
server has ended, or with HARDGRPO_WARM=off, runs in its own process.

The server imports only libraries; each fork imports the current code of its program. A program
therefore imports heavy libraries inside its `main`.
"""

import argparse
import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

from hardgrpo.runtime import environments, errors

SOCKET, OFF = "HARDGRPO_WARM", "off"
LIBRARIES = (
    "import torch, datasets, peft, transformers.models.qwen3.modeling_qwen3, trl.trainer.grpo_trainer"
    "; import matplotlib.backends.backend_pdf, matplotlib.pyplot, statsmodels.api"
)
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start() -> None:
    folder = tempfile.mkdtemp(prefix="hardgrpo-")  # only this user can enter it
    os.environ[SOCKET] = os.path.join(folder, "socket")
    # The server's stdin ends with this process, which never closes `write_end`.
    read_end, write_end = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[SOCKET])
        listener.listen(128)
        subprocess.Popen(
            [sys.executable, "-m", "hardgrpo.runtime.warm", folder, str(listener.fileno())],
            cwd=environments.SOURCE,
            env=os.environ | environments.OFFLINE | THREADS,
            pass_fds=[listener.fileno()],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal does not reach the server
        )
    os.close(read_end)


def run(main: Callable[[], None]) -> None:
    """Run `errors.run(main)` in a fork of the server, or here if there is none."""
    environments.prepare_exact()
    path = os.environ.pop(SOCKET, OFF)  # child processes (torchrun) do not use the server
    status = None if path == OFF or needs_own_process() else run_in_fork(path)
    if status is None:
        errors.run(main)
    else:
        sys.exit(status)


def needs_own_process() -> bool:
    """Whether this program uses GPUs (CUDA fails in a fork of a process that has looked for GPUs),
    needs no torch because a server samples, or has more threads than the server."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--engine")
    arguments = parser.parse_known_args()[0]
    has_threads = os.environ.get("OMP_NUM_THREADS") != THREADS["OMP_NUM_THREADS"]
    return arguments.gpus != "0" or arguments.engine == "server" or has_threads


def run_in_fork(path: str) -> int | None:
    """The exit status of this program in a fork; None if the server does not answer."""
    program = {
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "path": sys.path,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            socket.send_fds(connection, [b"\n"], [0, 1, 2])
            connection.sendall(json.dumps(program).encode() + b"\n")
            replies = connection.makefile()
            fork = int(replies.readline())
        except (OSError, ValueError):
            return None
        for number in FORWARDED_SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, _: send_signal(fork, number))
        if reply := replies.readline():
            return int(reply)
    print(
        "error: the process of this program was killed; run the same command again", file=sys.stderr
    )
    return 1


def send_signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # the process has ended
        os.kill(process, number)


def serve(folder: str, listener: socket.socket) -> None:
    """Fork for each connection, until Snakemake's end ends the server's stdin."""
    while 0 not in select.select([0, listener], [], [])[0]:
        if "torch" not in sys.modules:
            environments.prepare_exact()
            exec(LIBRARIES, {})
            gc.freeze()  # keeps garbage collection from writing to memory that forks share
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the server does not wait for its forks
        connection, _ = listener.accept()
        with connection:
            if not os.fork():
                try:
                    run_program(connection)
                finally:
                    os._exit(1)
    shutil.rmtree(folder)


def run_program(connection: socket.socket) -> None:
    """Fork again and run the program that connected. Reply with the fork's number and, after its
    end, its exit status (128 + N if signal N ended it)."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    program = json.loads(connection.makefile().readline())
    fork = os.fork()
    if not fork:
        become(program, streams)
    for stream in streams:
        os.close(stream)

    def kill_with_program() -> None:
        connection.recv(1)  # returns when the program has ended
        send_signal(fork, signal.SIGKILL)

    threading.Thread(target=kill_with_program, daemon=True).start()
    connection.sendall(b"%d\n" % fork)
    status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
    connection.sendall(b"%d\n" % (status if status >= 0 else 128 - status))


def become(program: dict, streams: list[int]) -> None:
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)
    os.chdir(program["folder"])
    os.environ.clear()
    os.environ.update(program["environment"])
    sys.argv[:], sys.path[:] = program["arguments"], program["path"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "hardgrpo"]:
        del sys.modules[name]  # to import the program's code
    status = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:  # a code that is neither a number nor None is an error message
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    # without Python's teardown of loaded libraries, which takes longer than drawing a figure
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # a full disk, or a closed pipe
        status = status or 1
    os._exit(status & 255)


if __name__ == "__main__":
    serve(sys.argv[1], socket.socket(fileno=int(sys.argv[2])))
