"""The committed table that shows how a plan's time and memory depend on the number of runs."""

import csv

from conftest import ROOT


def test_the_page_of_costs_has_the_numbers_of_the_table():
    page = (ROOT / "docs/costs.md").read_text(encoding="utf-8")
    with (ROOT / "docs/scale.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["label"] for row in rows} == {"before", "now"}
    for row in rows:
        cells = (
            f"| {row['label']} | {int(row['runs']):,} | {int(row['jobs']):,} |"
            f" {row['processor_seconds']} | {int(row['memory_mb']):,} |"
        )
        assert cells in page, cells
