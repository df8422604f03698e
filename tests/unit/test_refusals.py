"""Everything of tests/refusals.yaml is refused with a message that names the place and the thing."""

import copy
import csv
import functools
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import yaml

import project_config
from conftest import ROOT
from hardgrpo.data import published_counts
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study import checks, load
from hardgrpo.study.spec import Spec
from in_process import run_program

TABLE = yaml.safe_load((ROOT / "tests/refusals.yaml").read_text(encoding="utf-8"))


def entry_at(value, path: str):
    for key in path.split("/"):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def changed_configuration(changes: dict) -> dict:
    """The project's configuration with the changes {path: value} of a row."""
    config = project_config.config()
    for path, value in changes.items():
        outer, _, key = path.rpartition("/")
        parent = functools.reduce(
            lambda entry, name: entry[int(name)] if isinstance(entry, list) else entry.setdefault(name, {}),
            filter(None, outer.split("/")),
            config,
        )  # fmt: skip
        if isinstance(value, str) and value.startswith("copy of "):
            value = entry_at(config, value.removeprefix("copy of "))
        if value == "ABSENT":
            del parent[key]
        elif isinstance(parent, list):
            parent[int(key) :] = [copy.deepcopy(value)]
        else:
            parent[key] = copy.deepcopy(value)
    return config


def check_configuration(changes: dict) -> None:
    checks.check(changed_configuration(changes), "config.yaml")


def check_catalogue(text: str) -> None:
    Path("config").mkdir()
    Path("config.yaml").write_text("study: s\n")
    Path("config/recipes.yaml").write_text(text)
    load.read(Path())


def write_files(case: dict) -> list[str]:
    """Write the files of a case, whose names have a dot, and return their names."""
    names = [name for name in case if "." in name]
    for name in names:
        content, kind = case[name], name.rpartition(".")[2]
        if kind == "parquet" and isinstance(content, dict):
            pyarrow.parquet.write_table(pyarrow.table(content), name)
            continue
        if kind == "jsonl" and isinstance(content, list):
            lines = [line if isinstance(line, str) else json.dumps(line) for line in content]
            content = "".join(f"{line}\n" for line in lines)
        text = content if isinstance(content, str) else json.dumps(content)
        Path(name).write_bytes(text.encode(case.get("encoding", "utf-8")))
    return names


def prepare_prompts(case: dict) -> None:
    names = write_files(case)
    keys = {key: case[key] for key in ("columns", "format", "problems", "keep") if key in case}
    source = {"kind": "files", "train": names} | keys
    if "format" in case:
        part = {"dataset": "a/b", "revision": "0" * 40, "file": "f"}
        parts = [part | {"local": name, "rows": case.get("rows", {})} for name in names]
        source |= {"kind": "hub", "train": parts}
    options = {} if "format" in case else {"grader": "number_lenient"}
    if "policies" in case:
        options["policies"] = json.dumps(case["policies"])
    run_program("prepare_task", task="t", split="train", source=json.dumps(source), files=names,
                output="out", **options)  # fmt: skip


