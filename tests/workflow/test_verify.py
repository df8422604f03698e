"""`rule verify`: no paper is compiled from summaries that contradict each other or the raw
files."""

import gzip
import json
import random
import shutil
import subprocess
import sys

from conftest import TABLES
from hardgrpo.analysis import summary_tables
from hardgrpo.report import registry
from hardgrpo.study import claim_conditions, load, paths
from hardgrpo.study.resolved import ResolvedStudy

PAPER = "paper/mini/verified.txt"
REFERENCE, COMPUTED, JUDGED = "results/reference/mini", "results/summaries/mini", "paper/mini"


def verify(world) -> tuple[int, str]:
    """(exit status, output) of the rule."""
    (world.folder / PAPER).unlink(missing_ok=True)
    done = world.snakemake("--rerun-triggers", "input", "--", PAPER)
    return done.returncode, done.stdout + done.stderr


def change(world, name: str, column: str, to, row: int) -> None:
    """Change a cell of a table, by row number. `to` maps the old text to the new text."""

    def changed(text: str) -> str:
        lines = text.split("\n")
        at = lines[0].split(",").index(column)
        cells = lines[1 + row].split(",")
        cells[at] = to(cells[at])
        lines[1 + row] = ",".join(cells)
        return "\n".join(lines)

    world.edit(f"{JUDGED if name == 'claims' else REFERENCE}/{name}.csv", changed)


def test_a_finished_study_is_verified_against_its_raw_files(finished_world):
    report = (finished_world.folder / PAPER).read_text()
    assert report.startswith("Study mini: 16 passed, 0 failed, 1 skipped\n")
    assert "skipped  Recorded completions" in report and "the study has no recordings" in report


def test_checks_that_need_raw_files_are_skipped_for_committed_summaries(world, monkeypatch):
    # the program must ignore a user's options for pytest
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing_of_this_name")
    status, output = verify(world)
    assert status == 0, output
    report = (world.folder / PAPER).read_text()
    assert report.startswith("Study mini: 12 passed, 0 failed, 5 skipped\n")
    assert "the tables are the committed reference results" in report


BREAKS = [  # (table, row, column, function that changes the cell, words of the error)
    (
        "gains",
        0,
        "gain",
        lambda old: str(float(old) + 0.001),
        "gains.csv: row 2 (steady arithmetic arithmetic hard 20): gain is",
    ),
    (
        "gains",
        3,
        "gain_low",
        lambda old: "0.9",
        "gains.csv: row 5 (steady arithmetic arithmetic middle 20): gain is",
    ),
    (
        "gains",
        4,
        "seeds",
        lambda old: "2",
        "gains.csv: steady arithmetic random mini arithmetic: 2 seeds, the study has 3",
    ),
    (
        "parts",
        0,
        "finishing",
        lambda old: str(float(old) + 1e-6),
        "parts.csv: row 2 (steady arithmetic arithmetic hard 20): finishing",
    ),
    (
        "accuracy",
        0,
        "answered_mean",
        lambda old: "1.5",
        "accuracy.csv: row 2 (steady arithmetic arithmetic hard 0): answered_mean is 1.5",
    ),
    (
        "accuracy",
        1,
        "accuracy",
        lambda old: "",
        "accuracy.csv: row 3 (steady arithmetic arithmetic hard 10): accuracy is empty",
    ),
    (
        "differences",
        0,
        "p",
        lambda old: "0.9" if float(old) < 0.05 else "0.0001",
        "differences.csv: row 2 (steady arithmetic arithmetic hard middle): p is 0.",
    ),
    (
        "differences",
        1,
        "difference",
        lambda old: "0.01",
        "differences.csv: row 3 (steady arithmetic arithmetic hard random): difference is 0.01",
    ),
    (
        "parity",
        1,
        "rollouts",
        lambda old: "7",
        "parity.csv: row 3 (steady arithmetic hard 1): rollouts is 7, but 1280 in parity.csv: row 2",
    ),
    (  # column tokens of this row is above 0, so the run has sampled rollouts
        "parity",
        4,
        "rollouts",
        lambda old: "0",
        "parity.csv: row 6 (steady arithmetic middle 1): rollouts is 0, not a positive",
    ),
    (
        "claims",
        0,
        "verdict",
        lambda old: "supported",
        "claims.csv: row 2 (steady arithmetic arithmetic): verdict is 'supported'",
    ),
    ("difficulty", 0, "problems", lambda old: "1", "difficulty.csv has"),
]


