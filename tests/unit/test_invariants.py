"""The committed tables agree with each other, and a table that contradicts another one is found."""

import shutil

import pytest

from conftest import ROOT
from invariants import faults

STUDIES = sorted(path.parent for path in (ROOT / "results/reference").glob("*/gains.csv"))


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_the_committed_tables_of_a_study_agree(folder):
    assert faults(folder) == []


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("gains", "gain", "0.5"),
        ("gains", "gain_low", "0.9"),
        ("parts", "finishing", "0.3"),
        ("accuracy", "accuracy", "1.5"),
        ("differences", "p", "0.9"),
        ("differences", "difference", "0.01"),
        ("paired", "difference", "0.3"),
        ("difficulty", "problems", "1"),
    ],
)
def test_a_changed_cell_is_found(name, column, value, tmp_path):
    shutil.copytree(ROOT / "results/reference/mini", tmp_path / "mini")
    path = tmp_path / f"mini/{name}.csv"
    head, *rows = path.read_text().splitlines()
    cells = rows[1].split(",")
    cells[head.split(",").index(column)] = value
    rows[1] = ",".join(cells)
    path.write_text("\n".join([head, *rows]) + "\n")
    assert faults(tmp_path / "mini") != []