def read_annotated(case: dict) -> None:
    files.write_jsonl("P.jsonl", [{"id": "a", "question": "q", "answer": None}])
    for answer, grader in itertools.product(case["answers"], case["grader"]):
        with open("back.csv", "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([["prompt_id", "answer"], [question_id("q"), answer]])
        with pytest.raises(UserError, match=re.escape(answer)) as refused:
            run_program("read_annotated", problems="P.jsonl", annotated="back.csv",
                        column="answer", grader=grader, output="out")  # fmt: skip
    raise refused.value


def convert_recording(case: dict) -> None:
    original = [[f"user\n{question}\nassistant\n1"] for question in "ab"]
    questions = [{"question": question, "answer": "1"} for question in "ab"]
    valid = {"original.json": original, "scores.json": [0.5, 0.5]}
    write_files({name: case.get(name, valid[name]) for name in valid if case.get(name) != "ABSENT"})
    files.write_jsonl("questions.json", questions)
    write_files({name: case[name] for name in case if name == "questions.json"})
    form = case.get("format", "responses")
    options = {"shares": {"rollouts": 8}, "accuracies": {}}.get(
        form, {"questions": "questions.json", "scores": "scores.json"}
    )
    run_program("convert_recording", format=form, original="original.json", output="out", **options)


def convert_counts(case: dict) -> None:
    (name,) = write_files(case)
    kind = "before_after" if name.endswith(".csv") else "probe_sizes"
    published_counts.convert(kind, [name], 32 if name != "p.parquet" else 128)


def read_state(case: dict) -> None:
    (name,) = write_files(case)
    readers = {
        "x.jsonl": lambda: files.read_jsonl(name, {"id": int}),
        "x.csv": lambda: files.read_rows(name, {"id": str, "rate": float}),
        "x.yaml": lambda: files.read_yaml(name),
        "spec.yaml": lambda: Spec.read(name),
    }
    readers[name]()


def select_subset(case: dict) -> None:
    options = {key: case[key] for key in case if key not in ("tiers", "questions", "policy")}
    inputs = {}
    if "tiers" in case:
        rows = [{"id": f"p{n}", "tier": tier, "pass_rate": 0.5} for n, tier in enumerate(case["tiers"])]  # fmt: skip
        files.write_rows("D.csv", ["id", "tier", "pass_rate"], rows)
        inputs["difficulty"] = "D.csv"
    if "questions" in case:
        files.write_jsonl("Q.jsonl", [{"id": text, "question": text} for text in case["questions"]])
        inputs["questions"] = "Q.jsonl"
    policy = case.get("policy", json.dumps(options))
    run_program("select_subset", policy=policy, seed=0, output="out", **inputs)


def choose(settings: dict) -> None:
    policies.select({"a": 0.9, "b": 0.9, "c": 0.95}, seed=0, **settings)


def probe_server(server: dict) -> None:
    server = json.dumps({"url": "http://127.0.0.1:1/v1"} | server)
    run_program("probe", model="m", problems="P.jsonl", prompt="{question}", samples=1, seed=1,
                completion_tokens=9, engine="server", server=server, output="out")  # fmt: skip


# {group of the table: what refuses its cases}
CHECKS: dict[str, Callable] = {
    "configuration": check_configuration,
    "catalogue": check_catalogue,
    "prompts": prepare_prompts,
    "annotated": read_annotated,
    "recordings": convert_recording,
    "counts": convert_counts,
    "states": read_state,
    "subsets": select_subset,
    "server": probe_server,
    "policies": choose,
}


def words_by_place(group: str, case, message) -> dict[str, list[str]]:
    """{start of a line of the message: words of this line}"""
    if not isinstance(message, dict):
        place = next(iter(case)).replace("/", ".") if group == "configuration" else ""
        message = {place: message}
    start = "config.yaml: " if group == "configuration" else ""
    return {
        start + place: words if isinstance(words, list) else [words]
        for place, words in message.items()
    }


@pytest.mark.parametrize(
    ("group", "case", "message"),
    [(group, *row) for group in CHECKS for row in TABLE[group]],
    ids=lambda value: str(value)[:80],
)
def test_a_message_names_the_place_and_the_thing(group, case, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        CHECKS[group](case)
    lines = str(error.value).removeprefix("error: ").splitlines()
    assert all(line.isprintable() for line in lines)
    if group != "configuration":
        assert len(lines) == 1 and not Path("out").exists()
    assert "verysecret" not in str(error.value)
    for start, words in words_by_place(group, case, message).items():
        text = "\n".join(line for line in lines if line.startswith(start))
        assert text and all(str(word) in text for word in words), lines


@pytest.mark.parametrize("changes", TABLE["accepted"], ids=str)
def test_valid_combinations_are_accepted(changes):
    check_configuration(changes)
