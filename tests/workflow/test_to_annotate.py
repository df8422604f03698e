"""Unlabelled prompts: choosing which to annotate, reading the annotator's answers, training on the
annotated prompts, and the report of whether the training was worth its cost."""

import collections
import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import fork_server
from command_line import format_options
from conftest import World, path_of
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from interruptible_run import contents, wait_for
from own_prompts import OVERLAY, SAMPLES, TASK, check_order, choose_subset, make_world, read_answers

SOURCE = {
    "kind": "files", "train": "prompts.jsonl", "test": "test.jsonl",
    # the pool has no column `gold` yet
    "columns": {"question": "my prompt", "id": "name", "answer": "gold"},
}  # fmt: skip
STUDY = {"title": "Mine", "models": ["mine"], "tasks": ["mine"], "seeds": [0]}


@pytest.fixture(scope="module")
def unlabelled_world(tmp_path_factory, untrained) -> World:
    """A world with a chosen subset. The pool is a file of JSON Lines without answers, and the
    policy chooses by agreement."""
    template = '{"name" :"n%d",  "my prompt": "%s %d", "\\u006eote": [1, {"a": null}]}'
    lines = [
        template % (i, ["plain", "caf\\u00e9", "naïve", 'Say \\"x\\"\\n'][i % 4], i)
        for i in range(20)
    ]
    test_problems = [{"name": f"t{i}", "my prompt": f"new {i}", "gold": "red"} for i in range(6)]
    overlay = OVERLAY | {"tasks": {"mine": TASK | {"source": SOURCE, "labelled": False}}}
    overlay["policies"] = {"half": {"rule": "lowest", "by": "agreement", "budget": {"prompts": 10}}}
    world = make_world(
        tmp_path_factory.mktemp("unlabelled"),
        untrained,
        overlay,
        prompts_jsonl="\n" + "\n".join(lines) + "\n",
        test_jsonl="\n".join(map(json.dumps, test_problems)),
    )
    world.lines = lines
    world.rows, world.description = choose_subset(world, by="agreement")
    return world


def test_the_agreement_is_the_share_of_the_most_frequent_answer(unlabelled_world):
    shares = {
        name: max(
            collections.Counter(answer for answer in problem_answers if answer).values(), default=0
        )
        / SAMPLES
        for name, problem_answers in read_answers(unlabelled_world).items()
    }
    measured = files.read_rows(
        unlabelled_world.folder / "results/signals/mine/mine.csv", {"id": str, "agreement": float}
    )
    assert {row["id"]: row["agreement"] for row in measured} == shares
    assert not (unlabelled_world.folder / "results/difficulty").exists(), (
        "pass rates of prompts without answers must be unknown"
    )
    check_order(unlabelled_world.rows, shares, by="agreement")


def test_the_signal_and_the_labels_of_a_choice_without_answers_are_reported(unlabelled_world):
    assert (
        unlabelled_world.description["policy"]["by"] == "agreement"
        and unlabelled_world.description["labels"] == 10
    )
    assert (
        "mean agreement" in unlabelled_world.output and "pass rate" not in unlabelled_world.output
    )
    assert (
        "to annotate, column 'gold'  results/subsets/mine/mine/half/seed3.to_annotate.jsonl"
        in unlabelled_world.output
    )


def test_chosen_rows_are_exported_with_an_empty_answer_and_the_reason_of_the_choice(
    unlabelled_world,
):
    exported_rows = files.read_jsonl(
        unlabelled_world.folder / "results/subsets/mine/mine/half/seed3.to_annotate.jsonl", {}
    )
    by_name = {json.loads(line)["name"]: json.loads(line) for line in unlabelled_world.lines}
    assert [row.pop("chosen_because") for row in exported_rows] == [
        f"lowest: agreement {row['agreement']:.3g}" for row in unlabelled_world.rows
    ]
    assert exported_rows == [
        by_name[row["id"]] | {"gold": "", "prompt_id": question_id(by_name[row["id"]]["my prompt"])}
        for row in unlabelled_world.rows
    ]


def test_a_random_choice_needs_neither_answers_nor_samples(unlabelled_world):
    random = {
        "policies": {"any": {"rule": "random", "budget": {"prompts": 3}}},
        "subset": {"policy": "any"},
    }
    (unlabelled_world.folder / "random.yaml").write_text(yaml.safe_dump(random))
    arguments = ("subset", "--configfile", "my.yaml", "random.yaml")
    assert unlabelled_world.plan(*arguments) == {
        "remove_answers": 1,
        "select_subset": 1,
        "export_subset": 1,
        "subset": 1,
    }
    unlabelled_world.run(*arguments)
    exported_rows = files.read_jsonl(
        unlabelled_world.folder / "results/subsets/mine/mine/any/seed3.to_annotate.jsonl", {}
    )
    assert len(exported_rows) == 3 and {
        (row["gold"], row["chosen_because"]) for row in exported_rows
    } == {("", "random")}


