"""The program whose checksums show whether two machines round equally."""

import subprocess
import sys

import pytest

from conftest import path_of


@pytest.mark.slow
def test_two_runs_on_one_machine_round_equally_and_list_every_operation():
    output, second_output = (
        subprocess.run(
            [sys.executable, path_of("rounding")], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert output == second_output and output.startswith("# torch ")
    checksums = dict(line.rsplit(": ", 1) for line in output.splitlines()[1:])
    assert {
        "matrix product 200x96x256",
        "attention, gradient",
        "sqrt",
        "training, fused AdamW: weights",
    } <= set(checksums)
    assert len(set(checksums.values())) > len(checksums) - 3, (
        "at most two operations may repeat the checksum of an earlier operation"
    )
