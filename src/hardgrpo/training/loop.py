"""Train one run in its state folder: build TRL's trainer, reward rollouts, save checkpoints, stop on SIGTERM. Imports torch and TRL.

`supervised.py` builds the trainer of recipes that train on worked solutions.
"""

import math
import os
import time
from pathlib import Path

import torch
from accelerate.utils import is_peft_model
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files, interruption, provenance, states
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import engines, model_folders
from hardgrpo.sampling.requests import Request
from hardgrpo.selection import signals
from hardgrpo.study import paths, settings
from hardgrpo.study.spec import Spec
from hardgrpo.training import base_weights, outputs, recipes, supervised
from hardgrpo.training.processes import Processes
from hardgrpo.training.trainer import Trainer

LARGE_DIFFERENCE = 0.1  # mean difference of log-probabilities, in nats, above which a run warns


def train(
    spec: Spec,
    problems: dict,
    chosen: list[str],
    state: Path,
    resume_from: int,
    hardware: recipes.Hardware,
    track: str,
    processes: Processes,
    save_minutes: float = 10,
) -> None:
    """Train a run to its last update, from checkpoint `resume_from` in the folder `state`, or from the base model if that is 0. Beside the
    scheduled checkpoints a state is saved every `save_minutes`."""
    engines.fix_threads()
    recipe = spec.training
    tokenizer = model_folders.load_tokenizer(spec.model_folder)
    engines.check_chat_template(tokenizer, spec.model_folder)
    engines.end_tokens(spec.model_folder, tokenizer)  # raises an error if there is none
    engines.ensure_padding(tokenizer)
    # A subset that another model's probe or nobody's probe chose may have prompts that are too long for this model.
    requests = [Request(tuple(tasks.messages(spec.prompt, problems[name]["question"])), spec.seed, 1.0) for name in chosen]
    prompts = engines.tokenize(tokenizer, requests, spec.chat)
    engines.check_context(spec.model_folder, prompts, spec.completion_tokens, chosen)
    tracking = paths.tracking(spec.model, spec.task, spec.recipe, spec.policy, spec.seed)
    os.environ.setdefault("TENSORBOARD_LOGGING_DIR", tracking)
    make = supervised.trainer if settings.is_supervised(recipe) else grpo_trainer
    trainer = make(spec, problems, chosen, tokenizer, state, hardware, track)
    trainer.remove_callback(PrinterCallback)
    if processes.state is not None and processes.first:
        held = "sharded over them (FSDP2)" if trainer.is_fsdp_enabled else "held by each"
        say(f"{hardware.processes} processes, all weights {held}")
    if hardware.gpus > 1 and not recipe.get("adapter") and not trainer.is_fsdp_enabled:
        raise UserError("all weights must be sharded over several GPUs, but accelerate does not do it; see the log above")
    title = f"train {spec.model}/{spec.task}/{spec.policy}/seed{spec.seed}"
    with Progress(title, recipe["updates"], "updates", start=resume_from, shown=processes.first) as progress:
        trainer.add_callback(Watch(progress, processes, recipe["checkpoint_every"], recipes.arithmetic(recipe), 60 * save_minutes))
        trainer.train(resume_from_checkpoint=str(states.checkpoint(state, resume_from)) if resume_from else None)
    interruption.stop_at_once()


