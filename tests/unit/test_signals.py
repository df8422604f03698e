"""Signals of completions: their values equal a computation by hand, stay within bounds, do not
depend on the order of the completions, and need no reference answers."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.selection import signals


def completion_rows(*answers, **columns):
    return [
        {"completion": "" if answer is None else f"so #### {answer}", **columns}
        for answer in answers
    ]


def test_signals_equal_values_computed_by_hand():
    measured = signals.measure(completion_rows("red", "blue", "Red", None), "final_word")
    assert (measured["agreement"], measured["answered_share"]) == (0.5, 0.75), (
        "answers that differ only in case are equal, and a missing answer equals no other answer"
    )
    assert measured["entropy"] == pytest.approx(
        -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    )
    assert measured["mean_tokens"] is None and measured["log_probability"] is None, (
        "a signal must be None if the completions lack the values that it is computed from"
    )
    with_tokens = signals.measure(
        completion_rows("1", "1", tokens=4) + completion_rows("1", "2", tokens=6), "final_number"
    )
    assert with_tokens["mean_tokens"] == 5


def test_without_answers_the_entropy_is_unknown_and_the_agreement_is_zero():
    measured = signals.measure(completion_rows(None, None), "final_word")
    assert measured["entropy"] is None and measured["agreement"] == measured["answered_share"] == 0


def test_answers_with_equal_meaning_count_as_one_answer():
    assert signals.measure(completion_rows("12", "12.0", "12"), "final_number")["agreement"] == 1


@given(st.lists(st.sampled_from([None, "red", "blue", "pink"]), min_size=1, max_size=12))
def test_signals_do_not_depend_on_the_order_and_stay_within_their_bounds(answers):
    measured = signals.measure(completion_rows(*answers), "final_word")
    random.Random(0).shuffle(answers)
    assert signals.measure(completion_rows(*answers), "final_word") == pytest.approx(measured)
    assert 0 <= measured["agreement"] <= measured["answered_share"] <= 1
    if measured["entropy"] is None:
        assert measured["answered_share"] == 0
    else:
        assert 0 <= measured["entropy"] <= math.log(3) + 1e-12
        assert (measured["entropy"] == 0) == (measured["agreement"] == measured["answered_share"])


def test_the_majority_is_the_first_of_the_most_frequent_answers():
    texts = [row["completion"] for row in completion_rows("red", None, "blue", "Blue", "red")]
    assert signals.majority_rewards(texts, "final_word") == [1, 0, 0, 0, 1], (
        "red and blue are equally frequent, and red comes first"
    )
    assert signals.majority_rewards(texts[1:], "final_word") == [0, 1, 1, 0]
    assert signals.majority_rewards(["", ""], "final_word") == [0, 0]


@given(st.lists(st.sampled_from([None, "red", "blue", "pink"]), min_size=1, max_size=12))
def test_the_share_of_majority_rewards_equals_the_agreement(answers):
    texts = [row["completion"] for row in completion_rows(*answers)]
    rewards = signals.majority_rewards(texts, "final_word")
    assert sum(rewards) / len(texts) == pytest.approx(
        signals.measure(completion_rows(*answers), "final_word")["agreement"]
    )
    assert len({text.lower() for text, reward in zip(texts, rewards) if reward}) <= 1
