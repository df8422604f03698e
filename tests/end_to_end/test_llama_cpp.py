"""A small model of this project behind two servers of llama.cpp: llama.cpp's own server (package
xllamacpp), and the server of llama-cpp-python, which answers one request at a time."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import LLAMA_PYTHON, ROOT, World, path_of
from gguf_files import build_qwen2, write_pretrained, write_qwen2
from hardgrpo.runtime import files
from hardgrpo.sampling import engines
from interruptible_run import wait_for
from learned_model import (
    NAME,
    PROBLEMS,
    assert_log_probabilities_of_weights,
    assert_pass_rate_of_weights,
    free_port,
    is_listening,
    one_task,
    probe_command,
    probe_through_server,
    problems_of,
)

pytestmark = pytest.mark.llama
SLOTS = 8  # completions that llama.cpp's own server samples in parallel
CONTEXT = 256  # tokens; llama.cpp rounds up to a multiple of 256


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> World:
    """A world with a model that was pretrained, probed with transformers, and written as a GGUF
    file."""
    world = World(tmp_path_factory.mktemp("learned") / "world")
    world.configure(one_task)
    world.run("results/difficulty/tiny/arithmetic.csv")
    write_pretrained(world.folder / "learned.gguf", world.folder / "results/models/tiny", CONTEXT)
    return world


@pytest.fixture(scope="module", params=["xllamacpp", "llama_cpp"])
def kind(request) -> str:
    """The package that provides the server."""
    find = f"import importlib.util as u, sys; sys.exit(u.find_spec('{request.param}') is None)"
    if subprocess.run([LLAMA_PYTHON, "-c", find], check=False).returncode:
        pytest.skip(f"{LLAMA_PYTHON} has no package {request.param}")
    return request.param


@contextlib.contextmanager
def serve(kind: str, folder: Path, weights: str):
    """Start a server of the model in the file `weights` of a folder. Yield the server's address."""
    port, path = free_port(), folder / f"{kind}.log"
    command = {
        "xllamacpp": [ROOT / "tests/llama_server.py", weights, NAME, port, str(CONTEXT), str(SLOTS)],
        "llama_cpp": ["-m", "llama_cpp.server", "--model", weights, "--model_alias", NAME, "--port", port]
        + ["--n_ctx", str(CONTEXT), "--n_threads", "1"],
    }[kind]  # fmt: skip
    with open(path, "w") as log:
        process = subprocess.Popen(
            [LLAMA_PYTHON, *command], cwd=folder, stdout=log, stderr=log,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: is_listening(int(port)), process)
        assert process.poll() is None, path.read_text(errors="replace")[-3000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def url(kind, learned):
    with serve(kind, learned.folder, "learned.gguf") as address:
        yield address


def test_pass_rates_and_log_probabilities_equal_those_computed_from_the_weights(kind, url, learned):
    """The server of llama-cpp-python ignores the request's parameter `n`, so the provenance lists
    `n` as not supported. This server also returns no log-probabilities of chats."""
    facts, rows = probe_through_server(learned.folder, url, kind)
    assert facts["not_supported"] == (["n"] if kind == "llama_cpp" else [])
    assert facts["answered_by"] == [NAME]
    assert_pass_rate_of_weights(learned.folder, kind)
    if kind == "llama_cpp":
        assert not any("log_probability" in row for row in rows)
    else:
        finished = [row for row in rows if row["finish_reason"] == "stop"][:20]
        assert_log_probabilities_of_weights(learned.folder, finished)


def test_the_same_seeds_give_the_same_samples(kind, url, learned):
    one_at_a_time = {"concurrency": 1}
    runs = [
        probe_through_server(learned.folder, url, f"{kind}-{k}", 2, 20, one_at_a_time)[1]
        for k in range(2)
    ]
    texts = [[row["completion"] for row in rows] for rows in runs]
    assert texts[0] == texts[1] and any(a != b for a, b in zip(texts[0][::2], texts[0][1::2]))


def test_a_completion_ends_at_the_limit(kind, url, learned):
    rows = probe_through_server(learned.folder, url, f"{kind}-short", 2, 5)[1]
    truncated = [row for row in rows if row["finish_reason"] == "length"]
    assert truncated and {row["tokens"] for row in truncated} == {5}


def test_the_error_about_a_context_that_is_too_small_names_the_prompt(kind, url, learned):
    sentence = next(iter(problems_of(learned.folder).values())).partition(".")[0] + "."
    tokenizer = engines.load_tokenizer(learned.folder / "results/models/tiny")
    tokens = len(tokenizer(sentence)["input_ids"])
    question = " ".join([sentence] * ((CONTEXT + 10) // tokens))
    name = f"{kind}-long"
    problems = [{"id": "long", "question": question, "answer": "7"}]
    files.write_jsonl(learned.folder / f"{name}-problems.jsonl", problems)
    arguments = probe_command(learned.folder, url, name, 6, 40)
    arguments[arguments.index(PROBLEMS)] = f"{name}-problems.jsonl"
    assert_fails(learned, arguments, f"'{sentence} {sentence}", "context", "completion_tokens")


def assert_fails(learned: World, arguments: list[str], *words: str) -> None:
    done = subprocess.run(
        [sys.executable, path_of("probe"), *arguments],
        cwd=learned.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stderr.strip().splitlines()
    assert done.returncode and len(lines) == 1, done.stderr
    assert all(word in lines[0] for word in words), lines[0]


def test_prompts_are_chosen_by_one_command(kind, tmp_path):
    """The model has random weights, and its tokens are bytes, so a function grades its texts."""
    write_qwen2(tmp_path / "random.gguf", build_qwen2(tied=True))
    rows = "".join(f"n{n},Which colour has ball {n}?\n" for n in range(6))
    (tmp_path / "mine.csv").write_text(f"name,prompt\n{rows}")
    (tmp_path / "own.py").write_text(
        "def reward(completions, **columns):\n    return [len(str(c)) % 2 for c in completions]\n"
    )
    with serve(kind, tmp_path, "random.gguf") as address:
        done = subprocess.run(
            [sys.executable, "-m", "hardgrpo.console", "choose", "mine.csv", "--url", address, "--model", NAME]
            + ["--budget", "2", "--samples", "2", "--completion-tokens", "8", "--grader", "own.py:reward", "--concurrency", "1"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "mine.choice").glob("nearest_half-2.csv")
    assert len(files.read_rows(path, {"prompt": str, "chosen_because": str})) == 2
