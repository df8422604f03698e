"""The schedule of prompts, the trainer's arguments, and the memory that recipes need."""

import copy
import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import project_config
from conftest import ROOT
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import memory, study_checks
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, Shape, TrainingGpus
from hardgrpo.study.recipe import ADAM_BETA2, Recipe
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run, Study
from hardgrpo.training import loop, recipes

RECIPE = {
    "updates": 30, "prompts_per_update": 8, "group_size": 8, "temperature": 1.0, "reward": "correct", "advantage": "centred",
    "loss": "dapo", "beta": 0.0, "epsilon": 0.2, "optimiser": "adamw", "learning_rate": 2e-4, "schedule": "constant",
    "warmup_share": 0.1, "weight_decay": 0.0, "max_grad_norm": 1.0, "base": "fp32", "precision": "fp32", "adapter": None,
    "generation": "transformers", "checkpoint_every": 15,
}  # fmt: skip
SPEC = Spec(
    "m",
    "t",
    "hard",
    "mini",
    3,
    "models/m",
    "P.jsonl",
    "S.csv",
    "{question}",
    {},
    "final_word",
    48,
    RECIPE,
)
CONFIG = project_config.config()
CHECKED = Configuration.of(CONFIG)
LARGE = [name for name, model in CONFIG["models"].items() if "gpus" in model]
FOR_GPUS = [
    name
    for name, recipe in CONFIG["recipes"].items()
    if recipe["precision"] == "bf16" and "beta" in recipe and not name.startswith("small_lora")
]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 12), st.integers(0, 3))
def test_every_update_has_its_prompts_and_no_epoch_repeats_a_prompt(
    size, updates, per_update, seed
):
    ids = [f"p{i}" for i in range(size)]
    order = recipes.schedule(ids, updates, per_update, seed)
    assert len(order) == updates * per_update and set(order) <= set(ids)
    epoch = size // per_update * per_update or size
    for start in range(0, len(order), epoch):
        part = order[start : start + epoch]
        assert len(set(part)) == len(part)
    assert order == recipes.schedule(ids, updates, per_update, seed)


def test_a_run_on_a_cpu_has_micro_batches_that_fit_into_its_memory(monkeypatch):
    from transformers import Qwen2Config

    config, recipe = (
        Qwen2Config(
            num_hidden_layers=2, hidden_size=8, intermediate_size=16, num_attention_heads=2
        ),
        SPEC.training,
    )
    shape = memory.shape_of(config.to_dict())
    row_bytes = memory.trained_row_bytes(shape, Recipe.of(recipe), 100)
    monkeypatch.setattr(memory, "CPU_BYTES", 17.5 * row_bytes)
    hardware = recipes.without_gpus(recipes.Hardware(), config, recipe, 100)
    assert hardware == recipes.Hardware(micro_batch=17) and recipes.micro_batches(64, hardware) == (
        16,
        4,
    )
    # hardware with a GPU, or with a micro-batch that the user chose, is not changed
    for other_hardware in (recipes.Hardware(1), recipes.Hardware(micro_batch=32)):
        assert recipes.without_gpus(other_hardware, config, recipe, 100) == other_hardware
    monkeypatch.setattr(memory, "CPU_BYTES", 64 * row_bytes)
    assert recipes.without_gpus(recipes.Hardware(), config, recipe, 100) == recipes.Hardware()


@given(st.integers(1, 10), st.integers(1, 10))
def test_a_longer_run_begins_with_the_updates_of_a_shorter_run(short, more):
    ids = [f"p{i}" for i in range(20)]
    assert recipes.schedule(ids, short + more, 8, 0)[: short * 8] == recipes.schedule(
        ids, short, 8, 0
    )


