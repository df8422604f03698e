"""Probes and evaluations of a model behind a real HTTP server: requests, stored answers, and
failures."""

import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

import in_process
from command_line import format_options
from conftest import path_of
from hardgrpo.runtime import files, provenance
from hardgrpo.sampling import server_engine
from hardgrpo.sampling.answers import AnswerFile
from hardgrpo.sampling.requests import Request
from in_process import check_refusal
from model_server import WORDS, completions_of, refusal
from text_tables import rows_of

PROMPTS = 6
STOP = ["--grader", "final_word", "--stop-for", '{"rule": "hard", "budget": 0.34, "seed": 0}']
SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def study(tmp_path):
    """A folder with a model behind a server and a pool of problems."""
    (tmp_path / "models/served").mkdir(parents=True)
    provenance.write_manifest(
        tmp_path / "models/served",
        model="served",
        source={"kind": "server", "model": "org/name-4B"},
    )
    write_pool(tmp_path, PROMPTS)
    return tmp_path


def write_pool(folder, size):
    problems = [
        {"id": f"p{n}", "question": f"Which colour has ball {n}?", "answer": WORDS[n % 3]}
        for n in range(size)
    ]
    files.write_jsonl(folder / "pool.jsonl", problems)


def command(url, program="probe", samples=4, tokens=20, server=None, arguments=()):
    words = format_options(
        model="models/served",
        problems="pool.jsonl",
        prompt="{question}",
        samples=samples,
        seed=1,
        completion_tokens=tokens,
        engine="server",
        server=json.dumps({"url": url} | (server or {})),
        state="state",
        provenance="provenance.json",
        output=f"{program}.jsonl",
    )
    program = path_of("probe" if program == "probe_early" else program)
    return [sys.executable, program, *words, *map(str, arguments)]


def run(study, url, *arguments, env=None, **options):
    """Run the program in this process, with short pauses between two tries of a request."""
    _, program, *words = command(url, *arguments, **options)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FIRST_PAUSE", "LONGEST_PAUSE"):
            patch.setattr(server_engine, name, 0.01)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        return in_process.run(study, Path(program).stem, *words)


def read_probe(study, name="probe.jsonl"):
    return files.read_jsonl(
        study / name, {"id": str, "sample": int, "seed": int, "completion": str, "tokens": int}
    )


# --- servers without failures ---


def test_a_probe_of_a_server_has_the_form_of_other_probes(study, model_server):
    process = run(study, model_server.url)
    assert process.returncode == 0, process.stderr
    rows = read_probe(study)
    assert [(row["id"], row["sample"]) for row in rows] == [
        (f"p{n}", k) for n in range(PROMPTS) for k in range(4)
    ]
    assert {(row["tokens"], row["finish_reason"], row["log_probability"]) for row in rows} == {
        (5, "stop", -0.45)
    }
    assert len({row["seed"] for row in rows}) == len(rows)
    assert len({row["completion"] for row in rows}) == 3
    record = files.read_json(study / "provenance.json")
    assert record["completions"] == 24 and record["completion_tokens"] == 120
    assert (
        record["server"]["answered_by"] == ["org/name-4B"]
        and record["server"]["output_tokens"] == 120
    )


