"""Sampling: a completion belongs to its prompt and seed, not to its batch."""

import pytest
import torch

from hardgrpo import engines
from hardgrpo.errors import UserError

QUESTIONS = [
    "Bob has 12 coins.",
    "Alice red, Bob blue. At two Alice and Bob swap. What does Bob hold?",
    "Gina has 3 pens. How many?",
]


@pytest.fixture(scope="module")
def tiny():
    """An untrained model: its completions are noise, of different lengths."""
    from pretrain_model import build_model, build_tokenizer

    engines.fix_threads()
    tokenizer = build_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "layers": 2, "heads": 2, "key_value_heads": 2}
    model = build_model(sizes | {"context_tokens": 96, "rotary_base": 100.0, "seed": 0}, tokenizer)
    return model.eval(), tokenizer


def requests(temperature, samples=4):
    return [
        engines.Request(({"role": "user", "content": question},), engines.sample_seed("test", question, k), temperature)
        for question in QUESTIONS
        for k in range(samples)
    ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_batches_do_not_matter(tiny, temperature):
    wanted = engines.generate(*tiny, requests(temperature), 25, batch=100)
    for batch in (1, 5):
        assert engines.generate(*tiny, requests(temperature), 25, batch) == wanted


def test_seeds_matter_and_the_same_seed_gives_the_same_completion(tiny):
    first = engines.generate(*tiny, requests(1.0), 40, 8)
    assert first == engines.generate(*tiny, requests(1.0), 40, 8)
    assert len({completion.text for completion in first}) > len(first) // 2
    assert {completion.finish_reason for completion in first} == {"stop", "length"}
    assert all(completion.tokens == 40 for completion in first if completion.finish_reason == "length")


def test_tokens_are_drawn_with_their_probabilities():
    scores = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).repeat(20_000, 1)
    draw = engines.SeededSampling([engines.Request((), seed, 1.0) for seed in range(20_000)], 1)
    shares = torch.bincount(draw(scores, torch.arange(20_000), 0), minlength=3) / 20_000
    assert shares.tolist() == pytest.approx([0.1, 0.2, 0.7], abs=0.015)


def test_greedy_is_what_transformers_generates(tiny):
    model, tokenizer = tiny
    ours = engines.generate(*tiny, requests(0.0, samples=1), 20, 8)
    for question, completion in zip(QUESTIONS, ours):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        out = model.generate(**ids, max_new_tokens=20, do_sample=False)[0, ids["input_ids"].shape[1] :]
        assert tokenizer.decode(out, skip_special_tokens=True) == completion.text


def test_a_prompt_that_does_not_fit_is_an_error(tiny):
    with pytest.raises(UserError, match="exceed the model's context of 96"):
        engines.generate(*tiny, requests(1.0), 90, 8)