@given(
    st.integers(1, 20),
    st.integers(1, 60),
    st.integers(1, 20),
    st.sampled_from([0.25, 0.5, 0.875]),
    st.integers(0, 3),
)
def test_every_update_has_its_share_of_prompts_that_were_not_chosen(
    chosen, rest, updates, share, seed
):
    chosen, rest = [f"c{i}" for i in range(chosen)], [f"r{i}" for i in range(rest)]
    recipe = {"updates": updates, "prompts_per_update": 8, "majority_share": share}
    order = recipes.schedule_with_unlabelled(chosen, rest, recipe, seed)
    assert len(order) == updates * 8
    for start in range(0, len(order), 8):
        kinds = "".join(name[0] for name in order[start : start + 8])
        assert kinds == "c" * round(8 - 8 * share) + "r" * round(8 * share)
    alone = {"updates": updates, "prompts_per_update": 8}
    assert recipes.schedule_with_unlabelled(chosen, rest, alone, seed) == recipes.schedule(
        chosen, updates, 8, seed
    )


def test_majority_rewards_need_prompts_that_the_policy_did_not_choose():
    with pytest.raises(UserError, match="lower the policy's budget"):
        recipes.schedule_with_unlabelled(
            ["a"], [], {"updates": 1, "prompts_per_update": 2, "majority_share": 0.5}, 0
        )


def test_only_prompts_without_a_reference_answer_are_rewarded_by_the_majority():
    recipe = RECIPE | {"group_size": 4, "majority_share": 0.5}
    texts = ["#### red", "#### red", "#### blue", "no answer"] * 2
    completions, logged = [[{"content": text}] for text in texts], {}
    reward = loop.reward_function("final_word", recipe, 1)
    assert reward(completions, ["blue"] * 4 + [None] * 4, logged.__setitem__) == [
        0,
        0,
        1,
        0,
        1,
        1,
        0,
        0,
    ]
    assert logged["correct_share"] == 0.25, "the log must count only prompts with reference answers"
    assert reward(completions[4:], [None] * 4, {}.__setitem__) == [1, 1, 0, 0]
    with pytest.raises(UserError, match="choose a number of GPUs"):
        reward(completions[:6], [None] * 6, {}.__setitem__)


def test_the_trainer_gets_the_settings_of_the_recipe():
    arguments = recipes.trainer_arguments(SPEC, "out")
    assert arguments["scale_rewards"] == "none", "the advantage must be r - mean(r)"
    assert (arguments["num_generations"], arguments["per_device_train_batch_size"]) == (8, 64)
    assert (arguments["max_steps"], arguments["max_completion_length"], arguments["seed"]) == (
        30,
        48,
        3,
    )
    assert arguments["warmup_steps"] == 3 and arguments["shuffle_dataset"] is False


@pytest.mark.parametrize(
    ("schedule", "warmup_share", "expected"),
    [
        ("constant", 0.0, "constant"),
        ("constant", 0.5, "constant_with_warmup"),
        ("cosine", 0.5, "cosine"),
    ],
)
def test_a_warm_up_is_never_ignored(schedule, warmup_share, expected):
    training = SPEC.training | {"schedule": schedule, "warmup_share": warmup_share}
    arguments = recipes.trainer_arguments(dataclasses.replace(SPEC, training=training), "out")
    assert arguments["lr_scheduler_type"] == expected
    assert arguments["warmup_steps"] == round(warmup_share * training["updates"])


def test_the_arguments_are_accepted_by_trl(tmp_path):
    from trl import GRPOConfig

    config = GRPOConfig(**recipes.trainer_arguments(SPEC, str(tmp_path)))
    assert config.generation_batch_size == 64 and config.beta == 0.0


