"""Grading of a file stops with an error if too many completions are undecided (their comparisons
reach the time limit)."""

import json

import pytest

import measure_difficulty
from command_line import format_options
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import prompt_difficulty
from in_process import run_program


def test_grading_stops_as_soon_as_too_many_completions_are_undecided(tmp_path, monkeypatch):
    """Grading an undecided completion takes most of a minute. A file with thousands of undecided
    completions would keep a login node busy for days."""
    monkeypatch.chdir(tmp_path)
    problems = [{"id": f"p{number}", "question": "q", "answer": "1"} for number in range(100)]
    rows = [{"id": problem["id"], "sample": 0, "completion": "9^{9^{9^9}}"} for problem in problems]
    for name, content in (("P.jsonl", problems), ("C.jsonl", rows)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    graded, counts = [], dict.fromkeys(prompt_difficulty.GRADE_COUNTS, 0)

    def measure(problem, samples, grader, **options):
        graded.append(problem["id"])
        return (
            dict.fromkeys(prompt_difficulty.COLUMNS)
            | counts
            | {"id": problem["id"], "samples": 1, "undecided": 1}
        )

    monkeypatch.setattr(measure_difficulty.prompt_difficulty, "measure", measure)
    arguments = format_options(
        problems="P.jsonl", completions="C.jsonl", grader="number_lenient", output="D.csv"
    )
    with pytest.raises(UserError, match="C.jsonl: 2 of 100 completions could not be graded"):
        run_program("measure_difficulty", *arguments)
    assert len(graded) == 2 and not (tmp_path / "D.csv").exists()
