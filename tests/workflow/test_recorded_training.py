"""Recorded training runs in the workflow: a small run with known results, and a published run if
its file exists."""

import csv
import gzip
from pathlib import Path

import pytest

from conftest import RECORDINGS, ROOT
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


def test_a_malformed_or_missing_trajectory_is_reported(followed):
    write(followed.folder / "data/mine/run.csv.gz", [("a", epoch, 5, 4) for epoch in range(6)])
    output = followed.fail("--config", STUDY)
    assert "data/mine/run.csv.gz: row 2: correct is 5 of 4 rollouts" in output
    (followed.folder / "data/mine/run.csv.gz").unlink()
    assert "data/mine/run.csv.gz" in followed.fail("-n", "--config", STUDY)
    refused = followed.snakemake("-n", "explorer", "--config", STUDY)
    words = "study trajectories has no completions, so there is nothing to explore"
    assert words in refused.stdout + refused.stderr


def read_table(config) -> None:
    """Make the study read a trajectory in CSV instead of the authors' file in JSON."""
    source = config["models"]["qwen2.5-math-1.5b-trajectory"]["source"]
    for key in ("repository", "commit", "local", "rollouts"):
        del source[key]
    source["file"] = "trajectories/qwen2.5-math-1.5b.csv.gz"


@pytest.mark.recordings
def test_the_real_run_has_the_expected_numbers(world):
    """The expected numbers come from an independent computation over the 44 epochs that every
    prompt has."""
    data = Path(RECORDINGS).resolve() / "trajectories/qwen2.5-math-1.5b.csv.gz"
    if not data.exists():
        pytest.skip(f"{data} is not there")
    with gzip.open(data, "rt", newline="") as stream:
        rows = [tuple(row.values()) for row in csv.DictReader(stream) if int(row["epoch"]) < 44]
    write(world.folder / "data/trajectories/qwen2.5-math-1.5b.csv.gz", rows)
    world.configure(read_table)
    world.run("--config", STUDY, "--", "results/summaries/trajectories/trajectories.csv")
    all_epochs, last_epochs = summary(world), summary(world, 10)
    expected = {  # {policy: (share of mixed groups, pass rate in the last tenth of later epochs)}
        "hard": (0.13, 0.03), "hard_solvable": (0.46, 0.14), "middle": (0.88, 0.41), "nearest_half": (0.88, 0.75),
        "easy": (0.19, 0.98), "all": (0.51, 0.46),
    }  # fmt: skip
    for policy, (mixed, right) in expected.items():
        assert (all_epochs[policy]["mixed"], last_epochs[policy]["pass_rate"]) == pytest.approx(
            (mixed, right), abs=0.012
        ), policy
    assert (
        round(all_epochs["all"]["never_solved"], 2) == 0.24 and all_epochs["all"]["prompts"] == 1209
    )


@pytest.mark.recordings
def test_the_file_of_the_authors_gives_the_committed_tables(world):
    data = Path(RECORDINGS).resolve()
    if not (data / "original/one_shot_rlvr/acc_step_500.json").exists():
        pytest.skip("HARDGRPO_DATA has no original/one_shot_rlvr")
    table = "results/summaries/trajectories/trajectories.csv"
    world.run("--config", STUDY, f"data={data}", "--", table)
    committed = sorted((ROOT / "results/reference/trajectories").glob("*.csv"))
    assert ROOT / "results/reference/trajectories/trajectories.csv" in committed
    for path in committed:
        computed = world.folder / "results/summaries/trajectories" / path.name
        assert computed.read_bytes() == path.read_bytes(), path.name
