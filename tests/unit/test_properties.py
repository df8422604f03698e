"""Laws for any input, by Hypothesis: a file of a stranger is read as an independent reader reads it,
or refused in one line; an answer of a server is used or rejected; a configuration is planned or
refused; no hostile completion is graded as right."""

import csv
import io
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import project_config
from conftest import NIGHTLY
from hardgrpo.data import (
    annotations,
    completions,
    inputs,
    published_counts,
    row_files,
    tasks,
    trajectory_files,
)
from hardgrpo.data.question_ids import question_id
from hardgrpo.grading import expressions, graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.sampling import server_engine
from hardgrpo.sampling.requests import Request
from hardgrpo.study import checks, paths
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.study.spec import Spec
from in_process import run_program

# The nightly tests try other examples every time, and more of them.
many = settings(
    max_examples=1000 if NIGHTLY else 150,
    derandomize=not NIGHTLY,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def is_refused(read) -> bool:
    """Whether `read` raises a `UserError`, which must consist of short printable lines."""
    try:
        read()
        return False
    except UserError as error:
        lines = str(error).splitlines()
        assert 0 < len(lines) <= 21
        assert all(line.strip() and line.isprintable() and len(line) <= 1500 for line in lines)
        return True


# --- hostile values, and changes of valid content

ODD_TEXTS = [
    "", " ", "0", "-0", "007", "1e400", "1_0", "nan", "inf", "None", "NA", "٣", "½", "9" * 5000,
    "x" * 5000, "日本", "a\nb", "a\rb", "a\x00b", "\ufeff", "\u202etxt", "\x1b[31mred", "'", '"',
    '""', "$(id)", "../../x", "/etc/passwd", "=1+1", "{question}", "\\", "%s", "\u2028", "\ud83d",
]  # fmt: skip
ODD_PIECES = [
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"\r", b"\n", b",", b";",
    b"\t", b"{", b"[", b"&", b"*", b"!", b"#", b"---\n", b"<<<<<<< HEAD\n", b"[" * 100_000,
    b"9" * 5000, b"\xff\xfe", b'{"id": NaN}\n', b"a: &a [*a]\n", b"<<: 5\n",
]  # fmt: skip
texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=20))
values = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.sampled_from([[], {}, [[]], [None], {"": None}, ["a", "a"], 10**400]),
)


