"""Recorded training runs in the workflow: a small run with known results. test_real_data.py has a
published run."""

import csv
import gzip
from pathlib import Path

import pytest

from hardgrpo.runtime import files

STUDY = "study=trajectories"
COLUMNS = ["mixed", "all_right", "all_wrong", "pass_rate", "never_solved", "epochs", "prompts"]
# Number of correct rollouts, of 4, in each of six epochs. Policies choose by the first two epochs;
# the four later epochs are summarised.
KINDS = {
    "unsolved": [0, 0, 0, 0, 0, 0],
    "rarely": [1, 0, 1, 1, 1, 1],
    "learned": [2, 2, 2, 3, 4, 4],
    "known": [4, 4, 4, 4, 4, 4],
}


def write(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as stream:
        csv.writer(stream).writerows([("id", "epoch", "correct", "rollouts"), *rows])


def configure(config) -> None:
    source = {"kind": "trajectory", "file": "mine/run.csv.gz", "origin": "this test"}
    source |= {"prompts": "mine", "chosen_from": 2}
    config["models"]["run"] = {"source": source}
    config["studies"]["trajectories"].update(models=["run"], seeds=[0, 1])
    for policy in config["policies"].values():
        policy |= {"budget": 0.25} if "budget" in policy else {}


@pytest.fixture
def followed(world):
    """A trajectory with five prompts of each kind. The file's rows are in reverse order, because
    any order is allowed."""
    rows = [
        (f"{kind}{n}", epoch, correct, 4)
        for n in range(5)
        for kind, counts in KINDS.items()
        for epoch, correct in enumerate(counts)
    ]
    write(world.folder / "data/mine/run.csv.gz", rows[::-1])
    world.configure(configure)
    return world


def summary(world, stretch: int | None = None) -> dict[str, dict]:
    kinds = {"policy": str, "stretch": int} | dict.fromkeys(COLUMNS, float)
    rows = files.read_rows(world.folder / "results/summaries/trajectories/trajectories.csv", kinds)
    return {row["policy"]: row for row in rows if row["stretch"] == stretch}


def shares(row: dict) -> tuple:
    return tuple(row[name] for name in COLUMNS[:5])


def test_a_training_run_is_summarised_from_its_file_to_its_page(followed):
    done = followed.snakemake("--config", STUDY)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    all_epochs, last_epochs = summary(followed), summary(followed, 4)
    assert shares(all_epochs["hard"]) == (0, 0, 1, 0, 1), (
        "`hard` must choose the prompts that are solved in no epoch"
    )
    assert shares(all_epochs["hard_solvable"]) == (1, 0, 0, 0.25, 0)
    assert shares(all_epochs["nearest_half"]) == (0.5, 0.5, 0, 13 / 16, 0)
    assert shares(all_epochs["easy"]) == (0, 1, 0, 1, 0)
    assert shares(all_epochs["all"]) == pytest.approx(
        (0.375, 0.375, 0.25, (0 + 4 + 13 + 16) / 64, 0.25)
    )
    assert (
        {row["epochs"] for row in all_epochs.values()} == {4}
        and all_epochs["all"]["prompts"] == 20
        and all_epochs["hard"]["prompts"] == 5
    )
    assert shares(last_epochs["nearest_half"])[:4] == (0, 1, 0, 1) and summary(followed, 5) == {}, (
        "the later epochs must be divided into four stretches of one epoch each"
    )
    assert "nearest_half" in done.stdout and "paper/trajectories/" in done.stdout
    paper = followed.folder / "paper/trajectories"
    assert {path.stem for path in (paper / "figures").glob("*.png")} == {
        "difficulty",
        "trajectories",
    }
    assert (
        "this test" in (paper / "supplement.tex").read_text()
        and "37.5" in (paper / "tables/trajectories.tex").read_text()
    )
    assert not (paper / "explorer.html").exists()
    assert followed.plan("--config", STUDY) == {}
