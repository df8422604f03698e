"""Grading of a file stops with an error if too many completions are undecided (their comparisons
reach the time limit) or if grading takes too long."""

import json

import pytest

import measure_difficulty
from command_line import format_options
from fuzzing.judge import run_program
from hardgrpo.grading import expressions
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import prompt_difficulty


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


# answers that only Math-Verify compares
SLOW = [rf"\boxed{{\sqrt{{x+{number}}}}}" for number in range(20)]


@pytest.fixture
def slow_files(tmp_path, monkeypatch):
    """A folder with files of answers that only Math-Verify compares. The limit of all comparisons
    together is so low that these answers exceed it; the limit of one comparison
    (`expressions.SECONDS`) is unchanged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(expressions, "usage", expressions.Usage())
    monkeypatch.setattr(expressions, "ALLOWED_SECONDS", 0.0)
    monkeypatch.setattr(expressions, "ALLOWED_SECONDS_EACH", 1e-5)
    for cached in (expressions.equal, expressions.parses):
        cached.cache_clear()
    problems = [
        {"id": f"p{number}", "question": f"q{number}", "answer": "5"} for number in range(2)
    ]
    for name, rows in {
        "P.jsonl": problems,
        "Q.jsonl": [{"id": problem["id"], "question": problem["question"]} for problem in problems],
        "C.jsonl": [
            {"id": problem["id"], "sample": number, "completion": text}
            for problem in problems
            for number, text in enumerate(SLOW)
        ],
        "R.jsonl": [problem | {"completions": SLOW} for problem in problems],
    }.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    yield tmp_path
    expressions.stop_helpers()


@pytest.mark.parametrize(
    ("program", "arguments", "refused"),
    [
        ("measure_difficulty", ["--problems", "P.jsonl", "--completions", "C.jsonl"], "C.jsonl"),
        ("measure_signals", ["--questions", "Q.jsonl", "--completions", "C.jsonl"], "C.jsonl"),
        (
            "grade_recording",
            format_options(problems="P.jsonl", recordings="R.jsonl", steps="1", completions="T.gz"),
            "R.jsonl",
        ),
        (
            "compare_choices",
            ["--recording", "R.jsonl", "--budget", "0.5", "--draws", "3"],
            "R.jsonl",
        ),
    ],
)
def test_a_file_of_slow_answers_ends_in_an_error_and_no_answer_is_counted_as_wrong(
    slow_files, program, arguments, refused
):
    """Grading an answer takes less than the time limit for one answer, but grading thousands of
    such answers would take days."""
    with pytest.raises(
        UserError, match=rf"^error: {refused}: stopped, .* of answers; .* took .* seconds: .*x\+\d"
    ) as error:
        run_program(program, *arguments, grader="math", output="out.csv")
    assert (
        "run again" in str(error.value)
        and not (slow_files / "out.csv").exists()
        and not (slow_files / "T.gz").exists()
    )


@pytest.mark.slow
def test_answers_of_usual_speed_are_graded_and_undecided_answers_count_as_used_time(
    slow_files, monkeypatch
):
    monkeypatch.undo()
    monkeypatch.chdir(slow_files)
    usage = expressions.Usage()
    monkeypatch.setattr(expressions, "usage", usage)
    run_program(
        "measure_difficulty",
        problems="P.jsonl",
        completions="C.jsonl",
        grader="math",
        output="out.csv",
    )
    assert (slow_files / "out.csv").exists()
    assert (
        usage.questions > 20
        and 0 < usage.seconds < expressions.ALLOWED_SECONDS_EACH * usage.questions
    )
    before = usage.seconds
    monkeypatch.setattr(expressions, "SECONDS", (0.2, 0.3))
    assert expressions.equal("1", "9^{9^{9^{9^{9}}}}") is None
    assert usage.seconds == pytest.approx(before + 0.5), (
        "both tries of an undecided answer must count"
    )
