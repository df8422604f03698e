"""The prompt schedule of a run, and the arguments of TRL's trainers for the run's recipe."""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path

from hardgrpo.runtime import exact_products
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import memory
from hardgrpo.study.recipe import ADAM_BETA2, Recipe
from hardgrpo.study.spec import Spec

# for recipes without importance_correction: TRL logs the ratios, and `Trainer` does not apply them
NO_CORRECTION = {"mode": "token_truncate", "limit": math.inf}


def schedule(ids: list[str], updates: int, prompts_per_update: int, seed: int) -> list[str]:
    """The prompts of all updates in order: `updates * prompts_per_update` ids, in shuffled epochs.
    Each epoch drops its last prompts if they do not fill an update. A subset that is smaller than an
    update is repeated within it."""
    rng = random.Random(f"schedule:{seed}")
    order: list[str] = []
    while len(order) < updates * prompts_per_update:
        epoch = list(ids)
        rng.shuffle(epoch)
        full_updates = len(epoch) // prompts_per_update * prompts_per_update
        order += epoch[: full_updates or len(epoch)]
    return order[: updates * prompts_per_update]


def schedule_with_unlabelled(
    subset: list[str], unlabelled: list[str], recipe: dict, seed: int
) -> list[str]:
    """Like `schedule`, but the last prompts of each update are unlabelled. `majority_share` is their
    share of the update. Raise a `UserError` if the recipe needs unlabelled prompts and there are
    none."""
    updates, size = recipe["updates"], recipe["prompts_per_update"]
    unlabelled_size = round(recipe.get("majority_share", 0) * size)
    if not unlabelled_size:
        return schedule(subset, updates, size, seed)
    if not unlabelled:
        raise UserError(
            "recipe: majority_share needs prompts that the policy did not choose; lower the policy's budget"
        )
    parts = [
        (schedule(ids, updates, part_size, seed), part_size)
        for ids, part_size in ((subset, size - unlabelled_size), (unlabelled, unlabelled_size))
    ]
    return [
        prompt
        for update in range(updates)
        for order, part_size in parts
        for prompt in order[update * part_size : (update + 1) * part_size]
    ]


@dataclass(frozen=True)
class Hardware:
    """The hardware of a run. It affects the result only through rounding and random numbers."""

    gpus: int = 0  # 0: the CPU
    processes: int = 1  # one per GPU
    # completions per forward and backward pass of a process; None: the process's share of an update
    micro_batch: int | None = None
    vllm_memory: float = 0.3  # share of a GPU's memory that vLLM takes
    vllm_sleep: bool = False


@dataclass(frozen=True)
class Run:
    """A run to train. `problems` are rows of the task by id, `subset` the ids of the chosen prompts;
    `state` is the folder of checkpoints, `track` is TRL's `report_to`."""

    spec: Spec
    problems: dict[str, dict]
    subset: list[str]
    state: Path
    hardware: Hardware
    track: str = "none"


def micro_batches(texts: int, hardware: Hardware) -> tuple[int, int]:
    """(micro-batch size, gradient accumulation steps) of each process. Size x steps x processes is
    `texts`, the number of completions or worked solutions per update. Raise a `UserError` if
    `texts` is not a multiple of the number of processes."""
    share, remainder = divmod(texts, hardware.processes)
    if remainder:
        raise UserError(
            f"{texts} completions an update do not divide evenly among {hardware.processes} processes; choose a number of GPUs"
            " that divides prompts_per_update x group_size (prompts_per_update alone, where objective is sft)"
        )
    size = min(hardware.micro_batch or share, share)
    while share % size:
        size -= 1
    return size, share // size


def without_gpus(hardware: Hardware, config, recipe: dict, tokens: int) -> Hardware:
    """The hardware of a run on a CPU, with micro-batches of as many texts as fit into
    `memory.CPU_BYTES`, if `micro_batch` is not set and the model's shape is known. `tokens` is the
    largest number of tokens of a prompt with its completion."""
    shape = memory.shape_of(config.get_text_config().to_dict())
    if hardware.gpus or hardware.micro_batch or shape is None:
        return hardware
    row_bytes = memory.trained_row_bytes(shape, Recipe.of(recipe), tokens)
    share = Recipe.of(recipe).texts_per_update // hardware.processes
    rows = memory.rows_at_once(row_bytes, share)
    return replace(hardware, micro_batch=rows) if rows < share else hardware


