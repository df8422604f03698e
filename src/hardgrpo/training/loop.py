"""Train a run in its state folder: build TRL's trainer, reward rollouts, save checkpoints, stop on
SIGTERM. Imports TRL. Other trainers: `supervised.py`, and the package `online`.
"""

import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from accelerate.utils import is_peft_model
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import exact_products, files, interruption, provenance, states
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import engines, model_folders
from hardgrpo.selection import signals
from hardgrpo.study import paths
from hardgrpo.study.model import CORES_PER_GPU
from hardgrpo.study.spec import Spec
from hardgrpo.training import base_weights, outputs, recipes
from hardgrpo.training.processes import Processes, take_free_port
from hardgrpo.training.trainer import Trainer

# TRL 1.16 uses old names of arguments
warnings.filterwarnings("ignore", "`.*gradient_checkpointing.*` is deprecated", FutureWarning)
LARGE_DIFFERENCE = 0.1  # nats, between the log-probabilities of vLLM and of the trainer: a warning


def train(
    build: Callable,
    run: recipes.Run,
    resume_from: int,
    processes: Processes,
    save_minutes: float = 10,
) -> None:
    """Train a run until its last update or SIGTERM, from checkpoint `resume_from` in the run's
    folder of checkpoints (0: from the weights in `spec.model_folder`). Between the scheduled
    checkpoints, the run also saves a state about every `save_minutes`. `build` is a function like
    `build_grpo_trainer`.

    Raise a `UserError` if a prompt does not fit into the model's context or if training diverges.
    """
    engines.configure_torch()
    spec, hardware, recipe = run.spec, run.hardware, run.spec.training
    if recipes.has_exact_products(spec, hardware):
        exact_products.install()
    elif not recipe["base"] == recipe["precision"] == "fp32" and not hardware.gpus:
        exact_products.avoid_fused_attention()
    tokenizer = model_folders.load_tokenizer(spec.model_folder)
    engines.end_tokens(spec.model_folder, tokenizer)  # refuses a model without an end token
    engines.ensure_padding(tokenizer)
    # a subset that was not chosen by this model's probe may contain prompts that are too long
    questions = [run.problems[prompt]["question"] for prompt in run.subset]
    prompts = tokenize(spec, tokenizer, questions)
    engines.check_context(spec.model_folder, prompts, spec.completion_tokens, run.subset)
    tracking = paths.tracking(spec.model, spec.task, spec.recipe, spec.policy, spec.seed)
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", tracking)
    trainer = build(run, tokenizer)
    trainer.remove_callback(PrinterCallback)
    if hardware.processes > 1 and processes.is_first:
        place = "sharded over them (FSDP2)" if trainer.is_fsdp_enabled else "held by each process"
        say(f"{hardware.processes} processes, all weights {place}")
    if hardware.gpus > 1 and not recipe.get("adapter") and not trainer.is_fsdp_enabled:
        raise UserError("accelerate did not shard the weights over the GPUs; see the log above")
    title = f"train {spec.model}/{spec.task}/{spec.policy}/seed{spec.seed}"
    with Progress(
        title, recipe["updates"], "updates", start=resume_from, visible=processes.is_first
    ) as progress:
        trainer.add_callback(
            Watch(progress, processes, recipe["checkpoint_every"], 60 * save_minutes)
        )
        checkpoint = str(states.checkpoint(run.state, resume_from)) if resume_from else None
        trainer.train(resume_from_checkpoint=checkpoint)
    interruption.stop_at_once()


def build_grpo_trainer(run: recipes.Run, tokenizer) -> Trainer:
    """The trainer of a GRPO recipe."""
    arguments, rows, schedule = grpo_arguments(run, tokenizer)
    dataset = Dataset.from_list([rows[prompt] for prompt in schedule])
    return Trainer(**arguments, train_dataset=dataset)


