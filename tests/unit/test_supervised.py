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
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.recipe import GRPO_KEYS
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run
from hardgrpo.study.task import Task
from hardgrpo.training import recipes

SFT = {key: value for key, value in RECIPE.items() if key not in GRPO_KEYS} | {
    "objective": "sft", "updates": 3, "prompts_per_update": 4, "checkpoint_every": 3, "warmup_share": 0.0, "learning_rate": 5e-3,
}  # fmt: skip
SOURCE = {
    "kind": "generated", "family": "swaps", "objects": [3], "length": [1, 2, 3], "seed": 1, "train": 12, "test": 2,
}  # fmt: skip


# --- the configuration


def test_worked_solutions_are_part_of_the_specification_and_the_hash(tmp_path):
    checked = Configuration.of(CONFIG)
    spec = Spec.of_run(
        Run("tiny", "swaps", "mini_sft", "hard", 0, "tiny-seed0"),
        model=checked.models["tiny"],
        task=checked.tasks["swaps"],
        recipe=checked.recipes["mini_sft"],
        policy=checked.policies["hard"],
    )
    assert spec.solutions == "results/tasks/swaps/solutions.jsonl"
    assert spec.digest() != dataclasses.replace(spec, solutions="others.jsonl").digest()
    fields = {key: value for key, value in spec.fields().items() if key != "solutions"}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(fields))
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
        ("gsm8k", "number_strict", "Half is 48/2 = 24.\nAll: 24*50=1,200.\nThe answer is \\boxed{1200}."),
        ("gsm8k", "final_number", "Half is 48/2 = 24.\nAll: 24*50=1,200.\n#### 1200"),
        ("math", "math", "It is $\\boxed{\\frac{1}{2}}$."),
        ("columns", "number_strict", "2 + 2 = 4. \\boxed{4}"),
    ],
)  # fmt: skip
def test_a_row_of_each_format_has_its_worked_solution_in_the_form_that_the_grader_reads(
    tmp_path, format, grader, expected
):
    solved = worked_solutions(tmp_path, format, grader)
    rows = solutions.correct_solutions(solved, grader, "t")
    assert rows == [{"id": "b-train-0000", "solution": expected}]


@pytest.mark.parametrize(
    ("format", "grader", "row", "words"),
    [
        ("columns", "number_strict", ROWS["columns"] | {"worked": " "}, r"rows.jsonl: row 2: no worked solution in column 'worked'"),
        ("math", "math", {"problem": "What?", "answer": "4", "level": 1}, r"row 2: no worked solution in column 'solution'"),
        ("choices", "choice_letter", {"input": "(A) a\n(B) b", "target": "(A)"}, "task t: its source has no worked solutions"),
    ],
)  # fmt: skip
def test_a_row_without_a_solution_is_reported(tmp_path, format, grader, row, words):
    first = [ROWS[format]] if format in ROWS else []
    with pytest.raises(UserError, match=words):
        worked_solutions(tmp_path, format, grader, [*first, row])


def test_wrong_solutions_are_reported_and_left_out_and_many_are_an_error(tmp_path, capsys):
    def correct_solutions(count: int):
        rows = [
            {"question": f"{n}?", "answer": "4", "worked": "so \\boxed{4}"} for n in range(count)
        ]
        rows[0]["worked"] = "so \\boxed{5}"
        solved = worked_solutions(tmp_path, "columns", "number_strict", rows)
        return solutions.correct_solutions(solved, "number_strict", "task t, train")

    correct = correct_solutions(200)
    assert len(correct) == 199 and correct[0]["id"] == "b-train-0001"
    message = "rejects the worked solutions of 1 of 200 problems: 'b-train-0000' (4); these solutions are left out"
    assert message in capsys.readouterr().out
    with pytest.raises(UserError, match="of 1 of 3 problems: .*choose another grader"):
        correct_solutions(3)


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


