"""Supervised fine-tuning on the worked solutions of the chosen prompts, with TRL's SFTTrainer.
Imports torch and TRL.

A training text consists of the prompt, formatted as in the probe, the solution and the end token;
the loss covers solution and end token. The texts are tokenized here, because TRL would apply the
chat template to the whole conversation: some templates would then change the prompt, omit the end
token, or add text after it.
"""

import time

from datasets import Dataset
from trl import SFTConfig, SFTTrainer
from typing_extensions import override  # comes with torch

from hardgrpo.data import solutions, tasks
from hardgrpo.runtime import replacements
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling import engines, model_folders
from hardgrpo.study.spec import Spec
from hardgrpo.training import processes, recipes


@processes.sum_in_float32
@replacements.check_overrides
class Trainer(SFTTrainer):
    """TRL's SFTTrainer, with the prompts, tokens and seconds of each update in the log."""

    start_seconds: float | None = None  # start of the current update, by time.perf_counter()
    trained_tokens = 0  # tokens in the loss of the current update, over all processes

    @override
    def training_step(self, *args, **kwargs):
        self.start_seconds = self.start_seconds or time.perf_counter()
        return super().training_step(*args, **kwargs)

    @override
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self.trained_tokens = int(num_items_in_batch)
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    @override
    def log(self, logs: dict, start_time: float | None = None) -> None:
        if "loss" in logs:  # the entry at the end of training has no loss
            prompts = (
                self.args.per_device_train_batch_size
                * self.args.gradient_accumulation_steps
                * self.args.world_size
            )
            # the same keys as in the log of GRPO
            logs |= {
                "prompts": prompts,
                "rollouts": 0,
                "completions/mean_length": self.trained_tokens / prompts,
                "step_time": time.perf_counter() - self.start_seconds,
            }
            self.start_seconds = None
        super().log(logs, start_time)


def build_trainer(run: recipes.Run, tokenizer) -> Trainer:
    """The trainer of an SFT recipe."""
    spec, recipe = run.spec, run.spec.training
    rows = tokenize_solutions(spec, run.problems, run.subset, tokenizer)
    trainable = [prompt for prompt in run.subset if prompt in rows]
    schedule = recipes.schedule(
        trainable, recipe["updates"], recipe["prompts_per_update"], spec.seed
    )
    model = model_folders.load_model(spec.model_folder, **recipes.model_arguments(recipe))
    longest = max(len(row["input_ids"]) for row in rows.values())
    hardware = recipes.without_gpus(run.hardware, model.config, recipe, longest)
    return Trainer(
        model=model,
        processing_class=tokenizer,
        args=SFTConfig(**recipes.supervised_arguments(spec, str(run.state), hardware, run.track)),
        train_dataset=Dataset.from_list([rows[prompt] for prompt in schedule]),
        peft_config=recipes.adapter_configuration(recipe),
    )


def tokenize_solutions(spec: Spec, problems: dict, subset: list[str], tokenizer) -> dict[str, dict]:
    """Rows of the training dataset by problem id: `input_ids` of prompt and solution, and
    `completion_mask` (1: in the loss). Prompts without a solution, or with one beyond the
    completion limit (truncated solutions would teach the model not to finish), have no row. Raise a
    `UserError` if there is no row."""
    solution_texts, limit = solutions.read(spec.solutions), spec.completion_tokens
    rows, too_long = {}, []
    end_token = tokenizer.eos_token_id
    if end_token is None:
        end_token = engines.end_tokens(spec.model_folder, tokenizer)[0]
    solved = [prompt for prompt in subset if prompt in solution_texts]
    unsolved = [prompt for prompt in subset if prompt not in solution_texts]
    conversations = [tasks.messages(spec.prompt, problems[prompt]["question"]) for prompt in solved]
    prompt_ids_list = model_folders.token_ids(tokenizer, conversations, spec.chat)
    for prompt, prompt_ids in zip(solved, prompt_ids_list):
        solution_ids = tokenizer(solution_texts[prompt], add_special_tokens=False)["input_ids"]
        solution_ids = [*solution_ids, end_token]
        if len(solution_ids) > limit:
            too_long.append(prompt)
            continue
        rows[prompt] = {
            "input_ids": prompt_ids + solution_ids,
            "completion_mask": [0] * len(prompt_ids) + [1] * len(solution_ids),
        }
    for prompts, reason in (
        (unsolved, "have no worked solution"),
        (too_long, f"have a worked solution of more than {limit} tokens"),
    ):
        if prompts:
            examples = printable(first_entries(prompts))
            say(
                f"warning: {len(prompts)} of {len(subset)} chosen prompts {reason}: {examples}; these prompts are left out"
            )
    if not rows:
        raise UserError(
            f"{spec.solutions}: none of the {len(subset)} chosen prompts has a worked solution of at most {limit}"
            " tokens; raise the task's completion_tokens or choose other prompts"
        )
    return rows