def test_training_on_prompts_without_answers_is_refused_before_the_first_job(unlabelled_world):
    study = STUDY | {"arms": [{"policy": ["half"], "recipe": ["mini"]}]}
    (unlabelled_world.folder / "study.yaml").write_text(
        yaml.safe_dump({"study": "own", "studies": {"own": study}})
    )
    output = unlabelled_world.fail("-n", "--configfile", "my.yaml", "study.yaml")
    (line,) = [line for line in output.splitlines() if "task 'mine' has no answers" in line]
    assert "studies.own.tasks: " in line and "labelled: false" in line
    assert "annotate" in line and ".venv/bin/snakemake subset" in line


# --- reading the annotated file

POOL = [{"id": f"p{i}", "question": f"q{i}", "answer": None, "tier": None} for i in range(4)]


def read_annotated(folder, rows, header=("prompt_id", "question", "answer")):
    files.write_jsonl(folder / "P.jsonl", POOL)
    with open(folder / "A.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([header, *((question_id(q), *cells) for q, *cells in rows)])
    arguments = format_options(
        problems="P.jsonl", annotated="A.csv", column="answer", grader="number_lenient"
    )
    return fork_server.run(path_of("read_annotated"), [*arguments, "--output", "out.jsonl"], folder)


def test_rows_with_an_answer_become_problems_and_rows_without_are_listed(tmp_path):
    done = read_annotated(
        tmp_path, [("q2", "", "7"), ("q0", "q0", " "), ("q1", "", " 1,000 "), ("q3", "", "")]
    )
    assert done.returncode == 0, done.stderr
    assert (
        "2 rows have no answer and are left out: p0, p3" in done.stdout
        and "2 problems have answers" in done.stdout
    )
    problems = files.read_jsonl(tmp_path / "out.jsonl", {"id": str, "question": str, "answer": str})
    assert [(row["id"], row["question"], row["answer"]) for row in problems] == [
        ("p2", "q2", "7"),
        ("p1", "q1", "1,000"),
    ]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (
            [("q0", "", "lots")],
            None,
            "A.csv: row 2: grader 'number_lenient' cannot read the answer 'lots'; correct the answer, or leave its cell empty",
        ),
        (
            [("q0", "", ""), ("q1", "", " ")],
            None,
            "A.csv: no row has an answer in column 'answer'; fill in some answers",
        ),
        (
            [("q0", "", "1")],
            ("prompt_id", "question", "solution"),
            "A.csv: row 2: no column 'answer'; found prompt_id, question, solution",
        ),
        ([("q0", "", "1")], ("name", "question", "answer"), "A.csv: row 2: no column 'prompt_id'"),
    ],
)
def test_a_mistake_in_the_annotated_file_is_reported_in_one_line(tmp_path, rows, header, message):
    done = read_annotated(tmp_path, rows, header or ("prompt_id", "question", "answer"))
    assert (
        done.returncode == 1
        and done.stderr.startswith(f"error: {message}")
        and done.stderr.count("\n") == 1
    ), done.stderr
    assert not (tmp_path / "out.jsonl").exists()


# --- training on the annotated prompts

ANNOTATED = ("--configfile", "my.yaml", "study.yaml")  # call of the study


def fill_in(world, answers):
    """Write `answers` into the file of rows to annotate, as an annotator would, save the file under
    another name, and return the ids of all rows."""
    rows = files.read_jsonl(
        world.folder / "results/subsets/mine/mine/half/seed3.to_annotate.jsonl", {"name": str}
    )
    files.write_jsonl(
        world.folder / "my data/filled in.jsonl",
        [row | {"gold": answers.get(row["name"], "")} for row in rows],
    )
    return [row["name"] for row in rows]


@pytest.fixture(scope="module")
def annotated_world(unlabelled_world, tmp_path_factory) -> World:
    """A world in which all chosen rows but one are annotated, and a study has trained on the
    annotated rows."""
    world = unlabelled_world.copy(tmp_path_factory.mktemp("annotated") / "world")
    subset = files.read_rows(world.folder / "results/subsets/mine/mine/half/seed3.csv", {"id": str})
    world.ids = [row["id"] for row in subset]
    fill_in(world, dict.fromkeys(world.ids[1:], "red"))
    study = STUDY | {"arms": [{"policy": ["annotated"], "recipe": ["mini"]}]}
    task = {"annotated": "filled in.jsonl", "test": {"samples": 2, "greedy": False, "seed": 2}}
    recipe = {"updates": 4, "prompts_per_update": 3, "group_size": 4, "checkpoint_every": 2}
    overlay = {
        "study": "own",
        "studies": {"own": study},
        "tasks": {"mine": task},
        "recipes": {"mini": recipe},
    }
    (world.folder / "study.yaml").write_text(yaml.safe_dump(overlay))
    world.output = world.run(*ANNOTATED)
    return world


