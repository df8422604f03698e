"""A user's own prompts and small model, for tests of `snakemake subset` and of the steps after
it."""

import collections
import csv
import io
import shutil
from pathlib import Path

import pytest
import yaml

from conftest import World
from hardgrpo.runtime import files

SAMPLES = 8
TASK = {
    "source": {"kind": "files", "train": "prompts.csv", "columns": {"question": "my prompt", "answer": "gold", "tier": "level", "id": "name"}},
    "prompt": "{question}",
    "grader": "final_word",
    "completion_tokens": 12,
    "probe": {"samples": SAMPLES, "shards": 2, "seed": 1},
}  # fmt: skip
OVERLAY = {
    "data": "my data",
    "subset": {"model": "mine", "task": "mine", "policy": "half", "seed": 3},
    "tasks": {"mine": TASK},
    "models": {"mine": {"source": {"kind": "folder", "path": "a model"}}},
    "policies": {"half": {"rule": "hard", "budget": 0.5}},
}


@pytest.fixture(scope="session")
def untrained(tmp_path_factory) -> Path:
    """A model that writes `red`, `blue` and `####` at random, so that some samples solve a
    problem."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from hardgrpo.training.pretraining import build_model

    words = ["<pad>", "<eos>", "<unk>", "####", "red", "blue"]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    fast.chat_template = "{{ messages[0]['content'] }}"
    sizes = dict.fromkeys(("layers", "heads", "key_value_heads"), 1)
    sizes |= dict.fromkeys(("hidden_size", "intermediate_size", "head_size"), 16)
    folder = tmp_path_factory.mktemp("untrained") / "a model"
    model = build_model(sizes | {"context_tokens": 64, "rotary_base": 100.0, "seed": 0}, fast)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def as_csv(rows) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def make_world(folder: Path, untrained: Path, overlay=OVERLAY, **texts) -> World:
    world = World(folder / "world")
    (world.folder / "my data").mkdir()
    shutil.copytree(untrained, world.folder / "my data/a model")
    for name, text in texts.items():
        (world.folder / "my data" / name.replace("_", ".")).write_bytes(text.encode())
    (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))
    return world


def choose_subset(world, by="pass_rate"):
    """Run `snakemake subset`. Return the subset's rows and the content of its JSON file."""
    done = world.snakemake("subset", "--configfile", "my.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    world.output = done.stdout + done.stderr
    stem = world.folder / "results/subsets/mine/mine/half/seed3"
    return files.read_rows(f"{stem}.csv", {"id": str, by: float, "rank": int}), files.read_json(
        f"{stem}.json"
    )


def read_answers(world) -> dict[str, list[str]]:
    """Each problem's answers, read from the probe without the project's grader. An answer is the
    first word after the last ####, or None if there is no such word."""
    answers = collections.defaultdict(list)
    for path in sorted((world.folder / "results/probe/mine/mine").glob("*.gz")):
        for row in files.read_jsonl(path, {"id": str, "completion": str}):
            after = (
                row["completion"].split("####")[-1].split() if "####" in row["completion"] else []
            )
            answers[row["id"]].append(after[0] if after else None)
    assert {len(problem_answers) for problem_answers in answers.values()} == {SAMPLES}
    return answers


def check_order(rows, rates, by="pass_rate"):
    """Assert that the ten rows have the lowest rates and are sorted by rate."""
    assert [row["rank"] for row in rows] == list(range(1, 11))
    assert len({row["id"] for row in rows}) == 10
    assert all(row[by] == rates[row["id"]] for row in rows)
    assert [row[by] for row in rows] == sorted(rates.values())[:10]
    assert len(set(rates.values())) > 2, "fewer than three different rates"
