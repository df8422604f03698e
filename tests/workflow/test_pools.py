"""Checks of a prepared pool before completions are sampled: questions that are also in a test, and
prompts that are too long."""

import copy
import json
import shutil

import pytest
import yaml

import fork_server
import project_config
from conftest import path_of
from hardgrpo.runtime import files, provenance
from hardgrpo.study.spec import Spec
from own_prompts import OVERLAY, TASK, as_csv, choose_subset, make_world

POOL = [
    {
        "name": f"n{i}",
        "level": "1",
        "my prompt": f"What colour has number {i}?",
        "gold": ["red", "blue"][i % 2],
    }
    for i in range(20)
]
TEST = [
    row | {"name": f"t{i}", "my prompt": f"Which colour is on flag {i}?"}
    for i, row in enumerate(POOL[:6])
]


def overlay_with(**task) -> dict:
    overlay = copy.deepcopy(OVERLAY)
    source = TASK["source"] | task.pop("source", {})
    overlay["tasks"] = {
        "mine": TASK | {"source": source, "test": {"samples": 2, "greedy": False, "seed": 2}} | task
    }
    return overlay


def refuse(world, *words: str, target="subset") -> None:
    output = world.fail(target, "--configfile", "my.yaml")
    for word in words:
        assert word in output, output[-3000:]
    for folder in ("probe", "evaluation", "subsets"):
        assert not (world.folder / "results" / folder).exists(), f"results/{folder} must not exist"


def test_one_file_as_train_and_test_is_refused_when_the_configuration_is_read(tmp_path, untrained):
    world = make_world(
        tmp_path,
        untrained,
        overlay_with(source={"test": "./prompts.csv"}),
        prompts_csv=as_csv(POOL),
    )
    refuse(world, "'mine' has prompts.csv in both splits")
    assert not (world.folder / "results/tasks").exists()


def test_a_copy_of_the_pool_as_test_is_refused_before_anything_is_sampled(tmp_path, untrained):
    overlay = overlay_with(source={"test": "test.csv"}, contamination="report")
    world = make_world(
        tmp_path, untrained, overlay, prompts_csv=as_csv(POOL), test_csv=as_csv(POOL)
    )
    refuse(world, "20 of 20 test questions")


def test_one_shared_question_is_refused_unless_the_task_says_report(tmp_path, untrained):
    test = [*TEST, TEST[0] | {"name": "t9", "my prompt": "what COLOUR  has number 3"}]
    overlay = overlay_with(source={"test": "test.csv"})
    world = make_world(
        tmp_path, untrained, overlay, prompts_csv=as_csv(POOL), test_csv=as_csv(test)
    )
    refuse(world, "1 of 7 test questions of 'mine'", "'t9' ('n3')", "tasks.mine.contamination")
    overlay["tasks"]["mine"]["contamination"] = "report"
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))
    rows, _ = choose_subset(world)
    assert len(rows) == 10
    assert (
        json.loads((world.folder / "results/tasks/mine/contamination.mine.json").read_text())[
            "equal"
        ]
        == 1
    )
    assert (
        "t9,train,n3,equal"
        in (world.folder / "results/tasks/mine/contamination.mine.csv").read_text()
    )


def test_another_test_of_the_same_pool_samples_nothing_again(tmp_path, untrained):
    world = make_world(
        tmp_path, untrained, overlay_with(), prompts_csv=as_csv(POOL), test_csv=as_csv(TEST)
    )
    choose_subset(world)
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay_with(source={"test": "test.csv"})))
    planned = world.plan("subset", "--configfile", "my.yaml")
    assert planned == {"prepare_task": 1, "compare_splits": 1, "subset": 1}
    choose_subset(world)
    assert world.plan("subset", "--configfile", "my.yaml") == {}


def test_the_same_question_is_never_chosen_twice(tmp_path, untrained):
    pool = [row | {"name": f"{copy}{row['name']}"} for copy in ("", "again-") for row in POOL]
    world = make_world(tmp_path, untrained, overlay_with(), prompts_csv=as_csv(pool))
    overlay = overlay_with() | {"policies": {"half": {"rule": "hard", "budget": {"prompts": 20}}}}
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))
    rows, description = choose_subset(world)
    assert {row["id"] for row in rows} == {row["name"] for row in POOL} and description[
        "pool"
    ] == 20


def pool_with(long: int, of: int) -> list[dict]:
    rows = [
        {"name": f"n{i}", "level": "1", "my prompt": f"colour {i}", "gold": "red"}
        for i in range(of)
    ]
    return [
        row | ({"my prompt": "colour " * 60 + row["name"]} if i < long else {})
        for i, row in enumerate(rows)
    ]


def test_a_pool_with_over_one_percent_of_prompts_too_long_is_refused_before_the_probe(
    tmp_path, untrained
):
    world = make_world(tmp_path, untrained, overlay_with(), prompts_csv=as_csv(pool_with(2, 100)))
    refuse(
        world,
        "2 of 100 prompts are too long",
        "'n0' (61 tokens), 'n1' (61 tokens)",
        "leaves 52 tokens",
        "completion_tokens",
    )


@pytest.mark.parametrize("by", ["pass_rate", "agreement"])
def test_one_prompt_of_a_hundred_that_is_too_long_is_left_out_and_named(tmp_path, untrained, by):
    overlay = overlay_with(labelled=by == "pass_rate")
    overlay["policies"] = {
        "half": {"rule": "hard" if by == "pass_rate" else "lowest", "budget": {"prompts": 99}}
        | ({} if by == "pass_rate" else {"by": by})
    }
    world = make_world(tmp_path, untrained, overlay, prompts_csv=as_csv(pool_with(1, 100)))
    rows, description = choose_subset(world, by=by)
    assert "n0" not in {row["id"] for row in rows} and description["pool"] == 99
    log = (world.folder / "results/logs/fit_prompts/mine/mine.train.log").read_text()
    assert "1 of 100 prompts are too long" in log and "'n0'" in log


def test_a_training_on_a_prompt_that_is_too_long_is_refused_before_its_first_update(
    tmp_path, untrained
):
    """A subset that was chosen without a probe, or with another model's probe, may contain a prompt
    that is too long."""
    files.write_jsonl(
        tmp_path / "P.jsonl",
        [
            {"id": i, "question": "colour " * words, "answer": "red"}
            for i, words in (("a", 2), ("b", 60))
        ],
    )
    files.write_rows(tmp_path / "S.csv", ["id"], [{"id": "a"}, {"id": "b"}])
    shutil.copytree(untrained, tmp_path / "model")
    provenance.write_manifest(tmp_path / "model")
    recipe = project_config.config()["recipes"]["mini"] | {"updates": 1, "checkpoint_every": 1}
    spec = Spec(
        "m",
        "t",
        "hard",
        "mini",
        0,
        "model",
        "P.jsonl",
        "S.csv",
        "{question}",
        {},
        "final_word",
        12,
        recipe,
    )
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec.fields()))
    done = fork_server.run(
        path_of("train_grpo"), ["--spec", "spec.yaml", "--output", "out"], tmp_path
    )
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert "number of such prompts: 1; first: 'b'" in done.stderr and "Traceback" not in done.stderr
