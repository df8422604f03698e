"""The schedule of prompts, rewards, and the arguments of TRL's trainers."""

import copy
import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import project_config
from conftest import ROOT
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model
from hardgrpo.study.recipe import ADAM_BETA2, Recipe
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run
from hardgrpo.training import loop, recipes

RECIPE = {
    "updates": 30, "prompts_per_update": 8, "group_size": 8, "temperature": 1.0, "reward": "correct", "advantage": "centred",
    "loss": "dapo", "beta": 0.0, "epsilon": 0.2, "optimiser": "adamw", "learning_rate": 2e-4, "schedule": "constant",
    "warmup_share": 0.1, "weight_decay": 0.0, "max_grad_norm": 1.0, "base": "fp32", "precision": "fp32", "adapter": None,
    "generation": "transformers", "checkpoint_every": 15,
}  # fmt: skip
SPEC = Spec(
    model="m", task="t", policy="hard", recipe="mini", seed=3, model_folder="models/m", problems="P.jsonl",
    subset="S.csv", prompt="{question}", chat={}, grader="final_word", completion_tokens=48, training=RECIPE,
)  # fmt: skip
SFT_SPEC = dataclasses.replace(SPEC, training=RECIPE | {"objective": "sft"})
CONFIG = project_config.config()
CHECKED = Configuration.of(CONFIG)
LARGE = [name for name, model in CONFIG["models"].items() if "gpus" in model]
FOR_GPUS = [
    name
    for name, recipe in CONFIG["recipes"].items()
    if recipe["precision"] == "bf16" and "beta" in recipe and not name.startswith("small_lora")
]


IDS = st.integers(1, 60).map(lambda size: [f"c{i}" for i in range(size)])
UPDATES, SEEDS = st.integers(1, 20), st.integers(0, 3)


@given(IDS, UPDATES, st.integers(1, 12), SEEDS)
def test_every_update_has_its_prompts_and_no_epoch_repeats_a_prompt(ids, updates, size, seed):
    order = recipes.schedule(ids, updates, size, seed)
    assert len(order) == updates * size and set(order) <= set(ids)
    epoch = len(ids) // size * size or len(ids)
    for start in range(0, len(order), epoch):
        part = order[start : start + epoch]
        assert len(set(part)) == len(part)
    longer = recipes.schedule(ids, updates + 3, size, seed)
    assert longer[: len(order)] == order, "a longer run begins with the same updates"


@given(IDS, IDS, UPDATES, st.sampled_from([0, 0.25, 0.5, 0.875]), SEEDS)
def test_every_update_has_its_share_of_prompts_that_were_not_chosen(
    chosen, others, updates, share, seed
):
    others = [f"r{name}" for name in others]
    recipe = {"updates": updates, "prompts_per_update": 8, "majority_share": share}
    order = recipes.schedule_with_unlabelled(chosen, others, recipe, seed)
    assert len(order) == updates * 8
    for start in range(0, len(order), 8):
        kinds = "".join(name[0] for name in order[start : start + 8])
        assert kinds == "c" * round(8 - 8 * share) + "r" * round(8 * share)
    assert share or order == recipes.schedule(chosen, updates, 8, seed)


def test_a_run_on_a_cpu_has_micro_batches_that_fit_into_its_memory(monkeypatch):
    from transformers import Qwen2Config

    sizes = {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16}
    config = Qwen2Config(num_attention_heads=2, **sizes)
    row_bytes = memory.trained_row_bytes(memory.shape_of(config.to_dict()), Recipe.of(RECIPE), 100)
    choose = lambda hardware: recipes.without_gpus(hardware, config, RECIPE, 100)
    monkeypatch.setattr(memory, "CPU_BYTES", 17.5 * row_bytes)
    assert choose(recipes.Hardware()) == recipes.Hardware(micro_batch=17)
    for hardware in (recipes.Hardware(1), recipes.Hardware(micro_batch=32)):
        assert choose(hardware) == hardware, "a GPU or a size chosen by the user changes nothing"
    monkeypatch.setattr(memory, "CPU_BYTES", 64 * row_bytes)
    assert choose(recipes.Hardware()) == recipes.Hardware()


def test_majority_rewards_need_prompts_that_the_policy_did_not_choose():
    recipe = {"updates": 1, "prompts_per_update": 2, "majority_share": 0.5}
    with pytest.raises(UserError, match="lower the policy's budget"):
        recipes.schedule_with_unlabelled(["a"], [], recipe, 0)


