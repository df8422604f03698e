"""The schedule of prompts and the trainer's arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo import recipes
from hardgrpo.errors import UserError

RECIPE = {
    "updates": 30, "prompts_per_update": 8, "group_size": 8, "temperature": 1.0, "advantage": "centred", "loss": "dapo",
    "beta": 0.0, "epsilon": 0.2, "learning_rate": 2e-4, "schedule": "constant", "warmup_share": 0.1, "weight_decay": 0.0,
    "max_grad_norm": 1.0, "precision": "fp32", "checkpoint_every": 15,
}  # fmt: skip
SPEC = recipes.Spec("m", "t", "hard", "mini", 3, "models/m", "P.jsonl", "S.csv", "{question}", "final_word", 48, RECIPE)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 12), st.integers(0, 3))
def test_every_update_has_its_prompts_and_every_epoch_each_prompt_once(size, updates, per_update, seed):
    ids = [f"p{i}" for i in range(size)]
    order = recipes.schedule(ids, updates, per_update, seed)
    assert len(order) == updates * per_update and set(order) <= set(ids)
    epoch = size // per_update * per_update or size
    for start in range(0, len(order), epoch):
        part = order[start : start + epoch]
        assert len(set(part)) == len(part)
    assert order == recipes.schedule(ids, updates, per_update, seed)


@given(st.integers(1, 10), st.integers(1, 10))
def test_a_longer_run_begins_as_a_shorter_one(short, more):
    ids = [f"p{i}" for i in range(20)]
    assert recipes.schedule(ids, short + more, 8, 0)[: short * 8] == recipes.schedule(ids, short, 8, 0)


def test_what_the_paper_writes_is_what_the_trainer_is_told():
    arguments = recipes.trainer_arguments(SPEC, "out", on_gpu=False)
    assert arguments["scale_rewards"] == "none", "A = r - mean(r)"
    assert (arguments["num_generations"], arguments["per_device_train_batch_size"]) == (8, 64)
    assert (arguments["max_steps"], arguments["max_completion_length"], arguments["seed"]) == (30, 48, 3)
    assert arguments["warmup_steps"] == 3 and arguments["shuffle_dataset"] is False


def test_the_arguments_are_ones_that_trl_knows(tmp_path):
    from trl import GRPOConfig

    config = GRPOConfig(**recipes.trainer_arguments(SPEC, str(tmp_path), on_gpu=False))
    assert config.generation_batch_size == 64 and config.beta == 0.0


@pytest.mark.parametrize(
    ("text", "words"),
    [("- 1", "expected keys"), ("model: [", "not valid YAML"), ("modle: x", "unknown key 'modle'"), ("model: x", "is missing")],
)
def test_a_wrong_specification_is_named(tmp_path, text, words):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        recipes.read_spec(str(path))
