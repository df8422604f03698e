"""The replacements of Slurm's commands in slurm/bin."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT
from fakes import write_program


def call(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess:
    """Call a command of slurm/bin, which calls Slurm's command of the same name in the folder."""
    path = f"{ROOT / 'slurm/bin'}:{folder}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path} | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("tool", ["sacct", "squeue"])
@pytest.mark.parametrize("code", [0, 3])
def test_a_preempted_job_is_reported_as_cancelled(tool, code, tmp_path):
    """With slurm-no-requeue, the plugin would wait forever for a job with state PREEMPTED."""
    states = '#!/bin/sh\nprintf "1|PREEMPTED\\n2|CANCELLED by 1000\\n3|COMPLETED\\n"; exit $CODE\n'
    write_program(tmp_path / tool, states)
    done = call(tmp_path, tool, "-x", CODE=str(code))
    assert (done.returncode, done.stdout) == (code, "1|CANCELLED\n2|CANCELLED\n3|COMPLETED\n")


REFUSED = "sbatch: error: Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


def submit(folder: Path, message: str, *arguments: str) -> subprocess.CompletedProcess:
    """Call slurm/bin/sbatch where Slurm's sbatch refuses the first job with `message`, and accepts
    the second."""
    write_program(
        folder / "sbatch",
        '#!/bin/sh\necho "$*" >> calls\n[ -e refused ] && { echo warning >&2; echo 17; exit 0; }\n'
        f'touch refused\nprintf "{message}\\n" >&2\nexit 1\n',
    )
    write_program(folder / "sleep", "#!/bin/sh\n")
    return call(folder, "sbatch", *arguments)


LIMITS = "AssocMaxSubmitJobLimit AssocGrpSubmitJobsLimit QOSMaxSubmitJobPerUserLimit MaxSubmitJobsPerAccount QOSGrpSubmitJobsLimit"


@pytest.mark.parametrize(
    "message",
    [
        *(f"sbatch: error: {limit}\n{REFUSED}{POLICY}" for limit in LIMITS.split()),
        f"{REFUSED}{POLICY}",  # the message names no limit
        f"allocation failure: {POLICY}",  # the same with --test-only
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        f"{REFUSED}Unable to contact slurm controller (connect failure)",
        f"{REFUSED}Socket timed out on send/recv operation",
        f"{REFUSED}Protocol authentication error",
    ],
)
def test_a_job_that_slurm_refuses_for_now_is_submitted_again(tmp_path, message):
    done = submit(tmp_path, message, "--parsable", "--wrap=a 'b  c'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "17\n", "warning\n")
    assert (tmp_path / "calls").read_text() == "--parsable --wrap=a 'b  c'\n" * 2
    log = (tmp_path / "results/logs/slurm/waiting.log").read_text()
    assert message.splitlines()[0] in log
    (tmp_path / "refused").unlink()
    assert submit(tmp_path, message, "--test-only").returncode == 75


@pytest.mark.parametrize(
    "message",
    [
        f"sbatch: error: QOSMaxWallDurationPerJobLimit\n{REFUSED}{POLICY}",
        f"sbatch: error: QOSMaxCpuPerUserLimit\nallocation failure: {POLICY}",
        f"{REFUSED}Invalid account or account/partition combination specified",
    ],
)
def test_a_job_that_slurm_refuses_for_good_is_submitted_once(tmp_path, message):
    done = submit(tmp_path, message, "--parsable")
    assert (done.returncode, done.stdout) == (1, "") and done.stderr == message + "\n"
    assert (tmp_path / "calls").read_text() == "--parsable\n"
