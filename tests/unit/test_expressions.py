"""Whether two expressions are equal: this project's code compares numbers and words, Math-Verify
compares all other expressions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RECORDINGS
from hardgrpo.grading import expressions
from hardgrpo.grading.expressions import equal, parses, same_text
from hardgrpo.grading.quantities import is_number


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left():
    yield
    expressions.stop_helpers()


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \frac{\pi}{3})", False),
        (r"\text{Evelyn}", "Evelyn", True),
        (r"\text{Evelyn}", r"\textbf{evelyn}.", True),
        (r"\text{Evelyn}", "Navin", False),
        (r"\text{June 20}", "June 20", True),
        (r"\text{(C)}", "C", True),
        (r"\text{(C)}", r"\text{C}", True),
        (r"\text{(C)}", "B", False),
        (r"\text{(E)}", "E", True),
        (r"90^\circ", "90", True),
        (r"90^\circ", r"90 \text{ degrees}", True),
        ("6 - 5i", "6-5 i", True),
        ("6 - 5i", "-5i + 6", True),
        ("6 - 5i", "6 + 5i", False),
        ("7 - i", "(3+i)(2-i)", True),
        ("(1+i,2)", r"\left(i + 1, 2\right)", True),
        ("x=5", "5", True),
        ("5", "x = 5", True),
        ("x=5", "y=5", False),
        ("x=5", "x = 5.0", True),
        ("10080", "x = 10,080", True),
        ("1,-2", "-2, 1", True),
        ("1,-2", r"1 \text{ and } -2", True),
        ("1,-2", "1", False),
        ("3, 5, 7", r"\{7, 5, 3\}", True),
        ("52_8", "52_{8}", True),
        ("52_8", "52", True),
        ("52_8", "52_7", False),
        ("52_8", "42", False),
        (r"11\sqrt2", r"11\sqrt{2}", True),
        (r"2\sqrt{113}", r"\sqrt{452}", True),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}", True),
        ("x^2+2x+1", "(x+1)^2", True),
        ("x^2+2x+1", "(x-1)^2", False),
        ("y = 2x + 3", "2x+3", True),
        ("y = 2x + 3", "y - 2x - 3 = 0", True),
        (r"x \in [-2,7]", "[-2,7]", True),
        (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty)\cup(-\infty,2)", True),
        ("(3,4]", "[3,4]", False),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}", True),
        (
            r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
            r"\begin{bmatrix} -\frac13 \\ \frac23 \end{bmatrix}",
            True,
        ),
        (r"15\mbox{ cm}^2", "15", True),
        ("18", "18 wombats", True),
        (r"\$32,\!348", "32348", True),
        (r"10,\!080", "10080", True),
        (r"\frac32", "1.5", True),
        (r"\frac13", "0.333333", True),
        (r"\frac13", "0.33", False),
        (".0000672", ".0000671", False),
        (r"50\%", "0.5", True),
        (r"50\%", "50", True),
        ("2t", "2", False),
        ("2t", r"t \cdot 2", True),
        ("c+x", "x + c", True),
        ("5x", r"5x \text{ cm}", True),
        ("4", "2.", False),
        ("2", "2.", True),
        (r"\sqrt2", r"\sqrt{2}.", True),
        ("120", "5!", True),
        ("28", "34-6=28", True),
        ("3", r"3 \text{ or } 4", False),
        ("1 1/2", "11/2", False),
        (r"\frac{1}{0}", "1", False),
        ("3", "I don't know", False),
        ("3", "", False),
        ("3", r"\frac{}{", False),
    ],
)
def test_equivalent_expressions_are_equal_and_others_are_not(reference, answer, expected):
    assert equal(reference, answer) == expected
    assert not expected or (parses(reference) and parses(answer))


@pytest.mark.parametrize("text", ["", " ", r"\frac{}{", "x" * 2000, "}{", r"\begin{pmatrix} 1"])
def test_a_text_that_is_no_expression_or_too_long_is_not_parsed(text):
    assert not parses(text)


def test_latex_spaces_are_ignored_except_between_digits():
    assert (
        same_text(r"(3,\,4)", "( 3, 4 )")
        and same_text(r"10,\!080", "10,080")
        and same_text("6-5 i", "6 - 5i")
    )
    assert (
        not same_text("1 1/2", "11/2")
        and not same_text(r"70\,000", "70000")
        and not same_text(r"\frac12", r"\dfrac12")
    )


ALPHABET = st.sampled_from(
    list(r"01259.,+-*/^_(){}[]=<>|!%$&' ")
    + [r"\frac", r"\sqrt", r"\pi", r"\text{", "x", "i", "e", r"\\", r"\le", "\ud83d", "é"]
)


@given(st.lists(ALPHABET, max_size=12).map("".join), st.lists(ALPHABET, max_size=12).map("".join))
def test_comparing_two_texts_of_any_kind_raises_no_error(left, right):
    assert equal(left, right) in (True, False)
    assert parses(left) in (True, False)


@pytest.mark.recordings
def test_every_answer_of_math500_is_read_and_distinguished_from_the_next_answer():
    with open(f"{RECORDINGS}/math500/test.jsonl", encoding="utf-8") as stream:
        answers = list(dict.fromkeys(json.loads(line)["answer"] for line in stream))
    assert all(parses(answer) and equal(answer, answer) for answer in answers)
    symbolic_answers = [a for a in answers if not is_number(a)]
    equal_pairs = {
        frozenset(pair) for pair in [("1,-2", "-2,1"), ("(-2,1)", "-2,1"), ("(-2,1)", "1,-2")]
    }
    for left, right in zip(symbolic_answers, symbolic_answers[1:] + symbolic_answers[:1]):
        assert not equal(left, right) or frozenset((left, right)) in equal_pairs
