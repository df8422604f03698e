"""Graders: the answer that they find in a completion, and its strict and lenient grades."""

import json
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RECORDINGS
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


@pytest.mark.parametrize(
    ("grader", "completion", "answer", "answered", "correct"),
    [
        ("final_word", "two Bob red : Bob blue ; Bob #### blue", "blue", True, True),
        ("final_word", "#### red then #### blue", "blue", True, True),
        ("final_word", "#### Blue.", "blue", True, True),
        ("final_word", "Bob holds blue", "blue", False, False),
        ("final_word", "Bob ####", "blue", False, False),
        ("final_number", "12 + 5 = 17 ; #### 17", "17", True, True),
        ("final_number", "12 + 5 = 17 ;", "17", False, False),
        ("final_number", "#### 1,017", "1017", True, True),
        ("final_number", "#### 1017", "1,017", True, True),
        ("choice_letter", r"so \boxed{(B)}", "(B)", True, True),
        ("choice_letter", r"\boxed{(A)} no, \boxed{(B)}", "(B)", True, True),
        ("choice_letter", r"\boxed{B}", "(B)", True, False),
        ("choice_letter_lenient", r"\boxed{B}", "(B)", True, True),
        ("choice_letter_lenient", r"\boxed{\text{(B)}}", "(B)", True, True),
        ("choice_letter_lenient", r"\boxed{BC}", "(B)", True, False),
        ("choice_letter", "the answer is (B)", "(B)", False, False),
        ("choice_letter", r"\boxed{(B", "(B)", False, False),
        ("boxed_text", r"\boxed{Clear Cell  Carcinoma.}", "clear cell carcinoma", True, True),
        ("boxed_text", r"\boxed{Carcinoma (CC)}", "carcinoma", True, False),
        ("boxed_text", "Carcinoma", "carcinoma", False, False),
        ("brackets", r"so \boxed{] }}", "] }", True, True),
        ("brackets", r"\boxed{]\}}", "] }", True, True),
        ("brackets", r"\boxed{\text{] ]}}", "] ]", True, False),
        ("brackets", r"\boxed{] }" + "\nDone }", "] }", True, False),
        ("brackets", r"\boxed{] ]", "] ]", False, False),
        ("number_strict", r"\boxed{70000}", "70000", True, True),
        ("number_strict", r"\boxed{70000}", "70,000", True, True),
        ("number_strict", r"\boxed{70,000}", "70000", True, False),
        ("number_strict", r"\boxed{70,000}", "70,000", True, False),
        ("number_strict", r"\boxed{18.0}", "18", True, False),
        ("number_strict", r"\boxed{52_8}", "528", True, False),
        ("number_lenient", r"\boxed{70,000}", "70000", True, True),
        ("number_lenient", r"\boxed{\$460}", "460", True, True),
        ("number_lenient", r"\boxed{18.0}", "18", True, True),
        ("number_lenient", r"\boxed{-3 \text{ cm}}", "-3", True, True),
        ("number_lenient", r"\boxed{1\frac{1}{2}}", "1.5", True, True),
        ("number_lenient", r"\boxed{none}", "18", True, False),
        ("number_lenient", r"\boxed{2:00 \text{ pm}}", "200", True, False),
        ("number_lenient", r"\boxed{}", "18", False, False),
        ("number_lenient", r"\boxed{18}, that is \boxed{ }", "18", False, False),
        ("math_strict", r"\boxed{(3,\,\frac{\pi}{2})}", r"(3, \frac{\pi}{2})", True, True),
        ("math_strict", r"\boxed{(3,\dfrac{\pi}{2})}", r"(3, \frac{\pi}{2})", True, False),
        (
            "math",
            r"\boxed{\left(3,\dfrac{\pi}{2}\right)}",
            r"\left( 3, \frac{\pi}{2} \right)",
            True,
            True,
        ),
        ("math", r"\boxed{Evelyn}", r"\text{Evelyn}", True, True),
        ("math", r"\boxed{x = 5}", "5", True, True),
        ("math", r"\boxed{-2, 1}", "1,-2", True, True),
        ("math", r"\boxed{(x-1)^2}", "x^2+2x+1", True, False),
        ("math", r"\frac{\pi}{2}", r"\frac{\pi}{2}", False, False),
    ],
)
def test_grades(grader, completion, answer, answered, correct):
    graded = grade(grader, completion, answer)
    assert (graded.answered, graded.correct) == (answered, correct)
    assert graded.extracted is None or graded.extracted in completion


@pytest.mark.parametrize(
    ("grader", "completion", "answer", "strict", "lenient", "is_readable"),
    [
        ("final_word", "#### Blue.", "blue", False, True, True),
        ("final_word", "#### blue", "blue", True, True, True),
        ("final_number", "#### 1,017", "1017", False, True, True),
        ("choice_letter", r"\boxed{B}", "(B)", False, True, True),
        ("choice_letter", r"\boxed{BC}", "(B)", False, False, False),
        ("number_strict", r"\boxed{18.0}", "18", False, True, True),
        ("number_lenient", r"\boxed{18}", "18", True, True, True),
        ("number_strict", r"\boxed{2:00 \text{ pm}}", "2", False, False, False),
        ("math_strict", r"\boxed{\dfrac{\pi}{2}}", r"\frac{\pi}{2}", False, True, True),
        ("math", r"\boxed{\frac{\pi}{2}}", r"\frac{\pi}{2}", True, True, True),
        ("math", r"\boxed{x^2}", "x", False, False, True),
        ("math", r"\boxed{\frac{}{}}", "x", False, False, False),
        ("number_lenient", "18", "18", False, False, False),
    ],
)
def test_a_grader_gives_a_strict_and_a_lenient_grade(
    grader, completion, answer, strict, lenient, is_readable
):
    graded = grade(grader, completion, answer)
    assert (graded.strict, graded.lenient, graded.readable) == (strict, lenient, is_readable)
    assert graded.correct == (lenient if GRADERS[grader].forgiving else strict)


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