def test_one_request_asks_for_all_samples_of_a_prompt_from_the_unrestricted_distribution(
    study, model_server
):
    env = {"OPENAI_API_KEY": "a-key-for-others"}
    assert run(study, model_server.url, env=env).returncode == 0
    assert len(model_server.requests) == PROMPTS and set(model_server.paths) == {
        "/v1/chat/completions"
    }
    body = model_server.requests[0]
    expected = {"n": 4, "temperature": 1.0, "max_tokens": 20, "logprobs": True}
    expected |= {"top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert body == body | expected and body["top_k"] > 300_000
    assert body["messages"] == [{"role": "user", "content": body["messages"][0]["content"]}]
    assert len({body["seed"] for body in model_server.requests}) == PROMPTS
    assert not any("authorization" in headers for headers in model_server.headers)


def test_arguments_of_the_chat_template_are_sent(study, model_server):
    arguments = ["--chat", '{"enable_thinking": false}']
    assert run(study, model_server.url, arguments=arguments).returncode == 0
    sent = [body["chat_template_kwargs"] for body in model_server.requests]
    assert sent == [{"enable_thinking": False}] * PROMPTS


def test_no_more_requests_than_allowed_are_sent_at_a_time(study, model_server):
    def slow(body, number):
        time.sleep(0.05)
        return completions_of(body)

    model_server.answer = slow
    assert run(study, model_server.url, server={"concurrency": 2}).returncode == 0
    # connections are reused
    assert model_server.most_in_flight == 2 and len(model_server.connections) <= 2


# --- stored answers ---


def test_an_evaluation_of_a_server_has_samples_and_greedy_completions(study, model_server):
    arguments = ["--grader", "final_word", "--greedy", "--completions", "texts.jsonl"]
    process = run(study, model_server.url, program="evaluate", samples=2, arguments=arguments)
    assert process.returncode == 0, process.stderr
    assert (
        sorted(body["temperature"] for body in model_server.requests)
        == [0.0] * PROMPTS + [1.0] * PROMPTS
    )
    rows = files.read_rows(study / "evaluate.jsonl", {"id": str, "decoding": str, "tokens": int})
    assert len(rows) == 3 * PROMPTS and {row["tokens"] for row in rows} == {5}


def test_an_early_stopped_probe_of_a_server_uses_the_stored_completions_of_the_full_probe(
    study, model_server
):
    assert run(study, model_server.url).returncode == 0
    model_server.requests.clear()
    process = run(study, model_server.url, program="probe_early", arguments=STOP)
    assert process.returncode == 0, process.stderr
    assert model_server.requests == []  # all completions are in the store
    full = {(row["id"], row["sample"]): row for row in read_probe(study)}
    early = read_probe(study, "probe_early.jsonl")
    assert all(full[row["id"], row["sample"]] == row for row in early)


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
def test_completions_are_sampled_again_if_a_setting_that_determines_them_changes(
    study, model_server, change
):
    assert run(study, model_server.url).returncode == 0
    if model := change.pop("model", None):
        provenance.write_manifest(
            study / "models/served", model="served", source={"kind": "server", "model": model}
        )
    assert run(study, model_server.url, **change).returncode == 0
    assert len(model_server.requests) == 2 * PROMPTS


def test_with_more_samples_or_prompts_only_the_additional_samples_are_requested(
    study, model_server
):
    assert run(study, model_server.url).returncode == 0
    with open(study / "pool.jsonl", "a") as stream:
        stream.write('{"id": "new", "question": "And the last ball?", "answer": "red"}\n')
    model_server.requests.clear()
    assert run(study, model_server.url, samples=6).returncode == 0
    assert sorted(body["n"] for body in model_server.requests) == [2] * PROMPTS + [6]


def test_a_damaged_line_of_the_store_is_sampled_again(study, model_server):
    assert run(study, model_server.url).returncode == 0
    (store,) = (study / "state").rglob("answers.jsonl")
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(
        lines[0] + lines[1].replace(b"think", b"thank") + b"".join(lines[2:-1]) + lines[-1][:30]
    )
    model_server.requests.clear()
    assert run(study, model_server.url).returncode == 0
    assert len(model_server.requests) == 2
    model_server.requests.clear()
    assert run(study, model_server.url).returncode == 0 and model_server.requests == []


# --- failures of servers ---


def test_answers_are_on_the_disk_when_a_short_call_ends(study, model_server, monkeypatch):
    """An early-stopped probe calls `server_engine.sample` many times, and each call takes less than
    the time between two syncs."""
    written_bytes = []
    monkeypatch.setattr(
        AnswerFile, "sync", lambda answers: written_bytes.append(answers.path.stat().st_size)
    )
    requests = [Request(({"role": "user", "content": f"prompt {n}"},), n, 1.0) for n in range(4)]
    list(
        server_engine.sample(
            study / "models/served", server_engine.Address(url=model_server.url), requests, 20, {},
            study / "state", [[0, 1], [2, 3]], lambda *_: None, lambda: None,
        )
    )  # fmt: skip
    assert len(written_bytes) >= 2
    (path,) = (study / "state").rglob("answers.jsonl")
    assert written_bytes[-1] == path.stat().st_size


# address | variable of the environment | word of the error
WRONG = """
http://127.0.0.1:99999/v1 | X= | 99999
http://127.0.0.1:http/v1 | X= | 'http'
http://[::1/v1 | X= | Invalid port
http://127.0.0.1:9/v1 | ALL_PROXY=socks5://me:verysecret@127.0.0.1:9 | SOCKS
http://127.0.0.1:9/v1 | ALL_PROXY=ftp://me:verysecret@127.0.0.1:9 | ftp
http://127.0.0.1:9/v1 | HTTP_PROXY=http://me:verysecret@127.0.0.1:99999 | HTTP_PROXY
http://127.0.0.1:9/v1 | HTTP_PROXY=127.0.0.1:99999 | HTTP_PROXY
http://127.0.0.1:9/v1 | HTTPS_PROXY=http://127.0.0.1:99999 | no connection (
https://127.0.0.1:9/v1 | SSL_CERT_FILE=missing.pem | SSL_CERT_FILE
https://127.0.0.1:9/v1 | SSL_CERT_FILE=pool.jsonl | SSL_CERT_FILE
"""


@pytest.mark.parametrize(("url", "variable", "word"), rows_of(WRONG))
def test_a_wrong_address_proxy_or_certificate_file_is_reported(study, url, variable, word):
    env = dict([variable.split("=", 1)])
    proxies = {
        name: env.get(name.upper(), "")
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
        for name in (variable, variable.lower())
    }
    line = check_refusal(run(study, url, env=env | proxies), url, word)
    assert "verysecret" not in line and ("HTTPS_PROXY" not in env or "65535" not in line)


# --- money ---


def test_a_server_that_ignores_n_is_asked_for_each_sample(study, model_server):
    model_server.answer = lambda body, number: completions_of(body | {"n": 1})
    process = run(study, model_server.url, server={"concurrency": 1})
    assert process.returncode == 0 and "one by one" in process.stdout
    assert len(model_server.requests) == 4 * PROMPTS
    # every sample has its own seed
    assert len({body["seed"] for body in model_server.requests}) == 4 * PROMPTS


def test_jobs_at_the_same_time_share_the_limit_of_money(study, model_server):
    def slow(body, number):
        time.sleep(0.3)
        return completions_of(body)

    model_server.answer = slow
    server = {"price": {"input": 0, "output": 10_000}, "most_money": 1.5, "concurrency": 1}
    jobs = [
        subprocess.Popen(
            [*command(model_server.url, server=server, samples=8), "--shard", str(shard), "--shards", "2"],
            cwd=study, env=os.environ | {"PYTHONPATH": SOURCES}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for shard in (0, 1)
    ]  # fmt: skip
    assert all("most_money" in job.communicate()[1] for job in jobs)
    # A job does not see requests that the other job has in flight, so both jobs together may exceed
    # the limit by one request (8 samples, 0.4).
    assert 0.05 * sum(body["n"] for body in model_server.answered) <= 1.5 + 0.4


# --- keys ---


def everything_written(study) -> str:
    return "".join(path.read_text() for path in study.rglob("*") if path.is_file())


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_key_is_sent_to_its_server_and_never_written(study, model_server, ends_well):
    secret = "abc123/verysecret=="
    if not ends_well:  # a server that repeats the key
        model_server.answer = lambda body, number: refusal(f"Incorrect key: {secret}", 401)
    env = {"MY_ACCESS": f" {secret}\n", "OPENAI_API_KEY": "not-this-one"}
    process = run(study, model_server.url, server={"key": "MY_ACCESS"}, env=env)
    assert process.returncode == (0 if ends_well else 1), process.stderr
    sent = model_server.headers[0]
    assert sent["authorization"] == f"Bearer {secret}"
    assert "not-this-one" not in sent.values()
    written = process.stdout + process.stderr + everything_written(study)
    assert not any(text in written for text in (secret, "verysecret", "not-this-one"))


def test_a_key_that_is_not_set_is_reported(study, model_server):
    check_refusal(run(study, model_server.url, server={"key": "MY_ACCESS"}), "MY_ACCESS")
    assert model_server.requests == []


def test_requests_go_through_the_proxy_of_the_usual_variables(study, model_server):
    proxy = model_server.url.removesuffix("/v1")
    env = {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "", "no_proxy": ""}
    assert run(study, "http://model.invalid/v1", env=env).returncode == 0
    assert set(model_server.paths) == {"http://model.invalid/v1/chat/completions"}


def test_a_certificate_that_nobody_vouches_for_is_refused(study, model_server):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", study / "key.pem", "-out", study / "certificate.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(study / "certificate.pem", study / "key.pem")
    model_server.listener.socket = context.wrap_socket(
        model_server.listener.socket, server_side=True
    )
    url = model_server.url.replace("http:", "https:")
    check_refusal(
        run(study, url, server={"key": "MY_ACCESS"}, env={"MY_ACCESS": "verysecret"}), "certificate"
    )
    assert model_server.headers == []
    process = run(study, url, env={"SSL_CERT_FILE": str(study / "certificate.pem")})
    assert process.returncode == 0, process.stderr
