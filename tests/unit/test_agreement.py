"""The agreement of a local study with its committed reference."""

import math
import random
from pathlib import Path

import pytest

import in_process
from conftest import ROOT
from hardgrpo.analysis import agreement
from hardgrpo.runtime import files

CELL = {"model": "m", "task": "t", "eval_task": "t", "policy": "hard", "recipe": "mini"}


def rows(gains: dict[int, float], **cell) -> list[dict]:
    """Rows of `decomposition_runs`."""
    return [CELL | cell | {"seed": seed, "gain": gain} for seed, gain in gains.items()]


def test_differences_are_paired_by_seed_and_have_an_interval_of_students_t():
    (row,) = agreement.compare(
        rows({0: 0.10, 1: 0.14, 2: 0.18, 7: 0.5}), rows({0: 0.09, 1: 0.12, 2: 0.15, 8: 0.5})
    )
    assert (row["seeds"], row["leaves_zero_out"]) == (3, False), (
        "expected three common seeds and an interval that contains 0"
    )
    assert (row["seeds_only_here"], row["seeds_only_reference"]) == (1, 1)
    assert row["gain_here"] == pytest.approx(0.14) and row["gain_reference"] == pytest.approx(0.12)
    half = 4.302652730 * 0.01 / math.sqrt(3)
    ends = (0.02 - half, 0.02 + half)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(ends)


def test_equal_runs_agree_and_one_seed_has_no_interval():
    runs = rows({0: 0.1, 1: 0.2}) + rows({0: 0.3}, policy="easy")
    equal, single = agreement.compare(runs, runs)
    for row in (equal, single):
        assert (row["difference"], row["leaves_zero_out"]) == (0, False)
    assert (equal["difference_low"], equal["difference_high"]) == (0, 0)
    assert math.isnan(single["difference_low"])


def test_cells_without_a_common_seed_are_kept_and_not_compared():
    """A study whose configuration has changed may have cells that its reference lacks, and lack
    cells of the reference."""
    both = rows({0: 0.1, 1: 0.2})
    computed = rows({0: 0.3}, policy="only here") + rows({5: 0.3}, policy="other seeds")
    reference = rows({0: 0.3, 1: 0.3}, task="u") + rows({6: 0.3}, policy="other seeds")
    comparison = agreement.compare(both + computed, both + reference)
    names = ("task", "policy", "seeds", "seeds_only_here", "seeds_only_reference")
    assert {tuple(row[name] for name in names) for row in comparison} == {
        ("t", "hard", 2, 0, 0),
        ("t", "only here", 0, 1, 0),
        ("t", "other seeds", 0, 1, 1),
        ("u", "hard", 0, 0, 2),
    }
    for row in comparison[1:]:
        assert math.isnan(row["difference"]) and math.isnan(row["difference_low"])
        assert row["leaves_zero_out"] is False


def test_intervals_of_equal_expected_gains_exclude_zero_in_about_five_percent_of_cases():
    chance = random.Random(1)
    draw = lambda: [
        row
        for number in range(2000)
        for row in rows({seed: chance.gauss(0.1, 0.02) for seed in range(3)}, policy=str(number))
    ]
    exclusions = sum(row["leaves_zero_out"] for row in agreement.compare(draw(), draw()))
    # the expected number is 100 of 2,000; the limits are four standard deviations away from 100
    assert 60 <= exclusions <= 140


@pytest.mark.slow
def test_the_program_compares_the_committed_miniature_with_itself(tmp_path):
    table, output = ROOT / "results/reference/mini/decomposition_runs.csv", tmp_path / "mini.csv"
    done = in_process.run(
        tmp_path, "compare_with_reference", tables=table, reference=table, output=output
    )
    assert "5 cells compared, 0 intervals exclude 0; 0 cells not compared" in done.stdout
    comparison = files.read_rows(output, dict.fromkeys(agreement.COLUMNS, str))
    names = ("difference", "leaves_zero_out")  # show_results.py reads 0 or 1
    assert [tuple(row[name] for name in names) for row in comparison] == [("0.0", "0")] * 5
    shown = show(output, tmp_path)
    for words in ("Every compared gain equals that of the reference", str(output)):
        assert words in shown
    assert "0 of 5 intervals exclude 0" in shown and "Not compared" not in shown
    assert "model" not in shown.partition("Agreement")[2]


def show(table: Path, folder: Path) -> str:
    """The output of `show_results` with a table of agreement."""
    tables = [str(path) for path in (ROOT / "results/reference/mini").glob("*.csv")]
    done = in_process.run(folder, "show_results", study="mini", agreement=table, tables=tables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cells_that_are_not_compared_are_counted_below_the_table(tmp_path):
    """A cell with one common seed has no interval and is not counted among the intervals."""
    computed = rows({0: 0.3, 1: 0.31, 2: 0.32}) + rows({0: 0.3}, policy="once")
    computed += rows({0: 0.3}, policy="new") + rows({0: 0.3}, policy="newer")
    reference = rows({0: 0.1, 1: 0.12, 3: 0.1}) + rows({0: 0.1, 9: 0.1}, policy="once")
    reference += rows({0: 0.3}, policy="old")
    compared = [row | {"files": ""} for row in agreement.compare(computed, reference)]
    table = tmp_path / "agreement.csv"
    files.write_rows(table, agreement.COLUMNS, files.round_floats(compared))
    lines = show(table, tmp_path).partition("reference")[2].splitlines()
    assert not any(line.startswith("t ") and ("new" in line or "old" in line) for line in lines)
    for words in (
        "1 of 1 intervals exclude 0",
        "Cells not compared: 2 only here, 1 only in the reference.",
        "Cells with seeds that were not compared: 1 with seeds only here, 2 with seeds only in the"
        " reference.",
    ):
        assert words in " ".join(lines)