def grpo_trainer(
    spec: Spec, problems: dict, chosen: list[str], tokenizer, state: Path, hardware: recipes.Hardware, track: str
) -> Trainer:
    recipe = spec.training
    if recipe["generation"] == "vllm":
        from hardgrpo.sampling import vllm_engine

        vllm_engine.prepare_for_training()
    rest = rest_of_pool(spec, set(chosen))
    order = recipes.schedule_with_rest(chosen, list(rest), recipe, spec.seed)
    asked = {i: problems[i] for i in chosen} | rest
    pool = {i: {"prompt": tasks.messages(spec.prompt, one["question"]), "answer": one.get("answer")} for i, one in asked.items()}
    context = longest_prompt(tokenizer, list(pool.values()), spec.chat) + spec.completion_tokens
    model = model_folders.load_model(spec.model_folder, **recipes.model_arguments(recipe))
    # TRL and vLLM do not read config.json's; probe and evaluation end a completion there, too.
    ends = engines.end_tokens(spec.model_folder, tokenizer)
    model.generation_config.eos_token_id = ends if len(ends) > 1 else ends[0]
    trainer_arguments = recipes.trainer_arguments(spec, str(state), hardware, context, track)
    if recipe["generation"] == "vllm":
        trainer_arguments["generation_kwargs"] = {"stop_token_ids": ends}
    arguments = {
        "model": model,
        "processing_class": tokenizer,
        "reward_funcs": reward_function(spec.grader, recipe, hardware.processes),
        "args": GRPOConfig(**trainer_arguments),
        "peft_config": recipes.adapter_configuration(recipe),
        "corrects": bool(recipe.get("importance_correction")),
    }
    if not settings.is_online(recipe):
        return Trainer(**arguments, train_dataset=Dataset.from_list([pool[i] for i in order]))
    from hardgrpo.training import online_trainer

    # A selector chooses the prompts itself: the dataset only says how many rows a sampling step takes.
    rows = Dataset.from_list([{"id": i} | pool[i] for i in order])
    return online_trainer.trainer(spec, problems, pool, hardware, arguments | {"train_dataset": rows})


def rest_of_pool(spec: Spec, chosen: set[str]) -> dict[str, dict]:
    """The questions that were not chosen, by id and without answers, where the recipe trains on them, too."""
    if spec.questions is None:
        return {}
    rows = files.read_jsonl(spec.questions, {"id": str, "question": str})
    return {row["id"]: {"question": row["question"]} for row in rows if row["id"] not in chosen}


def longest_prompt(tokenizer, rows: list[dict], chat: dict) -> int:
    """Tokens of the longest prompt of a run, chat template included."""
    questions = {row["prompt"][0]["content"]: row["prompt"] for row in rows}
    return max(map(len, model_folders.token_ids(tokenizer, list(questions.values()), chat)))


def reward_function(grader: str, recipe: dict, processes: int):
    """A function that rewards a completion with 1 or 0, by the grader that probe and evaluation use.

    `reward: correct` rewards a correct completion. `reward: finished`, the control, rewards any answer that the grader can read.
    `reward: majority` needs no label: it rewards the answer that most completions of the group give (`signals.majority`). Reference
    answers, where there are some, are then only compared for the log. Prompts without a reference answer, of a recipe with a
    majority_share, are rewarded in this way, too.
    """
    size, by_majority = recipe["group_size"], recipe["reward"] == "majority"
    by_group = by_majority or settings.majority_share(recipe) > 0
    rewarded = {"correct": "correct", "finished": "readable", "majority": None}[recipe["reward"]]

    def reward(completions, answer, log_metric, **_) -> list[float]:
        texts = [messages[0]["content"] for messages in completions]
        grades = [graders.grade(grader, text, a or "") for text, a in zip(texts, answer)]
        known = [grade for grade, a in zip(grades, answer) if a is not None]
        # Each process sees its share of the rollouts, and TRL logs the mean over processes.
        log_metric("rollouts", len(completions) * processes)
        log_metric("prompts", len(completions) * processes / recipe["group_size"])
        log_metric("answered_share", sum(grade.answered for grade in grades) / len(grades))
        log_metric("undecided_share", sum(grade.undecided for grade in grades) / len(grades))
        if known:
            log_metric("correct_share", sum(grade.correct for grade in known) / len(known))
        if by_group and len(grades) % size:
            raise UserError(
                f"rewards by the majority: {len(grades)} completions a process share groups of {size}; choose a number of GPUs that"
                " divides prompts_per_update"
            )
        rewards = []
        for first in range(0, len(texts), size):
            group = slice(first, first + size)
            if by_majority or answer[first] is None:
                rewards += signals.majority(texts[group], grader)
            else:
                rewards += [float(getattr(grade, rewarded)) for grade in grades[group]]
        if len(rewards) % size == 0:  # otherwise processes share groups, and none sees whether a group is all right
            groups = [rewards[start : start + size] for start in range(0, len(rewards), size)]
            log_metric("all_right_share", sum(all(group) for group in groups) / len(groups))
        return rewards

    return reward


