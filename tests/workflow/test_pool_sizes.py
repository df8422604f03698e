"""A budget that exceeds the pool is refused before any sampling, and a split may have several
files."""

import pytest
import yaml

from conftest import World
from hardgrpo.runtime import files

TASK = {
    "source": {"kind": "files", "train": "pool.csv"},
    "prompt": "{question}",
    "grader": "number_lenient",
    "completion_tokens": 12,
    "probe": {"samples": 2, "shards": 1, "seed": 1},
}
PREPARED = "results/tasks/mine/train.jsonl"
ANSWERS = [str(number) for number in range(20)]


def overlay(world, policy, task=TASK, name="mine", **entries):
    chosen = {"model": "mine", "task": name, "policy": "own", "seed": 0}
    # no job reads the model, so its folder need not exist
    models = {"mine": {"source": {"kind": "folder", "path": "no model"}}}
    content = (
        {"data": "data", "subset": chosen, "policies": {"own": policy}, "models": models}
        | ({"tasks": {name: task}} if task else {})
        | entries
    )
    (world.folder / "my.yaml").write_text(yaml.safe_dump(content))


def pool(world, answers=ANSWERS, name="pool.csv", first=0):
    (world.folder / "data").mkdir(exist_ok=True)
    rows = "".join(f"q{number},{answer}\n" for number, answer in enumerate(answers, start=first))
    (world.folder / f"data/{name}").write_text(f"question,answer\n{rows}")


def check_refusal(done, *words) -> str:
    """Assert that the command fails, that one line of its output has all `words`, and that nothing
    is sampled."""
    output = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in output, output
    (line,) = {line.strip() for line in output.splitlines() if words[0] in line}
    for word in words:
        assert word in line, output
    assert "rule probe" not in output and "Probe " not in output
    return output


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> World:
    """A world in which every call is refused or only planned."""
    world = World(tmp_path_factory.mktemp("planned") / "world")
    pool(world)
    return world


def test_a_pool_too_small_for_a_policy_of_the_configured_study_is_refused(planned):
    study = {"title": "Mine", "models": ["mine"], "tasks": ["mine"], "arms": [{"policy": ["random", "own"], "recipe": ["mini"]}], "seeds": [0]}  # fmt: skip
    task = TASK | {
        "source": {"kind": "files", "train": "pool.csv", "test": "test.csv"},
        "test": {"samples": 1, "greedy": False, "seed": 2},
    }
    pool(planned, name="test.csv", first=100)
    # only an arm can have a policy in two rounds
    policy = {"rule": "lowest", "by": "agreement", "budget": {"prompts": 1}, "rounds": 2}
    overlay(planned, policy, task, study="mine", studies={"mine": study})
    (planned.folder / "subset.yaml").write_text(yaml.safe_dump({"subset": {"policy": "random"}}))
    done = planned.snakemake(PREPARED, "all", "--configfile", "my.yaml", "subset.yaml")
    check_refusal(done, "policy 'own': task 'mine': ", "1 prompts of 20")


def test_several_files_are_one_pool(planned):
    pool(planned, ANSWERS[:5], "more.csv", first=20)
    task = TASK | {"source": {"kind": "files", "train": ["pool.csv", "more.csv"]}}
    overlay(planned, {"rule": "hard", "budget": {"prompts": 25}}, task)
    assert planned.plan("subset", "--configfile", "my.yaml")["prepare_task"] == 1
    overlay(planned, {"rule": "hard", "budget": {"prompts": 26}}, task)
    check_refusal(
        planned.snakemake("subset", "--configfile", "my.yaml"),
        "error: policy 'own': ",
        "the pool has 25",
    )
    overlay(
        planned,
        {"rule": "hard", "budget": 0.5},
        TASK | {"source": {"kind": "files", "train": ["pool.csv", "none.csv"]}},
    )
    done = planned.snakemake("-n", "subset", "--configfile", "my.yaml")
    assert done.returncode != 0 and "data/none.csv" in done.stdout + done.stderr


# --- pools whose size is known only after the preparation


def test_an_answer_that_the_grader_cannot_read_makes_the_pool_smaller(world):
    pool(world, [*map(str, range(199)), "lots"])
    overlay(world, {"rule": "hard", "budget": {"prompts": 199}})
    assert world.plan("subset", "--configfile", "my.yaml")["prepare_task"] == 1
    prepared = world.snakemake(PREPARED, "--configfile", "my.yaml")
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr

    # the pool is prepared now, so its size is checked before the first job
    overlay(world, {"rule": "hard", "budget": {"prompts": 200}})
    check_refusal(
        world.snakemake("subset", "--configfile", "my.yaml"),
        "policy 'own': task 'mine': ",
        "the pool has 199",
    )
    (world.folder / PREPARED).unlink()
    check_refusal(
        world.snakemake("subset", "--configfile", "my.yaml"),
        "error: policy 'own': task 'mine': ",
        "the pool has 199",
    )
    assert not (world.folder / "results/probe").exists() and not (world.folder / PREPARED).exists()


def test_a_budget_that_the_pool_cannot_fill_is_refused_even_if_an_older_subset_exists(world):
    pool(world)
    task = TASK | {"labelled": False}
    overlay(world, {"rule": "random", "budget": {"prompts": 3}}, task)
    assert world.snakemake("subset", "--configfile", "my.yaml").returncode == 0
    overlay(world, {"rule": "random", "budget": {"prompts": 30}}, task)
    check_refusal(
        world.snakemake("subset", "--configfile", "my.yaml"),
        "policy 'own': task 'mine': ",
        "the pool has 20",
    )


def test_chosen_rows_of_several_files_are_exported_unchanged(world):
    """The policy chooses at random, so the model samples nothing."""
    (world.folder / "data").mkdir()
    (world.folder / "data/a.csv").write_text("question;level\r\nä1;1\r\nä2;2\r\n")
    (world.folder / "data/b.tsv").write_text("question\tlevel\nb1\t3\n")
    task = TASK | {"source": {"kind": "files", "train": ["a.csv", "b.tsv"]}, "labelled": False}
    overlay(world, {"rule": "random", "budget": {"prompts": 3}}, task)
    done = world.snakemake("subset", "--configfile", "my.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    stem = world.folder / "results/subsets/mine/mine/own/seed0"
    header, *lines = (stem.parent / "seed0.to_annotate.csv").read_text().splitlines()
    assert header == "\ufeffquestion;level;answer;prompt_id;chosen_because"
    assert sorted(line.split(";")[:2] for line in lines) == [["b1", "3"], ["ä1", "1"], ["ä2", "2"]]

    for name, text in (
        ("a.jsonl", '{"question": "a" }\n\n{"question":"b"}\n'),
        ("b.jsonl", '\ufeff{"question": "c","n":[1]}'),
    ):
        (world.folder / f"data/{name}").write_text(text)
    task = task | {"source": {"kind": "files", "train": ["a.jsonl", "b.jsonl"]}}
    overlay(world, {"rule": "random", "budget": {"prompts": 3}}, task)
    done = world.snakemake("subset", "--configfile", "my.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = files.read_jsonl(stem.parent / "seed0.to_annotate.jsonl", {"prompt_id": str})
    assert sorted((row["question"], row.get("n")) for row in rows) == [
        ("a", None),
        ("b", None),
        ("c", [1]),
    ]
