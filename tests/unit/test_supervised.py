"""Training on worked solutions: accepted configurations, the trainer's arguments, and the tokens in
the loss."""

import copy
import dataclasses
import json

import pytest
import torch
import yaml
from test_recipes import CONFIG, RECIPE, SPEC

import small_model
from hardgrpo.data import generated, solutions, tasks
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import engines
from hardgrpo.sampling.requests import Request
from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.recipe import GRPO_KEYS
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run
from hardgrpo.study.task import Task
from hardgrpo.training import recipes

SFT = {key: value for key, value in RECIPE.items() if key not in GRPO_KEYS} | {"objective": "sft"}
SFT |= {
    "updates": 3,
    "prompts_per_update": 4,
    "checkpoint_every": 3,
    "warmup_share": 0.0,
    "learning_rate": 5e-3,
}
SOURCE = {
    "kind": "generated",
    "family": "swaps",
    "objects": [3],
    "length": [1, 2, 3],
    "seed": 1,
    "train": 12,
    "test": 2,
}


# --- the configuration


def spec_of(recipe: str) -> Spec:
    checked = Configuration.of(CONFIG)
    return Spec.of_run(
        Run("tiny", "swaps", recipe, "hard", 0, "tiny-seed0"),
        model=checked.models["tiny"],
        task=checked.tasks["swaps"],
        recipe=checked.recipes[recipe],
        policy=checked.policies["hard"],
    )


def test_worked_solutions_are_part_of_the_specification_and_the_hash(tmp_path):
    fields = spec_of("mini_sft").fields()
    assert fields["solutions"] == "results/tasks/swaps/solutions.jsonl"
    spec = Spec(**fields)
    assert spec.digest() != dataclasses.replace(spec, solutions="others.jsonl").digest()
    (tmp_path / "spec.yaml").write_text(
        yaml.safe_dump({key: value for key, value in fields.items() if key != "solutions"})
    )
    with pytest.raises(UserError, match="'solutions' is missing"):
        Spec.read(str(tmp_path / "spec.yaml"))


def test_the_name_of_the_column_with_solutions_is_no_part_of_the_source_of_the_problems():
    task = {"source": {"kind": "files", "train": "mine.csv", "columns": {"solution": "worked"}}}
    task = Task.of(CONFIG["tasks"]["gsm8k"] | task)
    assert task.has_solutions
    assert task.source_of_split("train") == {"kind": "files", "train": "mine.csv"}
    assert task.source_of_split("train", with_solutions=True)["columns"] == {"solution": "worked"}


# --- the solutions

ROWS = {
    "gsm8k": {"question": "How many?", "answer": "Half is 48/2 = <<48/2=24>>24.\nAll: 24*50=<<24*50=1200>>1,200.\n#### 1,200"},
    "math": {"problem": "What?", "solution": "It is $\\boxed{\\frac{1}{2}}$, as \\boxed{}.".replace(", as \\boxed{}", ""), "level": "Level 2"},
    "columns": {"question": "What?", "answer": "4", "worked": " 2 + 2 = 4. \\boxed{4}\n"},
}  # fmt: skip


def worked_solutions(
    tmp_path, format: str, grader: str, rows: list[dict] | None = None
) -> list[tuple[dict, str]]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows or [ROWS[format]]))
    source = {"kind": "hub", "format": format, "train": [{"dataset": "a/b", "file": "train.jsonl"}]}
    if format == "columns":
        source["columns"] = {"solution": "worked"}
    return solutions.worked_solutions("t", source, [str(path)], grader)


@pytest.mark.parametrize(
    ("format", "grader", "expected"),
    [
        (
            "gsm8k",
            "number_strict",
            "Half is 48/2 = 24.\nAll: 24*50=1,200.\nThe answer is \\boxed{1200}.",
        ),
        ("gsm8k", "final_number", "Half is 48/2 = 24.\nAll: 24*50=1,200.\n#### 1200"),
        ("math", "math", "It is $\\boxed{\\frac{1}{2}}$."),
        ("columns", "number_strict", "2 + 2 = 4. \\boxed{4}"),
    ],
)
def test_a_row_of_each_format_has_its_worked_solution_in_the_form_that_the_grader_reads(
    tmp_path, format, grader, expected
):
    solved = worked_solutions(tmp_path, format, grader)
    assert [text for _, text in solved] == [expected]
    assert solutions.correct_solutions(solved, grader, "t") == [
        {"id": "b-train-0000", "solution": expected}
    ]


