"""Held-out completions measure the difficulty of the chosen prompts, and choose no prompts."""

import json
import subprocess
import sys

import pytest

from command_line import format_options
from conftest import ROOT, path_of
from hardgrpo.runtime import files


def run(program: str, /, *arguments, **options) -> None:
    done = start(program, *arguments, **options)
    assert done.returncode == 0, done.stderr


def start(program: str, /, *arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            sys.executable,
            path_of(program),
            *map(str, arguments),
            *format_options(**options),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_samples_choose_the_hardest_prompts_and_the_held_out_samples_measure_their_pass_rate(
    tmp_path,
):
    # the first two samples are used for the choice, the other two are held out
    right = {"a": "0011", "b": "1100", "c": "1111", "d": "0100"}
    problems = [{"id": name, "question": name, "answer": "7"} for name in right]
    completions = [
        {"id": name, "sample": sample, "completion": "#### 7" if grade == "1" else "#### 8"}
        for name, grades in right.items()
        for sample, grade in reversed(list(enumerate(grades)))
    ]
    files.write_jsonl(tmp_path / "P.jsonl", problems)
    files.write_jsonl(tmp_path / "C.jsonl", completions)
    inputs = format_options(
        problems=tmp_path / "P.jsonl", completions=tmp_path / "C.jsonl", grader="final_number"
    )
    run("measure_difficulty", *inputs, samples=2, held_out=2, output=tmp_path / "D.csv")
    rows = files.read_rows(
        tmp_path / "D.csv",
        {"id": str, "samples": int, "pass_rate": float, "held_out": int, "held_out_correct": int},
    )
    assert {row["id"]: (row["pass_rate"], row["held_out_correct"]) for row in rows} == {
        "a": (0, 2),
        "b": (1, 0),
        "c": (1, 2),
        "d": (0.5, 0),
    }
    assert {(row["samples"], row["held_out"]) for row in rows} == {(2, 2)}
    policy = json.dumps({"rule": "hard", "budget": 0.5})
    run(
        "select_subset",
        difficulty=tmp_path / "D.csv",
        policy=policy,
        seed=0,
        output=tmp_path / "S.csv",
    )
    description = json.loads((tmp_path / "S.json").read_text())
    assert [row["id"] for row in files.read_rows(tmp_path / "S.csv", {"id": str})] == ["a", "d"]
    assert (description["mean_pass_rate"], description["zero_share"]) == (0.25, 0.5)
    assert (description["held_out_pass_rate"], description["held_out_zero_share"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    "options, wrong",
    [
        ({"held_out": 2}, "--held-out"),
        ({"samples": 3, "held_out": -1}, "--held-out"),
        ({"samples": 0}, "--samples"),
    ],
)
@pytest.mark.parametrize(
    "program, prompts", [("measure_difficulty", "problems"), ("measure_signals", "questions")]
)
def test_impossible_numbers_of_samples_are_refused(tmp_path, program, prompts, options, wrong):
    """Without --samples, the same completions would be used to choose prompts and to measure the
    difficulty of the chosen prompts."""
    row = {"id": "a", "question": "a"} | ({"answer": "7"} if prompts == "problems" else {})
    files.write_jsonl(tmp_path / "P.jsonl", [row])
    rows = [{"id": "a", "sample": sample, "completion": "#### 7"} for sample in range(4)]
    files.write_jsonl(tmp_path / "C.jsonl", rows)
    done = start(
        program,
        **{prompts: tmp_path / "P.jsonl"},
        completions=tmp_path / "C.jsonl",
        grader="final_number",
        output=tmp_path / "D.csv",
        **options,
    )
    assert done.returncode != 0 and done.stderr.startswith(f"error: {wrong}")
    assert not (tmp_path / "D.csv").exists()


def test_held_out_completions_without_a_number_are_refused(tmp_path):
    files.write_jsonl(tmp_path / "P.jsonl", [{"id": "a", "question": "a", "answer": "7"}])
    completions = [{"id": "a", "completion": "#### 7"}] * 4
    files.write_jsonl(tmp_path / "C.jsonl", completions)
    inputs = format_options(
        problems=tmp_path / "P.jsonl", completions=tmp_path / "C.jsonl", grader="final_number"
    )
    done = start("measure_difficulty", *inputs, samples=2, held_out=2, output=tmp_path / "D.csv")
    assert done.returncode == 1 and "--held-out needs the numbers" in done.stderr, done.stderr
    assert not (tmp_path / "D.csv").exists()