def test_every_argument_that_grpo_adds_is_set_or_listed_as_not_set():
    """Every argument that GRPOConfig adds to the arguments of transformers is set explicitly, or
    listed in `unset_arguments` with the reason why it is not set."""
    from transformers import TrainingArguments
    from trl import GRPOConfig

    fields_of_grpo = {field.name for field in dataclasses.fields(GRPOConfig)} - {
        field.name for field in dataclasses.fields(TrainingArguments)
    }
    unset_arguments = {
        # the model is loaded before, with the arguments from recipes.model_arguments
        "model_init_kwargs", "trust_remote_code",
        "router_aux_loss_coef",  # only for mixtures of experts
        # arguments of unused features: the trainer's evaluation, tools, a vLLM server, other caches
        "num_generations_eval", "ds3_gather_for_generation", "pad_to_multiple_of", "generation_batch_size", "generation_kwargs",
        "cache_implementation", "max_tool_calling_iterations", "log_completions", "log_multimodal", "num_completions_to_print",
        "log_unique_prompts", "log_completions_hub_repo", "use_transformers_continuous_batching",
        "transformers_continuous_batching_config", "use_transformers_paged", "vllm_importance_sampling_cap",
        "vllm_structured_outputs_regex", "vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout",
        "vllm_group_port",
        # arguments of losses, reference policies and entropy bonuses that no recipe uses
        "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg",
        "ref_model_mixup_alpha", "ref_model_sync_steps",
        "use_adaptive_entropy", "entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target",
    }  # fmt: skip
    assert fields_of_grpo - set(recipes.trainer_arguments(SPEC, "out")) - unset_arguments == set()


def hardware_of(model: str, recipe: str) -> recipes.Hardware:
    gpus = Model.of(CONFIG["models"][model]).training_gpus(Recipe.of(CONFIG["recipes"][recipe]))
    return recipes.Hardware(
        gpus.count, gpus.count, gpus.micro_batch, gpus.vllm_memory, gpus.vllm_sleep
    )


@pytest.mark.parametrize("recipe", FOR_GPUS)
@pytest.mark.parametrize("model", LARGE)
def test_every_recipe_configures_a_trainer_for_every_model(model, recipe, tmp_path, monkeypatch):
    """Without weights and without a GPU, the test builds TRL's and PEFT's configurations, the
    arguments for loading the weights, and the estimate of memory."""
    from trl import GRPOConfig

    run = Run(model, "gsm8k", recipe, "hard", 0, model)
    spec = Spec.of_run(
        run,
        model=CHECKED.models[model],
        task=CHECKED.tasks["gsm8k"],
        recipe=CHECKED.recipes[recipe],
        policy=CHECKED.policies["hard"],
    )
    hardware, training = hardware_of(model, recipe), CONFIG["recipes"][recipe]
    arguments = recipes.trainer_arguments(spec, str(tmp_path), hardware, context=400)
    completions_per_update = (
        arguments["per_device_train_batch_size"]
        * arguments["gradient_accumulation_steps"]
        * hardware.processes
    )
    assert completions_per_update == training["prompts_per_update"] * training["group_size"]
    assert arguments["use_vllm"]
    assert arguments["vllm_enable_sleep_mode"] == (hardware.vllm_sleep and arguments["use_vllm"])
    assert arguments["bf16"] and arguments["gradient_checkpointing"] and not arguments["use_cpu"]
    monkeypatch.setenv("WORLD_SIZE", "1")
    # changed so that GRPOConfig accepts the arguments on a machine without a GPU
    config = GRPOConfig(**arguments | {"use_cpu": True, "bf16": False})
    assert config.chat_template_kwargs == (
        {"enable_thinking": False} if model.startswith("qwen3") else None
    )
    adapter = recipes.adapter_configuration(training)
    assert (adapter is None) == (recipe == "as_written_full")
    if adapter is not None:
        assert (adapter.r, adapter.lora_alpha, adapter.target_modules) == (
            32,
            training["adapter"]["alpha"],
            "all-linear",
        )
    loaded = recipes.model_arguments(training)
    assert loaded["use_safetensors"] and not loaded["trust_remote_code"]
    need = memory.run_memory(CHECKED.models[model], Recipe.of(training), CHECKED.tasks["gsm8k"])
    assert (
        3 < need["total"] < memory.GPU_GIB and need["total"] >= need["weights"] + need["optimiser"]
    )


