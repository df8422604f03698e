"""The papers' datasets, read by the workflow from local copies and compared with the committed
lock."""

import collections
import functools
import json
import shutil
from pathlib import Path

import pytest

import project_config
from conftest import RECORDINGS, ROOT, World
from hardgrpo.data import solutions
from hardgrpo.grading import graders, quantities
from hardgrpo.runtime import files

pytestmark = pytest.mark.recordings

TASKS = project_config.config()["tasks"]
DATA = Path(RECORDINGS or ".").resolve()
ROWS = {
    "gsm8k": {"train": 7473, "test": 1319},
    "gsm8k_1024": {"train": 7473, "test": 1319},
    "gsm8k_concise": {"train": 7473, "test": 1319},
    "shuffled_objects": {"train": 375, "test": 375},
    "shuffled_objects_seven": {"train": 125, "test": 125},
    "aime2025": {"test": 15},
    "math": {"test": 500},  # the training problems of MATH are not among the local copies
    "math_numeric": {"test": 401},
}
SPLITS = [(task, split) for task, splits in ROWS.items() for split in splits]


def target(task, split):
    return f"results/tasks/{task}/{split}.jsonl"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> World:
    world = World(tmp_path_factory.mktemp("real") / "world")
    world.clear()
    world.run("--config", f"data={DATA}", "--", *(target(*split) for split in SPLITS))
    world.problems = {
        split: files.read_jsonl(
            world.folder / target(*split), {"id": str, "question": str, "answer": str}
        )
        for split in SPLITS
    }
    return world


def questions(rows):
    return [row["question"] for row in rows]


@pytest.mark.parametrize(("task", "split"), SPLITS)
def test_every_split_has_its_problems_each_once_and_answers_that_its_grader_reads(
    prepared, task, split
):
    problems = prepared.problems[task, split]
    ids, grader = {problem["id"] for problem in problems}, TASKS[task]["grader"]
    assert len(problems) == len(set(questions(problems))) == len(ids) == ROWS[task][split]
    assert [p for p in problems if not graders.accepts_reference(grader, p["answer"])] == []


@pytest.mark.parametrize("task", [task for task, splits in ROWS.items() if len(splits) == 2])
def test_no_question_stands_in_train_and_test(prepared, task):
    assert not set(questions(prepared.problems[task, "train"])) & set(
        questions(prepared.problems[task, "test"])
    )


def test_the_problems_match_the_committed_lock(prepared):
    assert (prepared.folder / "inputs.lock").read_bytes() == (ROOT / "inputs.lock").read_bytes()
    locked = json.loads((ROOT / "inputs.lock").read_text())["problems"]
    assert all(split in locked[task] for task, split in SPLITS)


def test_tiers_are_numbers_of_objects_and_levels(prepared):
    tiers = {
        split: collections.Counter(p["tier"] for p in problems)
        for split, problems in prepared.problems.items()
    }
    for split in ("train", "test"):
        assert tiers["shuffled_objects", split] == {3: 125, 5: 125, 7: 125}
        assert tiers["shuffled_objects_seven", split] == {7: 125}
    assert (
        set(tiers["math", "test"]) == {1, 2, 3, 4, 5} and None not in tiers["math_numeric", "test"]
    )
    assert set(tiers["aime2025", "test"]) == {None}


@pytest.mark.parametrize("split", ["train", "test"])
def test_gsm8k_has_the_answers_and_steps_of_its_solutions(prepared, split):
    rows = files.read_jsonl(DATA / f"gsm8k/{split}.jsonl", {"answer": str})
    answers = [(p["answer"], p["tier"]) for p in prepared.problems["gsm8k", split]]
    assert answers == [
        (row["answer"].splitlines()[-1].removeprefix("#### "), row["answer"].count("<<"))
        for row in rows
    ]


def test_each_problem_of_shuffled_objects_is_in_exactly_one_split(prepared):
    every = [
        row["input"]
        for name in ("three", "five", "seven")
        for row in json.loads(
            (DATA / f"bbh/tracking_shuffled_objects_{name}_objects.json").read_text()
        )["examples"]
    ]
    halves = [
        questions(prepared.problems["shuffled_objects", split]) for split in ("train", "test")
    ]
    assert sorted(halves[0] + halves[1]) == sorted(every) and len(every) == 750


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_problems_of_seven_objects_are_those_that_were_recorded(prepared, split):
    recorded = files.read_jsonl(
        DATA / f"recordings/shuffled_objects_seven/qwen3-4b/{split}.jsonl",
        {"question": str, "answer": str},
    )
    pairs = lambda rows: {row["question"]: row["answer"] for row in rows}
    of_seven = [p for p in prepared.problems["shuffled_objects", split] if p["tier"] == 7]
    assert pairs(prepared.problems["shuffled_objects_seven", split]) == pairs(recorded)
    assert pairs(of_seven) == pairs(recorded)


def test_tasks_of_the_same_dataset_share_problems_and_ids(prepared):
    for split in ("train", "test"):
        for task in ("gsm8k_1024", "gsm8k_concise"):
            assert prepared.problems[task, split] == prepared.problems["gsm8k", split]
    everything = {problem["id"]: problem for problem in prepared.problems["math", "test"]}
    numeric = prepared.problems["math_numeric", "test"]
    assert all(everything[problem["id"]] == problem for problem in numeric)
    assert {p["id"] for p in numeric} == {
        i for i, p in everything.items() if quantities.is_number(p["answer"])
    }


# --- changes of pinned data


@pytest.fixture
def copied(world):
    """A world whose data folder is a copy that a test may change."""
    world.clear()
    shutil.copytree(DATA, world.folder / "data", ignore=shutil.ignore_patterns("recordings"))
    return world


def prepare(world, *splits, **config):
    """Prepare some splits by the workflow. Return the exit status and the lines of errors. The
    output must not contain a traceback."""
    settings = [f"{key}={value}" for key, value in config.items()]
    arguments = ["--config", *settings, "--"] if settings else []
    done = world.snakemake("--keep-going", *arguments, *(target(*split) for split in splits))
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    return done.returncode, [
        line.strip() for line in output.splitlines() if line.strip().startswith("error: ")
    ]


def change_answer(world):
    """Change the answer of one problem in GSM8K's test split; the number of rows stays the same."""
    path = world.folder / "data/gsm8k/test.jsonl"
    rows = files.read_jsonl(path, {"answer": str})
    rows[700]["answer"] = rows[700]["answer"].rpartition("####")[0] + "#### 123456"
    files.write_jsonl(path, rows)


def test_a_changed_answer_is_an_error_until_the_lock_is_updated(copied):
    change_answer(copied)
    lock = (copied.folder / "inputs.lock").read_text()
    split = ("gsm8k", "test")
    status, (line,) = prepare(copied, split)
    assert status != 0 and not (copied.folder / target(*split)).exists()
    assert (
        "problems: gsm8k: test is not the file of inputs.lock" in line and "found 1319 rows" in line
    )
    assert json.loads(lock)["problems"]["gsm8k"]["test"]["sha256"] in line
    assert (copied.folder / "inputs.lock").read_text() == lock

    assert prepare(copied, split, update_inputs="true") == (0, [])
    assert files.read_jsonl(copied.folder / target(*split), {})[700]["answer"] == "123456"
    before, after = json.loads(lock), json.loads((copied.folder / "inputs.lock").read_text())
    assert before["problems"].pop("gsm8k") != after["problems"].pop("gsm8k")
    assert after == before, "other entries of the lock have changed"
    assert prepare(copied, split, ("gsm8k", "train")) == (0, []), (
        "the new entry of the lock must match the file"
    )


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
