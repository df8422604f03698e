"""Checks of a prepared pool before completions are sampled: questions that are also in a test,
prompts that are too long, and budgets that exceed the pool. A pool may have several files."""

import copy
import json
import shutil

import pytest
import yaml

import project_config
from command_line import run
from conftest import World
from hardgrpo.runtime import files, provenance
from hardgrpo.study.spec import Spec
from own_prompts import OVERLAY, TASK, as_csv, choose_subset, make_world

SUBSET = ("subset", "--configfile", "my.yaml")
PREPARED = "results/tasks/mine/train.jsonl"


def row(name: str, prompt: str, gold: str = "red") -> dict[str, str]:
    return {"name": name, "level": "1", "my prompt": prompt, "gold": gold}


POOL = [row(f"n{i}", f"What colour has number {i}?", ["red", "blue"][i % 2]) for i in range(20)]
TEST = [row(f"t{i}", f"Which colour is on flag {i}?", POOL[i]["gold"]) for i in range(6)]


def overlay_with(policies: dict | None = None, **task) -> dict:
    overlay = copy.deepcopy(OVERLAY) | ({"policies": policies} if policies else {})
    source = TASK["source"] | task.pop("source", {})
    test = {"samples": 2, "greedy": False, "seed": 2}
    overlay["tasks"] = {"mine": TASK | {"source": source, "test": test} | task}
    return overlay


@pytest.fixture
def build(tmp_path, untrained):
    """A function that makes a world with these rows as pool and, unless None, as test."""

    def build(overlay: dict, pool=POOL, test=None, **texts: str) -> World:
        texts["prompts_csv"] = as_csv(pool)
        if test:
            texts["test_csv"] = as_csv(test)
        return make_world(tmp_path, untrained, overlay, **texts)

    return build


def configure(world: World, overlay: dict) -> None:
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))


def refuse(world: World, *words: str) -> None:
    output = world.fail(*SUBSET)
    assert all(word in output for word in words), output[-3000:]
    for folder in ("probe", "evaluation", "subsets"):
        assert not (world.folder / "results" / folder).exists(), f"results/{folder} must not exist"


def test_one_file_as_train_and_test_is_refused_when_the_configuration_is_read(build):
    world = build(overlay_with(source={"test": "./prompts.csv"}))
    refuse(world, "'mine' has prompts.csv in both splits")
    assert not (world.folder / "results/tasks").exists()


def test_one_shared_question_is_refused_unless_the_task_says_report(build):
    overlay = overlay_with(source={"test": "test.csv"})
    world = build(overlay, test=[*TEST, row("t9", "what COLOUR  has number 3", "red")])
    refuse(world, "1 of 7 test questions of 'mine'", "'t9' ('n3')", "tasks.mine.contamination")
    overlay["tasks"]["mine"]["contamination"] = "report"
    configure(world, overlay)
    rows, _ = choose_subset(world)
    assert len(rows) == 10
    report = world.folder / "results/tasks/mine/contamination.mine.json"
    assert json.loads(report.read_text())["equal"] == 1
    assert "t9,train,n3,equal" in report.with_suffix(".csv").read_text()


def test_another_test_of_the_same_pool_samples_nothing_again(build):
    world = build(overlay_with(), test=TEST)
    choose_subset(world)
    configure(world, overlay_with(source={"test": "test.csv"}))
    assert world.plan(*SUBSET) == {"prepare_task": 1, "compare_splits": 1, "subset": 1}
    choose_subset(world)
    assert world.plan(*SUBSET) == {}


def pool_with(long: int) -> list[dict]:
    """100 prompts, of which the first `long` are too long."""
    texts = [f"{'colour ' * 60}n{i}" if i < long else f"colour {i}" for i in range(100)]
    return [row(f"n{i}", text) for i, text in enumerate(texts)]


def test_a_pool_with_over_one_percent_of_prompts_too_long_is_refused_before_the_probe(build):
    words = ("2 of 100 prompts are too long", "'n0' (61 tokens), 'n1' (61 tokens)")
    refuse(build(overlay_with(), pool_with(2)), *words, "leaves 52 tokens", "completion_tokens")


