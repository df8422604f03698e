"""Grades of the answers in grades/*.tsv, and properties that hold for every grade.

numbers.tsv and expressions.tsv list answers by kind of spelling, peers.tsv lists grades by other
graders (column `source`). Common columns: graders (of this project), reference, answer, expected
(1: correct). In peers.tsv, `expected` is the grade by the other grader, and a row has a reason if
this project's grade differs from `expected`.
"""

import csv
import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import ROOT
from hardgrpo.grading import expressions
from hardgrpo.grading.expressions import equal
from hardgrpo.grading.graders import GRADERS, grade
from hardgrpo.grading.quantities import read_number
from text_tables import rows_of

TABLES = Path(__file__).parent / "grades"


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left():
    yield
    expressions.stop_helpers()


def cases(table: str) -> list[dict[str, str]]:
    """The rows of a table, repeated for each grader in column `graders`. Key `grader` is added."""
    with open(TABLES / table, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert all(None not in row and row["expected"] in ("0", "1") for row in rows)
    return [row | {"grader": grader} for row in rows for grader in row["graders"].split()]


def is_right(case: dict[str, str]) -> bool:
    return grade(
        case["grader"],
        "so " + GRADERS[case["grader"]].form.replace("%s", case["answer"]),
        case["reference"],
    ).correct


BY_KIND = [case for table in ("numbers.tsv", "expressions.tsv") for case in cases(table)]


@pytest.mark.parametrize("kind", dict.fromkeys(case["kind"] for case in BY_KIND))
def test_each_spelling_of_an_answer_has_the_expected_grade(kind):
    answers = [case for case in BY_KIND if case["kind"] == kind]
    assert [case for case in answers if is_right(case) != (case["expected"] == "1")] == []
    assert {case["expected"] for case in answers} == {"0", "1"}, (
        "the kind lacks answers to accept or answers to refuse"
    )


@pytest.mark.slow
def test_grades_equal_those_of_other_graders_except_with_a_stated_reason():
    """The grade differs from the expected grade in exactly those rows that state a reason."""
    peers = cases("peers.tsv")
    assert [
        case
        for case in peers
        if (is_right(case) != (case["expected"] == "1")) != bool(case["reason"])
    ] == []
    assert len([case for case in peers if not case["reason"]]) >= 300


# --- properties

VALUES = st.fractions(max_denominator=50, min_value=-(10**6), max_value=10**6)
WRAPS = r"""
{}\text{{ cm}} | {} cups of flour | {} km/h | {}\ \text{{m}}^2 | {} times a week | {}\% | \${} | US\${}
\text{{USD }}{} | x = {} | {} = x | \approx {} | x \approx {} | ({}) | \left({}\right) | **{}** | `{}`
\boldsymbol{{{}}} | \text{{\textbf{{{}}}}} | \[{}\] | \ {}\  | {}. | {}\,
"""


def forms(value: Fraction) -> list[str]:
    """Spellings of a number."""
    (integer, fraction), (above, below) = divmod(abs(value), 1), abs(value).as_integer_ratio()
    sign = "-" if value < 0 else ""
    texts = [
        f"{sign}{above}/{below}",
        rf"{sign}\frac{{{above}}}{{{below}}}",
        rf"{sign}\dfrac{{{above:,}}}{{{below:,}}}",
    ]
    if fraction and integer:
        proper = rf"\frac{{{fraction.numerator}}}{{{fraction.denominator}}}"
        texts += [f"{sign}{integer} {fraction}", f"{sign}{integer}{proper}"]
        texts += [f"{sign}{integer} {proper}"]
    if not fraction:
        texts += [f"{sign}{integer}", f"{sign}{integer:,}", f"{sign}{integer}.0"]
        texts += [f"{sign}{integer}e0", rf"{sign}{integer} \times 10^{{0}}", f"{sign}{integer}."]
        texts += [f"{sign}{integer:,}".replace(",", r"\,").replace("-", "\u2212")]
    return texts


def repeating_decimals(value: Fraction) -> str:
    r"""The decimals of a fraction by long division, with repeating decimals in \overline{}."""
    remainder, digits, places = abs(value) % 1, "", {}
    while remainder and remainder not in places:
        places[remainder] = len(digits)
        digit, remainder = divmod(10 * remainder, 1)
        digits += str(digit)
    period = rf"\overline{{{digits[places[remainder] :]}}}" if remainder else ""
    return f"{'-' if value < 0 else ''}{abs(value) // 1}.{digits[: places[remainder]] if remainder else digits or 0}{period}"


@given(VALUES, st.data())
def test_every_spelling_of_a_number_equals_that_number_and_no_other_number(value, data):
    spelling = data.draw(st.sampled_from([*forms(value), repeating_decimals(value)]))
    assert [text for text in forms(value) if read_number(text) != value] == []
    assert read_number(repeating_decimals(value)) == value
    for grader in ("number_lenient", "math"):
        reference = data.draw(st.sampled_from(forms(value)))
        assert grade(grader, rf"\boxed{{{spelling}}}", reference).correct
        assert not grade(grader, rf"\boxed{{{spelling}}}", str(value + 1)).correct
        assert not grade(grader, rf"\boxed{{{spelling}}}", str(value + Fraction(1, 51))).correct


@given(VALUES, VALUES, st.sampled_from(sum(rows_of(WRAPS), [])), st.data())
def test_a_unit_or_a_mark_changes_no_grade(value, other_value, wrap, data):
    reference, spelling = (
        data.draw(st.sampled_from(forms(value))),
        data.draw(st.sampled_from([*forms(value), *forms(other_value)])),
    )
    is_pair = "," in spelling and wrap.strip("$") in ("({})", r"\left({}\right)")
    assume(not is_pair)  # (1,234) is a pair of numbers
    for grader in ("number_lenient", "math"):
        if grader == "math" and "%" in wrap and value in (other_value / 100, other_value):
            continue  # 50 % also equals 1/2
        plain, wrapped = (
            grade(grader, rf"\boxed{{{text}}}", reference).correct
            for text in (spelling, wrap.format(spelling))
        )
        assert plain == wrapped == (read_number(spelling) == value)


@given(VALUES, VALUES, st.data())
def test_equality_of_numbers_is_symmetric(left, right, data):
    texts = [
        data.draw(
            st.sampled_from([*forms(value), rf"{forms(value)[0]}\%", repeating_decimals(value)])
        )
        for value in (left, right)
    ]
    assert equal(*texts) == equal(*reversed(texts))


QUESTIONS = [
    ("0", "0 0/0"),
    ("1", r"\frac{0}{0}"),
    (r"\tan^2(y)+1", r"\sec^2(y)"),
    ("x^2/4 + y^2/3 = 1", "x^2/16 + y^2/12 = 1/4"),
    ("2x+4y-3=0", r"y=-\frac{1}{2}x+\frac{3}{4}"),
    (r"\sqrt{5+2\sqrt{6}}", r"\sqrt{2}+\sqrt{3}"),
    (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"),
    (r"\{1,2,3\}", r"\{3,2,1\}"),
]


@pytest.mark.slow
def test_a_comparison_depends_neither_on_random_numbers_nor_on_earlier_comparisons():
    """SymPy draws random numbers and caches results. Its result for 0/0 depends on a random
    number."""
    verdicts = {question: set() for question in QUESTIONS}
    for order in range(3):
        if order == 2:
            expressions.stop_helpers()
        for question in random.Random(order).sample(
            QUESTIONS + 4 * QUESTIONS[:2], len(QUESTIONS) + 8
        ):
            equal.cache_clear()
            verdicts[question].add(equal(*question))
    assert all(len(answers) == 1 for answers in verdicts.values()), verdicts
    assert verdicts["0", "0 0/0"] == verdicts["1", r"\frac{0}{0}"] == {False}


@pytest.mark.slow
def test_a_comparison_depends_on_no_setting_of_python_and_sympy():
    code = f"from hardgrpo.grading.expressions import equal; print([equal(*question) for question in {QUESTIONS!r}])"
    settings = [{"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "SYMPY_USE_CACHE": "no"}]
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | setting,
            capture_output=True,
            check=True,
        ).stdout
        for setting in settings
    }
    assert len(printed) == 1