def test_a_row_without_a_solution_is_reported(tmp_path):
    with pytest.raises(
        UserError,
        match=r"rows.jsonl: row 2: no worked solution in column 'worked'; add the solution",
    ):
        worked_solutions(
            tmp_path,
            "columns",
            "number_strict",
            [ROWS["columns"], {"question": "And?", "answer": "5", "worked": " "}],
        )
    with pytest.raises(UserError, match=r"row 1: no worked solution in column 'solution'"):
        worked_solutions(
            tmp_path, "math", "math", [{"problem": "What?", "answer": "4", "level": 1}]
        )
    with pytest.raises(UserError, match="task t: its source has no worked solutions"):
        worked_solutions(
            tmp_path, "choices", "choice_letter", [{"input": "(A) a\n(B) b", "target": "(A)"}]
        )


def test_wrong_solutions_are_reported_and_left_out_and_many_are_an_error(tmp_path, capsys):
    good, bad = (
        {"question": f"{text}?", "answer": "4", "worked": text}
        for text in ("so \\boxed{4}", "so \\boxed{5}")
    )
    rows = [good | {"question": f"{number}?"} for number in range(199)]
    correct = solutions.correct_solutions(
        worked_solutions(tmp_path, "columns", "number_strict", [bad, *rows]),
        "number_strict",
        "task t, train",
    )
    assert len(correct) == 199 and correct[0]["id"] == "b-train-0001"
    assert (
        "rejects the worked solutions of 1 of 200 problems: 'b-train-0000' (4); these solutions are left out"
        in capsys.readouterr().out
    )
    with pytest.raises(UserError, match="of 1 of 3 problems: .*choose another grader"):
        solutions.correct_solutions(
            worked_solutions(tmp_path, "columns", "number_strict", [bad, *rows[:2]]),
            "number_strict",
            "t",
        )


@pytest.mark.parametrize(
    "family, grader", [("swaps", "final_word"), ("arithmetic", "final_number")]
)
def test_a_generated_problem_has_the_shortest_of_its_right_solutions(family, grader):
    solved = solutions.worked_solutions("t", SOURCE | {"family": family}, [], grader)
    problems, _ = tasks.prepare("t", SOURCE | {"family": family}, "train", [])
    assert [problem for problem, _ in solved] == problems
    assert len(solutions.correct_solutions(solved, grader, "t")) == 12
    for problem, text in solved:
        all_solutions = generated.solutions(family, problem["question"])
        assert text in all_solutions and len(text) == min(map(len, all_solutions))
        assert "has" not in text.split(), "the solution must not restate who holds what"


# --- the trainer


def test_every_argument_that_sft_adds_is_set_or_listed_as_not_set(tmp_path):
    """Every argument of SFTConfig that transformers' TrainingArguments lacks is set explicitly, or
    listed here with the reason why it is not set."""
    from transformers import TrainingArguments
    from trl import SFTConfig

    spec = dataclasses.replace(SPEC, training=SFT, solutions="solutions.jsonl")
    stated = recipes.supervised_arguments(spec, str(tmp_path), recipes.Hardware(0, 1, 2))
    fields_of_sft = {field.name for field in dataclasses.fields(SFTConfig)} - {
        field.name for field in dataclasses.fields(TrainingArguments)
    }
    unset_arguments = {
        # the model is loaded with recipes.model_arguments, before the trainer is made
        "model_init_kwargs", "trust_remote_code",
        "router_aux_loss_coef",  # only for mixtures of experts
        # only for texts that TRL tokenizes and truncates
        "dataset_text_field", "dataset_kwargs", "dataset_num_proc", "truncation_mode",
        "packing_strategy", "eval_packing", "pad_token",
    }  # fmt: skip
    assert fields_of_sft - set(stated) - unset_arguments == set()
    config = SFTConfig(**stated)
    assert (
        config.per_device_train_batch_size,
        config.gradient_accumulation_steps,
        config.max_steps,
    ) == (2, 2, 3)
    assert (
        config.completion_only_loss
        and not config.packing
        and config.train_sampling_strategy == "sequential"
    )
    common = {
        "optim",
        "learning_rate",
        "lr_scheduler_type",
        "weight_decay",
        "adam_beta2",
        "max_grad_norm",
        "bf16",
        "seed",
        "warmup_steps",
    }
    grpo = recipes.trainer_arguments(dataclasses.replace(SPEC, training=RECIPE | SFT), "out")
    assert {key: stated[key] for key in common} == {key: grpo[key] for key in common}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(specification of a run on worked solutions, {id: problem}, {id: worked solution},
    tokenizer). The model has the miniature's tokenizer and untrained weights."""
    engines.configure_torch()
    folder = tmp_path_factory.mktemp("sft")
    model, tokenizer = small_model.build(context_tokens=192)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    solved = solutions.worked_solutions("t", SOURCE, [], "final_word")
    rows = solutions.correct_solutions(solved, "final_word", "t")
    (folder / "solutions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = dataclasses.replace(
        SPEC,
        training=SFT,
        model_folder=str(folder / "model"),
        solutions=str(folder / "solutions.jsonl"),
        completion_tokens=56,
    )
    return (
        spec,
        {problem["id"]: problem for problem, _ in solved},
        {row["id"]: row["solution"] for row in rows},
        tokenizer,
    )


