"""Pretrain a small Qwen3 model from scratch on demonstrations with mistakes."""

import itertools
import math
import random
from collections.abc import Collection

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from hardgrpo.data import generated, tasks
from hardgrpo.runtime import exact_products
from hardgrpo.runtime.progress import Progress

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}{% if add_generation_prompt %} Answer:{% endif %}"
# number of batches whose rows are drawn together and sorted by length, to save padding
BUCKET_BATCHES = 16


def build_tokenizer(families: Collection[str] = ()) -> PreTrainedTokenizerFast:
    """A tokenizer with a token for each word, sign and digit of swaps and arithmetic, and of facts
    if `families` has facts; decoding restores the exact text."""
    words = [f"\u2581{word}" for word in generated.vocabulary(families)] + list(".,?:")
    digits = [f"{space}{digit}" for space in ("", "\u2581") for digit in range(10)]
    vocabulary = list(dict.fromkeys(["<pad>", "<eos>", "<unk>", *words, *digits]))
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<unk>")
    )
    pieces = Regex("\u2581?####|\u2581?[0-9]|\u2581?[A-Za-z]+|\u2581?[^A-Za-z0-9\u2581]")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Split(pieces, "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    fast_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    fast_tokenizer.chat_template = CHAT_TEMPLATE
    return fast_tokenizer


def build_model(settings: dict, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 model with random weights. `settings` is a return value of
    `hardgrpo.workflow.arguments.Arguments.pretraining`."""
    torch.manual_seed(settings["seed"])
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=settings["hidden_size"],
            intermediate_size=settings["intermediate_size"],
            num_hidden_layers=settings["layers"],
            num_attention_heads=settings["heads"],
            num_key_value_heads=settings["key_value_heads"],
            head_dim=settings["head_size"],
            max_position_embeddings=settings["context_tokens"],
            tie_word_embeddings=True,
            rope_theta=settings["rotary_base"],
            # With the default 0.02, the narrow models of the miniature learn later.
            initializer_range=settings["hidden_size"] ** -0.5,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            **exact_products.model_arguments(),
        )
    )


def train(model_name: str, settings: dict, batches, model: Qwen3ForCausalLM) -> float:
    """Train on the batches of `draw_batches` by cross-entropy. Return the loss of the last step, in
    nats per token."""
    matrices, vectors = [], []  # for Muon, and for AdamW, which also trains the embeddings
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name
        (matrices if is_matrix else vectors).append(parameter)
    optimizers = [
        torch.optim.AdamW(
            vectors, lr=settings["learning_rate"], betas=(0.9, 0.98), weight_decay=0.0, fused=True
        ),
        Muon(matrices, lr=settings["matrix_learning_rate"], momentum=0.95),
    ]
    steps = settings["steps"]
    # Warm-up over the first tenth of the steps, then constant, then linear decay to 3 % over the
    # last 45 %.
    learning_rate_factor = lambda step: min(
        1, (step + 1) / (0.1 * steps), max(0.03, (steps - step) / (0.45 * steps))
    )
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor)
        for optimizer in optimizers
    ]
    with Progress(f"pretrain {model_name}", steps, "steps") as progress:
        for batch in itertools.islice(batches, steps):
            loss = batch_loss(model, batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer, schedule in zip(optimizers, schedules):
                optimizer.step()
                schedule.step()
            model.zero_grad()
            progress.advance(1, f"loss {loss.item():.3f}")
    return loss.item()


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon's update (Nesterov momentum, no weight decay), in float32 and for all
    matrices of a shape at once: bfloat16, which many CPUs emulate, took two thirds of a step."""

    def __init__(self, parameters, lr: float, momentum: float):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            by_shape: dict[tuple, list] = {}
            for parameter in group["params"]:
                average = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
                average.lerp_(parameter.grad, 1 - group["momentum"])
                by_shape.setdefault(tuple(parameter.shape), []).append(
                    (parameter, parameter.grad.lerp(average, group["momentum"]))
                )
            for (rows, columns), members in by_shape.items():
                updates = orthogonalise(torch.stack([update for _, update in members]))
                for (parameter, _), update in zip(members, updates):
                    parameter.add_(update, alpha=-group["lr"] * math.sqrt(max(1, rows / columns)))


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """Make matrices (n, rows, columns) nearly semi-orthogonal: five Newton-Schulz steps with
    torch.optim.Muon's coefficients."""
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if is_tall else x


def draw_batches(settings: dict, excluded: set, tokenizer):
    """Yield batches without end. A batch is a list of (prompt token ids, completion token ids) with
    similar total lengths. Questions in `excluded` are left out."""
    rng = random.Random(f"demonstrations:{settings['seed']}")
    names = list(settings["demonstrations"])
    for start in itertools.count(step=BUCKET_BATCHES):
        shares = [
            share_at(settings["demonstrations"][name]["share"], start / settings["steps"])
            for name in names
        ]
        prompts, solutions = [], []
        while len(prompts) < BUCKET_BATCHES * settings["batch_size"]:
            demonstration = settings["demonstrations"][rng.choices(names, shares)[0]]
            family = demonstration["source"]["family"]
            chain = tasks.FAMILIES[family](
                rng, demonstration["source"] | {"length": demonstration.get("length")}
            )
            if chain.question not in excluded:
                prompts.append(tasks.messages(demonstration["prompt"], chain.question))
                solution = demonstrate(chain, rng, demonstration, settings["seed"])
                solutions.append(f" {solution}{tokenizer.eos_token}")
        texts = tokenizer.apply_chat_template(prompts, add_generation_prompt=True, tokenize=False)
        rows = list(zip(tokenizer(texts)["input_ids"], tokenizer(solutions)["input_ids"]))
        rows.sort(key=lambda row: len(row[0]) + len(row[1]))
        size = settings["batch_size"]
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        rng.shuffle(batches)
        yield from batches


def demonstrate(chain: generated.Chain, rng: random.Random, demonstration: dict, seed: int) -> str:
    """A demonstration of a problem, possibly with mistakes; `seed` is that of the pretraining."""
    family = demonstration["source"]["family"]
    if family == "facts":
        return generated.demonstrate_fact(
            chain, rng, seed, demonstration["known"], demonstration["misconception"]
        )
    options = {
        name: demonstration[name] for name in ("restated", "misconception") if name in demonstration
    }
    return generated.DEMONSTRATE[family](chain, rng, demonstration["slip"], **options)


def share_at(share: dict, progress: float) -> float:
    """Share of a task among the demonstrations at `progress` (0..1) of training: from `first` to
    `last` during the second quarter. With equal shares of two tasks, a model learned neither."""
    ramp = min(1.0, max(0.0, 4 * progress - 1))
    return share["first"] + (share["last"] - share["first"]) * ramp


def batch_loss(model, rows: list) -> torch.Tensor:
    """Mean cross-entropy of the completion tokens, in nats."""
    inputs = [torch.tensor(prompt + completion) for prompt, completion in rows]
    labels = [torch.tensor([-100] * len(prompt) + completion) for prompt, completion in rows]
    inputs = pad_sequence(inputs, batch_first=True)
    labels = pad_sequence(labels, batch_first=True, padding_value=-100)
    # Padding is on the right and attention is causal, so no mask is needed.
    logits = model(input_ids=inputs, use_cache=False).logits[:, :-1]
    has_label = labels[:, 1:] != -100
    return torch.nn.functional.cross_entropy(logits[has_label], labels[:, 1:][has_label])
