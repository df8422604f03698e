"""Truncated completions equal the completions that are sampled under a smaller limit."""

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
    """(completion, the problem's answer). The completion (text, tokens, finish reason) is what a
    recording holds if a model answers with the text of a demonstration under a completion limit."""
    rng = random.Random(seed)
    problem = generated.draw_swaps(rng, [3, 4, 5], [2, 3, 4, 5])
    ids = tokenizer(generated.demonstrate_swaps(problem, rng, 0.2, (0.3, 0.3, 0.4)))["input_ids"]
    if len(ids) + 1 <= limit:
        return (tokenizer.decode(ids), len(ids) + 1, "stop"), problem.answer
    return (tokenizer.decode(ids[:limit]), limit, "length"), problem.answer


@given(st.integers(0, 10**6), st.integers(1, 250), st.integers(1, 250))
def test_a_truncated_completion_equals_the_completion_under_the_smaller_limit(
    tokenizer, seed, limit, other_limit
):
    small, large = sorted((limit, other_limit))
    completion, answer = sample_demonstration(tokenizer, seed, large)
    assert completions.keeps_token_count(tokenizer, *completion)
    truncated_completion = completions.truncate(tokenizer, *completion, small)
    assert truncated_completion == sample_demonstration(tokenizer, seed, small)[0]
    text, tokens, finish_reason = truncated_completion
    grades = [graders.grade("final_word", words, answer) for words in (text, completion[0])]
    assert grades[0].answered <= grades[1].answered, (
        "the completion has an answer only under the smaller limit"
    )
    assert tokens <= small and (finish_reason == "length") == (
        tokens == small and truncated_completion != completion or completion[2] == "length"
    )


@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(1, 200))
def test_truncating_twice_equals_truncating_once(tokenizer, seed, limit, other_limit):
    small, large = sorted((limit, other_limit))
    completion, _ = sample_demonstration(tokenizer, seed, 250)
    assert completions.truncate(
        tokenizer, *completions.truncate(tokenizer, *completion, large), small
    ) == completions.truncate(tokenizer, *completion, small)


def test_a_text_sampled_as_more_tokens_than_the_tokenizer_makes_is_detected(tokenizer):
    assert not completions.keeps_token_count(tokenizer, "Alice 1 2", 9, "length")


def test_a_start_token_that_the_tokenizer_adds_does_not_count(tokenizer):
    """The tokenizers of some models, such as Llama, add a token at the start of a text. No
    completion has this token."""
    from tokenizers.processors import TemplateProcessing

    from hardgrpo.training.pretraining import build_tokenizer

    with_start = build_tokenizer()
    with_start.backend_tokenizer.post_processor = TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", with_start.eos_token_id)]
    )
    completion, _ = sample_demonstration(tokenizer, seed=0, limit=250)
    text, tokens, _ = completion
    assert len(with_start(text)["input_ids"]) == len(tokenizer(text)["input_ids"]) + 1
    assert completions.keeps_token_count(with_start, *completion)
    for limit in range(1, tokens):
        assert completions.truncate(with_start, *completion, limit) == completions.truncate(
            tokenizer, *completion, limit
        )
