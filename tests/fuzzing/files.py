"""Targets: files of every format. A case mutates one file of its target and calls the program or
function that reads this file.

The reader must return the content of each file that it accepts. contents.py reads the file
independently of the project's readers, and rejects ambiguous files: repeated keys or columns, rows
with more or fewer cells than the header, numbers that cannot be parsed.
"""

import gzip
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from fuzzing import contents, mutations
from fuzzing.contents import (
    SPEC,
    jsonl,
    number,
    parse_csv,
    parse_json,
    parse_jsonl,
    parse_table,
    table,
    value_when_read,
)
from fuzzing.judge import run_program
from hardgrpo.analysis import claims, published
from hardgrpo.data import (
    completions,
    evaluations,
    inputs,
    sources,
    tasks,
    trajectory_files,
)
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files, provenance
from hardgrpo.study.spec import Spec

# --- targets


@dataclass(frozen=True)
class Target:
    """`contents` is {name of a file: (content, kind of its mutations)}. `read` reads the files in a
    folder and checks the result. `kept` holds the names of files that are not mutated."""

    contents: dict[str, tuple[bytes, str]]
    read: Callable[[Path], None]
    kept: tuple[str, ...] = ()

    def run(self, rng: random.Random, folder: Path) -> None:
        data_by_name = {name: data for name, (data, _) in self.contents.items()}
        name = rng.choice([name for name in data_by_name if name not in self.kept])
        kind = self.contents[name][1]
        data_by_name[name] = mutations.mutated(rng, data_by_name[name], kind)
        for file, data in data_by_name.items():
            if file.endswith(".gz"):
                data = gzip.compress(data, 1)
                if file == name and rng.random() < 0.2:
                    data = rng.choice(mutations.BYTES[:5])(rng, data)
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        self.read(folder)


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def prompts(name: str):
    def read(folder):
        problems = tasks.prepare(
            "t", {"kind": "files", "train": name}, "train", [str(folder / name)]
        )
        data = plain(folder / name)
        if name.endswith(".csv"):
            rows = parse_table(data)
        else:
            rows = parse_jsonl(data)
        assert [(p["question"], p["answer"]) for p in problems] == [
            (str(row["question"]), str(row["answer"])) for row in rows
        ]
        assert len({problem["id"] for problem in problems}) == len(rows)
        path = folder / "out.jsonl"
        files.write_jsonl(path, problems)
        assert tasks.read_problems(path) == value_when_read(problems), (
            "rows differ after they were written and read again"
        )

    return read


def big_bench(folder):
    rows = sources.read_rows(folder / "B.json")
    assert rows == [
        {"input": str(row["input"]), "target": str(row["target"])}
        for row in parse_json(plain(folder / "B.json"))["examples"]
    ]


def annotated(name: str):
    def read(folder):
        run_program(
            "read_annotated",
            problems=folder / "P.jsonl",
            annotated=folder / name,
            column="answer",
            grader="choice_letter",
            output=folder / "A.jsonl",
        )
        data = plain(folder / name)
        rows = parse_table(data) if name.endswith("csv") else parse_jsonl(data)
        questions = {
            str(row["id"]): question_id(row["question"])
            for row in parse_jsonl(plain(folder / "P.jsonl"))
        }
        # an answer belongs to the prompt of its row
        written = {(str(row["prompt_id"]), str(row["answer"]).strip()) for row in rows}
        for row in parse_jsonl(plain(folder / "A.jsonl")):
            assert (questions[row["id"]], row["answer"]) in written

    return read


def recording(folder):
    problems = tasks.read_problems(folder / "P.jsonl")
    samples_by_problem = completions.read_recording(str(folder / "R.jsonl"), problems)
    rows = {row["question"]: row for row in parse_jsonl(plain(folder / "R.jsonl"))}
    for problem in problems:
        row = rows.pop(problem["question"])
        assert [sample["completion"] for sample in samples_by_problem[problem["id"]]] == row[
            "completions"
        ]
        for sample in samples_by_problem[problem["id"]]:
            assert (
                sample["tokens"] is None or type(sample["tokens"]) is int and sample["tokens"] >= 0
            ), sample["tokens"]
            assert sample["finish_reason"] is None or isinstance(sample["finish_reason"], str)
    assert not rows


def graded_recording(folder):
    run_program(
        "grade_recording",
        problems=folder / "P.jsonl",
        recordings=folder / "R.jsonl",
        steps=5,
        grader="choice_letter",
        output=folder / "e.csv.gz",
        completions=folder / "e.jsonl.gz",
    )
    assert len(evaluations.read(str(folder / "e.csv.gz"))) == len(
        parse_jsonl(plain(folder / "e.jsonl.gz"))
    )


def choices(folder):
    run_program(
        "compare_choices",
        recording=folder / "R.jsonl",
        grader="choice_letter",
        budget=0.5,
        draws=5,
        output=folder / "c.csv",
    )
    assert {row["pool"] for row in parse_csv(plain(folder / "c.csv"))} == {
        str(len(parse_jsonl(plain(folder / "R.jsonl"))))
    }