DEVIATIONS = files.read_rows(
    ROOT / "results/published/deviations.csv",
    dict.fromkeys(("what", "key", "written", "july", "later", "source"), str),
)
ARGUMENT_OF_KEY = {  # key of a recipe: argument of the trainer
    "learning_rate": "learning_rate", "schedule": "lr_scheduler_type", "group_size": "num_generations", "updates": "max_steps",
    "temperature": "temperature", "beta": "beta", "loss": "loss_type", "epsilon": "epsilon", "optimiser": "optim",
    "adam_beta2": "adam_beta2", "weight_decay": "weight_decay", "max_grad_norm": "max_grad_norm",
}  # fmt: skip


def values(cell: str) -> set:
    """The words and numbers in a cell of the table of deviations; '1,000' is 1000."""
    words = re.split(r"[ ;:]+|, ?(?![0-9])", cell.replace("1,000", "1000"))
    return {float(word) if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", word) else word for word in words}


@pytest.mark.parametrize(
    "recipe, state",
    [("as_written", "written"), ("as_released_later", "later")],
)
def test_recipes_agree_with_the_table_of_deviations(recipe, state):
    """Every value that the table states equals the value in the recipe and in the trainer's
    arguments. Every key of a recipe has a row, except `keys_without_row`."""
    training = {"adam_beta2": ADAM_BETA2} | CONFIG["recipes"][recipe]
    arguments = recipes.trainer_arguments(dataclasses.replace(SPEC, training=training), "out")
    rows = {row["key"]: row[state] for row in DEVIATIONS}
    # `generation` is in the row of `importance_correction`; the other three keys have the same
    # value in the three recipes
    keys_without_row = {"reward", "precision", "generation", "checkpoint_every"}
    assert set(training) - keys_without_row <= set(rows)
    for key, value in training.items():
        cell = rows.get(key, "not stated")
        if cell.startswith("not stated"):
            continue
        if key == "adapter":
            assert cell == ", ".join(f"{name} {entry:g}" for name, entry in value.items())
        elif key == "advantage":
            is_standardised = value == "standardised"
            assert is_standardised == ("standardised" in cell)
            assert arguments["scale_rewards"] == ("group" if is_standardised else "none")
        else:
            assert value in values(cell), (key, value, cell)
        if key in ARGUMENT_OF_KEY:
            assert arguments[ARGUMENT_OF_KEY[key]] == value, key
    assert all(row["source"] for row in DEVIATIONS), "each row must name its source"


def test_recipes_equal_appendix_b_and_the_released_code():
    written, released = CONFIG["recipes"]["as_written"], CONFIG["recipes"]["as_released_later"]
    common = {
        "updates": 1000,
        "group_size": 8,
        "temperature": 1.0,
        "schedule": "cosine",
        "checkpoint_every": 100,
    }
    assert (
        written.items()
        >= (
            common
            | {"prompts_per_update": 32, "learning_rate": 3e-5, "beta": 0.1, "advantage": "centred"}
        ).items()
    )
    assert written["loss"] == "grpo" and CONFIG["recipes"]["dr_grpo"] == written | {
        "loss": "dr_grpo"
    }
    assert (
        released.items()
        >= (
            common | {"prompts_per_update": 1, "learning_rate": 5e-6, "advantage": "standardised"}
        ).items()
    )
    assert (
        released.items()
        >= {"warmup_share": 0.1, "weight_decay": 0.1, "max_grad_norm": 0.1, "base": "bf16"}.items()
    )
    assert released["optimiser"] == "paged_adamw_8bit" and released["adapter"] == {
        "rank": 32,
        "alpha": 32,
        "dropout": 0.0,
    }
    assert CONFIG["recipes"]["finish_only"] == written | {"reward": "finished"}


@pytest.mark.parametrize(
    ("model", "billions"),
    [("qwen3-4b", 4.02), ("qwen3-14b", 14.77), ("phi-4", 14.66), ("llama-3.1-8b-instruct", 8.03), ("qwen2.5-0.5b-instruct", 0.494),
     ("qwen2.5-1.5b-instruct", 1.54), ("qwen2.5-3b-instruct", 3.09), ("smollm2-135m", 0.1345)],
)  # fmt: skip
def test_numbers_of_weights_equal_those_that_the_models_authors_state(model, billions):
    assert memory.parameters(CHECKED.models[model].shape) / 1e9 == pytest.approx(
        billions, rel=0.005
    )


def test_numbers_of_weights_of_model_and_adapter_equal_those_of_real_modules():
    """The modules are a Qwen2 with biases and an untied output layer, and PEFT's adapter on this
    model."""
    import torch
    from peft import get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = Shape(
        hidden_size=32, intermediate_size=48, layers=3, heads=4, key_value_heads=2, head_size=8,
        vocabulary=60, tied=False, attention_bias=True,
    )  # fmt: skip
    with torch.device("meta"):
        model = Qwen2ForCausalLM(
            Qwen2Config(
                hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                vocab_size=60, tie_word_embeddings=False,
            )
        )  # fmt: skip
    assert memory.parameters(shape) == sum(p.numel() for p in model.parameters())
    adapted = get_peft_model(
        model,
        recipes.adapter_configuration(
            RECIPE | {"adapter": {"rank": 5, "alpha": 5, "dropout": 0.0}}
        ),
    )
    assert memory.adapter_parameters(shape, 5) == sum(
        p.numel() for p in adapted.parameters() if p.requires_grad
    )


@given(st.integers(1, 64), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 64)))
def test_micro_batches_make_up_an_update(share, processes, wanted):
    size, steps = recipes.micro_batches(share * processes, recipes.Hardware(0, processes, wanted))
    assert size * steps * processes == share * processes and size <= (wanted or share)


