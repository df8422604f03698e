"""Supervised fine-tuning on the worked solutions of the chosen prompts, with TRL's SFTTrainer. Imports torch and TRL.

A text is the prompt as probe, GRPO and test put it, the solution, and the token that ends a completion. The loss is over solution
and end token alone. The texts are tokenized here. TRL would apply the chat template to the whole conversation: some templates write
the prompt differently there, leave out the end token, or add text after it that the model is never asked for.
"""

import time
from pathlib import Path

from datasets import Dataset
from trl import SFTConfig, SFTTrainer
from typing_extensions import override  # comes with torch

from hardgrpo.data import solutions, tasks
from hardgrpo.runtime import replacements
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling import model_folders
from hardgrpo.study.spec import Spec
from hardgrpo.training import base_weights, processes, recipes


@replacements.check_overrides
class Trainer(SFTTrainer):
    """TRL's trainer, which also logs the prompts, tokens and seconds of an update."""

    began: float | None = None  # when the current update began
    trained_tokens = 0  # of the current update, over all processes

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        base_weights.train_in_float32(self.model)

    @override
    def _build_accelerator_args(self, **kwargs):
        return super()._build_accelerator_args(**kwargs) | processes.sharding(self.args.bf16)

    @override
    def training_step(self, *args, **kwargs):
        self.began = self.began or time.perf_counter()
        return super().training_step(*args, **kwargs)

    @override
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self.trained_tokens = int(num_items_in_batch)
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    @override
    def log(self, logs: dict, start_time: float | None = None) -> None:
        if "loss" in logs:  # the entry at the end of training has none
            prompts = self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
            # The names are those of GRPO's log.
            logs |= {"prompts": prompts, "rollouts": 0, "completions/mean_length": self.trained_tokens / prompts}
            logs |= {"step_time": time.perf_counter() - self.began}
            self.began = None
        super().log(logs, start_time)


def trainer(
    spec: Spec, problems: dict, chosen: list[str], tokenizer, state: Path, hardware: recipes.Hardware, track: str
) -> Trainer:
    recipe, found = spec.training, texts(spec, problems, chosen, tokenizer)
    order = recipes.schedule([i for i in chosen if i in found], recipe["updates"], recipe["prompts_per_update"], spec.seed)
    return Trainer(
        model=model_folders.load_model(spec.model_folder, **recipes.model_arguments(recipe)),
        processing_class=tokenizer,
        args=SFTConfig(**recipes.supervised_arguments(spec, str(state), hardware, track)),
        train_dataset=Dataset.from_list([found[i] for i in order]),
        peft_config=recipes.adapter_configuration(recipe),
    )


def texts(spec: Spec, problems: dict, chosen: list[str], tokenizer) -> dict[str, dict]:
    """{problem's id: tokens of its text, and a mask of those that are trained on}, for the chosen prompts.

    A solution that does not fit into the task's completion limit is left out whole: cut off, it would teach not to finish.
    """
    worked, found = solutions.read(spec.solutions), {}
    without = [i for i in chosen if i not in worked]
    long = []
    with_solution = [i for i in chosen if i in worked]
    conversations = [tasks.messages(spec.prompt, problems[identity]["question"]) for identity in with_solution]
    for identity, asked in zip(with_solution, model_folders.token_ids(tokenizer, conversations, spec.chat)):
        solution = tokenizer(worked[identity], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        if len(solution) > spec.completion_tokens:
            long.append(identity)
            continue
        found[identity] = {"input_ids": asked + solution, "completion_mask": [0] * len(asked) + [1] * len(solution)}
    for left_out, why in ((without, "have no worked solution"), (long, f"have one of more than {spec.completion_tokens} tokens")):
        if left_out:
            examples = first_entries(left_out)
            say(f"warning: {len(left_out)} of {len(chosen)} chosen prompts {why}: {printable(examples)}; they are left out")
    if not found:
        raise UserError(
            f"{spec.solutions}: none of the {len(chosen)} chosen prompts has a worked solution of at most {spec.completion_tokens}"
            " tokens; raise the task's completion_tokens or choose other prompts"
        )
    return found
