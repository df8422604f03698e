"""`hardgrpo choose`: one command from a file and a server's address to the prompts to annotate."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from conftest import World
from hardgrpo.runtime import files
from hardgrpo.workflow.own_files import find_grader
from model_server import WORDS


@pytest.fixture
def choose(tmp_path, model_server):
    """A function that writes its first argument to a file and runs the command on this file,
    outside of the clone."""
    world = World(tmp_path / "world")

    def run(content, *arguments, name="my prompts.csv", **env):
        (tmp_path / name).write_text(content)
        command = [
            sys.executable,
            "-m",
            "hardgrpo.workflow.console",
            "choose",
            name,
            "--url",
            model_server.url,
            "--model",
            "org/name-4B",
        ]
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": str(world.folder / "src")} | env,
        )  # fmt: skip

    run.world = world
    return run


def csv_of(header, number, answer=lambda n: ""):
    return f"{header}\n" + "".join(
        f"n{n},Which colour has ball {n}?,{answer(n)}\n" for n in range(number)
    )


def test_prompts_without_answers_become_a_file_to_annotate(choose, model_server):
    plan = choose(csv_of("name,Prompt,Gold", 12), "--budget", "3", "--price", "1", "4", "--dry-run")
    assert (
        plan.returncode == 0
        and "12 prompts in column 'Prompt', answers missing in some or all rows" in plan.stdout
    ), plan.stderr
    assert (
        "at most 12 requests" in plan.stdout
        and "costing at most 0.1" in plan.stdout
        and model_server.requests == []
    )
    done = choose(
        csv_of("name,Prompt,Gold", 12),
        "--budget",
        "3",
        "--key",
        "MY_ACCESS",
        MY_ACCESS="abc123/verysecret",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    path = done.stdout.strip().splitlines()[-1].removeprefix("chosen  ")
    assert len(
        files.read_rows(path, {"Prompt": str, "chosen_because": str})
    ) == 3 and path.endswith(".to_annotate.csv")
    config = yaml.safe_load(
        (choose.world.folder / "results/choose/own-my-prompts.yaml").read_text()
    )
    assert (
        config["subset"]["model"] == "served-name-4B"
        and "verysecret" not in str(config) + done.stdout + done.stderr
    )
    assert len(model_server.requests) == 12


def test_prompts_with_answers_are_graded_and_exported_for_a_trainer(choose):
    rows = [{"question": f"Which colour has ball {n}?", "answer": WORDS[n % 3]} for n in range(12)]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    done = choose(content, "--budget", "2", "--format", "trl", name="mine.jsonl")
    assert (
        done.returncode == 0 and "answers in column 'answer', grader final_word" in done.stdout
    ), done.stdout + done.stderr
    chosen, exported = [
        line.removeprefix("chosen  ") for line in done.stdout.strip().splitlines()[-2:]
    ]
    assert chosen.endswith(".rows.jsonl") and exported.endswith(".trl.jsonl")
    chosen_rows = files.read_jsonl(chosen, {"question": str, "answer": str})
    exported_rows = files.read_jsonl(exported, {"prompt": list, "answer": str})
    assert len(chosen_rows) == 2 and [row["answer"] for row in chosen_rows] == [
        row["answer"] for row in exported_rows
    ]
    assert chosen_rows[0]["question"] in exported_rows[0]["prompt"][0]["content"]


def test_the_number_0_is_an_answer(choose):
    rows = '{"question": "1 - 1?", "answer": 0}\n{"question": "1 + 1?", "answer": 2}\n'
    done = choose(rows, "--budget", "1", "--dry-run", name="sums.jsonl")
    assert done.returncode == 0 and "answers in column 'answer'" in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["trl", "verl", "prime-rl", "csv"])
def test_option_format_is_written_to_the_configuration(choose, kind):
    done = choose("prompt,answer\nx,1\ny,2\n", "--budget", "1", "--format", kind, "--dry-run")
    assert done.returncode == 0, done.stderr
    (path,) = choose.world.folder.glob("results/choose/*.yaml")
    subset = yaml.safe_load(path.read_text())["subset"]
    assert subset.get("format", "csv") == kind


@pytest.mark.parametrize(
    ("answers", "grader"),
    [
        ("ABCD", "choice_letter"),
        (["1,234", "3/4"], "number_lenient"),
        (["red", "blue"], "final_word"),
        (["x^2", "2x"], "math"),
    ],
)
def test_the_grader_is_the_first_that_reads_the_answers(answers, grader):
    assert find_grader("prompts.csv", [*answers]) == grader


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (
            "a,b\n1,2\n",
            ["--budget", "1"],
            "which column holds the prompts? name it with --question; the columns are a, b",
        ),
        (
            "prompt\nx\n",
            ["--budget", "1", "--question", "q"],
            "no column 'q'; the columns are prompt",
        ),
        ("prompt\nx\n", ["--budget", "0"], "policies.own-choice.budget"),
        (
            "prompt\nx\n",
            ["--budget", "1", "--key", "gsk_verysecret"],
            "source.key: the value should match",
        ),
        (
            "prompt\nx\n",
            ["--budget", "1", "--format", "verl"],
            "subset.format: the prompts of 'own-my-prompts' have no answers to train on",
        ),
        (
            "prompt\nx\n",
            ["--budget", "1", "--most-money", "1"],
            "most_money: the price of a token is unknown",
        ),
        (
            "prompt\nx\n",
            ["--budget", "1", "--price", "1", "4", "--most-money", "0"],
            "source.most_money",
        ),
    ],
)
def test_a_wrong_call_gives_a_one_line_error(choose, content, arguments, words):
    done = choose(content, *arguments)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and "verysecret" not in done.stderr
