"""Runs `hardgrpo` in the test's process, in an empty folder with an empty store of completions."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from hardgrpo import console
from hardgrpo.runtime.errors import UserError
from model_server import ModelServer

QUESTION = "Ann has {} pens and buys {} more. How many has she?"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def hardgrpo(capsys):
    """A function that runs the command. The status is 1 for every error that it reports."""

    def run(*arguments: object) -> subprocess.CompletedProcess:
        capsys.readouterr()
        status, error = 0, ""
        args = console.build_parser().parse_args([str(argument) for argument in arguments])
        try:
            args.run(args)
        except UserError as problem:
            status, error = 1, str(problem)
        return subprocess.CompletedProcess(arguments, status, capsys.readouterr().out, error)

    return run


class Chosen:
    """What `hardgrpo choose` did: its status, output and error, and the files that it wrote."""

    def __init__(self, done: subprocess.CompletedProcess):
        self.status, self.output, self.error = done.returncode, done.stdout, done.stderr

    @property
    def path(self) -> str:
        assert self.status == 0, self.output + self.error
        (line,) = [line for line in self.output.splitlines() if line.startswith("chosen  ")]
        return line.removeprefix("chosen  ")

    @property
    def rows(self) -> list[dict]:
        return read_lines(self.path)

    @property
    def rates(self) -> list[float]:
        return [row["pass_rate"] for row in self.rows]

    @property
    def facts(self) -> dict:
        return json.loads(Path(self.path).with_name("choice.json").read_text())

    def is_refused(self, *words: str) -> bool:
        """Whether the error is one line with all these words."""
        has_words = all(word in self.error for word in words)
        return self.status == 1 and "\n" not in self.error and has_words


@pytest.fixture
def choose(hardgrpo, folder):
    """A function that chooses from a file, or from rows, which it writes to s.jsonl."""

    def choose(prompts: str | list[dict], *arguments: object) -> Chosen:
        if not isinstance(prompts, str):
            prompts = write_lines(folder / "s.jsonl", prompts)
        return Chosen(hardgrpo("choose", prompts, *arguments))

    return choose


@pytest.fixture
def server(model_server) -> ModelServer:
    """A server that adds. Of the samples of the sum of a and b, the first a % 5 are wrong."""
    model_server.answer = lambda body, number: sums(body)
    return model_server


def sums(body: dict, form: str = "so \\boxed{%s}", **changes) -> dict:
    numbers = [int(text) for text in re.findall(r"\d+", body["messages"][-1]["content"])][:2]
    texts = [form % (sum(numbers) + (index < numbers[0] % 5)) for index in range(body.get("n", 1))]
    return answer_of(body, texts, **changes)


def answer_of(body: dict, texts: Iterable[str], finish_reason: str = "stop") -> dict:
    choices = [
        {"index": i, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}}
        for i, text in enumerate(texts)
    ]  # fmt: skip
    usage = {"prompt_tokens": 20, "completion_tokens": 8 * len(choices)}
    return {"object": "chat.completion", "model": body["model"], "choices": choices, "usage": usage}


def sum_rows(number: int, **columns: object) -> list[dict]:
    """Rows with questions about sums, with answers."""
    return [
        {"question": QUESTION.format(i, i + 1), "answer": str(2 * i + 1)} | columns
        for i in range(1, number + 1)
    ]


def write_lines(path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


def read_lines(path: str | Path) -> list[dict]:
    return [json.loads(line) for line in open(path)]


@contextlib.contextmanager
def no_requests(server: ModelServer):
    before = len(server.requests)
    yield
    assert len(server.requests) == before, "requests were sent"