def places(value, path=()):
    """The paths of all entries at any depth inside a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [place for key, item in inner for place in [(*path, key), *places(item, (*path, key))]]


def changed(draw, value, new_values=values):
    """A copy of a nested value with one entry replaced, removed, renamed or added."""
    value = json.loads(json.dumps(value))
    *outer, key = draw(st.sampled_from(places(value)))
    parent = value
    for name in outer:
        parent = parent[name]
    action = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
    if action == "remove":
        del parent[key]
    elif action == "add" and isinstance(parent, dict):
        parent[draw(texts)] = draw(new_values)
    elif action == "add":
        parent.append(draw(new_values))
    else:
        parent[key] = draw(new_values)
    return value


def damaged(draw, data: bytes) -> bytes:
    """The bytes, cut, with a flipped bit, or with a piece inserted."""
    place = draw(st.integers(0, len(data)))
    action = draw(st.sampled_from(["keep", "cut", "flip", "insert", "repeat"]))
    if action == "cut":
        return data[:place]
    if action == "flip":
        place = min(place, len(data) - 1)
        bit = bytes([data[place] ^ 1 << draw(st.integers(0, 7))])
        return data[:place] + bit + data[place + 1 :]
    if action == "insert":
        return data[:place] + draw(st.sampled_from(ODD_PIECES)) + data[place:]
    return data[:place] + data[:place][-50:] + data[place:] if action == "repeat" else data


def encoded(content, kind: str) -> bytes:
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in content).encode()
    if kind == "csv":
        buffer = io.StringIO()
        csv.writer(buffer).writerows(content)
        return buffer.getvalue().encode("utf-8", "replace")
    if kind == "yaml":
        return yaml.safe_dump(content, sort_keys=False).encode()
    return json.dumps(content).encode()


@st.composite
def damaged_files(draw, content, kind: str) -> bytes:
    if draw(st.booleans()):
        content = changed(draw, content, texts if kind == "csv" else values)
        if kind == "csv":
            assume(all(isinstance(row, list) for row in content))
    return damaged(draw, encoded(content, kind))


# --- files

QUESTIONS = [f"q {n}?" for n in range(8)]
PROBLEMS = [{"id": f"p{n}", "question": text, "answer": "(A)"} for n, text in enumerate(QUESTIONS)]
PROMPTS = [
    ["question", "answer", "tier"],
    *([text, f"({n})", n] for n, text in enumerate(QUESTIONS)),
]
EPOCHS = [["id", "epoch", "correct", "rollouts"]]
EPOCHS += [[f"p{n}", epoch, (n + epoch) % 4, 4] for epoch in range(3) for n in range(4)]
AFTER = [["qid", "initial_pass1", "pass1_seed1", "pass1_seed2"]]
AFTER += [[f"q{n}", n / 8, 1 - n / 8, 0.5] for n in range(8)]
ANNOTATED = [["question", "answer", "prompt_id"]]
ANNOTATED += [[text, "(B)" if n % 2 else "", question_id(text)] for n, text in enumerate(QUESTIONS)]
RECORDING = [
    {"question": text, "answer": "(A)", "completions": [rf"\boxed{{({c})}}" for c in "ABC"], "tokens": [3] * 3}
    for text in QUESTIONS
]  # fmt: skip
RESPONSES = [[f"user\n{text}\nassistant\nI say {c}" for c in "AB"] for text in QUESTIONS]
SPEC = {
    "model": "m", "task": "t", "policy": "p", "recipe": "r", "seed": 0, "model_folder": "m",
    "problems": "P.jsonl", "subset": "s.csv", "prompt": "{question}", "chat": {},
    "grader": "final_word", "completion_tokens": 10,
    "training": project_config.config()["recipes"]["mini"],
}  # fmt: skip
LOCK = {"problems": {"t": {"train": {"rows": 3, "sha256": "1" * 64}}}}
MODEL = {"model_type": "qwen3", "vocab_size": 10, "auto_map": {}}


def read_prompts(path: Path) -> None:
    """The questions and answers that the project reads are those that module csv reads."""
    source = {"kind": "files", "train": path.name}
    problems, _ = tasks.prepare("t", source, "train", [str(path)])
    table = row_files.read_file(path)
    data = path.read_bytes()
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    if table.table_form.delimiter != "," or table.table_form.has_separator_line:
        return
    header, *rows = filter(None, csv.reader(io.StringIO(text, newline=""), strict=True))
    rows = [dict(zip(header, row)) for row in rows if "".join(row).strip()]
    expected = [(row["question"], row["answer"]) for row in rows]
    assert [(problem["question"], problem["answer"]) for problem in problems] == expected
    assert len({problem["id"] for problem in problems}) == len(problems)


def read_annotated(path: Path) -> None:
    read = annotations.read(str(path), "answer", PROBLEMS, "choice_letter", "pool")
    assert set(read.answers) <= {problem["id"] for problem in PROBLEMS} and "" not in read.answers


def read_recording(path: Path) -> None:
    for samples in completions.read_recording(str(path), PROBLEMS).values():
        assert all(isinstance(sample["completion"], str) for sample in samples)


def read_trajectory(path: Path) -> None:
    for rows in trajectory_files.read(str(path)).values():
        assert all(0 <= row["correct"] <= row["rollouts"] for row in rows)


def read_counts(path: Path) -> None:
    for row in published_counts.convert("before_after", [str(path)], 8):
        assert row["id"] and all(0 <= row[name] <= 8 for name in row if "correct" in name)


def convert(path: Path) -> None:
    questions = path.with_name("Q.jsonl")
    files.write_jsonl(questions, PROBLEMS)
    output = path.with_name("R.jsonl")
    run_program("convert_recording", format="responses", original=path, questions=questions, output=output)  # fmt: skip
    assert len(files.read_jsonl(output, {"prompt": str})) == len(QUESTIONS)


def fetch_model(path: Path) -> None:
    folder = path.with_name("m")
    folder.mkdir(exist_ok=True)
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).write_bytes(b"x")
    (folder / "config.json").write_bytes(path.read_bytes())
    source = json.dumps({"kind": "folder", "path": str(folder)})
    run_program("fetch_model", model="m", source=source, output=path.with_name("out"))
    assert not json.loads(path.read_text("utf-8-sig")).get("auto_map"), "code of the model"


READERS = {
    "prompts.csv": (PROMPTS, read_prompts),
    "annotated.csv": (ANNOTATED, read_annotated),
    "recording.jsonl": (RECORDING, read_recording),
    "trajectory.csv": (EPOCHS, read_trajectory),
    "counts.csv": (AFTER, read_counts),
    "responses.json": (RESPONSES, convert),
    "config.json": (MODEL, fetch_model),
    "inputs.json": (LOCK, inputs.read_lock),
    "spec.yaml": (SPEC, lambda path: Spec.read(str(path))),
}


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(tmp_path, name):
    content, read = READERS[name]
    (tmp_path / name).write_bytes(encoded(content, name.rpartition(".")[2]))
    assert not is_refused(lambda: read(tmp_path / name))


@pytest.mark.parametrize("name", READERS)
@many
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(tmp_path, name, data):
    content, read = READERS[name]
    path = tmp_path / name
    path.write_bytes(data.draw(damaged_files(content, name.rpartition(".")[2])))
    is_refused(lambda: read(path))


# --- answers of servers

CHOICE = {
    "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "#### 7"},
    "logprobs": {"content": [{"token": "7", "logprob": -0.5}]},
}  # fmt: skip
ANSWER = {
    "model": "m", "choices": [CHOICE, CHOICE | {"index": 1}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}  # fmt: skip


@many
@given(data=st.data())
def test_an_odd_answer_of_a_server_is_used_or_rejected(data):
    answer = changed(data.draw, changed(data.draw, ANSWER))
    request = Request(({"role": "user", "content": "q"},), 1, 1.0, log_probability=True)
    try:
        samples, usage = server_engine.read_answer(answer, request, 2, "m")
    except server_engine.Failure as error:
        assert len(printable(error)) < 1500
        return
    except UserError:
        return
    assert 1 <= len(samples) <= 2 and usage.output_tokens == sum(s.tokens for s in samples) > 0
    for sample in samples:
        sample.text.encode()  # can be stored
        assert sample.finish_reason in ("stop", "length", "content_filter")
        assert sample.log_probability is None or isinstance(sample.log_probability, float)


# --- configuration


@settings(many, max_examples=60)
@given(data=st.data())
def test_any_configuration_is_planned_or_refused(data):
    config = project_config.config()
    section = data.draw(st.sampled_from(["tasks", "models", "policies", "recipes", "studies"]))
    name = data.draw(st.sampled_from(sorted(config[section])))
    near = st.one_of(values, st.integers(0, 20), st.sampled_from(sorted(config[section])))
    config[section] |= changed(data.draw, {name: config[section][name]}, near)

    def plan():
        checks.check(config, "config.yaml")
        studies = resolve_studies(config)
        for study in studies.values():
            planned = [*paths.results(study), *paths.inputs(study, studies.values())]
            assert all(path.isprintable() and ".." not in path.split("/") for path in planned)

    is_refused(plan)


# --- completions

HOSTILE = [
    *ODD_TEXTS, "{" * 999, "}" * 999, "\\boxed{" * 99, "\\boxed{}", "\\boxed{", "}", "1/" * 999,
    "9^{9^{9^9}}", "(10^{10})!", "\\frac{" * 99, "\\sum_{k=1}^{10^{9}} k", "0.(3)", "#### " * 99,
    "\\def\\x{\\x\\x}\\x", "$" * 99, "\u200b" * 99, "a\u0300" * 99, "\x1b[2J", "i" * 999, "∞",
]  # fmt: skip
ANSWERS = {
    "choice_letter": "(Q)", "choice_letter_lenient": "(Q)", "brackets": "<[({",
    "final_number": "7391", "number_strict": "7391", "number_lenient": "7391",
}  # fmt: skip


@pytest.mark.parametrize("grader", [name for name in graders.GRADERS if "math" not in name])
@many
@given(pieces=st.lists(st.sampled_from(HOSTILE), max_size=6), is_stated=st.booleans())
def test_hostile_text_is_never_right_and_hides_no_right_answer(grader, pieces, is_stated):
    answer, rules = ANSWERS.get(grader, "zebra"), graders.GRADERS[grader]
    text = " ".join(pieces)
    text = rules.form.replace("%s", text) if is_stated else text
    grade = graders.grade(grader, text, answer)
    assert not (grade.correct or grade.lenient)
    assert grade.strict <= grade.lenient <= grade.readable <= grade.answered
    stated = text + "\n" + rules.form % rules.normalise(answer)
    assert graders.grade(grader, stated, answer).correct


@settings(many, max_examples=15)
@given(text=st.sampled_from(HOSTILE))
def test_hostile_expressions_are_wrong_or_undecided(text):
    expressions.SECONDS, seconds = 0.3, expressions.SECONDS
    try:
        assert not graders.grade("math", rf"\boxed{{{text}}}", r"7391\pi").correct
    finally:
        expressions.SECONDS = seconds