def test_one_prompt_of_a_hundred_that_is_too_long_is_left_out_and_named(build):
    half = {"half": {"rule": "hard", "budget": {"prompts": 99}}}
    world = build(overlay_with(half), pool_with(1))
    rows, description = choose_subset(world)
    assert "n0" not in {row["id"] for row in rows} and description["pool"] == 99
    log = (world.folder / "results/logs/fit_prompts/mine/mine.train.log").read_text()
    assert "1 of 100 prompts are too long" in log and "'n0'" in log


def test_a_training_on_a_prompt_that_is_too_long_is_refused_before_its_first_update(
    tmp_path, untrained
):
    """A subset that was chosen without a probe, or with another model's probe, may contain a prompt
    that is too long."""
    questions = {"a": "colour " * 2, "b": "colour " * 60}
    problems = [{"id": name, "question": text, "answer": "red"} for name, text in questions.items()]
    files.write_jsonl(tmp_path / "P.jsonl", problems)
    files.write_rows(tmp_path / "S.csv", ["id"], [{"id": name} for name in questions])
    shutil.copytree(untrained, tmp_path / "model")
    provenance.write_manifest(tmp_path / "model")
    recipe = project_config.config()["recipes"]["mini"] | {"updates": 1, "checkpoint_every": 1}
    names = ("m", "t", "hard", "mini", 0, "model", "P.jsonl", "S.csv", "{question}")
    spec = Spec(*names, {}, "final_word", 12, recipe)
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec.fields()))
    done = run(tmp_path, "train_grpo", spec="spec.yaml", output="out")
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert "shorten the prompt 'b'" in done.stderr and "Traceback" not in done.stderr


# --- budgets that exceed the pool


def prompts_of(count: int, **policy) -> dict:
    return {"half": {"rule": "hard"} | policy | {"budget": {"prompts": count}}}


def test_an_answer_that_the_grader_cannot_read_makes_the_pool_smaller(build):
    pool = [row(f"n{i}", f"q{i}", str(i) if i else "lots") for i in range(200)]
    world = build(overlay_with(prompts_of(199), grader="number_lenient"), pool)
    assert world.plan(*SUBSET)["prepare_task"] == 1
    world.run(PREPARED, "--configfile", "my.yaml")
    configure(world, overlay_with(prompts_of(200), grader="number_lenient"))
    refuse(world, "task 'mine': ", "the pool has 199")  # before the first job
    (world.folder / PREPARED).unlink()
    refuse(world, "task 'mine': ", "the pool has 199")
    assert not (world.folder / PREPARED).exists()


def test_chosen_rows_of_several_files_are_exported_unchanged(build):
    """The policy chooses at random, so the model samples nothing."""
    world = build(OVERLAY)
    folder = world.folder / "results/subsets/mine/mine/half"

    def export(count: int, **files_of_pool: str) -> None:
        for name, text in files_of_pool.items():
            (world.folder / "my data" / name.replace("_", ".")).write_bytes(text.encode())
        names = [name.replace("_", ".") for name in files_of_pool]
        task = TASK | {"labelled": False, "source": {"kind": "files", "train": names}}
        overlay = {"policies": prompts_of(count, rule="random"), "tasks": {"mine": task}}
        configure(world, OVERLAY | overlay)
        world.run(*SUBSET)

    export(3, a_csv="question;level\r\nä1;1\r\nä2;2\r\n", b_tsv="question\tlevel\nb1\t3\n")
    header, *lines = (folder / "seed3.to_annotate.csv").read_text().splitlines()
    assert header == "\ufeffquestion;level;answer;prompt_id;chosen_because"
    assert sorted(line.split(";")[:2] for line in lines) == [["b1", "3"], ["ä1", "1"], ["ä2", "2"]]
    export(
        3,
        a_jsonl='{"question": "a" }\n\n{"question":"b"}\n',
        b_jsonl='\ufeff{"question": "c","n":[1]}',
    )
    rows = files.read_jsonl(folder / "seed3.to_annotate.jsonl", {"prompt_id": str})
    exported = sorted((row["question"], row.get("n")) for row in rows)
    assert exported == [("a", None), ("b", None), ("c", [1])]
    # a budget that the pool cannot fill is refused although an older subset exists
    overlay = yaml.safe_load((world.folder / "my.yaml").read_text())
    configure(world, overlay | {"policies": prompts_of(30, rule="random")})
    assert "the pool has 3" in world.fail(*SUBSET)
