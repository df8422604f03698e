"""Graders: the answer that they find in a completion, and its strict and lenient grades."""

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.grading.graders import (
    GRADERS,
    accepts_reference,
    are_equal,
    check_grader,
    grade,
    last_box,
)
from hardgrpo.grading.quantities import is_number
from hardgrpo.runtime.errors import UserError
from text_tables import rows_of

# grader | reference | grade | completion, with \n for a line break. The grade is the first that holds of
# strict, lenient, readable, unreadable (an answer, but not of the grader's kind), and none (no answer).
GRADES = r"""
final_word | blue | strict | two Bob red : Bob blue ; Bob #### blue
final_word | blue | strict | #### red then #### blue
final_word | blue | lenient | #### Blue.
final_word | blue | none | Bob holds blue
final_word | blue | none | Bob ####
final_number | 17 | strict | 12 + 5 = 17 ; #### 17
final_number | 17 | none | 12 + 5 = 17 ;
final_number | 1017 | lenient | #### 1,017
final_number | 1,017 | strict | #### 1017
final_number | 18 | lenient | #### $ 18
final_number | 18 | strict | ####: 18
final_number | 18 | strict | ####:18
final_number | 1800 | lenient | ####: \$ 1,800
final_number | 18 | strict | ####\n18 dollars
final_number | 18 | lenient | #### **18**
final_number | 18 | readable | #### $ 17
final_number | 18 | unreadable | #### : 18
final_number | 18 | unreadable | #### $
final_number | 18 | unreadable | ####:
choice_letter | (B) | strict | so \boxed{(B)}
choice_letter | (B) | strict | \boxed{(A)} no, \boxed{(B)}
choice_letter | (B) | lenient | \boxed{B}
choice_letter | (B) | none | the answer is (B)
choice_letter | (B) | none | \boxed{(B
choice_letter | (B) | unreadable | \boxed{BC}
choice_letter_lenient | (B) | lenient | \boxed{B}
choice_letter_lenient | (B) | lenient | \boxed{\text{(B)}}
choice_letter_lenient | (B) | unreadable | \boxed{BC}
boxed_text | clear cell carcinoma | lenient | \boxed{Clear Cell  Carcinoma.}
boxed_text | carcinoma | readable | \boxed{Carcinoma (CC)}
boxed_text | carcinoma | none | Carcinoma
brackets | ] } | strict | so \boxed{] }}
brackets | ] } | lenient | \boxed{]\}}
brackets | ] ] | readable | \boxed{\text{] ]}}
brackets | ] } | readable | \boxed{] }\nDone }
brackets | ] ] | none | \boxed{] ]
number_strict | 70000 | strict | \boxed{70000}
number_strict | 70,000 | strict | \boxed{70000}
number_strict | 70000 | lenient | \boxed{70,000}
number_strict | 70,000 | lenient | \boxed{70,000}
number_strict | 18 | lenient | \boxed{18.0}
number_strict | 528 | unreadable | \boxed{52_8}
number_strict | 2 | unreadable | \boxed{2:00 \text{ pm}}
number_lenient | 70000 | lenient | \boxed{70,000}
number_lenient | 460 | lenient | \boxed{\$460}
number_lenient | 18 | lenient | \boxed{18.0}
number_lenient | -3 | lenient | \boxed{-3 \text{ cm}}
number_lenient | 1.5 | lenient | \boxed{1\frac{1}{2}}
number_lenient | 18 | unreadable | \boxed{none}
number_lenient | 200 | unreadable | \boxed{2:00 \text{ pm}}
number_lenient | 18 | none | \boxed{}
number_lenient | 18 | none | \boxed{18}, that is \boxed{ }
number_lenient | 18 | strict | \boxed{18}
number_lenient | 18 | none | 18
math_strict | (3, \frac{\pi}{2}) | strict | \boxed{(3,\,\frac{\pi}{2})}
math_strict | (3, \frac{\pi}{2}) | lenient | \boxed{(3,\dfrac{\pi}{2})}
math_strict | \frac{\pi}{2} | lenient | \boxed{\dfrac{\pi}{2}}
math | \left( 3, \frac{\pi}{2} \right) | lenient | \boxed{\left(3,\dfrac{\pi}{2}\right)}
math | \text{Evelyn} | lenient | \boxed{Evelyn}
math | 5 | lenient | \boxed{x = 5}
math | 1,-2 | lenient | \boxed{-2, 1}
math | x^2+2x+1 | readable | \boxed{(x-1)^2}
math | \frac{\pi}{2} | none | \frac{\pi}{2}
math | \frac{\pi}{2} | strict | \boxed{\frac{\pi}{2}}
math | x | readable | \boxed{x^2}
math | x | unreadable | \boxed{\frac{}{}}
"""
COUNT_STRICT_GRADES = ("choice_letter", "number_strict", "math_strict")


def test_each_completion_has_its_grade():
    for grader, reference, expected, text in rows_of(GRADES):
        graded = grade(grader, text.replace(r"\n", "\n"), reference)
        names = [name for name in ("strict", "lenient", "readable") if getattr(graded, name)]
        first_grade = [*names, "unreadable" if graded.answered else "none"][0]
        assert first_grade == expected, (grader, text)
        right = ("strict",) if grader in COUNT_STRICT_GRADES else ("strict", "lenient")
        assert graded.correct == (expected in right), (grader, text)
        assert graded.extracted is None or graded.extracted in text.replace(r"\n", "\n")


