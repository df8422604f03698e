"""Incompatible keys of a recipe are refused with their place and the remedy."""

import copy

import pytest

import project_config
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks

CONFIG = project_config.config()
MASK = {"mode": "token_mask", "limit": 2.0}
CORRECTION = "importance_correction"


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
            "mini",
            {CORRECTION: MASK},
            [f"mini.{CORRECTION}: ", "belongs to generation: vllm", "remove it"],
        ),
        (
            "as_released_later",
            {"generation": "transformers", CORRECTION: MASK},
            [f"as_released_later.{CORRECTION}: ", "belongs to generation: vllm"],
        ),
        ("sft", {CORRECTION: MASK}, [f"sft.{CORRECTION}: ", "belongs to generation: vllm"]),
        (
            "as_written",
            {CORRECTION: MASK | {"mode": "token"}},
            [f"as_written.{CORRECTION}.mode: ", "'token' should be"],
        ),
        (
            "as_written",
            {CORRECTION: MASK | {"limit": 1}},
            [
                f"as_written.{CORRECTION}.limit: ",
                f"hardgrpo keys recipes.as_written.{CORRECTION}.limit",
            ],
        ),
        (
            "as_written",
            {CORRECTION: {"mode": "token_mask"}},
            [f"as_written.{CORRECTION}: ", "'limit' is missing"],
        ),
        (
            "as_written",
            {CORRECTION: "none"},
            [f"as_written.{CORRECTION}: ", f"hardgrpo keys recipes.as_written.{CORRECTION}"],
        ),
    ],
)
def test_incompatible_settings_are_refused_with_place_and_remedy(recipe, changes, words):
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
        {CORRECTION: MASK},
        {CORRECTION: None},
        {"base": "fp32", "adapter": None},
        {"base": "fp32", "precision": "fp32"},
    ],
)
def test_compatible_settings_are_accepted(changes):
    config = copy.deepcopy(CONFIG)
    config["recipes"]["lora_slm"].update(changes)
    # with another precision, study `limits` may exceed the memory of its GPUs
    config["studies"].pop("limits")
    checks.check(config, "config.yaml")
