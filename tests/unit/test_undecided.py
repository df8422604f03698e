"""A grade is undecided if Math-Verify gives no reply. An undecided grade is not right and is
counted. A study with too many undecided grades stops."""

from pathlib import Path

import pytest

from hardgrpo.grading import expressions, graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import prompt_difficulty
from hardgrpo.training import loop
from in_process import run_program


@pytest.fixture
def never(monkeypatch):
    """Make Math-Verify never decide."""
    monkeypatch.setattr(expressions, "_ask", lambda question: None)
    expressions.equal.cache_clear()
    expressions.parses.cache_clear()
    yield
    expressions.equal.cache_clear()
    expressions.parses.cache_clear()


def test_an_undecided_completion_is_not_right_and_is_counted(never):
    grade = graders.grade("math", r"\boxed{x^2+1}", "1+x^2")
    assert (
        grade.undecided and grade.answered and not (grade.correct or grade.strict or grade.lenient)
    )
    assert not graders.grade("math", r"\boxed{x^2+1}", "x^2+1").undecided, (
        "a text that equals the reference needs no Math-Verify"
    )
    samples = [{"completion": text} for text in (r"\boxed{x^2+1}", r"\boxed{1+x^2}", "no answer")]
    row = prompt_difficulty.measure({"id": "p", "answer": "1+x^2"}, samples, "math")
    assert (row["correct"], row["undecided"], row["answered"]) == (1, 1, 2)


def test_a_training_logs_the_share_of_undecided_grades(never):
    texts = [r"\boxed{1+x^2}", r"\boxed{1+x^2}", r"\boxed{x^2+1}", "no answer"]
    completions, logged = [[{"content": text}] for text in texts], {}
    recipe = {"group_size": 4, "reward": "correct"}
    reward = loop.reward_function("math", recipe, 1)
    assert reward(completions, ["x^2+1"] * 4, logged.__setitem__) == [0, 0, 1, 0]
    assert logged["undecided_share"] == 0.5


def test_undecided_completions_are_an_error_if_there_are_several_and_more_than_one_in_a_thousand():
    graders.check_decided(1, 100, "few completions")
    graders.check_decided(2, 2000, "one in a thousand")
    with pytest.raises(
        UserError,
        match=r"evaluations of study s: 3 of 2000 completions could not be graded .* more than 0.1 %",
    ):
        graders.check_decided(3, 2000, "evaluations of study s")


def test_grading_a_file_stops_as_soon_as_too_many_completions_are_undecided(tmp_path, monkeypatch):
    """Grading an undecided completion takes most of a minute."""
    monkeypatch.chdir(tmp_path)
    names, graded = [f"p{number}" for number in range(100)], []
    files.write_jsonl("P.jsonl", [{"id": n, "question": "q", "answer": "1"} for n in names])
    files.write_jsonl("C.jsonl", [{"id": n, "sample": 0, "completion": "2"} for n in names])

    def measure(problem, samples, grader, **options):
        graded.append(problem["id"])
        columns = dict.fromkeys(prompt_difficulty.COLUMNS)
        counts = dict.fromkeys(prompt_difficulty.GRADE_COUNTS, 0)
        return columns | counts | {"id": problem["id"], "samples": 1, "undecided": 1}

    monkeypatch.setattr(prompt_difficulty, "measure", measure)
    with pytest.raises(UserError, match="C.jsonl: 2 of 100 completions could not be graded"):
        run_program(
            "measure_difficulty",
            problems="P.jsonl",
            completions="C.jsonl",
            grader="number_lenient",
            output="D.csv",
        )
    assert len(graded) == 2 and not Path("D.csv").exists()
