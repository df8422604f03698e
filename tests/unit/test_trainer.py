"""This project's trainer gives the same completions, log and weights as TRL's trainer."""

from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from test_recipes import SPEC
from transformers import AutoModelForCausalLM, TrainerCallback

import small_model
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import engines
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes
from hardgrpo.training.loop import Watch

pytestmark = pytest.mark.slow

WORDS = ["red", "blue", "green", "white"]
CLOCK = {"step_time", "epoch"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """An untrained model and its tokenizer; several tokens end a completion, so that completions
    differ in length."""
    engines.configure_torch()
    folder = tmp_path_factory.mktemp("tiny")
    model, tokenizer = small_model.build()
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(20, 30)]
    model.save_pretrained(folder)
    return folder, tokenizer


def rows() -> dict[str, dict]:
    return {
        f"q{k}": {"prompt": [{"role": "user", "content": " ".join(WORDS[: k + 1])}]}
        for k in range(4)
    }


class Training:
    """A short training by a trainer class: its log, completions, gradients by update, weights, and
    the number of rows in each forward pass with gradients."""

    def __init__(self, kind, tiny, folder, reward, micro_batch=None, updates=3, **changes):
        from trl import GRPOConfig

        model, tokenizer = (
            AutoModelForCausalLM.from_pretrained(tiny[0], dtype=torch.float32),
            tiny[1],
        )
        recipe = SPEC.training | {
            "updates": updates,
            "checkpoint_every": updates,
            "prompts_per_update": 4,
            "group_size": 4,
        }
        recipe |= {"learning_rate": 5e-3, "warmup_share": 0.0} | changes
        spec = Spec(**{**vars(SPEC), "training": recipe, "completion_tokens": 12})
        arguments = recipes.trainer_arguments(
            spec, str(folder), recipes.Hardware(0, 1, micro_batch)
        ) | {"save_strategy": "no"}
        questions = [{"id": f"q{k % 4}"} | rows()[f"q{k % 4}"] for k in range(4 * updates)]
        self.gradients, self.completions, self.passes = [], [], []
        trainer = kind(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            args=GRPOConfig(**arguments),
            train_dataset=Dataset.from_list(questions),
            peft_config=recipes.adapter_configuration(recipe),
            callbacks=[self.watch()],
        )
        sample = trainer._generate_single_turn

        def watched(*arguments, **options):
            self.completions.append((sampled := sample(*arguments, **options))[0])
            return sampled

        def count(module, positional, options):
            if torch.is_grad_enabled():
                self.passes.append(len(options["input_ids"]))

        trainer._generate_single_turn = watched
        model.register_forward_pre_hook(count, with_kwargs=True)
        self.trainer = trainer
        trainer.train()
        self.log = [
            {key: value for key, value in entry.items() if key not in CLOCK}
            for entry in trainer.state.log_history[:-1]
        ]
        self.weights = [weights.detach().clone() for weights in model.parameters()]

    def watch(self) -> TrainerCallback:
        gradients = self.gradients

        class Watch(TrainerCallback):
            def on_pre_optimizer_step(self, *arguments, model, **_) -> None:
                gradients.append([w.grad.clone() for w in model.parameters() if w.grad is not None])

        return Watch()


@pytest.fixture
def both(tiny, tmp_path):
    from trl import GRPOTrainer

    from hardgrpo.training.trainer import Trainer

    return lambda *arguments, **options: [
        Training(kind, tiny, tmp_path, *arguments, **options) for kind in (GRPOTrainer, Trainer)
    ]


def same(tensors: list[torch.Tensor], other_tensors: list[torch.Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(tensors, other_tensors, strict=True))


def long(completions, **_):
    return [float(len(messages[0]["content"].split()) > 4) for messages in completions]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"beta": 0.04},
        {"precision": "bf16"},
        {"adapter": {"rank": 4, "alpha": 8, "dropout": 0.0}, "precision": "bf16"},
        {"adapter": {"rank": 4, "alpha": 8, "dropout": 0.1}},
        {"loss": "bnpo", "advantage": "standardised", "temperature": 0.7},
        {"loss": "cispo", "epsilon_high": 5.0},
        {"loss": "grpo", "ratio": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
    ],
    ids=str,
)
def test_an_update_without_micro_batches_equals_that_of_trl(both, changes):
    trl, project = both(long, **changes)
    assert (
        project.completions == trl.completions
        and len({len(ids) for ids in project.completions[0]}) > 4
    )
    assert (
        project.log == trl.log
        and len(project.log) == 3
        and all(entry["grad_norm"] for entry in project.log)
    )
    assert same(project.weights, trl.weights)


@pytest.mark.parametrize("gradient", [float("nan"), float("inf")])
def test_a_gradient_of_nan_or_infinity_ends_the_run_before_a_checkpoint_is_saved(gradient):
    with pytest.raises(
        UserError,
        match="update 3 has a gradient norm of .* training has diverged; lower the recipe's learning_rate",
    ):
        Watch(None, None, 1).on_log(
            None, SimpleNamespace(global_step=3), None, logs={"reward": 0.5, "grad_norm": gradient}
        )
