"""The one grader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.grading import GRADERS, grade, last_box, readable


@pytest.mark.parametrize(
    ("grader", "completion", "answer", "answered", "correct"),
    [
        ("final_word", "two Bob red : Bob blue ; Bob #### blue", "blue", True, True),
        ("final_word", "#### red then #### blue", "blue", True, True),
        ("final_word", "Bob holds blue", "blue", False, False),
        ("final_word", "Bob ####", "blue", False, False),
        ("final_number", "12 + 5 = 17 ; #### 17", "17", True, True),
        ("final_number", "12 + 5 = 17 ;", "17", False, False),
        ("final_number", "#### 1,017", "1017", True, True),
        ("choice_letter", r"so \boxed{(B)}", "(B)", True, True),
        ("choice_letter", r"\boxed{(A)} no, \boxed{(B)}", "(B)", True, True),
        ("choice_letter", r"\boxed{B}", "(B)", True, False),
        ("choice_letter_lenient", r"\boxed{B}", "(B)", True, True),
        ("choice_letter_lenient", r"\boxed{\text{(B)}}", "(B)", True, True),
        ("choice_letter_lenient", r"\boxed{BC}", "(B)", True, False),
        ("choice_letter", "the answer is (B)", "(B)", False, False),
        ("choice_letter", r"\boxed{(B", "(B)", False, False),
        ("number_strict", r"\boxed{70000}", "70000", True, True),
        ("number_strict", r"\boxed{70,000}", "70000", True, False),
        ("number_strict", r"\boxed{18.0}", "18", True, False),
        ("number_lenient", r"\boxed{70,000}", "70000", True, True),
        ("number_lenient", r"\boxed{\$460}", "460", True, True),
        ("number_lenient", r"\boxed{18.0}", "18", True, True),
        ("number_lenient", r"\boxed{-3 \text{ cm}}", "-3", True, True),
        ("number_lenient", r"\boxed{none}", "18", True, False),
    ],
)
def test_verdicts(grader, completion, answer, answered, correct):
    verdict = grade(grader, completion, answer)
    assert (verdict.answered, verdict.correct) == (answered, correct)


def test_braces_are_balanced_and_an_open_box_does_not_count():
    assert last_box(r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert last_box(r"\boxed{1} and \boxed{2") == "1"
    assert last_box("nothing") is None


@given(st.sampled_from(sorted(GRADERS)), st.text(max_size=60))
def test_correct_implies_answered_whatever_the_model_writes(grader, completion):
    verdict = grade(grader, completion, "(B)" if "letter" in grader else "7")
    assert verdict.answered or not verdict.correct
    assert verdict.answered == (verdict.extracted is not None)


@given(st.integers(-(10**9), 10**9))
def test_every_integer_is_read_by_the_number_graders(number):
    for grader in ("number_strict", "number_lenient"):
        assert grade(grader, rf"so \boxed{{{number}}}", str(number)).correct
        assert readable(grader, str(number))
    assert grade("number_lenient", rf"\boxed{{{number:,}}}", str(number)).correct
