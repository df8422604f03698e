"""The grader that is proposed for reference answers."""

import sys

import pytest

from hardgrpo.grading.graders import GRADERS, grade
from hardgrpo.grading.proposals import propose, unreadable

PROPOSALS = [
    (["A", "C", "D"], "choice_letter_lenient"),
    (["(A)", "(E)"], "choice_letter_lenient"),
    (["1,250", "7/8", "-3", "20%"], "number_lenient"),
    (["٧", "٢٫٥"], "number_lenient"),
    (["2.4万", "7億"], "number_lenient"),
    (["true", "false"], "boxed_text"),
    (["green", "light green"], "boxed_text"),
    (["大阪", "是"], "boxed_text"),
    (["ναι", "όχι"], "boxed_text"),
    (["4 June", "9 July"], "boxed_text"),
    (["4.6.2023", "2023-06-04", "4月6日", "14:30", "3 pm"], "boxed_text"),
    (["B+", "A-"], "boxed_text"),
    (["y^2", "3y"], "math"),
    ([r"\frac{\pi}{3}", "4"], "math"),
    (["(2,5)", "x+y", "2π"], "math"),
    ([" "], None),
    ([], None),
]
MARKS_PROPOSALS = [
    (["7", "1/2"], "final_number"),
    (["Lyon", "Nice"], "final_word"),
    (["A", "B"], "final_word"),
    (["4 June"], None),
    (["y^2"], None),
]


@pytest.mark.parametrize(("answers", "grader"), PROPOSALS)
def test_the_first_grader_that_reads_the_answers_is_proposed(answers, grader):
    assert propose(answers) == propose(answers, "boxed") == grader


@pytest.mark.parametrize(("answers", "grader"), MARKS_PROPOSALS)
def test_after_the_marks_stands_a_number_or_a_word(answers, grader):
    assert propose(answers, "marks") == grader


@pytest.mark.parametrize(
    ("form", "answers", "grader"),
    [("boxed", *case) for case in PROPOSALS] + [("marks", *case) for case in MARKS_PROPOSALS],
)
@pytest.mark.parametrize("spelling", ["%s", "**%s**", r"\text{%s}", "$%s$", "%s."])
def test_a_proposed_grader_accepts_each_answer_and_no_other_answer(form, answers, grader, spelling):
    for answer in answers if grader else []:
        for reference in answers:
            completion = GRADERS[grader].form % (spelling % answer)
            assert grade(grader, completion, reference).correct == (answer == reference)


@pytest.mark.parametrize(("words", "grader"), [(1, "number_lenient"), (2, "math")])
def test_a_grader_may_fail_to_read_one_of_ten_answers(words, grader):
    answers = ["7", "9"] * 5 + ["Lyon"] * words
    assert propose(answers) == grader
    assert unreadable("number_lenient", answers) == list(range(10, 10 + words))


def test_math_is_not_proposed_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert propose(["y^2", "3y"]) is None
