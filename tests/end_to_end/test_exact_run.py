"""The files of a small run have the committed checksums, on this processor and on emulated ones."""

import shutil
import subprocess
import sys

import pytest

from conftest import ROOT
from hardgrpo.runtime import environments

EXPECTED = ROOT / "tests/end_to_end/exact_run.sha256"
QEMU = shutil.which("qemu-x86_64")
pytestmark = pytest.mark.skipif(not environments.has_avx2(), reason="no x86-64 with AVX2")


def checksums_of_run(folder, *emulator: str) -> str:
    command = [
        *emulator,
        sys.executable,
        str(ROOT / "tests/exact_run.py"),
        "--output",
        str(folder / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_every_stage_writes_the_committed_bytes_on_this_processor(tmp_path):
    assert checksums_of_run(tmp_path) == EXPECTED.read_text()


@pytest.mark.nightly
@pytest.mark.skipif(not QEMU, reason="qemu-x86_64 is not installed (Debian: qemu-user)")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("processor", ["Haswell", "EPYC"])
def test_every_stage_writes_the_committed_bytes_on_an_emulated_processor(tmp_path, processor):
    assert checksums_of_run(tmp_path, QEMU, "-cpu", processor) == EXPECTED.read_text()