def test_every_changed_cell_is_reported(world):
    judge(world)
    assert verify_program(world)[0] == 0
    for table, row, column, to, _ in BREAKS:
        change(world, table, column, to, row)
    status, output = verify_program(world)
    assert status == 1 and [message for *_, message in BREAKS if message not in output] == [], (
        output
    )
    last_line = output.splitlines()[-1]
    assert last_line.startswith("error: study mini: ") and "Traceback" not in output
    assert f"git checkout -- {REFERENCE}" in last_line and "summarize" not in last_line
    assert not (world.folder / PAPER).exists()


def test_a_missing_table_is_reported(world):
    judge(world)
    computed = world.folder / COMPUTED
    shutil.copytree(world.folder / REFERENCE, computed)
    for name in registry.SUMMARIES:
        columns = summary_tables.all_tables()[name].columns
        if not (computed / f"{name}.csv").exists():  # committed tables without rows have no file
            (computed / f"{name}.csv").write_text(",".join(columns) + "\n")
    (computed / "parts.csv").unlink()
    status, output = verify_program(world, COMPUTED)
    assert status == 1 and output.splitlines()[-1].startswith(
        "error: study mini: table parts is not given; name its file parts.csv"
    )
    assert "Traceback" not in output and "UserError" not in output


def test_checks_that_cannot_be_imported_are_reported_with_their_error(world):
    judge(world)
    world.edit("scripts/paper/checks/test_raw_files.py", lambda text: f"import nonexistent\n{text}")
    status, output = verify_program(world)
    assert status == 1 and output.splitlines()[-1].startswith("error: "), output
    assert "the checks did not run: ModuleNotFoundError: No module named 'nonexistent'" in output


def judge(world) -> None:
    done = world.snakemake("paper/mini/claims.csv")
    assert done.returncode == 0, done.stdout + done.stderr


def verify_program(world, tables: str = REFERENCE) -> tuple[int, str]:
    """Run the command of the rule directly, so that no other rule reads the changed file first."""
    (world.folder / PAPER).unlink(missing_ok=True)
    config = load.read(world.folder)
    part = paths.study_part(ResolvedStudy.of(config, "mini"))
    graders = {task: config["tasks"][task]["grader"] for task in part["tasks"]}
    command = [
        sys.executable,
        "scripts/paper/verify.py",
        "--study",
        "mini",
        "--config",
        json.dumps(part),
        "--graders",
        json.dumps(graders),
    ]
    csv_files = [*(world.folder / tables).glob("*.csv"), *(world.folder / JUDGED).glob("[ac]*.csv")]
    command += ["--tables", *map(str, csv_files), *["--reference"] * (tables == REFERENCE)]
    command += ["--claims", "paper/claims.yaml", "--published", "results/published"]
    command += [
        "--conditions",
        json.dumps(claim_conditions.conditions(ResolvedStudy.of(config, "mini"))),
        "--output",
        PAPER,
    ]
    done = subprocess.run(command, cwd=world.folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_wrong_grade_is_found_by_grading_again(finished):
    """The check of the summaries cannot find the wrong grade, because the summaries are made from
    the wrong grade."""
    path = finished.folder / "results/evaluation/tiny/swaps/mini/hard/seed0/swaps.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    correct, number = (
        lines[0].split(",").index("correct"),
        random.Random(0).randrange(1, len(lines) - 1),
    )
    cells = lines[number].split(",")
    cells[correct] = str(1 - int(cells[correct]))
    lines[number] = ",".join(cells)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = finished.snakemake(*TABLES)
    output = done.stdout + done.stderr
    assert (
        done.returncode != 0
        and f"swaps.csv.gz: row {number + 1} " in output
        and "graded again" in output
    )
    assert not (finished.folder / PAPER).exists()


def test_summaries_that_differ_from_the_files_of_the_runs_are_reported(finished):
    path = "results/training/tiny/swaps/mini/hard/seed0/updates.csv"
    finished.edit(path, lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    status, output = verify_program(finished, COMPUTED)
    assert (
        status == 1
        and "parity.csv: row 2 (tiny swaps hard 0)" in output
        and "according to the training log" in output
    )