def test_a_study_trains_on_annotated_prompts_and_reports_whether_training_was_worth_it(
    annotated_world,
):
    assert (
        f"1 rows have no answer and are left out: {annotated_world.ids[0]}"
        in annotated_world.output
    )
    subset = files.read_rows(
        annotated_world.folder / "results/subsets/mine/mine/annotated/seed0.csv", {"id": str}
    )
    assert [row["id"] for row in subset] == annotated_world.ids[1:]
    spent = files.read_rows(
        annotated_world.folder / "results/summaries/own/spent.csv",
        {"labels": float, "prompts": float},
    )
    assert [row["labels"] for row in spent] == [9]
    page = (annotated_world.folder / "paper/own/worth.html").read_text()
    (gain,) = list(
        files.read_rows(
            annotated_world.folder / "results/summaries/own/gains.csv",
            {"gain": float, "decoding": str},
        )
    )
    assert (
        f"{100 * gain['gain']:+.1f}".replace("-", "\N{MINUS SIGN}").replace("+0.0", "0.0") in page
    )
    assert "<td>annotated</td>" in page and "<td>9</td>" in page and "1 run of each arm" in page


def test_only_a_changed_answer_triggers_training_again(annotated_world, tmp_path):
    world = annotated_world.copy(tmp_path / "world")
    assert world.plan(*ANNOTATED) == {}
    fill_in(world, dict.fromkeys(annotated_world.ids[1:], "red") | {annotated_world.ids[3]: "blue"})
    output = world.run(*ANNOTATED)
    assert "rule train_grpo" in output or "Train mine on annotated" in output
    assert not any(
        words in output
        for words in ("Probe mine", "Evaluate mine on mine (base)", "Measure label-free signals")
    )
    record = [
        json.loads(
            (
                trained_world.folder
                / "results/training/mine/mine/mini/annotated/seed0/provenance.json"
            ).read_text()
        )
        for trained_world in (annotated_world, world)
    ]
    assert record[0] != record[1]


def test_a_policy_other_than_annotated_is_refused_for_an_annotated_task(annotated_world):
    overlay = {"studies": {"own": {"arms": [{"policy": "random", "recipe": "mini"}]}}}
    (annotated_world.folder / "labelled.yaml").write_text(yaml.safe_dump(overlay))
    output = annotated_world.fail("-n", "--configfile", "my.yaml", "study.yaml", "labelled.yaml")
    (line,) = [line for line in output.splitlines() if "labelled: false" in line]
    assert "studies.own.arms: policy 'random'" in line and "choose policy annotated" in line


# --- interruptions


def kill_during(world, rule: str, *arguments: str) -> None:
    """Start Snakemake, kill all its processes as soon as a job of the rule has begun, and unlock
    the folder."""
    logs = world.folder / "results/logs" / rule
    shutil.rmtree(logs, ignore_errors=True)
    command = [sys.executable, "-m", "snakemake", "--profile", "laptop", "--cores", "2", *arguments]
    with open(world.folder / "killed.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=world.folder, stdout=log, stderr=log, start_new_session=True
        )
        wait_for(lambda: any(path.is_file() for path in logs.rglob("*")), process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, (
        f"Snakemake ended before {rule} began: {(world.folder / 'killed.log').read_text()}"
    )
    assert world.snakemake("--unlock", *arguments).returncode == 0


def result_checksums(world) -> dict[str, str]:
    """Checksums of the results from the probe to the summaries, except files that differ between runs
    (times, freed bytes)."""
    checksums = {}
    for folder in ("subsets", "probe", "signals", "evaluation", "training", "summaries"):
        for name, checksum in contents(world.folder / "results" / folder).items():
            # /any/ has the subset of test_a_random_choice_needs_neither_answers_nor_samples
            if Path(name).name not in ("spent.csv", "pruned.json") and "/any/" not in name:
                checksums[f"{folder}/{name}"] = checksum
    return checksums


# rules, in the order in which their jobs run
CHOOSING = ("probe", "measure_signals", "select_subset", "export_subset")
TRAINING = ("read_annotated", "evaluate_base", "train_grpo", "evaluate_run")
TRAINING += ("summarize", "write_worth")


@pytest.mark.nightly
def test_a_study_killed_in_each_stage_resumes_and_writes_the_same_files(annotated_world, tmp_path):
    world = annotated_world.copy(tmp_path / "world")
    expected = result_checksums(annotated_world)
    for name in ("results", ".snakemake", "paper/own"):
        shutil.rmtree(world.folder / name)
    for name in ("results/published", "results/reference"):
        shutil.copytree(annotated_world.folder / name, world.folder / name)
    for rule in CHOOSING:
        kill_during(world, rule, "subset", "--configfile", "my.yaml")
    world.run("subset", "--configfile", "my.yaml")
    fill_in(world, dict.fromkeys(annotated_world.ids[1:], "red"))
    for rule in TRAINING:
        kill_during(world, rule, *ANNOTATED)
    world.run(*ANNOTATED)
    assert result_checksums(world) == expected and len(expected) > 15
    assert (world.folder / "paper/own/worth.html").stat().st_size > 1000