def grpo_arguments(run: recipes.Run, tokenizer) -> tuple[dict, dict[str, dict], list[str]]:
    """(arguments of `Trainer` except the dataset; {prompt id: row of the dataset}; ids of the
    prompts in the order of training)."""
    spec, subset, recipe = run.spec, run.subset, run.spec.training
    if recipe["generation"] == "vllm":
        from hardgrpo.sampling import vllm_engine

        vllm_engine.prepare_for_training()
        take_free_port()
    unlabelled = read_unlabelled_pool(spec, set(subset), tokenizer)
    schedule = recipes.schedule_with_unlabelled(subset, list(unlabelled), recipe, spec.seed)
    questions = {prompt: run.problems[prompt]["question"] for prompt in subset} | unlabelled
    pool = {
        prompt: {"prompt": tasks.messages(spec.prompt, question)}
        | {"answer": run.problems[prompt]["answer"] if prompt not in unlabelled else None}
        for prompt, question in questions.items()
    }
    prompts = tokenize(spec, tokenizer, list(questions.values()))
    context = max(map(len, prompts)) + spec.completion_tokens
    model = model_folders.load_model(spec.model_folder, **recipes.model_arguments(recipe))
    hardware = recipes.without_gpus(run.hardware, model.config, recipe, context)
    # TRL and vLLM do not read the end tokens of config.json, but the probe and the evaluation do.
    ends = engines.end_tokens(spec.model_folder, tokenizer)
    model.generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]
    settings = recipes.trainer_arguments(spec, str(run.state), hardware, context, run.track)
    if recipe["generation"] == "vllm":
        settings["generation_kwargs"] = {"stop_token_ids": ends}
    grading_processes = CORES_PER_GPU if hardware.gpus else 1
    reward = reward_function(spec.grader, recipe, hardware.processes, grading_processes)
    arguments = {
        "model": model,
        "processing_class": tokenizer,
        "reward_funcs": reward,
        "args": GRPOConfig(**settings),
        "peft_config": recipes.adapter_configuration(recipe),
        "applies_correction": bool(recipe.get("importance_correction")),
    }
    return arguments, pool, schedule


def read_unlabelled_pool(spec: Spec, subset: set[str], tokenizer) -> dict[str, str]:
    """Questions by id of the pool's prompts outside the subset, without prompts that are too long
    for the model's context; empty if the recipe trains only on the subset."""
    if spec.questions is None:
        return {}
    rows = files.read_jsonl(spec.questions, {"id": str, "question": str})
    rows = [row for row in rows if row["id"] not in subset]
    limit = engines.max_prompt_tokens(spec.model_folder, spec.completion_tokens)
    prompts = tokenize(spec, tokenizer, [row["question"] for row in rows])
    pool = {
        row["id"]: row["question"]
        for row, prompt in zip(rows, prompts)
        if limit is None or len(prompt) <= limit
    }
    if len(pool) < len(rows):
        say(f"{len(rows) - len(pool)} unlabelled prompts are too long for the model's context")
    return pool


def tokenize(spec: Spec, tokenizer, questions: list[str]) -> list[list[int]]:
    """The token ids of the prompts of questions."""
    conversations = [tasks.messages(spec.prompt, question) for question in questions]
    return model_folders.token_ids(tokenizer, conversations, spec.chat)


def reward_function(grader: str, recipe: dict, processes: int, grading_processes: int = 1):
    """A function for TRL that returns the reward of each completion, 1 or 0, by the grader of the
    probe and the evaluation.

    `reward: correct` rewards a correct completion, `finished` any answer that the grader can read,
    `majority`, and for prompts without a reference answer every recipe, the most frequent answer of
    the group.
    """
    group_size, by_majority = recipe["group_size"], recipe["reward"] == "majority"
    by_group = by_majority or "majority_share" in recipe
    reward_field = {"correct": "correct", "finished": "readable"}.get(recipe["reward"])

    def reward(completions, answer, log_metric, **_) -> list[float]:
        texts = [messages[0]["content"] for messages in completions]
        references = [reference or "" for reference in answer]
        grades = graders.grade_all(grader, texts, references, grading_processes)
        labelled = [grade for grade, reference in zip(grades, answer) if reference is not None]
        # TRL logs the mean over processes, and each process counts only its own rollouts.
        log_metric("rollouts", len(completions) * processes)
        log_metric("prompts", len(completions) * processes / group_size)
        log_metric("answered_share", sum(grade.answered for grade in grades) / len(grades))
        log_metric("undecided_share", sum(grade.undecided for grade in grades) / len(grades))
        if labelled:
            log_metric("correct_share", sum(grade.correct for grade in labelled) / len(labelled))
        if by_group and len(grades) % group_size:
            raise UserError(
                f"majority rewards: {len(grades)} completions per process do not form whole groups of {group_size}; choose a number of GPUs that"
                " divides prompts_per_update"
            )
        groups = []
        for start in range(0, len(texts), group_size):
            group = slice(start, start + group_size)
            if by_majority or answer[start] is None:
                groups.append(signals.majority_rewards(texts[group], grader))
            else:
                groups.append([float(getattr(grade, reward_field)) for grade in grades[group]])
        if len(texts) % group_size == 0:  # otherwise groups are split between processes
            log_metric("all_right_share", sum(map(all, groups)) / len(groups))
        return [value for group in groups for value in group]

    return reward