class World:
    """A run on worked solutions. The model has the miniature's tokenizer and untrained weights."""

    def __init__(self, folder):
        engines.configure_torch()
        model, self.tokenizer = small_model.build(context_tokens=192)
        model.save_pretrained(folder / "model")
        self.tokenizer.save_pretrained(folder / "model")
        solved = solutions.worked_solutions("t", SOURCE, [], "final_word")
        rows = solutions.correct_solutions(solved, "final_word", "t")
        (folder / "solutions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.solutions = {row["id"]: row["solution"] for row in rows}
        self.problems = {problem["id"]: problem for problem, _ in solved}
        self.spec = dataclasses.replace(
            SPEC,
            training=SFT,
            model_folder=str(folder / "model"),
            solutions=str(folder / "solutions.jsonl"),
            completion_tokens=56,
        )

    def texts(self, tokenizer=None, **changes) -> dict[str, dict]:
        """The rows of the training dataset with changes of the specification."""
        from hardgrpo.training import supervised

        spec = dataclasses.replace(self.spec, **changes)
        ids = list(self.problems)
        return supervised.tokenize_solutions(spec, self.problems, ids, tokenizer or self.tokenizer)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("sft"))


def test_a_training_text_is_the_prompt_of_the_probe_then_the_solution_then_the_end_token(world):
    texts, tokenizer = world.texts(), world.tokenizer
    assert set(texts) == set(world.problems)
    for problem_id, text in texts.items():
        messages = tasks.messages(world.spec.prompt, world.problems[problem_id]["question"])
        (prompt,) = engines.tokenize(tokenizer, [Request(tuple(messages), 0, 1.0)], {})
        worked = world.solutions[problem_id]
        solution = tokenizer(worked, add_special_tokens=False)["input_ids"]
        assert text["input_ids"] == [*prompt, *solution, tokenizer.eos_token_id]
        assert text["completion_mask"] == [0] * len(prompt) + [1] * (len(solution) + 1)
        shown = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        pretrained = tokenizer(f"{shown} {worked}{tokenizer.eos_token}")["input_ids"]
        assert text["input_ids"] == pretrained, "the tokens are those of pretraining"


def test_chat_arguments_reach_the_template_and_text_after_the_end_token_is_not_trained_on(world):
    """As in Qwen3's template, an argument of the template decides the text before the answer, and
    more text follows the end token of a turn."""
    tokenizer = copy.deepcopy(world.tokenizer)
    red, blue = tokenizer.convert_ids_to_tokens(tokenizer("red blue")["input_ids"])
    after_turn = f"{{% if m.role == 'assistant' %}}{tokenizer.eos_token} {red}{{% endif %}}"
    thinking = f"{{% if quick %}}{blue}{{% else %}}{red}{{% endif %}}"
    tokenizer.chat_template = (
        f"{{% for m in messages %}}{{{{ m.content }}}}{after_turn}{{% endfor %}}"
        f"{{% if add_generation_prompt %}} {thinking}{{% endif %}}"
    )
    text = next(iter(world.texts(tokenizer, chat={"quick": True}).values()))
    ids, end = text["input_ids"], tokenizer.eos_token_id
    assert tokenizer.convert_ids_to_tokens(ids)[text["completion_mask"].index(1) - 1] == blue
    assert ids[-1] == end and ids.count(end) == 1


def test_a_solution_beyond_the_completion_limit_is_left_out_and_reported(world, capsys):
    texts = world.texts()
    lengths = {problem_id: sum(text["completion_mask"]) for problem_id, text in texts.items()}
    limit = sorted(set(lengths.values()))[-2]
    within_limit = world.texts(completion_tokens=limit)
    assert within_limit == {
        problem_id: text for problem_id, text in texts.items() if lengths[problem_id] <= limit
    }
    left_out = len(texts) - len(within_limit)
    message = f"{left_out} of 12 chosen prompts have a worked solution of more than {limit} tokens: t-train-"
    output = capsys.readouterr().out
    assert left_out and message in output and "left out" in output
    with pytest.raises(UserError, match="none of the 12 .* solution of at most 3 tokens; raise"):
        world.texts(completion_tokens=3)