def test_a_training_text_is_the_prompt_of_the_probe_then_the_solution_then_the_end_token(world):
    from hardgrpo.training import supervised

    spec, problems, worked, tokenizer = world
    texts = supervised.tokenize_solutions(spec, problems, list(problems), tokenizer)
    assert set(texts) == set(problems)
    for problem_id, text in texts.items():
        messages = tuple(tasks.messages(spec.prompt, problems[problem_id]["question"]))
        (prompt,) = engines.tokenize(tokenizer, [Request(messages, 0, 1.0)], spec.chat)
        solution = tokenizer(worked[problem_id], add_special_tokens=False)["input_ids"]
        assert text["input_ids"] == [*prompt, *solution, tokenizer.eos_token_id]
        assert text["completion_mask"] == [0] * len(prompt) + [1] * (len(solution) + 1)
        demonstration = tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=False
        )
        assert (
            text["input_ids"]
            == tokenizer(f"{demonstration} {worked[problem_id]}{tokenizer.eos_token}")["input_ids"]
        ), "the text must have the tokens of a demonstration in pretraining"


def test_chat_arguments_reach_the_template_and_text_after_the_end_token_is_not_trained_on(
    world,
):
    """As in Qwen3's template, an argument of the template decides the text before the answer, and
    more text follows the end token of a turn."""
    from hardgrpo.training import supervised

    spec, problems, worked, tokenizer = world
    red_token, blue_token = tokenizer.convert_ids_to_tokens(tokenizer("red blue")["input_ids"])
    other_tokenizer = copy.deepcopy(tokenizer)
    other_tokenizer.chat_template = (
        "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %}"
        + tokenizer.eos_token
        + " "
        + red_token
        + "{% endif %}"
        "{% endfor %}{% if add_generation_prompt %} {% if quick %}"
        + blue_token
        + "{% else %}"
        + red_token
        + "{% endif %}{% endif %}"
    )
    texts = supervised.tokenize_solutions(
        dataclasses.replace(spec, chat={"quick": True}),
        problems,
        list(problems)[:1],
        other_tokenizer,
    )
    (text,) = texts.values()
    mark = text["completion_mask"].index(1)
    assert tokenizer.convert_ids_to_tokens(text["input_ids"])[mark - 1] == blue_token
    assert (
        text["input_ids"][-1] == tokenizer.eos_token_id
        and text["input_ids"].count(tokenizer.eos_token_id) == 1
    )


def test_a_solution_beyond_the_completion_limit_is_left_out_and_reported(world, capsys):
    from hardgrpo.training import supervised

    spec, problems, worked, tokenizer = world
    texts = supervised.tokenize_solutions(spec, problems, list(problems), tokenizer)
    lengths = {problem_id: sum(text["completion_mask"]) for problem_id, text in texts.items()}
    limit = sorted(set(lengths.values()))[-2]
    texts_within_limit = supervised.tokenize_solutions(
        dataclasses.replace(spec, completion_tokens=limit), problems, list(problems), tokenizer
    )
    assert (
        set(texts_within_limit)
        == {problem_id for problem_id, length in lengths.items() if length <= limit}
        and len(texts_within_limit) < 12
    )
    assert all(
        texts_within_limit[problem_id] == texts[problem_id] for problem_id in texts_within_limit
    ), "a solution whose length with its end token equals the limit must be kept"
    output = capsys.readouterr().out
    assert (
        f"{12 - len(texts_within_limit)} of 12 chosen prompts have a worked solution of more than {limit} tokens: t-train-"
        in output
        and "left out" in output
    )
    with pytest.raises(
        UserError,
        match="none of the 12 chosen prompts has a worked solution of at most 3 tokens; raise",
    ):
        supervised.tokenize_solutions(
            dataclasses.replace(spec, completion_tokens=3), problems, list(problems), tokenizer
        )


