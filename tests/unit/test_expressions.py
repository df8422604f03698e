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
from text_tables import rows_of


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left():
    yield
    expressions.stop_helpers()


EQUAL = r"""
\left( 3, \frac{\pi}{2} \right) | (3, \pi/2)
\text{Evelyn} | Evelyn | \textbf{evelyn}.
\text{June 20} | June 20
\text{(C)} | C | \text{C}
90^\circ | 90 | 90 \text{ degrees}
6 - 5i | 6-5 i | -5i + 6
7 - i | (3+i)(2-i)
(1+i,2) | \left(i + 1, 2\right)
5 | x = 5
x=5 | x = 5.0
10080 | x = 10,080
1,-2 | -2, 1 | 1 \text{ and } -2
3, 5, 7 | \{7, 5, 3\}
52_8 | 52_{8} | 52
11\sqrt2 | 11\sqrt{2}
2\sqrt{113} | \sqrt{452}
\frac{\sqrt{3}}{3} | \frac{1}{\sqrt{3}}
x^2+2x+1 | (x+1)^2
y = 2x + 3 | 2x+3 | y - 2x - 3 = 0
x \in [-2,7] | [-2,7]
(-\infty, 2) \cup (3, \infty) | (3,\infty)\cup(-\infty,2)
1 \pm \sqrt{19} | 1+\sqrt{19}, 1-\sqrt{19}
\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix} | \begin{bmatrix} -\frac13 \\ \frac23 \end{bmatrix}
15\mbox{ cm}^2 | 15
18 | 18 wombats
\$32,\!348 | 32348
10,\!080 | 10080
\frac32 | 1.5
\frac13 | 0.333333
50\% | 0.5 | 50
2t | t \cdot 2
c+x | x + c
2 | 2.
\sqrt2 | \sqrt{2}.
120 | 5!
28 | 34-6=28
"""
DIFFERENT = r"""
\left( 3, \frac{\pi}{2} \right) | (3, \frac{\pi}{3})
\text{Evelyn} | Navin
\text{(C)} | B
6 - 5i | 6 + 5i
1,-2 | 1
52_8 | 52_7 | 42
x^2+2x+1 | (x-1)^2
(3,4] | [3,4]
\frac13 | 0.33
.0000672 | .0000671
2t | 2
4 | 2.
3 | 3 \text{ or } 4 | I don't know | \frac{}{
1 1/2 | 11/2
\frac{1}{0} | 1
"""


def test_equivalent_expressions_are_equal_and_others_are_not():
    for reference, *answers in rows_of(EQUAL):
        assert [a for a in answers if not (equal(reference, a) and parses(a))] == [], reference
        assert parses(reference)
    for reference, *answers in rows_of(DIFFERENT):
        assert [answer for answer in answers if equal(reference, answer)] == [], reference
    assert not equal("3", "")


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
