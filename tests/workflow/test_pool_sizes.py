"""A budget that exceeds the pool is refused before any sampling, and a split may have several
files."""

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
SUBSET = ("subset", "--configfile", "my.yaml")


def task_of(*names: str, **keys) -> dict:
    return TASK | {"source": {"kind": "files", "train": list(names)}} | keys


def overlay(world: World, policy: dict, task=TASK, **entries) -> None:
    content = {
        "data": "data",
        "subset": {"model": "mine", "task": "mine", "policy": "own", "seed": 0},
        "policies": {"own": policy},
        # no job reads the model, so its folder need not exist
        "models": {"mine": {"source": {"kind": "folder", "path": "no model"}}},
        "tasks": {"mine": task},
    }
    (world.folder / "my.yaml").write_text(yaml.safe_dump(content | entries))


def pool(world: World, answers=range(20), name="pool.csv", first=0) -> None:
    (world.folder / "data").mkdir(exist_ok=True)
    rows = "".join(f"q{number},{answer}\n" for number, answer in enumerate(answers, start=first))
    (world.folder / f"data/{name}").write_text(f"question,answer\n{rows}")


def refuse(world: World, *arguments: str, words: tuple[str, ...]) -> None:
    """Assert that one line of the output has all `words`, and that nothing is sampled."""
    output = world.fail(*arguments)
    lines = {line.strip() for line in output.splitlines() if "policy 'own': " in line}
    assert len(lines) == 1 and all(word in line for word in words for line in lines), output
    assert not (world.folder / "results/probe").exists()


def test_a_pool_too_small_for_a_policy_of_the_configured_study_is_refused(world):
    arms = [{"policy": ["random", "own"], "recipe": ["mini"]}]
    study = {"title": "Mine", "models": ["mine"], "tasks": ["mine"], "arms": arms, "seeds": [0]}
    source = {"kind": "files", "train": "pool.csv", "test": "test.csv"}
    task = TASK | {"source": source, "test": {"samples": 1, "greedy": False, "seed": 2}}
    pool(world)
    pool(world, name="test.csv", first=100)
    # only an arm can have a policy in two rounds
    policy = {"rule": "lowest", "by": "agreement", "budget": {"prompts": 1}, "rounds": 2}
    overlay(world, policy, task, study="mine", studies={"mine": study})
    (world.folder / "subset.yaml").write_text(yaml.safe_dump({"subset": {"policy": "random"}}))
    files_of_call = ("--configfile", "my.yaml", "subset.yaml")
    refuse(world, PREPARED, "all", *files_of_call, words=("task 'mine': ", "1 prompts of 20"))


def test_several_files_are_one_pool(world):
    pool(world)
    pool(world, range(5), "more.csv", first=20)
    overlay(world, {"rule": "hard", "budget": {"prompts": 26}}, task_of("pool.csv", "more.csv"))
    refuse(world, *SUBSET, words=("the pool has 25",))
    overlay(world, {"rule": "hard", "budget": {"prompts": 25}}, task_of("pool.csv", "none.csv"))
    assert "data/none.csv" in world.fail("-n", *SUBSET)


def test_an_answer_that_the_grader_cannot_read_makes_the_pool_smaller(world):
    pool(world, [*range(199), "lots"])
    overlay(world, {"rule": "hard", "budget": {"prompts": 199}})
    assert world.plan(*SUBSET)["prepare_task"] == 1
    world.run(PREPARED, "--configfile", "my.yaml")
    overlay(world, {"rule": "hard", "budget": {"prompts": 200}})
    refuse(world, *SUBSET, words=("task 'mine': ", "the pool has 199"))  # before the first job
    (world.folder / PREPARED).unlink()
    refuse(world, *SUBSET, words=("task 'mine': ", "the pool has 199"))
    assert not (world.folder / PREPARED).exists()


def test_chosen_rows_of_several_files_are_exported_unchanged(world):
    """The policy chooses at random, so the model samples nothing."""
    data, stem = world.folder / "data", world.folder / "results/subsets/mine/mine/own/seed0"
    data.mkdir()
    (data / "a.csv").write_text("question;level\r\nä1;1\r\nä2;2\r\n")
    (data / "b.tsv").write_text("question\tlevel\nb1\t3\n")
    random = {"rule": "random", "budget": {"prompts": 3}}
    overlay(world, random, task_of("a.csv", "b.tsv", labelled=False))
    world.run(*SUBSET)
    header, *lines = (stem.parent / "seed0.to_annotate.csv").read_text().splitlines()
    assert header == "\ufeffquestion;level;answer;prompt_id;chosen_because"
    assert sorted(line.split(";")[:2] for line in lines) == [["b1", "3"], ["ä1", "1"], ["ä2", "2"]]

    (data / "a.jsonl").write_text('{"question": "a" }\n\n{"question":"b"}\n')
    (data / "b.jsonl").write_text('\ufeff{"question": "c","n":[1]}')
    overlay(world, random, task_of("a.jsonl", "b.jsonl", labelled=False))
    world.run(*SUBSET)
    rows = files.read_jsonl(stem.parent / "seed0.to_annotate.jsonl", {"prompt_id": str})
    exported = sorted((row["question"], row.get("n")) for row in rows)
    assert exported == [("a", None), ("b", None), ("c", [1])]

    # a budget that the pool cannot fill is refused although an older subset exists
    overlay(
        world, random | {"budget": {"prompts": 30}}, task_of("a.jsonl", "b.jsonl", labelled=False)
    )
    refuse(world, *SUBSET, words=("task 'mine': ", "the pool has 3"))
