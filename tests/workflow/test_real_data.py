"""The papers' datasets and published files, read by the workflow from local copies and compared with
the committed lock and tables."""

import functools
import json
import shutil
from pathlib import Path

import pytest

import project_config
from conftest import RECORDINGS, ROOT, World
from hardgrpo.data import solutions
from hardgrpo.grading import graders
from hardgrpo.runtime import files

pytestmark = pytest.mark.recordings

TASKS = project_config.config()["tasks"]
DATA = Path(RECORDINGS or ".").resolve()
SPLITS = [
    (task, split)
    for task in (
        "gsm8k",
        "gsm8k_1024",
        "gsm8k_concise",
        "shuffled_objects",
        "shuffled_objects_seven",
    )
    for split in ("train", "test")
]
# the training problems of MATH are not among the local copies
SPLITS += [(task, "test") for task in ("aime2025", "math", "math_numeric")]


def target(task, split):
    return f"results/tasks/{task}/{split}.jsonl"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> World:
    world = World(tmp_path_factory.mktemp("real") / "world")
    world.clear()
    world.run("--config", f"data={DATA}", "--", *(target(*split) for split in SPLITS))
    return world


def test_the_problems_match_the_committed_lock(prepared):
    """The lock has the number of problems of each split, and the checksum of their questions,
    answers and tiers. A problem whose answer the task's grader cannot read would be missing."""
    assert (prepared.folder / "inputs.lock").read_bytes() == (ROOT / "inputs.lock").read_bytes()
    locked = json.loads((ROOT / "inputs.lock").read_text())["problems"]
    assert all(split in locked[task] for task, split in SPLITS)


# --- changes of pinned data


@pytest.fixture
def copied(world):
    """A world whose data folder is a copy that a test may change."""
    world.clear()
    shutil.copytree(DATA, world.folder / "data", ignore=shutil.ignore_patterns("recordings"))
    return world


def test_a_changed_answer_is_an_error_until_the_lock_is_updated(copied):
    test, lock = target("gsm8k", "test"), (copied.folder / "inputs.lock").read_text()
    path = copied.folder / "data/gsm8k/test.jsonl"
    rows = files.read_jsonl(path, {"answer": str})
    rows[700]["answer"] = rows[700]["answer"].rpartition("####")[0] + "#### 123456"
    files.write_jsonl(path, rows)
    output = copied.fail(test)
    assert "problems: gsm8k: test is not the file of inputs.lock: found 1319 rows" in output
    assert json.loads(lock)["problems"]["gsm8k"]["test"]["sha256"] in output
    assert not (copied.folder / test).exists()
    assert (copied.folder / "inputs.lock").read_text() == lock

    copied.run(test, "--config", "update_inputs=true")
    assert files.read_jsonl(copied.folder / test, {})[700]["answer"] == "123456"
    before, after = json.loads(lock), json.loads((copied.folder / "inputs.lock").read_text())
    assert before["problems"].pop("gsm8k") != after["problems"].pop("gsm8k")
    assert after == before, "other entries of the lock have changed"
    # the new entry of the lock must match the file
    copied.run("--forcerun", "prepare_task", "--", test, target("gsm8k", "train"))


def test_without_local_copies_the_hub_is_asked(copied):
    shutil.rmtree(copied.folder / "data/gsm8k")
    assert copied.plan(target("gsm8k", "test"), target("aime2025", "test")) == {
        "fetch_dataset": 1,
        "prepare_task": 2,
    }


@pytest.mark.parametrize("task", ["gsm8k", "gsm8k_1024_cut", "swaps"])
def test_worked_solutions_are_written_by_the_workflow_and_right_to_the_grader(prepared, task):
    """For GSM8K, solutions.jsonl has all 7,473 solutions, without calculator annotations, and with
    the answer in the box that the prompt requires."""
    name = f"results/tasks/{task}/solutions.jsonl"
    prepared.run("--config", f"data={DATA}", "--", name, target(task, "train"))
    rows = files.read_jsonl(prepared.folder / target(task, "train"), {"id": str, "answer": str})
    answers = {row["id"]: row["answer"] for row in rows}
    solved = files.read_jsonl(prepared.folder / name, {"id": str, "solution": str})
    assert [row["id"] for row in solved] == list(answers)
    grade = functools.partial(graders.grade, TASKS[task]["grader"])
    assert [row for row in solved if not grade(row["solution"], answers[row["id"]]).correct] == []
    if task != "swaps":
        assert not [row for row in solved if "<<" in row["solution"] or "####" in row["solution"]]
        original = files.read_jsonl(DATA / "gsm8k/train.jsonl", {"answer": str})[0]["answer"]
        assert original.startswith("Natalia sold 48/2 = <<48/2=24>>24")
        assert solved[0]["solution"].startswith("Natalia sold 48/2 = 24 clips")


def test_worked_solutions_of_math_are_right_to_the_grader():
    """The solutions are those of MATH-500, because the local copies lack the training problems of
    MATH."""
    source = TASKS["math"]["source"] | {"train": TASKS["math"]["source"]["test"], "problems": 500}
    solved = solutions.worked_solutions("math", source, [str(DATA / "math500/test.jsonl")], "math")
    assert len(solutions.correct_solutions(solved, "math", "math")) == 500


@pytest.mark.parametrize("study", ["recordings", "trajectories", "probing", "before_after"])
def test_the_committed_tables_are_made_from_the_published_files_byte_for_byte(world, study):
    if not (DATA / "original").is_dir():
        pytest.skip("HARDGRPO_DATA has no folder original")
    committed = {path.name: path for path in (ROOT / f"results/reference/{study}").glob("*.csv")}
    summaries = f"results/summaries/{study}"
    world.run("--config", f"study={study}", f"data={DATA}", "--", *(f"{summaries}/{name}" for name in committed))  # fmt: skip
    for path in (world.folder / summaries).glob("*.csv"):
        if path.name in committed:
            assert path.read_bytes() == committed[path.name].read_bytes(), path.name
        else:
            assert files.read_rows(path, {}) == [], f"{path.name} has rows; commit it"
    assert not (world.folder / "results/originals").exists(), "nothing may be downloaded"
    assert (world.folder / "inputs.lock").read_bytes() == (ROOT / "inputs.lock").read_bytes(), (
        "the committed lock must already hold every file"
    )