def test_only_prompts_without_a_reference_answer_are_rewarded_by_the_majority():
    recipe = RECIPE | {"group_size": 4, "majority_share": 0.5}
    texts = ["#### red", "#### red", "#### blue", "no answer"] * 2
    completions, logged = [[{"content": text}] for text in texts], {}
    reward = loop.reward_function("final_word", recipe, 1)
    rewards = reward(completions, ["blue"] * 4 + [None] * 4, logged.__setitem__)
    assert rewards == [0, 0, 1, 0, 1, 1, 0, 0]
    assert logged["correct_share"] == 0.25, "the log must count only prompts with reference answers"
    assert reward(completions[4:], [None] * 4, {}.__setitem__) == [1, 1, 0, 0]
    with pytest.raises(UserError, match="choose a number of GPUs"):
        reward(completions[:6], [None] * 6, {}.__setitem__)


ARGUMENTS = [  # keys of the recipe, arguments of the trainer
    ({}, {"scale_rewards": "none", "num_generations": 8, "per_device_train_batch_size": 64, "max_steps": 30, "seed": 3,
          "max_completion_length": 48, "shuffle_dataset": False, "epsilon": 0.2, "epsilon_high": 0.2,
          "importance_sampling_level": "token", "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 3}),
    ({"warmup_share": 0.0}, {"lr_scheduler_type": "constant", "warmup_steps": 0}),
    ({"schedule": "cosine", "warmup_share": 0.5}, {"lr_scheduler_type": "cosine", "warmup_steps": 15}),
    (CONFIG["recipes"]["dapo"], {"loss_type": "dapo", "epsilon_high": 0.28, "importance_sampling_level": "token"}),
    (CONFIG["recipes"]["gspo"], {"loss_type": "grpo", "epsilon_high": 4e-4, "importance_sampling_level": "sequence"}),
    (CONFIG["recipes"]["cispo"], {"loss_type": "cispo", "epsilon_high": 5.0, "importance_sampling_level": "token"}),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "expected"), ARGUMENTS)
def test_the_trainer_gets_the_settings_of_the_recipe(keys, expected):
    spec = dataclasses.replace(SPEC, training=RECIPE | keys)
    assert recipes.trainer_arguments(spec, "out").items() >= expected.items()


# Arguments of TRL that are not set, because this project does not use the feature, or because it
# loads the model and tokenizes the texts itself
UNUSED = re.compile(
    "model_init_kwargs|trust_remote_code|router_aux_loss_coef|.*_continuous_batching|use_transformers_paged"
    "|vllm_(server|structured_outputs|group_port|importance_sampling_cap)|cache_implementation|generation_(batch|kwargs)"
    "|num_generations_eval|ds3_|pad_to_multiple_of|max_tool_calling|log_|num_completions_to_print"
    "|sapo_|vespo_|ref_model_|entropy_|use_adaptive_entropy"
    "|dataset_|truncation_mode|packing_strategy|eval_packing|pad_token"
)  # fmt: skip


@pytest.mark.parametrize("name", ["GRPOConfig", "SFTConfig"])
def test_every_argument_that_trl_adds_is_set_or_unused_and_trl_accepts_them(name, tmp_path):
    import trl
    from transformers import TrainingArguments

    names = lambda kind: {field.name for field in dataclasses.fields(kind)}
    kind = getattr(trl, name)
    if name == "GRPOConfig":
        arguments = recipes.trainer_arguments(SPEC, str(tmp_path))
    else:
        arguments = recipes.supervised_arguments(SFT_SPEC, str(tmp_path))
    unset = names(kind) - names(TrainingArguments) - set(arguments)
    assert [argument for argument in unset if not UNUSED.match(argument)] == []
    config = kind(**arguments)
    assert getattr(config, "generation_batch_size", 64) == 64
    assert config.per_device_train_batch_size == (64 if name == "GRPOConfig" else 8)


def test_sft_and_grpo_have_the_same_optimiser():
    common = (
        "optim", "learning_rate", "lr_scheduler_type", "weight_decay", "adam_beta2", "max_grad_norm", "bf16", "seed", "warmup_steps",
    )  # fmt: skip
    sft, grpo = (
        recipes.supervised_arguments(SFT_SPEC, "out"),
        recipes.trainer_arguments(SPEC, "out"),
    )
    assert {key: sft[key] for key in common} == {key: grpo[key] for key in common}
    assert sft["completion_only_loss"] and not sft["packing"]
    assert sft["train_sampling_strategy"] == "sequential", "the order is that of the schedule"


@pytest.mark.parametrize("recipe", FOR_GPUS)
@pytest.mark.parametrize("model", LARGE)
def test_every_recipe_configures_a_trainer_for_every_model(model, recipe, tmp_path, monkeypatch):
    """Without weights and without a GPU, the test builds the configurations of TRL and PEFT."""
    from trl import GRPOConfig

    training = CONFIG["recipes"][recipe]
    spec = Spec.of_run(
        Run(model, "gsm8k", recipe, "hard", 0, model), model=CHECKED.models[model],
        task=CHECKED.tasks["gsm8k"], recipe=CHECKED.recipes[recipe], policy=CHECKED.policies["hard"],
    )  # fmt: skip
    gpus = CHECKED.models[model].training_gpus(CHECKED.recipes[recipe])
    memory_settings = (gpus.micro_batch, gpus.vllm_memory, gpus.vllm_sleep)
    hardware = recipes.Hardware(gpus.count, gpus.count, *memory_settings)
    arguments = recipes.trainer_arguments(spec, str(tmp_path), hardware, context=400)
    sizes = ("per_device_train_batch_size", "gradient_accumulation_steps")
    rollouts = math.prod(arguments[name] for name in sizes) * gpus.count
    assert rollouts == training["prompts_per_update"] * training["group_size"]
    assert arguments["use_vllm"] and arguments["vllm_enable_sleep_mode"] == gpus.vllm_sleep
    assert arguments["bf16"] and arguments["gradient_checkpointing"] and not arguments["use_cpu"]
    monkeypatch.setenv("WORLD_SIZE", "1")
    # changed so that GRPOConfig accepts the arguments on a machine without a GPU
    config = GRPOConfig(**arguments | {"use_cpu": True, "bf16": False})
    no_thinking = {"enable_thinking": False} if model.startswith("qwen3") else None
    assert config.chat_template_kwargs == no_thinking
    adapter = recipes.adapter_configuration(training)
    assert (adapter is None) == (recipe == "as_written_full")
    if adapter is not None:
        assert (adapter.r, adapter.lora_alpha) == (32, training["adapter"]["alpha"])
        assert adapter.target_modules == "all-linear"


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
    ("recipe", "state"), [("as_written", "written"), ("as_released_later", "later")]
)
def test_recipes_agree_with_the_table_of_deviations(recipe, state):
    """Every value that the table states equals the value in the recipe and in the trainer's
    arguments. Every key of a recipe has a row, except keys of one value in all recipes, and
    `generation`, which is in the row of `importance_correction`."""
    training = {"adam_beta2": ADAM_BETA2} | CONFIG["recipes"][recipe]
    arguments = recipes.trainer_arguments(dataclasses.replace(SPEC, training=training), "out")
    rows = {row["key"]: row[state] for row in DEVIATIONS}
    assert set(training) - set(rows) <= {"reward", "precision", "generation", "checkpoint_every"}
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