def test_a_prompt_whose_solution_was_left_out_is_not_trained_on(world, tmp_path, capsys):
    first_id, text = next(iter(world.solutions.items()))
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": first_id, "solution": text}) + "\n")
    assert set(world.texts(solutions=str(tmp_path / "one.jsonl"))) == {first_id}
    message = "11 of 12 chosen prompts have no worked solution: t-train-0001"
    assert message in capsys.readouterr().out


def train(world, folder, micro_batch=None, **changes) -> tuple[list[dict], list[dict]]:
    """Train on the worked solutions. Return (log of the updates, batches whose loss was computed)."""
    from hardgrpo.training import supervised

    spec = dataclasses.replace(world.spec, training=SFT | changes)
    hardware = recipes.Hardware(0, 1, micro_batch)
    run = recipes.Run(spec, world.problems, list(world.problems), folder, hardware)
    trainer = supervised.build_trainer(run, world.tokenizer)
    trainer.args.save_strategy, batches, compute = "no", [], trainer.compute_loss

    def watched(model, inputs, **keywords):
        batches.append(inputs)
        return compute(model, inputs, **keywords)

    trainer.compute_loss = watched
    trainer.train()
    return [entry for entry in trainer.state.log_history if "loss" in entry], batches


@pytest.mark.slow
@pytest.mark.parametrize("micro_batch", [None, 2])
def test_the_trainer_sees_the_texts_in_the_order_of_the_schedule_and_the_loss_is_on_solutions_alone(
    world, tmp_path, micro_batch
):
    log, batches = train(world, tmp_path, micro_batch)
    texts = world.texts()
    order = recipes.schedule(list(world.problems), 3, 4, world.spec.seed)
    trained_rows = [
        row
        for batch in batches
        for row in zip(batch["input_ids"], batch["labels"], batch["attention_mask"])
    ]
    assert len(trained_rows) == 12 and len(batches) == (3 if micro_batch is None else 6)
    for problem_id, (ids, labels, mask) in zip(order, trained_rows):
        text = texts[problem_id]
        assert ids[mask.bool()].tolist() == text["input_ids"]
        pairs = zip(text["input_ids"], text["completion_mask"])
        assert labels[labels != -100].tolist() == [token for token, is_trained in pairs if is_trained]  # fmt: skip
    for number, entry in enumerate(log):
        of_update = order[4 * number : 4 * number + 4]
        trained_tokens = sum(sum(texts[prompt]["completion_mask"]) for prompt in of_update)
        assert entry["completions/mean_length"] == trained_tokens / 4
        assert (entry["prompts"], entry["rollouts"]) == (4, 0) and entry["step_time"] > 0


@pytest.mark.slow
def test_the_first_loss_is_the_mean_over_the_tokens_of_an_update_with_and_without_micro_batches(
    world, tmp_path
):
    from transformers import AutoModelForCausalLM

    log, (batch, *_) = train(world, tmp_path)
    log_of_parts, _ = train(world, tmp_path, 1)
    model = AutoModelForCausalLM.from_pretrained(world.spec.model_folder, dtype=torch.float32)
    with torch.no_grad():
        scores = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    by_hand = torch.nn.functional.cross_entropy(
        scores[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=-100
    )
    losses = [entry["loss"] for entry in log]
    assert losses[0] == pytest.approx(by_hand.item(), rel=1e-4)
    assert [entry["loss"] for entry in log_of_parts] == pytest.approx(losses, rel=1e-4)


@pytest.mark.slow
def test_the_loss_falls(world, tmp_path):
    log, _ = train(world, tmp_path, updates=30, checkpoint_every=30)
    assert log[-1]["loss"] < 0.6 * log[0]["loss"]