def test_an_optimiser_that_needs_a_gpu_is_refused_and_recipes_list_their_packages():
    with pytest.raises(UserError, match="paged_adamw_8bit needs a GPU"):
        recipes.check_machine(RECIPE | {"optimiser": "paged_adamw_8bit"}, recipes.Hardware())
    assert recipes.packages(CONFIG["recipes"]["as_released_later"]) == ["vllm", "bitsandbytes"]
    assert recipes.packages(CONFIG["recipes"]["as_written"]) == ["vllm"]
    assert recipes.packages(RECIPE) == []


def test_clipping_ranges_and_ratios_follow_the_recipe():
    plain = recipes.trainer_arguments(SPEC, "out")
    assert (plain["epsilon"], plain["epsilon_high"], plain["importance_sampling_level"]) == (
        0.2,
        0.2,
        "token",
    )
    for name, loss, high, level in (
        ("dapo", "dapo", 0.28, "token"),
        ("gspo", "grpo", 4e-4, "sequence"),
        ("cispo", "cispo", 5.0, "token"),
    ):
        spec = Spec(**{**vars(SPEC), "training": CONFIG["recipes"][name]})
        trainer_arguments = recipes.trainer_arguments(spec, "out", recipes.Hardware(1, 1, 16), 600)
        assert (
            trainer_arguments["loss_type"],
            trainer_arguments["epsilon_high"],
            trainer_arguments["importance_sampling_level"],
        ) == (
            loss,
            high,
            level,
        )


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"selector": {"kind": "beta"}}, "selector"),
        ({"process": CONFIG["recipes"]["prime"]["process"]}, "process"),
    ],
)
def test_selectors_and_process_rewards_require_a_single_process(keys, name):
    with pytest.raises(
        UserError,
        match=f"recipe: {name}: a run with this key can have only one process and at most one GPU; use an adapter",
    ):
        recipes.check_machine(SPEC.training | keys, recipes.Hardware(2, 2))
    recipes.check_machine(SPEC.training | keys, recipes.Hardware(1, 1))


