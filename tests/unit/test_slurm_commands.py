"""The replacements of Slurm's commands in slurm/bin."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT


@pytest.mark.parametrize("tool", ["sacct", "squeue"])
def test_a_preempted_job_is_reported_as_cancelled(tool, tmp_path):
    """With slurm-no-requeue, the plugin would wait forever for a job with state PREEMPTED."""
    slurm_tool = tmp_path / tool
    slurm_tool.write_text(
        '#!/bin/sh\nprintf "1|PREEMPTED\\n2|CANCELLED by 1000\\n3|COMPLETED\\n"; exit $CODE\n'
    )
    slurm_tool.chmod(0o755)
    path = f"{ROOT / 'slurm/bin'}:{tmp_path}:{os.environ['PATH']}"
    for code in (0, 3):
        done = subprocess.run(
            [tool, "-x"],
            env=os.environ | {"PATH": path, "CODE": str(code)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (code, "1|CANCELLED\n2|CANCELLED\n3|COMPLETED\n")


REFUSED = "sbatch: error: Batch job submission failed: "
POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


def submit(folder: Path, message: str, *arguments: str) -> subprocess.CompletedProcess:
    """Call slurm/bin/sbatch where Slurm's sbatch refuses the first job with `message`, and accepts
    the second."""
    (folder / "sbatch").write_text(
        '#!/bin/sh\necho "$*" >> calls\n[ -e refused ] && { echo warning >&2; echo 17; exit 0; }\n'
        f'touch refused\nprintf "{message}\\n" >&2\nexit 1\n'
    )
    (folder / "sleep").write_text("#!/bin/sh\n")
    for name in ("sbatch", "sleep"):
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["sbatch", *arguments],
        cwd=folder,
        env=os.environ | {"PATH": f"{ROOT / 'slurm/bin'}:{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "message",
    [
        f"sbatch: error: AssocMaxSubmitJobLimit\n{REFUSED}{POLICY}",
        f"sbatch: error: AssocGrpSubmitJobsLimit\n{REFUSED}{POLICY}",
        f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{REFUSED}{POLICY}",
        f"sbatch: error: MaxSubmitJobsPerAccount\n{REFUSED}{POLICY}",
        f"sbatch: error: QOSGrpSubmitJobsLimit\n{REFUSED}{POLICY}",
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
        f"sbatch: error: QOSMaxCpuPerJobLimit\n{REFUSED}{POLICY}",
        f"sbatch: error: QOSMaxCpuPerUserLimit\nallocation failure: {POLICY}",
        f"{REFUSED}Invalid account or account/partition combination specified",
        f"{REFUSED}More processors requested than permitted",
    ],
)
def test_a_job_that_slurm_refuses_for_good_is_submitted_once(tmp_path, message):
    done = submit(tmp_path, message, "--parsable")
    assert (done.returncode, done.stdout) == (1, "") and done.stderr == message + "\n"
    assert (tmp_path / "calls").read_text() == "--parsable\n"
