"""The program that measures how a plan's time and memory depend on the number of runs, and the
committed table of its measurements."""

import csv
import sys

import pytest

import measure_scale
from conftest import ROOT
from hardgrpo.runtime.errors import UserError


def rows_of(path) -> list[dict]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_a_measurement_replaces_the_row_with_the_same_label_and_number_of_runs(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(measure_scale, "STUDY", "mini")
    output = tmp_path / "scale.csv"
    output.write_text(
        ",".join(measure_scale.COLUMNS)
        + "\nnow,0,10,1,1.0,1\nnow,0,20,1,1.0,1\nbefore,0,10,1,1.0,1\n"
    )
    arguments = ["--runs", "10", "--label", "now", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["measure_scale.py", *arguments])
    measure_scale.main()
    *other_rows, row = rows_of(output)
    assert [(other_row["label"], other_row["runs"]) for other_row in other_rows] == [
        ("now", "20"),
        ("before", "10"),
    ]
    assert (row["label"], row["runs"]) == ("now", "10") and int(row["jobs"]) > 30
    assert float(row["processor_seconds"]) > 0 and int(row["memory_mb"]) > 50


def test_an_error_names_the_unknown_commit():
    with (
        pytest.raises(UserError, match="nowhere: .*name a commit"),
        measure_scale.commit_copy("nowhere"),
    ):
        pass


def test_the_page_of_costs_has_the_numbers_of_the_table():
    page = (ROOT / "docs/costs.md").read_text(encoding="utf-8")
    rows = rows_of(ROOT / "docs/scale.csv")
    assert {row["label"] for row in rows} == {"before", "now"}
    for row in rows:
        cells = (
            f"| {row['label']} | {int(row['runs']):,} | {int(row['jobs']):,} |"
            f" {row['processor_seconds']} | {int(row['memory_mb']):,} |"
        )
        assert cells in page, cells
