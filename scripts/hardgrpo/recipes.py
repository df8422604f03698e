"""Recipes: the trainer's arguments, all stated, and the schedule of prompts. The specification of a run is read here."""

import hashlib
import json
import random
from dataclasses import dataclass

import yaml

from . import files
from .errors import UserError


@dataclass(frozen=True)
class Spec:
    """A run as `spec.yaml` says it. Paths are relative to the working folder."""

    model: str
    task: str
    policy: str
    recipe: str
    seed: int
    model_folder: str
    problems: str
    subset: str
    prompt: str
    grader: str
    completion_tokens: int
    training: dict

    def digest(self, *contents: str) -> str:
        """A hash of the specification and of the files it names (their checksums): the name of the run's state folder."""
        text = json.dumps([vars(self), contents], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_spec(path: str) -> Spec:
    try:
        fields = yaml.safe_load(files.read_text(path))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    names = Spec.__dataclass_fields__
    if not isinstance(fields, dict):
        raise UserError(f"{path}: expected keys {', '.join(names)}")
    for name in fields:
        if name not in names:
            raise UserError(f"{path}: unknown key '{name}'; expected {', '.join(names)}")
    for name in names:
        if name not in fields:
            raise UserError(f"{path}: '{name}' is missing; expected {', '.join(names)}")
    return Spec(**fields)


def schedule(ids: list[str], updates: int, prompts_per_update: int, seed: int) -> list[str]:
    """The prompts of all updates, one after another: `updates * prompts_per_update` ids in shuffled epochs.

    Written out beforehand so that a resumed run sees the very prompts that an uninterrupted one does. A remainder of an
    epoch that does not fill an update is dropped; a subset smaller than an update is repeated within it.
    """
    rng = random.Random(f"schedule:{seed}")
    order: list[str] = []
    while len(order) < updates * prompts_per_update:
        epoch = list(ids)
        rng.shuffle(epoch)
        whole = len(epoch) // prompts_per_update * prompts_per_update
        order += epoch[: whole or len(epoch)]
    return order[: updates * prompts_per_update]


def trainer_arguments(spec: Spec, output_dir: str, on_gpu: bool) -> dict:
    """Arguments of TRL's GRPOConfig. Every value that the result depends on is stated; defaults change between versions."""
    recipe = spec.training
    completions = recipe["prompts_per_update"] * recipe["group_size"]
    return {
        "output_dir": output_dir,
        "seed": spec.seed,
        "data_seed": spec.seed,
        # what is optimised
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
        "epsilon_high": recipe["epsilon"],
        "delta": None,
        "importance_sampling_level": "token",
        "num_iterations": 1,
        "mask_truncated_completions": False,
        "use_bias_correction_kl": False,
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "disable_dropout": False,
        "sync_ref_model": False,
        # how
        "max_steps": recipe["updates"],
        "per_device_train_batch_size": completions,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 1,
        "optim": "adamw_torch",
        "learning_rate": recipe["learning_rate"],
        "lr_scheduler_type": recipe["schedule"],
        "warmup_steps": round(recipe["warmup_share"] * recipe["updates"]),
        "weight_decay": recipe["weight_decay"],
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-8,
        "max_grad_norm": recipe["max_grad_norm"],
        "bf16": recipe["precision"] == "bf16",
        "fp16": False,
        "gradient_checkpointing": False,
        "use_cpu": not on_gpu,
        "use_vllm": False,
        # the schedule is written out beforehand, see `schedule`
        "shuffle_dataset": False,
        "remove_unused_columns": False,
        "dataloader_num_workers": 0,
        # what is kept
        "save_strategy": "steps",
        "save_steps": recipe["checkpoint_every"],
        "save_total_limit": None,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "eval_strategy": "no",
    }