def test_a_prompt_whose_solution_was_left_out_is_not_trained_on(world, tmp_path, capsys):
    from hardgrpo.training import supervised

    spec, problems, worked, tokenizer = world
    (first_id, text), *_ = worked.items()
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": first_id, "solution": text}) + "\n")
    assert set(
        supervised.tokenize_solutions(
            dataclasses.replace(spec, solutions=str(tmp_path / "one.jsonl")),
            problems,
            list(problems),
            tokenizer,
        )
    ) == {first_id}
    assert (
        "11 of 12 chosen prompts have no worked solution: t-train-0001" in capsys.readouterr().out
    )


def train(world, folder, micro_batch=None, **changes):
    """Train on the worked solutions. Return (trainer, batches whose loss was computed)."""
    from hardgrpo.training import supervised

    spec, problems, _, tokenizer = world
    spec = dataclasses.replace(spec, training=SFT | changes)
    hardware = recipes.Hardware(0, 1, micro_batch)
    run = recipes.Run(spec, problems, list(problems), folder, hardware)
    trainer = supervised.build_trainer(run, tokenizer)
    trainer.args.save_strategy, batches, compute = "no", [], trainer.compute_loss
    trainer.compute_loss = lambda model, inputs, **keywords: (
        batches.append(inputs),
        compute(model, inputs, **keywords),
    )[1]
    trainer.train()
    return trainer, batches


@pytest.mark.slow
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_the_trainer_sees_the_texts_in_the_order_of_the_schedule_and_the_loss_is_on_solutions_alone(
    world, tmp_path, micro_batch
):
    from hardgrpo.training import supervised

    spec, problems, _, tokenizer = world
    trainer, batches = train(world, tmp_path, micro_batch)
    texts = supervised.tokenize_solutions(spec, problems, list(problems), tokenizer)
    order = recipes.schedule(list(problems), 3, 4, spec.seed)
    trained_rows = [
        row
        for batch in batches
        for row in zip(batch["input_ids"], batch["labels"], batch["attention_mask"])
    ]
    assert len(trained_rows) == 12 and len(batches) == (3 if micro_batch is None else 6)
    for problem_id, (ids, labels, mask) in zip(order, trained_rows):
        text = texts[problem_id]
        assert ids[mask.bool()].tolist() == text["input_ids"]
        assert labels[labels != -100].tolist() == [
            i for i, is_trained in zip(text["input_ids"], text["completion_mask"]) if is_trained
        ]
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    for number, entry in enumerate(log):
        trained_on = [
            sum(texts[problem_id]["completion_mask"])
            for problem_id in order[4 * number : 4 * number + 4]
        ]
        assert entry["completions/mean_length"] == sum(trained_on) / 4
        assert (entry["prompts"], entry["rollouts"]) == (4, 0) and entry["step_time"] > 0


@pytest.mark.slow
def test_the_first_loss_is_the_mean_over_the_tokens_of_an_update_with_and_without_micro_batches(
    world, tmp_path
):
    from transformers import AutoModelForCausalLM

    in_one_batch, batches = train(world, tmp_path)
    parts, _ = train(world, tmp_path, 1)
    model = AutoModelForCausalLM.from_pretrained(world[0].model_folder, dtype=torch.float32)
    with torch.no_grad():
        scores = model(
            input_ids=batches[0]["input_ids"], attention_mask=batches[0]["attention_mask"]
        ).logits
    by_hand = torch.nn.functional.cross_entropy(
        scores[:, :-1].flatten(0, 1), batches[0]["labels"][:, 1:].flatten(), ignore_index=-100
    )
    losses = [
        [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        for trainer in (in_one_batch, parts)
    ]
    assert losses[0][0] == pytest.approx(by_hand.item(), rel=1e-4)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.slow
def test_the_loss_falls(world, tmp_path):
    trainer, _ = train(world, tmp_path, updates=30, checkpoint_every=30)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.6 * losses[0], losses


# --- memory


@pytest.mark.parametrize("model", ["qwen3-4b", "phi-4"])
def test_memory_of_sft_includes_neither_vllm_nor_a_reference_policy(model):
    checked = Configuration.of(CONFIG)
    need, grpo = (
        memory.run_memory(checked.models[model], checked.recipes[recipe], checked.tasks["gsm8k"])
        for recipe in ("sft", "as_written")
    )
    assert need["vllm"] == need["reference"] == 0 and grpo["vllm"] > 0
    assert {key: need[key] for key in ("weights", "optimiser", "activations")} == {
        key: grpo[key] for key in ("weights", "optimiser", "activations")
    }
    assert need["total"] < grpo["total"] and recipes.packages(CONFIG["recipes"]["sft"]) == []