@pytest.mark.parametrize(
    ("hardware", "option"),
    [
        (recipes.Hardware(2, 1), "--gpus 2"),
        (recipes.Hardware(1, 2), "--gpus 1"),
        (recipes.Hardware(0, 0), "--processes"),
        (recipes.Hardware(0, 1, 0), "--micro-batch"),
        (recipes.Hardware(2, 2, -1), "--micro-batch"),
    ],
)
def test_numbers_of_gpus_processes_and_micro_batches_that_cannot_train_are_refused(
    hardware, option
):
    with pytest.raises(UserError, match=option):
        recipes.check_machine(SPEC.training, hardware)


def test_selectors_and_process_rewards_use_one_gpu_even_if_the_model_has_more():
    config = copy.deepcopy(CONFIG)
    config["models"]["qwen3-4b"]["gpus"]["adapter"]["count"] = 2
    counts = {
        name: Model.of(config["models"]["qwen3-4b"])
        .training_gpus(Recipe.of(config["recipes"][name]))
        .count
        for name in ("as_written", "dynamic", "prime")
    }
    assert counts == {"as_written": 2, "dynamic": 1, "prime": 1}


def test_an_update_that_replays_as_many_groups_as_it_samples_takes_twice_the_activations():
    shape, recipe = CHECKED.models["qwen3-4b"].shape, CONFIG["recipes"]["replay"]
    gpus = TrainingGpus(count=1, micro_batch=8, vllm_memory=0.2, vllm_sleep=True)
    room = recipe["prompts_per_update"]
    for changes, rows in (
        ({}, 8 * (room + recipe["selector"]["replay"]) / room),
        ({"replay": 0}, 8),
        ({"replay": room // 2}, 12),
    ):
        gib_by_part = memory.training_memory(
            shape, Recipe.of(recipe | {"selector": recipe["selector"] | changes}), 1024, gpus
        )
        plain = memory.training_memory(
            shape,
            CHECKED.recipes["as_written"],
            1024,
            gpus.model_copy(update={"micro_batch": int(rows)}),
        )
        assert gib_by_part["activations"] == plain["activations"]


def memory_shortages(config: dict, study: dict):
    return study_checks.memory_shortages(Study.of(study), Configuration.of(config))


@pytest.mark.parametrize("study", CONFIG["studies"])
def test_every_study_fits_the_gpus_of_its_models(study):
    assert not list(memory_shortages(CONFIG, CONFIG["studies"][study]))


def test_a_model_and_a_recipe_must_fit_the_gpus_only_if_an_arm_combines_them():
    config = copy.deepcopy(CONFIG)
    study = config["studies"]["paper"]
    large, small = study["models"][-1], study["models"][0]
    config["models"][large]["gpus"]["full"] |= {"count": 1, "micro_batch": 64}
    config["recipes"]["whole"] = config["recipes"]["as_written"] | {"adapter": None, "base": "fp32"}
    task = study["tasks"][0]
    study["arms"] = [{"policy": "hard", "recipe": "as_written", "models": large}]
    assert not list(memory_shortages(config, study))
    study["arms"].append({"policy": "hard", "recipe": "whole", "models": small, "tasks": task})
    assert {place for place, _ in memory_shortages(config, study)} <= {f"models.{small}.gpus.full"}
    study["arms"][1]["models"] = large
    assert [place for place, _ in memory_shortages(config, study)] == [f"models.{large}.gpus.full"]


def test_the_memory_of_a_reward_model_is_that_of_its_weights_and_optimiser():
    shape = CHECKED.models["qwen3-4b"].shape
    for adapter, bytes_each in (({"rank": 32, "alpha": 32, "dropout": 0.0}, 12), (None, 16)):
        recipe = CONFIG["recipes"]["prime"] | {"adapter": adapter}
        gpus = TrainingGpus(count=1, micro_batch=4, vllm_memory=0.2, vllm_sleep=True)
        trained = memory.adapter_parameters(shape, 32) if adapter else memory.parameters(shape)
        gib = memory.training_memory(shape, Recipe.of(recipe), 250, gpus)["reward model"]
        assert gib * memory.GIB == pytest.approx(trained * bytes_each)
