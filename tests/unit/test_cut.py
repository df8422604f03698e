"""Truncated completions equal the completions of a smaller limit."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.data import completions, generated
from hardgrpo.grading import graders


@pytest.fixture(scope="module")
def tokenizer():
    from hardgrpo.training.pretraining import build_tokenizer

    return build_tokenizer()


def sample_demonstration(tokenizer, seed: int, limit: int):
    """(a demonstration as a model that writes it would be recorded under a limit, the problem's
    answer)."""
    rng = random.Random(seed)
    chain = generated.draw_swaps(rng, [3, 4, 5], [2, 3, 4, 5])
    ids = tokenizer(generated.demonstrate_swaps(chain, rng, 0.2, (0.3, 0.3, 0.4)))["input_ids"]
    if len(ids) + 1 <= limit:
        return (tokenizer.decode(ids), len(ids) + 1, "stop"), chain.answer
    return (tokenizer.decode(ids[:limit]), limit, "length"), chain.answer


@given(st.integers(0, 10**6), st.integers(1, 250), st.integers(1, 250))
def test_a_cut_completion_is_the_one_of_the_smaller_limit(tokenizer, seed, limit, other_limit):
    small, large = sorted((limit, other_limit))
    completion, answer = sample_demonstration(tokenizer, seed, large)
    assert completions.keeps_token_count(tokenizer, *completion)
    cut = completions.truncate(tokenizer, *completion, small)
    assert cut == sample_demonstration(tokenizer, seed, small)[0]
    grades = [graders.grade("final_word", text, answer) for text, *_ in (cut, completion)]
    assert grades[0].answered <= grades[1].answered, "a smaller limit never adds an answer"
    assert cut[1] <= small and (cut[2] == "length") == (
        cut[1] == small and cut != completion or completion[2] == "length"
    )


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 200))
def test_cutting_twice_is_cutting_once(tokenizer, seed, limit, other_limit):
    small, large = sorted((limit, other_limit))
    completion, _ = sample_demonstration(tokenizer, seed, 250)
    assert completions.truncate(
        tokenizer, *completions.truncate(tokenizer, *completion, large), small
    ) == completions.truncate(tokenizer, *completion, small)


def test_a_word_written_in_other_pieces_is_noticed(tokenizer):
    assert not completions.keeps_token_count(tokenizer, "Alice 1 2", 9, "length")