class Watch(TrainerCallback):
    """Show progress, write a checkpoint's manifest once all its files are there, and stop after an update on SIGTERM.

    A state is also saved `save_seconds` after the last one, for kills that come without SIGTERM or too soon after it. If a save takes
    long, the next one waits ten times as long, so that saving takes at most a tenth of the time.

    transformers' own `enable_jit_checkpoint` is no substitute: it saves in the middle of an update, after the update's random
    numbers were drawn, so a resumed run would differ from an uninterrupted one.
    """

    def __init__(
        self,
        progress: Progress,
        processes: Processes,
        checkpoint_every: int,
        arithmetic: str | None = None,
        save_seconds: float = math.inf,
    ):
        self.progress, self.processes, self.checkpoint_every = progress, processes, checkpoint_every
        self.save_seconds = save_seconds
        self.save_began = self.save_ended = time.monotonic()
        self.has_warned = False
        self.facts: dict = {"arithmetic": arithmetic} if arithmetic else {}  # of a checkpoint, for its manifest

    def on_train_begin(self, args, state, control, **_) -> None:
        interruption.save_first()
        self.save_began = self.save_ended = time.monotonic()

    def on_pre_optimizer_step(self, args, state, control, **_) -> None:
        """Note how much of the GPU is used after an update's last backward pass: torch keeps what the passes took."""
        if args.device.type == "cuda":
            free, total = torch.cuda.mem_get_info()
            self.facts["gpu_gib"] = max(self.facts.get("gpu_gib", 0.0), round((total - free) / 2**30, 2))

    def on_step_end(self, args, state, control, **_) -> None:
        if self.processes.any(interruption.asked()):  # the signal may reach the processes in different updates
            control.should_save = control.should_training_stop = True
        now, pause = time.monotonic(), max(self.save_seconds, 10 * (self.save_ended - self.save_began))
        # The first process decides, because the clocks of the processes differ.
        if self.processes.any(self.processes.first and now - self.save_ended > pause):
            control.should_save = True
        if control.should_save:
            self.save_began = now

    def on_log(self, args, state, control, logs=None, **_) -> None:
        if not math.isfinite(float(logs.get("grad_norm", 0))):  # before the weights of this update are saved
            raise UserError(
                f"update {state.global_step} has a gradient of {logs['grad_norm']}: training has diverged; lower the recipe's learning_rate,"
                " or its temperature, and run again"
            )
        difference = logs.get(outputs.LOGP_DIFFERENCE, 0)
        if difference > LARGE_DIFFERENCE and not self.has_warned and self.processes.first:
            self.has_warned = True
            say(
                f"warning: update {state.global_step}: the log-probabilities that vLLM and the trainer give a sampled token differ by"
                f" {difference:.2f} on average (in bf16 usually by less than .05), so that rollouts are not the trained model's: see"
                " docs/gpus.md"
            )
        if "reward" in logs:
            self.progress.advance(1, f"reward {logs['reward']:.2f}, learnable {1 - logs['frac_reward_zero_std']:.2f}")
        elif "loss" in logs:  # on worked solutions; the entry at the end of training has neither
            self.progress.advance(1, f"loss {logs['loss']:.3f}")

    def on_save(self, args, state, control, model, **_) -> None:
        self.processes.wait()  # each process writes its random numbers
        if self.processes.first:
            facts = dict(self.facts)
            if state.global_step == state.max_steps and is_peft_model(model):
                facts["base_sha256"] = base_weights.checksum(model)
            provenance.write_manifest(states.checkpoint(Path(args.output_dir), state.global_step), **facts)
            states.thin(Path(args.output_dir), self.checkpoint_every)
        self.save_ended = time.monotonic()
        if self.processes.any(interruption.asked()):  # SIGTERM came during the save
            control.should_training_stop = True
