"""Incompatible keys of a recipe are refused with their place and the remedy."""

import copy

import pytest

import project_config
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks

CONFIG = project_config.config()
MASK = {"mode": "token_mask", "limit": 2.0}
KEY = "importance_correction"


@pytest.mark.parametrize(
    ("recipe", "changes", "words"),
    [
        (
            "as_written",
            {"adapter": None},
            ["as_written.base: ", "held in 32 bits", "choose fp32", "add an adapter"],
        ),
        ("sft", {"adapter": None}, ["sft.base: ", "held in 32 bits"]),
        (
            "as_written",
            {"precision": "fp32"},
            ["as_written.precision: ", "held as bf16", "choose bf16"],
        ),
        (
            "as_released_july",
            {"precision": "fp32"},
            ["as_released_july.precision: ", "held as nf4", "choose bf16"],
        ),
        ("mini", {KEY: MASK}, [f"mini.{KEY}: ", "belongs to generation: vllm", "remove it"]),
        (
            "as_released_later",
            {KEY: MASK},
            [f"as_released_later.{KEY}: ", "belongs to generation: vllm"],
        ),
        ("sft", {KEY: MASK}, [f"sft.{KEY}: ", "belongs to generation: vllm"]),
        (
            "as_written",
            {KEY: MASK | {"mode": "token"}},
            [f"as_written.{KEY}.mode: ", "'token' should be"],
        ),
        ("as_written", {KEY: MASK | {"limit": 1}}, [f"as_written.{KEY}.limit: ", "largest ratio"]),
        (
            "as_written",
            {KEY: {"mode": "token_mask"}},
            [f"as_written.{KEY}: ", "'limit' is missing"],
        ),
        ("as_written", {KEY: "none"}, [f"as_written.{KEY}: ", "null (the default)"]),
    ],
)
def test_incompatible_settings_are_named(recipe, changes, words):
    config = copy.deepcopy(CONFIG)
    config["recipes"][recipe].update(changes)
    with pytest.raises(UserError) as error:
        checks.check(config, "config.yaml")
    message = str(error.value)
    assert message.startswith("config.yaml: recipes.") and "\n" not in message
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "changes",
    [
        {KEY: MASK},
        {KEY: None},
        {"base": "fp32", "adapter": None},
        {"base": "fp32", "precision": "fp32"},
    ],
)
def test_compatible_settings_are_accepted(changes):
    config = copy.deepcopy(CONFIG)
    config["recipes"]["lora_slm"].update(changes)
    # with another precision, this study may exceed the memory of its GPUs
    config["studies"].pop("limits")
    checks.check(config, "config.yaml")
