"""Checks of a prepared pool before completions are sampled: questions that are also in a test, and
prompts that are too long."""

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

    def build(overlay: dict, pool=POOL, test=None) -> World:
        texts = {"prompts_csv": as_csv(pool)} | ({"test_csv": as_csv(test)} if test else {})
        return make_world(tmp_path, untrained, overlay, **texts)

    return build


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
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))
    rows, _ = choose_subset(world)
    assert len(rows) == 10
    report = world.folder / "results/tasks/mine/contamination.mine.json"
    assert json.loads(report.read_text())["equal"] == 1
    assert "t9,train,n3,equal" in report.with_suffix(".csv").read_text()


def test_another_test_of_the_same_pool_samples_nothing_again(build):
    world = build(overlay_with(), test=TEST)
    choose_subset(world)
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay_with(source={"test": "test.csv"})))
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
    assert "number of such prompts: 1; first: 'b'" in done.stderr and "Traceback" not in done.stderr