class Watch(TrainerCallback):
    """Show progress, write the manifest of each complete checkpoint, and stop after the current
    update on SIGTERM.

    Between the scheduled checkpoints, a state is saved after an update if more than `save_seconds`,
    and more than ten times the duration of the last save, have passed since that save.
    (transformers' `enable_jit_checkpoint` saves in the middle of an update, after its random
    numbers were drawn: a run would not resume exactly.)
    """

    def __init__(
        self,
        progress: Progress,
        processes: Processes,
        checkpoint_every: int,
        save_seconds: float = math.inf,
    ):
        self.progress, self.processes, self.checkpoint_every = progress, processes, checkpoint_every
        self.save_seconds = save_seconds
        self.save_began = self.save_ended = time.monotonic()
        self.has_warned = False
        self.manifest_fields: dict = {}

    def on_train_begin(self, args, state, control, **_) -> None:
        interruption.save_first()
        self.save_began = self.save_ended = time.monotonic()

    def on_pre_optimizer_step(self, args, state, control, **_) -> None:
        """Record the largest GPU memory in use. torch does not release memory between passes, so it
        includes the peak of all passes."""
        if args.device.type == "cuda":
            free, total = torch.cuda.mem_get_info()
            self.manifest_fields["gpu_gib"] = max(
                self.manifest_fields.get("gpu_gib", 0.0), round((total - free) / 2**30, 2)
            )

    def on_step_end(self, args, state, control, **_) -> None:
        # the signal may reach processes in different updates
        if self.processes.any(interruption.stop_requested()):
            control.should_save = control.should_training_stop = True
        now = time.monotonic()
        pause = max(self.save_seconds, 10 * (self.save_ended - self.save_began))
        # The first process decides, because clocks differ between processes.
        if self.processes.any(self.processes.is_first and now - self.save_ended > pause):
            control.should_save = True
        if control.should_save:
            self.save_began = now

    def on_log(self, args, state, control, logs=None, **_) -> None:
        # TRL logs before it saves the weights of this update
        if not math.isfinite(float(logs.get("grad_norm", 0))):
            raise UserError(
                f"update {state.global_step} has a gradient norm of {logs['grad_norm']}: training has diverged; lower the recipe's learning_rate or temperature"
            )
        difference = logs.get(outputs.LOGP_DIFFERENCE) or 0
        if difference > LARGE_DIFFERENCE and not self.has_warned and self.processes.is_first:
            self.has_warned = True
            say(
                f"warning: update {state.global_step}: the log-probabilities that vLLM and the trainer give a sampled token differ by"
                f" {difference:.2f} on average (in bf16 usually by less than .05); see docs/cluster.md#check-your-gpus-the-first-hour"
            )
        if "reward" in logs:
            learnable = 1 - logs["frac_reward_zero_std"]
            self.progress.advance(1, f"reward {logs['reward']:.2f}, learnable {learnable:.2f}")
        elif "loss" in logs:  # supervised; the entry at the end of a training has neither key
            self.progress.advance(1, f"loss {logs['loss']:.3f}")

    def on_save(self, args, state, control, model, **_) -> None:
        self.processes.wait()  # each process writes the state of its random generators
        if self.processes.is_first:
            facts, folder = dict(self.manifest_fields), Path(args.output_dir)
            if state.global_step == state.max_steps and is_peft_model(model):
                facts["base_sha256"] = base_weights.checksum(model)
            checkpoint = states.checkpoint(folder, state.global_step)
            files.follow_umask(checkpoint)
            provenance.write_manifest(checkpoint, **facts)
            states.thin(folder, self.checkpoint_every)
        self.save_ended = time.monotonic()
        if self.processes.any(interruption.stop_requested()):  # SIGTERM came during the save
            control.should_training_stop = True
