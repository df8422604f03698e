"""A job that runs again takes over the training from the process that still holds the run's
lock."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interruptible_run import WITHOUT_SERVER, command, contents, start, states, wait_for


def test_a_run_is_taken_over_from_a_process_that_nobody_waits_for(run):
    orphan = start(run, "taken", env=WITHOUT_SERVER)
    wait_for(lambda: states(run, "taken"), orphan)
    # suspend the process, so that it cannot finish the run before the request to stop arrives
    orphan.send_signal(signal.SIGSTOP)
    log = run / "taking.log"
    with open(log, "w") as stream:
        taking = subprocess.Popen(
            command("taken", "--take-over"), cwd=run, stdout=stream, stderr=stream
        )
    message = f"process {orphan.pid} on {os.uname().nodename} still trains this run, which is now the work of this job"
    wait_for(lambda: message in log.read_text(), taking)
    orphan.send_signal(signal.SIGCONT)
    assert taking.wait() == 0 and message in log.read_text(), log.read_text()
    assert orphan.wait() == 1
    assert json.loads((run / "taken/provenance.json").read_text())["resumed_from"] > 0
    assert contents(run / "taken") == contents(run / "clean")


# A program that writes the lock file of a state and, if the argument `flock` is "flock", also holds
# the lock. At SIGTERM, the program executes the code `at_sigterm` of the test.
HOLDER = """
import fcntl, os, shutil, signal, sys, time
state, text, flock, at_sigterm = sys.argv[1:]
os.makedirs(state)
lock = open(f"{state}/lock", "w")
if flock == "flock":
    fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(text.replace("SELF", str(os.getpid())))
lock.flush()
def stop(*_):
    exec(at_sigterm)
signal.signal(signal.SIGTERM, stop)
print("holds", flush=True)
while True:
    time.sleep(0.05)
"""
FINISH = "time.sleep(0.3); shutil.copytree('clean', state.split('.state')[0]); shutil.rmtree(state); sys.exit(0)"


@pytest.fixture
def held(run):
    """A function that starts a process with the code HOLDER for the run `name`. The process is
    killed after the test."""
    digest, started = json.loads((run / "clean/provenance.json").read_text())["state"], []

    def hold(name: str, text: str, at_sigterm: str, flock: str = "flock") -> subprocess.Popen:
        arguments = [f"{name}.state/{digest}", text, flock, at_sigterm]
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, *arguments], cwd=run, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "holds\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def take_over(
    run, name: str, *arguments: str, path: Path | None = None
) -> subprocess.CompletedProcess:
    env = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    return subprocess.run(
        command(name, "--take-over", *arguments),
        cwd=run,
        capture_output=True,
        text=True,
        env=env,
        timeout=600,
        check=False,
    )


def test_a_run_that_its_holder_finishes_meanwhile_is_not_trained_again(run, held):
    held("meanwhile", f"process SELF on {os.uname().nodename}, Slurm job 7", FINISH)
    done = take_over(run, "meanwhile")
    assert done.returncode == 0 and "another process has finished this run" in done.stdout, (
        done.stderr
    )
    assert contents(run / "meanwhile") == contents(run / "clean") and not list(
        (run / "meanwhile.state").glob("*/lock")
    )


def test_a_lock_that_is_not_released_in_time_is_an_error(run, held):
    held("stubborn", f"process SELF on {os.uname().nodename}", "pass")
    done = take_over(run, "stubborn", "--take-over-minutes", "0.01")
    assert done.returncode == 1 and "did not release this run within 0.01 minutes" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_lock_of_another_host_without_a_slurm_job_is_an_error(run, held):
    held("far", "process 1 on elsewhere", "pass")
    done = take_over(run, "far")
    assert (
        done.returncode == 1
        and "process 1 on elsewhere" in done.stderr
        and "stop it by hand" in done.stderr
    )


def slurm(folder: Path, process: int, state: str, owner: str = "") -> Path:
    """A folder with a squeue that prints state, owner and work folder of job 77, and a scancel that
    sends SIGTERM to `process` instead of job 77."""
    folder.mkdir()
    answers = f'case "$*" in "-h -j 77 -o %T") echo {state};; "-h -j 77 -o %U %Z") echo {owner or "$(id -u) $PWD"};; *) exit 1;; esac\n'
    (folder / "squeue").write_text(f'#!/bin/sh\necho "squeue $*" >> {folder}/calls\n{answers}')
    (folder / "scancel").write_text(
        f'#!/bin/sh\necho "scancel $*" >> {folder}/calls\nkill -TERM {process}\n'
    )
    for program in ("squeue", "scancel"):
        (folder / program).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("flock", "state"), [("flock", "RUNNING"), ("unseen", "RUNNING"), ("unseen", "COMPLETING")]
)
def test_a_job_on_another_node_is_asked_through_slurm_to_stop(run, held, tmp_path, flock, state):
    """Two cases: this node sees that the job holds the lock, or sees only the lock file, whose text
    names the job. A job in state COMPLETING may still save its training state."""
    name = f"job-{flock}-{state}"
    holder = held(name, "process 1 on elsewhere, Slurm job 77", FINISH, flock)
    done = take_over(run, name, path=slurm(tmp_path / "slurm", holder.pid, state))
    assert done.returncode == 0, done.stderr
    assert "process 1 on elsewhere, Slurm job 77 still trains this run" in done.stdout
    assert "scancel --signal=TERM 77\n" in (tmp_path / "slurm/calls").read_text()
    assert "another process has finished this run" in done.stdout


@pytest.mark.parametrize(
    ("owner", "words"),
    [("12345 $PWD", "belongs to another account"), ("$(id -u) /", "in another folder")],
)
def test_a_job_that_is_not_of_this_clone_is_not_signalled(run, held, tmp_path, owner, words):
    name = f"foreign-{words.split()[0]}"
    holder = held(name, "process 1 on elsewhere, Slurm job 77", FINISH)
    done = take_over(run, name, path=slurm(tmp_path / "slurm", holder.pid, "RUNNING", owner))
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1, (
        done.stderr
    )
    assert "scancel" not in (tmp_path / "slurm/calls").read_text() and holder.poll() is None


def test_a_lock_file_of_a_job_that_is_over_is_no_lock(run, held, tmp_path):
    holder = held("stale", "process 1 on elsewhere, Slurm job 77", "pass", "unseen")
    shutil.copytree(run / "clean", run / "stale")  # the run has no updates left
    done = take_over(run, "stale", path=slurm(tmp_path / "slurm", holder.pid, "COMPLETED"))
    assert done.returncode == 0 and "trains this run" not in done.stdout + done.stderr
    assert "scancel" not in (tmp_path / "slurm/calls").read_text()