def test_braces_are_balanced_and_an_open_box_does_not_count():
    assert last_box(r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert last_box(r"} \boxed{1} and \boxed{2") == "1"
    assert last_box(r"\boxed{1 and \boxed{2}") == "2"
    assert last_box(r"\boxed{\boxed{ 2 }}") == "2"
    assert last_box(r"\boxed{}") == ""
    assert last_box("nothing") is None


@pytest.mark.parametrize(
    "piece",
    [r"\boxed{", "{", "}", r"\boxed{1", r"\boxed{}", "####", "#### ", "9", r"\boxed{\frac{"],
)
def test_long_repetitive_completions_are_graded_quickly(piece):
    completion = piece * (300_000 // len(piece))
    for grader in GRADERS:
        started = time.process_time()
        grade(grader, completion, "(B)" if "letter" in grader else "7")
        assert time.process_time() - started < 20


# --- properties

ANSWERS = (
    st.text(max_size=12)
    | st.integers().map(str)
    | st.sampled_from(["(B)", "b", r"\frac12", "1/2", "x^2", r"50\%", "1,000", "ünï"])
)
FORMS = st.sampled_from(
    ["{}", r"so \boxed{{{}}}", "so #### {}", r"\boxed{{{}", "{} \\boxed{{1}} #### 2"]
)


@given(st.sampled_from(sorted(GRADERS)), ANSWERS, FORMS, ANSWERS)
def test_strict_implies_lenient_implies_readable_implies_answered(grader, stated, form, answer):
    graded = grade(grader, form.format(stated), answer)
    assert graded.strict <= graded.lenient <= graded.readable <= graded.answered
    assert graded.correct in (graded.strict, graded.lenient)
    assert graded.answered == bool(graded.extracted)


@given(st.sampled_from(sorted(GRADERS)), ANSWERS)
def test_a_completion_that_states_the_reference_is_right(grader, answer):
    if accepts_reference(grader, answer):
        chosen = GRADERS[grader]
        assert grade(grader, "so " + chosen.form % chosen.normalise(answer), answer).correct


@given(st.sampled_from(sorted(GRADERS)), ANSWERS, ANSWERS)
def test_equality_is_symmetric_and_every_answer_equals_itself(grader, left, right):
    assert are_equal(grader, left, right) == are_equal(grader, right, left)
    assert are_equal(grader, left, left)


SAME = r"""
final_word | blue | Blue.
final_number | 1,017 | 1017.0
choice_letter_lenient | (B) | B
number_strict | 18 | 018
number_strict | 18.0 | 18.0
number_lenient | \$18.00 | 18
math | \frac{1}{\sqrt{2}} | \frac{\sqrt2}{2}
math | x > 2 | (2, \infty)
"""
NOT_SAME = r"""
choice_letter | (B) | B
choice_letter_lenient | BC | CD
number_strict | 1,017 | 1017
number_lenient | none | nothing
math_strict | \frac12 | \frac{1}{2}
"""


def test_equality_of_answers_is_symmetric_and_as_expected():
    for table, expected in ((SAME, True), (NOT_SAME, False)):
        for grader, left, right in rows_of(table):
            assert are_equal(grader, left, right) == expected, (grader, left, right)
            assert are_equal(grader, right, left) == expected, (grader, right, left)


@given(st.integers(-(10**9), 10**9))
def test_every_integer_is_read_by_the_number_graders(number):
    for grader in ("number_strict", "number_lenient", "math_strict", "math"):
        assert grade(grader, rf"so \boxed{{{number}}}", str(number)).correct
        assert not grade(grader, rf"so \boxed{{{number + 1}}}", str(number)).correct
        assert accepts_reference(grader, str(number))
    for grader in ("number_lenient", "math"):
        assert grade(grader, rf"\boxed{{{number:,}}}", str(number)).correct
    assert accepts_reference("number_strict", f"{number:,}")


# --- data


# grader | references that the grader reads | other references
REFERENCES = r"""
final_word | blue | light blue
final_number | 1,080 | blue
choice_letter | (B); B | yes
number_strict | 1,080; 18.0 | 1.5; 52_8
number_lenient | 1.5 | three
math | \text{Evelyn} | 3 and 5 }; \frac{}{;
"""


def test_a_reference_is_accepted_only_if_the_grader_can_read_it():
    for grader, *references in rows_of(REFERENCES):
        for texts, expected in zip(references, (True, False)):
            for text in texts.split(";"):
                assert accepts_reference(grader, text.strip()) == expected, (grader, text)


SINGLE = r"42 | \frac43 | 90^\circ | \$18.90 | 10,\!080 | x=5 | 5.4 \text{ cents} | 58,500"
OTHER = r"2k | 3\sqrt{13} | 7\pi | 1,-2 | 6 - 5i | 52_8 | \text{east} | (2,4) | p - q | 3 m"


def test_is_number_accepts_only_single_numbers():
    assert all(map(is_number, *rows_of(SINGLE))) and not any(map(is_number, *rows_of(OTHER)))


def test_an_unknown_grader_is_reported():
    with pytest.raises(
        UserError,
        match="unknown grader 'maths'; expected one of .*final_word, .*math_strict, math$",
    ):
        check_grader("maths")


def test_a_missing_package_of_a_grader_is_reported_before_grading(monkeypatch):
    check_grader("math")
    monkeypatch.setitem(sys.modules, "math_verify", None)
    check_grader("number_lenient")
    with pytest.raises(UserError, match="Math-Verify, which is not installed"):
        check_grader("math")
