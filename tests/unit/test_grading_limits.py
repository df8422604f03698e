"""Grading a file ends as soon as it can only fail."""

import json

import pytest

import measure_difficulty
from fuzzing.judge import run_program
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import difficulty


def test_grading_stops_at_the_first_completion_too_many_that_is_undecided(tmp_path, monkeypatch):
    """An undecided completion takes most of a minute; a file of thousands would keep a login node busy for days."""
    monkeypatch.chdir(tmp_path)
    problems = [{"id": f"p{number}", "question": "q", "answer": "1"} for number in range(100)]
    rows = [{"id": problem["id"], "sample": 0, "completion": "9^{9^{9^9}}"} for problem in problems]
    for name, content in (("P.jsonl", problems), ("C.jsonl", rows)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    graded, counts = [], dict.fromkeys(difficulty.GRADED, 0)

    def measure(problem, samples, grader, **how):
        graded.append(problem["id"])
        return dict.fromkeys(difficulty.COLUMNS) | counts | {"id": problem["id"], "samples": 1, "undecided": 1}

    monkeypatch.setattr(measure_difficulty.difficulty, "measure", measure)
    arguments = ["--problems", "P.jsonl", "--completions", "C.jsonl", "--grader", "number_lenient", "--output", "D.csv"]
    with pytest.raises(UserError, match="C.jsonl: 2 of 100 completions could not be graded"):
        run_program("measure_difficulty", *arguments)
    assert len(graded) == 2 and not (tmp_path / "D.csv").exists()