def trajectory(folder):
    run_program(
        "import_trajectory",
        trajectory=folder / "T.csv",
        chosen_from=1,
        difficulty=folder / "D.csv",
        later=folder / "L.csv",
    )
    rows = parse_table(plain(folder / "T.csv"))
    first = {}
    for row in sorted(rows, key=lambda row: number(row["epoch"])):
        first.setdefault(row["id"], number(row["correct"]) / number(row["rollouts"]))
    assert {
        row["id"]: number(row["pass_rate"]) for row in parse_csv(plain(folder / "D.csv"))
    } == first
    assert len(parse_csv(plain(folder / "L.csv"))) == len(rows) - len(first)


def later_epochs(folder):
    assert all(
        0 <= row["correct"] <= row["rollouts"]
        for rows in trajectory_files.read(str(folder / "T.csv")).values()
        for row in rows
    )


def judged_claims(folder):
    for claim in claims.read(folder / "claims.yaml"):
        assert isinstance(claim["claim"], str)


def printed_numbers(folder):
    numbers = published.read(folder / "published")
    assert all(math.isfinite(row["number"]) for row in numbers)
    assert len(numbers) == len(parse_csv(plain(folder / "published/p.csv")))


def lock(folder):
    lock_entries = inputs.read_lock(folder / "inputs.lock")
    assert lock_entries == parse_json(plain(folder / "inputs.lock"))
    inputs.check_problems(
        folder / "inputs.lock", "t/train", [{"question": "q", "answer": "a"}], update=True
    )
    assert inputs.read_lock(folder / "inputs.lock")["problems"]["t"]["train"]["rows"] == 1


def spec(folder):
    run_spec = Spec.read(str(folder / "spec.yaml"))
    for name, value in SPEC.items():
        assert type(getattr(run_spec, name)) is type(value), name


def model(folder):
    run_program(
        "fetch_model",
        model="m",
        source=json.dumps({"kind": "folder", "path": str(folder / "m")}),
        output=folder / "out",
        lock=folder / "inputs.lock",
    )
    assert provenance.check_manifest(folder / "out")["model"] == "m"
    for name in ("config.json", "tokenizer_config.json"):
        assert not json.loads(plain(folder / "out" / name)).get("auto_map"), (
            "the model's own code was accepted"
        )


P, R = (
    {"P.jsonl": (jsonl(contents.PROBLEMS), "jsonl")},
    {"R.jsonl": (jsonl(contents.RECORDING), "jsonl")},
)
T = {"T.csv": (table(contents.EPOCHS), "csv")}
S = {
    "S.csv": (table(contents.SUBSET), "csv"),
    "S.json": (json.dumps(contents.FACTS).encode(), "json"),
}

TARGETS: dict[str, Target] = {
    "prompts, CSV": Target({"mine.csv": (table(contents.TEXTS), "csv")}, prompts("mine.csv")),
    "prompts, JSON Lines": Target({"mine.jsonl": (jsonl(contents.TEXTS), "jsonl")}, prompts("mine.jsonl")),
    "prompts, BIG-Bench-Hard": Target({"B.json": (json.dumps({"examples": [{"input": "q\nOptions:\n(A) x", "target": "(A)"}] * 3}).encode(), "json")}, big_bench),
    "annotated, CSV": Target(P | {"to.csv": (table(contents.TO_ANNOTATE), "csv")}, annotated("to.csv"), kept=("P.jsonl",)),
    "annotated, JSON Lines": Target(P | {"to.jsonl": (jsonl(contents.TO_ANNOTATE), "jsonl")}, annotated("to.jsonl"), kept=("P.jsonl",)),
    "recording": Target(P | R, recording),
    "recording, graded": Target(P | R, graded_recording),
    "recording, choices": Target(R, choices),
    "trajectory": Target(T, trajectory),
    "trajectory, read": Target(T, later_epochs),
    "claims": Target({"claims.yaml": (yaml.safe_dump(contents.CLAIMS).encode(), "yaml")}, judged_claims),
    "published numbers": Target({"published/p.csv": (table([dict.fromkeys(published.COLUMNS, "x") | {"value": "1.50"}] * 3), "csv")}, printed_numbers),
    "inputs.lock": Target({"inputs.lock": (json.dumps(contents.LOCK).encode(), "json")}, lock),
    "specification of a run": Target({"spec.yaml": (yaml.safe_dump(SPEC).encode(), "yaml")}, spec),
    "model folder": Target(
        {"m/config.json": (json.dumps(contents.SETTINGS).encode(), "json"), "m/tokenizer_config.json": (json.dumps(contents.SETTINGS).encode(), "json"),
         "m/model.safetensors.index.json": (json.dumps(contents.INDEX).encode(), "json")} | {f"m/{name}": (b"x", "") for name in ("model-1.safetensors", "model-2.safetensors", "tokenizer.json")},
        model, kept=("m/model-1.safetensors", "m/model-2.safetensors", "m/tokenizer.json"),
    ),
}  # fmt: skip