def test_what_the_table_does_not_state_is_as_in_the_paper():
    written = CONFIG["recipes"]["as_written"]
    assert written["loss"] == "grpo" and written["reward"] == "correct"
    assert CONFIG["recipes"]["dr_grpo"] == written | {"loss": "dr_grpo"}
    assert CONFIG["recipes"]["finish_only"] == written | {"reward": "finished"}
    for recipe in (written, CONFIG["recipes"]["as_released_later"]):
        assert (recipe["checkpoint_every"], recipe["temperature"]) == (100, 1.0)


@given(st.integers(1, 64), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 64)))
def test_micro_batches_make_up_an_update(share, processes, wanted):
    size, steps = recipes.micro_batches(share * processes, recipes.Hardware(0, processes, wanted))
    assert size * steps * processes == share * processes and size <= (wanted or share)


def test_recipes_list_their_packages():
    packages = {name: recipes.packages(CONFIG["recipes"][name]) for name in ("as_written", "sft")}
    assert packages == {"as_written": ["vllm"], "sft": []} and recipes.packages(RECIPE) == []
    assert recipes.packages(CONFIG["recipes"]["as_released_later"]) == ["vllm", "bitsandbytes"]


ONLINE = [{"selector": {"kind": "beta"}}, {"process": CONFIG["recipes"]["prime"]["process"]}]


@pytest.mark.parametrize(
    ("keys", "hardware", "words"),
    [
        *((keys, recipes.Hardware(2, 2), f"recipe: {name}: .* only one process") for keys in ONLINE for name in keys),
        ({"optimiser": "paged_adamw_8bit"}, recipes.Hardware(), "paged_adamw_8bit needs a GPU"),
    ],
)  # fmt: skip
def test_hardware_that_cannot_train_a_recipe_is_refused(keys, hardware, words):
    with pytest.raises(UserError, match=words):
        recipes.check_machine(RECIPE | keys, hardware)
    recipes.check_machine(RECIPE | keys, recipes.Hardware(1, 1))


def test_selectors_and_process_rewards_use_one_gpu_even_if_the_model_has_more():
    config = copy.deepcopy(CONFIG)
    config["models"]["qwen3-4b"]["gpus"]["adapter"]["count"] = 2
    model, names = Model.of(config["models"]["qwen3-4b"]), ("as_written", "dynamic", "prime")
    gpus = {name: model.training_gpus(CHECKED.recipes[name]).count for name in names}
    assert gpus == {"as_written": 2, "dynamic": 1, "prime": 1}
