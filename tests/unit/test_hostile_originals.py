"""Regression tests for inputs with which `make fuzz` found errors: damaged files of other authors
and hostile answers of servers."""

import json
import os
import subprocess
import sys

import pytest

from conftest import path_of
from fuzzing import originals
from hardgrpo.data import published_counts
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import server_engine
from hardgrpo.sampling.answers import AnswerFile, Usage
from hardgrpo.sampling.requests import Completion, Request


def read_error(folder, program: str, *arguments: str) -> str:
    """Run a program that must fail. Return its message, which must be one line."""
    command = [sys.executable, path_of(program), *arguments]
    process = subprocess.run(
        command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    assert process.returncode == 1 and process.stderr.count("\n") == 1, process.stderr
    return process.stderr


def test_pass_rates_above_1_are_refused(tmp_path):
    (tmp_path / "o.json").write_text(json.dumps(originals.ACCURACIES))
    (tmp_path / "s.json").write_text(json.dumps([0.5, 1.25]))
    options = ["--format", "accuracies", "--original", "o.json", "--output", "a.csv"]
    line = read_error(tmp_path, "convert_recording", *options, "--scores", "s.json")
    assert "1.25 is not a share from 0 to 1" in line
    assert not (tmp_path / "a.csv").exists()


def test_a_parquet_file_with_damaged_text_is_reported(tmp_path):
    path = tmp_path / "d.parquet"
    assert originals.parquet().count(b"user") > 0
    path.write_bytes(originals.parquet().replace(b"user", b"\xf3ser"))
    with pytest.raises(UserError, match=f"{path}: not a Parquet file"):
        published_counts.convert("probe_sizes", [str(path)], 8)


@pytest.mark.parametrize("change", [{"finish_reason": ["stop"]}, {"finish_reason": {}}])
def test_an_answer_with_an_unknown_finish_reason_is_malformed(change):
    answer = originals.ANSWER | {"choices": [originals.CHOICES[0] | change]}
    with pytest.raises(server_engine.Malformed, match="unknown reason"):
        server_engine.read_answer(answer, request(), 1, "m")


@pytest.mark.parametrize("content", [5.0, True, {"a": 1}, "text"])
def test_log_probabilities_in_an_unknown_form_are_ignored(content):
    choice = originals.CHOICES[0] | {"logprobs": {"content": content}}
    answer = originals.ANSWER | {"choices": [choice]}
    (completion,), _ = server_engine.read_answer(answer, request(), 1, "m")
    assert completion.text == "x 7" and completion.log_probability is None


def request() -> Request:
    return Request(({"role": "user", "content": "q"},), 1, 1.0, log_probability=True)


def test_stored_answers_are_read_unchanged(tmp_path):
    completion = Completion("x", 1, "stop", -0.5)
    AnswerFile(tmp_path).add({"k": completion}, Usage(3, 1, frozenset(["m"])))
    answers = AnswerFile(tmp_path)
    assert answers.read({"k"}) == {"k": completion} and answers.usage.input_tokens == 3
