"""Probes and evaluations of a model behind a server, through a real HTTP server: what is sent, what is stored, what fails and how."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import path_of
from hardgrpo.runtime import files, provenance
from model_server import CUT, WORDS, at_random, completions_of, refusal

PROMPTS = 6
SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def study(tmp_path):
    """A folder with a model behind a server and a pool of problems."""
    (tmp_path / "models/served").mkdir(parents=True)
    provenance.write_manifest(tmp_path / "models/served", model="served", source={"kind": "server", "model": "org/name-4B"})
    problems = [{"id": f"p{n}", "question": f"Which colour has ball {n}?", "answer": WORDS[n % 3]} for n in range(PROMPTS)]
    files.write_jsonl(tmp_path / "pool.jsonl", problems)
    return tmp_path


def command(study, url, program="probe", samples=4, tokens=20, server=None, arguments=()):
    words = ["--model", "models/served", "--problems", "pool.jsonl", "--prompt", "{question}", "--samples", samples, "--seed", 1]
    words += ["--completion-tokens", tokens, "--engine", "server", "--server", json.dumps({"url": url} | (server or {}))]
    words += ["--state", "state", "--provenance", "provenance.json", "--output", f"{program}.jsonl", *arguments]
    return [sys.executable, path_of(program), *map(str, words)]


def run(study, url, *arguments, env=None, **options):
    return subprocess.run(
        command(study, url, *arguments, **options), cwd=study, env=os.environ | {"PYTHONPATH": SOURCES} | (env or {}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def read_probe(study, name="probe.jsonl"):
    return files.read_jsonl(study / name, {"id": str, "sample": int, "seed": int, "completion": str, "tokens": int})


def fails(process, *words):
    """The program ends with one line that has all `words`, and without a traceback."""
    assert process.returncode == 1, process.stdout + process.stderr
    (line,) = process.stderr.strip().splitlines()
    assert line.startswith("error: "), line
    assert all(word in line for word in words), line
    return line


# --- the happy path ---


def test_a_probe_of_a_server_has_the_form_of_other_probes(study, model_server):
    process = run(study, model_server.url)
    assert process.returncode == 0, process.stderr
    rows = read_probe(study)
    assert [(row["id"], row["sample"]) for row in rows] == [(f"p{n}", k) for n in range(PROMPTS) for k in range(4)]
    assert {(row["tokens"], row["finish_reason"], row["log_probability"]) for row in rows} == {(5, "stop", -0.45)}
    assert len({row["seed"] for row in rows}) == len(rows)
    assert len({row["completion"] for row in rows}) == 3
    facts = files.read_json(study / "provenance.json")
    assert facts["completions"] == 24 and facts["completion_tokens"] == 120
    assert facts["server"]["answered_by"] == ["org/name-4B"] and facts["server"]["output_tokens"] == 120


def test_the_samples_of_a_prompt_are_one_request_for_the_whole_distribution(study, model_server):
    assert run(study, model_server.url).returncode == 0
    assert len(model_server.requests) == PROMPTS and set(model_server.paths) == {"/v1/chat/completions"}
    body = model_server.requests[0]
    assert (body["n"], body["temperature"], body["max_tokens"], body["logprobs"]) == (4, 1.0, 20, True)
    assert (body["top_p"], body["min_p"], body["repetition_penalty"]) == (1.0, 0.0, 1.0) and body["top_k"] > 300_000
    assert body["messages"] == [{"role": "user", "content": body["messages"][0]["content"]}]
    assert len({body["seed"] for body in model_server.requests}) == PROMPTS
    assert not any("Authorization" in headers for headers in model_server.headers)


def test_plain_completions_send_the_prompt_as_text(study, model_server):
    source = {"kind": "server", "model": "org/name-4B", "endpoint": "completions"}
    provenance.write_manifest(study / "models/served", model="served", source=source)
    assert run(study, model_server.url).returncode == 0
    assert set(model_server.paths) == {"/v1/completions"}
    assert model_server.requests[0]["prompt"].startswith("Which colour has ball")
    assert {row["log_probability"] for row in read_probe(study)} == {-0.45}


def test_arguments_of_the_chat_template_are_sent(study, model_server):
    assert run(study, model_server.url, arguments=["--chat", '{"enable_thinking": false}']).returncode == 0
    assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in model_server.requests)


def test_no_more_requests_than_allowed_are_sent_at_a_time(study, model_server):
    def slow(body, number):
        time.sleep(0.05)
        return completions_of(body)

    model_server.answer = slow
    assert run(study, model_server.url, server={"concurrency": 2}).returncode == 0
    assert model_server.most_in_flight == 2 and len(model_server.connections) <= 2  # connections stay open


def test_an_evaluation_of_a_server_has_samples_and_greedy_completions(study, model_server):
    arguments = ["--grader", "final_word", "--greedy", "--completions", "texts.jsonl"]
    process = run(study, model_server.url, program="evaluate", samples=2, arguments=arguments)
    assert process.returncode == 0, process.stderr
    assert sorted(body["temperature"] for body in model_server.requests) == [0.0] * PROMPTS + [1.0] * PROMPTS
    rows = files.read_rows(study / "evaluate.jsonl", {"id": str, "decoding": str, "tokens": int})
    assert len(rows) == 3 * PROMPTS and {row["tokens"] for row in rows} == {5}


def test_an_early_stopped_probe_of_a_server_chooses_the_subset_of_the_full_probe(study, model_server):
    stop = ["--grader", "final_word", "--stop-for", '[{"rule": "hard", "budget": 0.34, "seed": 0}]']
    assert run(study, model_server.url).returncode == 0
    model_server.requests.clear()
    process = run(study, model_server.url, program="probe_early", arguments=stop)
    assert process.returncode == 0, process.stderr
    assert model_server.requests == []  # all completions are stored
    full = {(row["id"], row["sample"]): row for row in read_probe(study)}
    early = read_probe(study, "probe_early.jsonl")
    assert all(full[row["id"], row["sample"]] == row for row in early)


# --- nothing is paid twice ---


def test_a_finished_probe_is_repeated_without_a_request(study, model_server):
    assert run(study, model_server.url).returncode == 0
    first = (study / "probe.jsonl").read_bytes()
    count = len(model_server.requests)
    (study / "probe.jsonl").unlink()
    assert run(study, model_server.url).returncode == 0
    assert len(model_server.requests) == count and (study / "probe.jsonl").read_bytes() == first


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": 21},
        {"arguments": ["--prompt", "{question} Think."]},
        {"arguments": ["--chat", '{"enable_thinking": false}']},
        {"arguments": ["--seed", "2"]},
        {"model": "another"},
    ],
)
def test_what_decides_a_completion_is_sampled_again_if_it_changes(study, model_server, change):
    assert run(study, model_server.url).returncode == 0
    if model := change.pop("model", None):
        provenance.write_manifest(study / "models/served", model="served", source={"kind": "server", "model": model})
    assert run(study, model_server.url, **change).returncode == 0
    assert len(model_server.requests) == 2 * PROMPTS


def test_more_samples_and_more_prompts_pay_only_for_what_is_new(study, model_server):
    assert run(study, model_server.url).returncode == 0
    with open(study / "pool.jsonl", "a") as stream:
        stream.write('{"id": "new", "question": "And the last ball?", "answer": "red"}\n')
    model_server.requests.clear()
    assert run(study, model_server.url, samples=6).returncode == 0
    assert sorted(body["n"] for body in model_server.requests) == [2] * PROMPTS + [6]


def kill_at_random_until_it_ends(study, url, kills, **options) -> None:
    """Start the probe again and again, and kill it after longer and longer times, at last never."""
    for number in range(kills + 1):
        process = subprocess.Popen(
            command(study, url, **options), cwd=study, env=os.environ | {"PYTHONPATH": SOURCES},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if number < kills:
            limit = time.monotonic() + 0.8 + 0.1 * number
            while process.poll() is None and time.monotonic() < limit:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert number < kills or process.returncode == 0, errors


@pytest.mark.parametrize("ignores_n", [False, True])
def test_a_killed_probe_ends_with_the_same_file_and_repeats_no_answered_request(study, model_server, ignores_n):
    unreliable = at_random(0.2, 7, [CUT, (500, "<html>Internal Server Error</html>"), refusal("busy", 503), "<html>gateway</html>"])

    def answer(body, number):
        time.sleep(0.05)
        return unreliable(body | ({"n": 1} if ignores_n else {}), number)

    model_server.answer = answer
    options = {"server": {"concurrency": 3}, "samples": 8}
    kill_at_random_until_it_ends(study, model_server.url, int(os.environ.get("HARDGRPO_KILLS", 3)), **options)
    killed = (study / "probe.jsonl").read_bytes()
    in_flight = 3 * int(os.environ.get("HARDGRPO_KILLS", 3))  # answers that the killed program may not have read
    answered = [json.dumps(body, sort_keys=True) for body in model_server.answered]
    assert len(answered) - len(set(answered)) <= in_flight
    for path in (study / "state").rglob("*"):
        path.is_file() and path.rename(study / f"{path.name}.old")
    assert run(study, model_server.url, **options).returncode == 0
    assert (study / "probe.jsonl").read_bytes() == killed


def test_a_damaged_line_of_the_store_is_sampled_again(study, model_server):
    assert run(study, model_server.url).returncode == 0
    (store,) = (study / "state").rglob("answers.jsonl")
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(lines[0] + lines[1].replace(b"think", b"thank") + b"".join(lines[2:-1]) + lines[-1][:30])
    model_server.requests.clear()
    assert run(study, model_server.url).returncode == 0
    assert len(model_server.requests) == 2
    model_server.requests.clear()
    assert run(study, model_server.url).returncode == 0 and model_server.requests == []