@pytest.mark.parametrize(
    ("grader", "left", "right", "expected"),
    [
        ("final_word", "blue", "Blue.", True),
        ("final_number", "1,017", "1017.0", True),
        ("choice_letter", "(B)", "B", False),
        ("choice_letter_lenient", "(B)", "B", True),
        ("choice_letter_lenient", "BC", "CD", False),
        ("number_strict", "1,017", "1017", False),
        ("number_strict", "18", "018", True),
        ("number_strict", "18.0", "18.0", True),
        ("number_lenient", r"\$18.00", "18", True),
        ("number_lenient", "none", "nothing", False),
        ("math", r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt2}{2}", True),
        ("math", "x > 2", r"(2, \infty)", True),
        ("math_strict", r"\frac12", r"\frac{1}{2}", False),
    ],
)
def test_equality_of_answers_is_symmetric_and_as_expected(grader, left, right, expected):
    assert are_equal(grader, left, right) == are_equal(grader, right, left) == expected


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


@pytest.mark.parametrize(
    ("grader", "answer", "expected"),
    [
        ("final_word", "blue", True),
        ("final_word", "light blue", False),
        ("final_number", "1,080", True),
        ("choice_letter", "(B)", True),
        ("choice_letter", "B", True),
        ("choice_letter", "yes", False),
        ("number_strict", "1,080", True),
        ("number_strict", "18.0", True),
        ("number_strict", "1.5", False),
        ("number_strict", "52_8", False),
        ("number_lenient", "1.5", True),
        ("number_lenient", "three", False),
        ("math", r"\text{Evelyn}", True),
        ("math", "3 and 5 }", False),
        ("math", r"\frac{}{", False),
        ("math", "", False),
    ],
)
def test_a_reference_is_accepted_only_if_the_grader_can_read_it(grader, answer, expected):
    assert accepts_reference(grader, answer) == expected


def test_is_number_accepts_only_single_numbers():
    assert all(
        map(
            is_number,
            [
                "42",
                r"\frac43",
                r"90^\circ",
                r"\$18.90",
                r"10,\!080",
                "x=5",
                r"5.4 \text{ cents}",
                "58,500",
            ],
        )
    )
    assert not any(
        map(
            is_number,
            [
                "2k",
                r"3\sqrt{13}",
                r"7\pi",
                "1,-2",
                "6 - 5i",
                "52_8",
                r"\text{east}",
                "(2,4)",
                "p - q",
                "3 m",
            ],
        )
    )


def test_an_unknown_grader_is_reported():
    with pytest.raises(
        UserError, match="unknown grader 'maths'; expected one of final_word, .*math_strict, math$"
    ):
        check_grader("maths")


def test_a_missing_package_of_a_grader_is_reported_before_grading(monkeypatch):
    check_grader("math")
    monkeypatch.setitem(sys.modules, "math_verify", None)
    check_grader("number_lenient")
    with pytest.raises(UserError, match="Math-Verify, which is not installed"):
        check_grader("math")


def rows(name):
    with open(f"{RECORDINGS}/{name}", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@pytest.mark.recordings
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_reference_of_gsm8k_is_readable(split):
    for row in rows(f"gsm8k/{split}.jsonl"):
        answer = row["answer"].rpartition("####")[2].strip()
        assert all(
            accepts_reference(grader, answer)
            for grader in ("number_strict", "number_lenient", "final_number")
        ), answer
        assert grade("final_number", row["answer"], answer).correct and is_number(answer)


@pytest.mark.recordings
def test_every_reference_of_math_aime_and_the_shuffled_objects_is_readable():
    answers = [row["answer"] for row in rows("math500/test.jsonl")]
    assert all(
        accepts_reference(grader, answer)
        for answer in answers
        for grader in ("math", "math_strict")
    )
    assert (len(answers), sum(map(is_number, answers))) == (500, 401)
    assert all(
        accepts_reference("number_strict", row["answer"])
        for row in rows("aime2025/aime2025-I.jsonl")
    )
    for objects in ("three", "five", "seven"):
        with open(
            f"{RECORDINGS}/bbh/tracking_shuffled_objects_{objects}_objects.json", encoding="utf-8"
        ) as stream:
            assert all(
                accepts_reference("choice_letter", example["target"])
                for example in json.load(stream)["examples"]
            )


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("checkpoint", "percent"),
    [("base", [17.4, 17.2, 6.6, 12.6]), ("checkpoint-400", [95.2, 94.9, 69.2, 80.8])],
)
def test_the_recorded_completions_have_the_expected_shares(checkpoint, percent):
    """`percent`: shares of completions that are answered, readable, correct under `int()` as in
    HE's released code (strict), and correct as numbers (lenient). Unreadable answers include
    '28 - 22 = 6' and '2:00 pm'."""
    grades = [
        grade("number_lenient", text, row["answer"])
        for row in rows(f"recordings/gsm8k_hard_test/qwen3-14b/{checkpoint}.jsonl")
        for text in row["completions"]
    ]
    columns = ["answered", "readable", "strict", "lenient"]
    assert [
        round(100 * sum(getattr(v, column) for v in grades) / len(grades), 1) for column in columns
    ] == percent
