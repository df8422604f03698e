"""The agreement of a local study with its committed reference."""

import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server
from conftest import ROOT, path_of
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
    comparison = agreement.compare(runs, runs)
    assert [(row["policy"], row["difference"], row["leaves_zero_out"]) for row in comparison] == [
        ("hard", 0, False),
        ("easy", 0, False),
    ]
    assert (comparison[0]["difference_low"], comparison[0]["difference_high"]) == (
        0,
        0,
    ) and math.isnan(comparison[1]["difference_low"])


def test_cells_without_a_common_seed_are_kept_and_not_compared():
    """A study whose configuration has changed may have cells that its reference lacks, and lack
    cells of the reference."""
    computed = (
        rows({0: 0.1, 1: 0.2})
        + rows({0: 0.3}, policy="only here")
        + rows({5: 0.3}, policy="other seeds")
    )
    comparison = agreement.compare(
        computed,
        rows({0: 0.1, 1: 0.2})
        + rows({0: 0.3, 1: 0.3}, task="u")
        + rows({6: 0.3}, policy="other seeds"),
    )
    counts = {
        (row["task"], row["policy"]): (
            row["seeds"],
            row["seeds_only_here"],
            row["seeds_only_reference"],
        )
        for row in comparison
    }
    assert counts == {
        ("t", "hard"): (2, 0, 0),
        ("t", "only here"): (0, 1, 0),
        ("t", "other seeds"): (0, 1, 1),
        ("u", "hard"): (0, 0, 2),
    }
    for row in comparison[1:]:
        assert (
            math.isnan(row["difference"])
            and math.isnan(row["difference_low"])
            and row["leaves_zero_out"] is False
        )


def test_intervals_of_equal_expected_gains_exclude_zero_in_about_five_percent_of_cases():
    chance = random.Random(1)
    draw = lambda: rows({seed: chance.gauss(0.1, 0.02) for seed in range(3)})
    exclusions = sum(agreement.compare(draw(), draw())[0]["leaves_zero_out"] for _ in range(2000))
    # the expected number is 100 of 2,000; the limits are four standard deviations away from 100
    assert 60 <= exclusions <= 140


@pytest.mark.slow
def test_the_program_compares_the_committed_miniature_with_itself(tmp_path):
    table = str(ROOT / "results/reference/mini/decomposition_runs.csv")
    output = str(tmp_path / "mini.csv")
    command = [
        sys.executable,
        path_of("compare_with_reference"),
        "--tables",
        table,
        "--reference",
        table,
        "--output",
        output,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    comparison = files.read_rows(output, dict.fromkeys(agreement.COLUMNS, str))
    assert len(comparison) == 5 and {row["difference"] for row in comparison} == {"0.0"}
    assert "5 cells compared, 0 intervals exclude 0; 0 cells not compared" in done.stdout
    assert {row["leaves_zero_out"] for row in comparison} == {"0"}, (
        "leaves_zero_out must be written as 0, because show_results.py reads 0 or 1"
    )
    output_text = show(Path(output), tmp_path)
    assert (
        "Every compared gain equals that of the reference" in output_text and output in output_text
    )
    assert (
        "0 of 5 intervals exclude 0" in output_text
        and "Not compared" not in output_text
        and "model" not in output_text.partition("Agreement")[2]
    )


def show(table: Path, folder: Path) -> str:
    """The output of `show_results` with a table of agreement."""
    tables = [str(path) for path in (ROOT / "results/reference/mini").glob("*.csv")]
    done = fork_server.run(
        path_of("show_results"),
        ["--study", "mini", "--agreement", str(table), "--tables", *tables],
        folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown_lines(computed: list[dict], reference: list[dict], folder: Path) -> list[str]:
    """The printed lines of the table of agreement and of the text below the table."""
    table = folder / "agreement.csv"
    compared_rows = [row | {"files": ""} for row in agreement.compare(computed, reference)]
    files.write_rows(table, agreement.COLUMNS, files.round_floats(compared_rows))
    return show(table, folder).partition("reference")[2].splitlines()


def test_cells_that_are_not_compared_are_counted_below_the_table(tmp_path):
    """A cell with one common seed has no interval and is not counted among the intervals."""
    computed = (
        rows({0: 0.3, 1: 0.31, 2: 0.32})
        + rows({0: 0.3}, policy="once")
        + rows({0: 0.3}, policy="new")
        + rows({0: 0.3}, policy="newer")
    )
    reference = (
        rows({0: 0.1, 1: 0.12, 3: 0.1})
        + rows({0: 0.1, 9: 0.1}, policy="once")
        + rows({0: 0.3}, policy="old")
    )
    lines = shown_lines(computed, reference, tmp_path)
    assert not any(line.startswith("t ") and ("new" in line or "old" in line) for line in lines)
    text = " ".join(lines)
    assert "1 of 1 intervals exclude 0" in text
    assert "Cells not compared: 2 only here, 1 only in the reference." in text
    assert (
        "Cells with seeds that were not compared: 1 with seeds only here, 2 with seeds only in the"
        " reference." in text
    )