def packages(recipe: dict) -> list[str]:
    """The packages that a recipe needs beyond those of the environment for training."""
    names = ["vllm"] if recipe.get("generation") == "vllm" else []
    if recipe["optimiser"] == "paged_adamw_8bit":
        names.append("bitsandbytes")
    return names


def optimiser(recipe: dict, hardware: Hardware) -> str:
    """transformers' name of the optimiser. The square roots of the fused AdamW are the same on
    every processor with AVX2."""
    if recipe["optimiser"] == "adamw" and not hardware.gpus and hardware.processes == 1:
        return "adamw_torch_fused"
    return {"adamw": "adamw_torch"}.get(recipe["optimiser"], recipe["optimiser"])


def has_exact_products(spec: Spec, hardware: Hardware) -> bool:
    """Whether a run is computed with the same kernels on every x86-64 processor with AVX2 (see
    `exact_products`)."""
    recipe = spec.training
    return (
        hardware.gpus == 0
        and hardware.processes == 1
        and recipe["base"] == recipe["precision"] == "fp32"
        and recipe.get("generation") != "vllm"
        and exact_products.is_exact_model(spec.model_folder)
    )


def check_machine(recipe: dict, hardware: Hardware) -> None:
    if hardware.gpus == 0 and recipe["optimiser"] == "paged_adamw_8bit":
        raise UserError(
            "recipe: optimiser: paged_adamw_8bit needs a GPU; give the model `gpus`, or set optimiser: adamw"
        )
    if hardware.processes > 1 and Recipe.of(recipe).is_online:
        key = "selector" if recipe.get("selector") else "process"
        raise UserError(
            f"recipe: {key}: a run with this key can have only one process and at most one GPU; use an adapter"
        )


def adapter_configuration(recipe: dict):
    """PEFT's configuration of the adapter, or None if every weight is trained."""
    adapter = recipe.get("adapter")
    if not adapter:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=adapter["rank"],
        lora_alpha=adapter["alpha"],
        lora_dropout=adapter["dropout"],
        # q, k, v, o, gate, up and down, also in models that fuse some of these maps (Phi-4)
        target_modules="all-linear",
        bias="none",
        use_rslora=False,
        use_dora=False,
        init_lora_weights=True,
        task_type="CAUSAL_LM",
    )


def model_arguments(recipe: dict) -> dict:
    """Arguments of transformers' from_pretrained for a recipe."""
    import torch

    return {"dtype": {"fp32": torch.float32, "bf16": torch.bfloat16}[recipe["base"]]}


def trainer_arguments(
    spec: Spec,
    output_dir: str,
    hardware: Hardware = Hardware(),
    context: int | None = None,
    track: str = "none",
) -> dict:
    """Arguments of TRL's GRPOConfig. Every value that affects the result is explicit, because
    defaults change between versions. `context` is the largest number of tokens of a prompt with its
    completion, for vLLM; `track` is TRL's `report_to`."""
    recipe = spec.training
    with_vllm = recipe["generation"] == "vllm"
    _, accumulation_steps = micro_batches(Recipe.of(recipe).texts_per_update, hardware)
    correction = recipe.get("importance_correction") or NO_CORRECTION
    return _common_arguments(spec, output_dir, hardware, track) | {
        # the objective
        "num_generations": recipe["group_size"],
        "temperature": recipe["temperature"],
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "max_completion_length": spec.completion_tokens,
        "scale_rewards": {"centred": "none", "standardised": "group"}[recipe["advantage"]],
        "loss_type": recipe["loss"],
        "beta": recipe["beta"],
        "epsilon": recipe["epsilon"],
        "epsilon_high": recipe.get("epsilon_high", recipe["epsilon"]),
        "delta": None,
        "importance_sampling_level": recipe.get("ratio", "token"),
        "num_iterations": 1,
        "multi_objective_aggregation": "sum_then_normalize",
        "reward_weights": None,
        "off_policy_mask_threshold": None,
        "mask_truncated_completions": False,
        "use_bias_correction_kl": False,
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "disable_dropout": False,
        "sync_ref_model": False,
        "steps_per_generation": accumulation_steps,
        "cast_lm_head_to_fp32": False,
        # TRL would spread each process's copy of the base model for the KL term over all GPUs
        "model_init_kwargs": None if recipe.get("adapter") else {"device_map": None},
        # sampling of rollouts, and correction for differences between vLLM's and the trainer's
        # probabilities
        "chat_template_kwargs": spec.chat or None,
        "use_vllm": with_vllm,
        "vllm_mode": "colocate",
        "vllm_model_impl": "vllm",
        "vllm_tensor_parallel_size": 1,
        "vllm_gpu_memory_utilization": hardware.vllm_memory,
        "vllm_enable_sleep_mode": with_vllm and hardware.vllm_sleep,
        "vllm_max_model_length": context if with_vllm else None,
        "vllm_importance_sampling_correction": Recipe.of(recipe).scores_before_update,
        "vllm_importance_sampling_mode": correction["mode"],
        "vllm_importance_sampling_clip_max": correction["limit"],
        "vllm_importance_sampling_clip_min": None,
    }


