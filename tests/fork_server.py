"""Run Snakemake and programs in forks of a process that has already imported their libraries. Most
tests use this module, because the imports take half of the time of a dry-run."""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO

import yaml

run_process = subprocess.run
SOURCES = str(Path(__file__).parents[1] / "src")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["snakemake.cli", "snakemake.executors.local", "snakemake.report.html_reporter", "smart_open"]
    + ["yte", "pydantic", "pandas", "scipy.stats", "statsmodels.api", "httpx2"]
)


def run(
    program: str, arguments: list[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Run `python PROGRAM ARGUMENTS` in a folder, or `.venv/bin/snakemake ARGUMENTS` if the program
    is "snakemake". By default the environment is that of this process, with src/ of this clone as
    PYTHONPATH."""
    environment = os.environ | {"PYTHONPATH": SOURCES} if environment is None else environment
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        streams = [CONTEXT.reducer.DupFd(stream.fileno()) for stream in (out, err)]
        call = (program, arguments, str(folder), environment, streams)
        process = CONTEXT.Process(target=become_served, args=call)
        process.start()
        process.join()
        return ended([program, *arguments], process.exitcode, out, err)


def ended(command: list[str], status: int, *streams: IO[str]) -> subprocess.CompletedProcess:
    for stream in streams:
        stream.seek(0)
    return subprocess.CompletedProcess(command, status, *(stream.read() for stream in streams))


def run_by_program(command: list[str], **options) -> subprocess.CompletedProcess:
    """A stand-in for `subprocess.run` in a program that starts Snakemake: Snakemake runs in a fork
    of the program's process, which has already imported Snakemake."""
    if command[:3] != [sys.executable, "-m", "snakemake"]:
        return run_process(command, **options)
    assert options.keys() == {"env", "capture_output", "text", "check"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if not child:
            # The fork must not run the program's exit handlers, which remove its temporary folders.
            atexit._clear()
            streams = (out.fileno(), err.fileno())
            become("snakemake", command[3:], os.getcwd(), options["env"], streams)
        return ended(command, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), out, err)


def become_served(program: str, arguments: list[str], folder: str, environment: dict, streams):
    """Call `become` in a new process of the fork server. If the program itself starts Snakemake,
    `run_by_program` runs Snakemake."""
    if program != "snakemake":
        subprocess.run = run_by_program
    become(program, arguments, folder, environment, [stream.detach() for stream in streams])


def become(program: str, arguments: list[str], folder: str, environment: dict, streams) -> None:
    """Set the streams, folder, environment, arguments and `sys.path` of this process, run the
    program, and exit with its status."""
    for number, stream in zip((1, 2), streams):
        os.dup2(stream, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", 1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    module_folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path[:] = [folder, *module_folders, *installed]
    sys.argv = [program, *arguments]
    status = 0
    try:
        if program == "snakemake":
            # Snakemake reads config.yaml with FullLoader; CFullLoader is eight times as fast.
            yaml.FullLoader = yaml.CFullLoader
            sys.path.insert(0, os.path.join(folder, "src"))
            runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()  # processes of multiprocessing do not run exit handlers
    sys.stdout.flush()
    os._exit(status)
