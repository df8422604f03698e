"""Estimates of memory compared with calculations by hand: two models, 250 tokens per completion,
prompts of 400 tokens.

The comment above each model's calculations gives N, the number of weights; E, those of an embedding
("tied": one for input and output); the number of layers, the weights of a layer, and the width; the
values of a token that are kept while a layer is recomputed (10 x width + 3 x feed-forward width),
plus those that an adapter adds (the outputs of its linear maps); and A, the number of weights of an
adapter of rank 32.
"""

import copy
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.study import memory, study_checks
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import TrainingGpus
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.study import Study

CONFIG = project_config.config()
CHECKED = Configuration.of(CONFIG)
BY_TRANSFORMERS = "as_released_later, sampled by transformers"
RECIPES = CONFIG["recipes"] | {
    BY_TRANSFORMERS: CONFIG["recipes"]["as_released_later"] | {"generation": "transformers"}
}
GB, TILE = 1e9, 4096 * 32768 * 2  # TILE: bytes of a tile of scores in the loss


@dataclass
class Hand:
    """Memory of a GPU, calculated by hand, in 1e9 bytes. Weights, optimiser and reference stay
    allocated; an update adds gradients and activations. `share` is vLLM's share of 79.1 GiB.
    `rollouts` is what transformers needs to sample eight rollouts of a prompt: cache, prompts and
    scores."""

    weights: float
    optimiser: float
    gradients: float
    activations: float
    reference: float = 0.0
    share: float = 0.0
    rollouts: float = 0.0


BY_HAND = {
    # N 4.0225e9, E .389e9 (tied), 36 layers of .1009e9, width 2,560, 54,784 + 30,720 values a
    # token, A 66.06e6
    ("qwen3-4b", "as_written"): Hand(
        8.045 + 0.264, 0.528, 0.264, 16 * 650 * (36 * 2560 + 85504) * 2e-9 + 16 * 250 * 2560 * 6e-9 + TILE / GB, share=0.3
    ),
    # each of two GPUs holds half of weights, gradients and optimiser, and gathers two layers and
    # the embedding
    ("qwen3-4b", "as_written_full"): Hand(
        8.045, 16.09, 8.045,
        8 * 650 * (36 * 2560 + 54784) * 2e-9 + 8 * 250 * 2560 * 6e-9 + TILE / GB + 0.389 * 4 + 2 * 0.1009 * 2 + 0.389 * 8,
        8.045, 0.2,
    ),
    ("qwen3-4b", BY_TRANSFORMERS): Hand(
        8.045 + 0.264, 0.132, 0.264, 16 * 650 * (36 * 2560 + 85504) * 2e-9 + 16 * 250 * 2560 * 6e-9 + TILE / GB,
        rollouts=8 * 650 * 36 * 2048 * 2e-9 + 400 * (4 * 2560 + 3 * 9728) * 2e-9 + 8 * 151936 * 18e-9,
    ),
    # N 14.659e9, E .5138e9 (twice), 40 layers of .3408e9 in four matrices, width 5,120, 104,960 +
    # 53,760 values a token, A 111.4e6
    ("phi-4", BY_TRANSFORMERS): Hand(
        29.319 + 0.446, 0.223, 0.446,
        8 * 650 * (40 * 5120 + 158720) * 2e-9 + 8 * 250 * 5120 * 6e-9 + TILE / GB,
        rollouts=8 * 650 * 40 * 2560 * 2e-9 + 400 * (4 * 5120 + 3 * 17920) * 2e-9 + 8 * 100352 * 18e-9,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "recipe"), BY_HAND)
def test_estimates_equal_calculations_by_hand(model, recipe):
    hand, task = BY_HAND[model, recipe], CHECKED.tasks["gsm8k"]
    need = memory.run_memory(CHECKED.models[model], Recipe.of(RECIPES[recipe]), task)
    gib = GB / 2**30
    for name in ("weights", "optimiser", "gradients", "activations", "reference"):
        assert need[name] == pytest.approx(getattr(hand, name) * gib, rel=0.01), name
    assert need["vllm"] == pytest.approx(hand.share * 79.1)
    stays = (hand.weights + hand.optimiser + hand.reference) * gib + 1.5
    assert need["rollouts"] == pytest.approx(hand.rollouts * gib, rel=0.01)
    sampling = stays + hand.share * 79.1 + hand.rollouts * gib
    # during an update, vLLM sleeps and keeps 2 GiB
    updating = stays + (hand.gradients + hand.activations) * gib + (2.0 if hand.share else 0.0)
    assert need["total"] == pytest.approx(max(sampling, updating), rel=0.01)


