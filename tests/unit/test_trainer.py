"""The trainer against TRL's own: the same completions, the same gradients, less work."""

import pytest
import torch
from datasets import Dataset
from test_recipes import SPEC
from transformers import AutoModelForCausalLM

from hardgrpo import engines, recipes

WORDS = ["red", "blue", "green", "white"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from pretrain_model import build_model, build_tokenizer

    engines.fix_threads()
    tokenizer = build_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "layers": 2, "heads": 2, "key_value_heads": 2, "head_size": 16}
    folder = tmp_path_factory.mktemp("tiny")
    build_model(sizes | {"context_tokens": 96, "rotary_base": 100.0, "seed": 0}, tokenizer).save_pretrained(folder)
    return folder, tokenizer


def train(kind, tiny, folder, reward, micro_batch, beta=0.0, updates=3):
    """(log of each update, weights in the end, forward passes with a gradient) of a short training by a trainer class."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny[0], dtype=torch.float32), tiny[1]
    recipe = SPEC.training | {
        "updates": updates,
        "checkpoint_every": updates,
        "beta": beta,
        "prompts_per_update": 4,
        "group_size": 4,
    }
    spec = recipes.Spec(**{**vars(SPEC), "training": recipe, "completion_tokens": 12})
    arguments = recipes.trainer_arguments(spec, str(folder), recipes.Hardware(0, 1, micro_batch)) | {"save_strategy": "no"}
    passes = []
    model.register_forward_pre_hook(
        lambda model, args, kwargs: passes.append(len(kwargs["input_ids"])) if torch.is_grad_enabled() else None, with_kwargs=True
    )
    from trl import GRPOConfig

    questions = [{"prompt": [{"role": "user", "content": " ".join(WORDS[: k % 4 + 1])}]} for k in range(4 * updates)]
    trainer = kind(
        model=model,
        processing_class=tokenizer,
        reward_funcs=reward,
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_list(questions),
    )
    trainer.train()
    log = [
        {
            name: entry[name]
            for name in ("reward", "loss", "grad_norm", "completions/mean_length", "frac_reward_zero_std", *["kl"] * (beta > 0))
        }
        for entry in trainer.state.log_history
        if "reward" in entry
    ]
    return log, [weights.detach().clone() for weights in model.parameters()], passes


def both(*arguments, **named):
    from trl import GRPOTrainer

    from hardgrpo.trainer import Trainer

    return train(GRPOTrainer, *arguments, **named), train(Trainer, *arguments, **named)


def long(completions, **_):
    return [float(len(messages[0]["content"]) > 40) for messages in completions]


def long_for_half(prompts, completions, **_):
    """No group of the prompts of one and two words has an advantage."""
    return [reward * (len(prompt[0]["content"].split()) > 2) for prompt, reward in zip(prompts, long(completions))]


def nothing(completions, **_):
    return [0.0] * len(completions)


@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_an_update_in_one_piece_is_that_of_trl(tiny, tmp_path, beta):
    (log, weights, _), (our_log, our_weights, _) = both(tiny, tmp_path, long, None, beta=beta)
    assert our_log == log and any(entry["grad_norm"] for entry in log)
    assert all(torch.equal(one, other) for one, other in zip(weights, our_weights))


@pytest.mark.parametrize(("reward", "beta"), [(long, 0.0), (long, 0.04), (long_for_half, 0.0)])
def test_in_micro_batches_the_gradient_is_that_of_trl(tiny, tmp_path, reward, beta):
    (log, _, passes), (our_log, _, our_passes) = both(tiny, tmp_path, reward, 2, beta=beta, updates=1)
    assert our_log == [pytest.approx(entry, rel=1e-4, abs=1e-7) for entry in log] and log[0]["grad_norm"] > 0.01
    assert passes == [2] * 8
    assert our_passes == [2] * (4 if reward is long_for_half else 8), (
        "rows without an advantage are left out, where no KL term needs them"
    )


def test_an_update_without_any_advantage_moves_the_weights_as_in_trl(tiny, tmp_path):
    """By the momentum of the updates before."""
    rewards = iter([1, 0, 0] * 2)

    def once(completions, **named):
        return long(completions) if next(rewards) else nothing(completions)

    (log, weights, passes), (our_log, our_weights, our_passes) = both(tiny, tmp_path, once, None)
    assert our_log == log and [bool(entry["grad_norm"]) for entry in log] == [True, False, False]
    assert (len(passes), len(our_passes)) == (3, 1)
    assert all(torch.equal(one, other) for one, other in zip(weights, our_weights))
    (_, short, _), _ = both(tiny, tmp_path, lambda completions, **_: long(completions), None, updates=1)
    assert not all(torch.equal(one, other) for one, other in zip(weights, short))
