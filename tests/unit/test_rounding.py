"""The program that compares how two machines round."""

import subprocess
import sys

import pytest

from conftest import path_of


@pytest.mark.slow
def test_the_same_machine_rounds_alike_and_every_operation_has_a_line():
    one, other = (
        subprocess.run(
            [sys.executable, path_of("rounding")], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert one == other and one.startswith("# torch ")
    found = dict(line.rsplit(": ", 1) for line in one.splitlines()[1:])
    assert {
        "matrix product 200x96x256",
        "attention, gradient",
        "sqrt",
        "training, fused AdamW: weights",
    } <= set(found)
    assert len(set(found.values())) > len(found) - 3, "different results have different checksums"