@pytest.mark.parametrize(
    ("model", "billions"),
    [("qwen3-4b", 4.02), ("qwen3-14b", 14.77), ("phi-4", 14.66), ("llama-3.1-8b-instruct", 8.03), ("qwen2.5-0.5b-instruct", 0.494),
     ("qwen2.5-1.5b-instruct", 1.54), ("qwen2.5-3b-instruct", 3.09), ("smollm2-135m", 0.1345)],
)  # fmt: skip
def test_numbers_of_weights_equal_those_that_the_models_authors_state(model, billions):
    count = memory.parameters(CHECKED.models[model].shape)
    assert count / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize("kind", ["Qwen2", "Phi3"])
def test_numbers_of_weights_of_model_and_adapter_equal_those_of_real_modules(kind):
    """A Qwen2 with biases and an untied output layer, a Phi-3 with fused layers, and PEFT's
    adapters on these models."""
    import peft
    import torch
    import transformers

    from hardgrpo.training import recipes

    sizes = {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 60, "tie_word_embeddings": False, "pad_token_id": 0,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**sizes)
    with torch.device("meta"):
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
    count = lambda: sum(w.numel() for w in model.parameters() if w.requires_grad)
    shape = memory.shape_of(config.to_dict())
    if kind == "Qwen2":  # config.json does not say that queries, keys and values have biases
        shape = shape.model_copy(update={"attention_bias": True})
    assert memory.parameters(shape) == count()
    recipe = CONFIG["recipes"]["as_written"] | {"adapter": {"rank": 5, "alpha": 5, "dropout": 0.0}}
    model = peft.get_peft_model(model, recipes.adapter_configuration(recipe))
    assert memory.adapter_parameters(shape, 5) == count()
    assert memory.adapter_parameters(CHECKED.models["phi-4"].shape, 32) == 111_411_200


def test_memory_of_sft_includes_neither_vllm_nor_a_reference_policy():
    model, task = CHECKED.models["phi-4"], CHECKED.tasks["gsm8k"]
    sft, grpo = (
        memory.run_memory(model, CHECKED.recipes[recipe], task) for recipe in ("sft", "as_written")
    )
    assert sft["vllm"] == sft["reference"] == 0 and grpo["vllm"] > 0
    assert all(sft[key] == grpo[key] for key in ("weights", "optimiser", "activations"))
    assert sft["total"] < grpo["total"]


def test_a_gpu_samples_as_many_rows_at_once_as_fit_into_its_memory(monkeypatch):
    """Qwen3-4B in bf16 on GPUs of 16, 80 and 141 GiB: a row with 1,424 tokens has 0.2 GB of keys
    and values."""
    import torch
    from transformers import Qwen3Config

    from hardgrpo.sampling import engines

    config = Qwen3Config(
        hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=151936, tie_word_embeddings=True,
    )  # fmt: skip
    model = SimpleNamespace(
        config=config, device=SimpleNamespace(type="cuda"), dtype=torch.bfloat16
    )
    rows = {}
    for gib in (16, 80, 141):
        properties = SimpleNamespace(total_memory=gib * 2**30)
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda device, properties=properties: properties
        )
        rows[gib] = engines.fitting_batch(model, 400, 1024, 512)
        assert rows[gib] * 36 * 2048 * 1424 * 2 < (gib * 2**30 - 4.02e9 * 2) * 0.6
    assert 1 < rows[16] < 30 < 150 < rows[80] < 200 < rows[141] < 400
    assert engines.fitting_batch(model, 100, 100, 512) == 512


def test_the_message_about_too_little_memory_for_vllm_names_a_share_that_is_enough():
    model, recipe = CHECKED.models["qwen3-14b"], CHECKED.recipes["as_written"]

    def shortage(share: float) -> str | None:
        gpus = model.training_gpus(recipe).model_copy(update={"vllm_memory": share})
        return memory.shortage(model.shape, recipe, 1024, gpus, "the run")

    share = float(shortage(0.3).rpartition("vllm_memory to at least ")[2])
    assert shortage(share) is None