def supervised_arguments(
    spec: Spec, output_dir: str, hardware: Hardware = Hardware(), track: str = "none"
) -> dict:
    """Arguments of TRL's SFTConfig. Every value that affects the result is explicit, as in
    `trainer_arguments`."""
    return _common_arguments(spec, output_dir, hardware, track) | {
        # the objective: the mean loss over all tokens of an update's solutions, independent of
        # micro-batches
        "loss_type": "nll",
        "completion_only_loss": True,
        "assistant_only_loss": False,
        "average_tokens_across_devices": True,
        "label_smoothing_factor": 0.0,
        # the texts: tokenized by `supervised.tokenize_solutions`, one per row, not truncated
        "max_length": None,
        "packing": False,
        "padding_free": False,
        "pad_to_multiple_of": None,
        "eos_token": None,
        "chat_template_path": None,
        "train_sampling_strategy": "sequential",  # the default would shuffle
        "activation_offloading": False,
    }


def _common_arguments(spec: Spec, output_dir: str, hardware: Hardware, track: str) -> dict:
    recipe, on_gpu = spec.training, hardware.gpus > 0
    is_sharded = hardware.processes > 1 and not recipe.get("adapter")
    micro_batch, accumulation_steps = micro_batches(Recipe.of(recipe).texts_per_update, hardware)
    return {
        "output_dir": output_dir,
        "seed": spec.seed,
        "data_seed": spec.seed,
        # the optimiser and the machine
        "max_steps": recipe["updates"],
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": accumulation_steps,
        "optim": optimiser(recipe, hardware),
        "learning_rate": recipe["learning_rate"],
        # transformers' schedule "constant" would ignore the warm-up
        "lr_scheduler_type": "constant_with_warmup"
        if recipe["schedule"] == "constant" and recipe["warmup_share"]
        else recipe["schedule"],
        "warmup_steps": round(recipe["warmup_share"] * recipe["updates"]),
        "weight_decay": recipe["weight_decay"],
        "adam_beta1": 0.9,
        "adam_beta2": recipe.get("adam_beta2", ADAM_BETA2),
        "adam_epsilon": 1e-8,
        "max_grad_norm": recipe["max_grad_norm"],
        "bf16": recipe["precision"] == "bf16",
        "fp16": False,
        "tf32": None,
        "gradient_checkpointing": on_gpu,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if on_gpu else None,
        "use_cpu": not on_gpu,
        "ddp_find_unused_parameters": False,
        # otherwise each process would accumulate the complete gradient of the sharded weights
        "accelerator_config": {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
        if is_sharded
        else None,
        # `schedule` fixes the order of prompts
        "shuffle_dataset": False,
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        # checkpoints and logs
        "save_strategy": "steps",
        "save_steps": recipe["checkpoint_every"],
        "save_total_limit": None,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,
        "report_to": track,
        "project": "hardgrpo",
        "run_name": f"{spec.model}/{spec.task}/{spec.recipe}/{spec.policy}/seed{spec.seed}",
        "disable_tqdm": True,
        "eval_strategy": "no",
    }