def test_vllm_cannot_get_more_memory_than_a_gpu_has():
    shape = CHECKED.models["qwen3-14b"].shape.model_copy(update={"layers": 120})
    keys = {"beta": 0.0, "optimiser": "paged_adamw_8bit"}
    recipe = CHECKED.recipes["as_written_full"].model_copy(update=keys)
    gpus = TrainingGpus(count=8, micro_batch=1, vllm_memory=0.2, vllm_sleep=True)
    text = memory.shortage(shape, recipe, 250, gpus, "the run")
    assert "vLLM needs" in text and "set vllm_memory" not in text


def memory_shortages(config: dict, study: str) -> list[str]:
    """The places of the configuration that a study's shortages name."""
    study = Study.of(config["studies"][study])
    return [place for place, _ in study_checks.memory_shortages(study, Configuration.of(config))]


@pytest.mark.parametrize("study", CONFIG["studies"])
def test_every_study_fits_the_gpus_of_its_models(study):
    assert not memory_shortages(CONFIG, study)


def test_a_model_and_a_recipe_must_fit_the_gpus_only_if_an_arm_combines_them():
    config = copy.deepcopy(CONFIG)
    study = config["studies"]["paper"]
    large, small = study["models"][-1], study["models"][0]
    config["models"][large]["gpus"]["full"] |= {"count": 1, "micro_batch": 64}
    config["recipes"]["whole"] = config["recipes"]["as_written"] | {"adapter": None, "base": "fp32"}
    task = study["tasks"][0]
    study["arms"] = [{"policy": "hard", "recipe": "as_written", "models": large}]
    assert not memory_shortages(config, "paper")
    study["arms"].append({"policy": "hard", "recipe": "whole", "models": small, "tasks": task})
    assert set(memory_shortages(config, "paper")) <= {f"models.{small}.gpus.full"}
    study["arms"][1]["models"] = large
    assert memory_shortages(config, "paper") == [f"models.{large}.gpus.full"]


# --- on a CPU ---


def test_memory_on_a_cpu_equals_a_calculation_by_hand():
    """Qwen2.5-Coder-0.5B-Instruct: 24 layers, width 896, feed-forward width 4,864, 2 key-value
    heads of size 64, a vocabulary of 151,936 tokens."""
    shape = CHECKED.models["qwen2.5-coder-0.5b-instruct"].shape
    # the file of the weights (float32) has 2,520,702,368 bytes including its header
    assert memory.parameters(shape) == 630_167_424
    cache = 24 * 2 * 128 * (100 + 400) * 4
    prompt = 100 * (4 * 896 + 3 * 4864) * 4
    scores = 151936 * (4 + 32)
    assert memory.sampled_row_bytes(shape, 100, 400) == cache + prompt + scores
    recipe = CHECKED.recipes["mini_adapter"]
    outputs = 896 + 128 + 128 + 4864 + 4864 + 896 + 896
    token = 24 * (8 * 896 + 4 * 4864 + 896 + 2 * 128 + outputs) + 4 * 896
    assert memory.trained_row_bytes(shape, recipe, 300) == 300 * token * 4
    # all rollouts of an update at once would need more memory than most machines without a GPU have
    assert 32 * memory.trained_row_bytes(shape, recipe, 300) > 30 * GB
    assert 5 < memory.cpu_training_memory(shape, recipe, 200) < 8
    assert 5 < memory.cpu_sampling_memory(shape, 400, 512) < 8


@pytest.mark.parametrize(
    "row_bytes, rows, expected", [(1e9, 8, 4), (1e9, 3, 3), (1e6, 512, 512), (1e12, 8, 1)]
)
def test_a_cpu_computes_as_many_rows_at_once_as_fit(row_bytes, rows, expected):
    assert memory.rows_at_once(row_bytes, rows) == expected


@pytest.mark.parametrize(
    "model",
    [name for name, entry in CONFIG["models"].items() if entry["source"]["kind"] == "pretrain"],
)
def test_models_of_the_miniature_sample_and_train_all_rows_at_once(model):
    """Other batch sizes would change the last bits of committed results."""
    from hardgrpo.planning import durations

    shape = durations.model_shape(model, CHECKED.models[model], CONFIG["data"])
    assert memory.rows_at_once(memory.sampled_row_bytes(shape, 200, 192), 512) == 512
    for recipe in [recipe for name, recipe in CHECKED.recipes.items() if name.startswith("mini")]:
        texts = recipe.texts_per_update
        assert memory.rows_at_once(memory.trained_row_bytes(shape, recipe, 400), texts) == texts
