"""Unusual answers of servers, proxies and hosted services, sent by a local HTTP server. Sampling
ends with the right completions, or with a one-line error that says what to do."""

import contextlib
import gzip
import json
import socket
import time

import pytest

from hardgrpo.runtime import provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import server_engine
from hardgrpo.sampling.requests import Request
from hardgrpo.sampling.server_engine import LONGEST_RETRY_AFTER, Address, read_retry_after
from model_server import CUT, RAW, ModelServer, completions_of, refusal

MODEL, PROMPTS, SAMPLES, LIMIT = "org/name-4B", 6, 4, 20


@pytest.fixture
def sample(tmp_path, model_server, monkeypatch):
    """A function that samples from the server and returns completions. `sample.facts` are the facts
    for the provenance, such as `not_supported`."""
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(server_engine, name, 0.01)
    folder = tmp_path / "models/served"
    folder.mkdir(parents=True)

    def run(
        answer=None, samples=SAMPLES, temperature=1.0, endpoint="chat", state="state",
        question="Which colour has ball {n}?", **server,
    ):  # fmt: skip
        if answer is not None:
            model_server.answer = answer
        source = {"kind": "server", "model": MODEL, "endpoint": endpoint}
        provenance.write_manifest(folder, model="served", source=source)
        messages = [({"role": "user", "content": question.format(n=n)},) for n in range(PROMPTS)]
        requests = [
            Request(messages[n], 100 * n + k, temperature, log_probability=True)
            for n in range(PROMPTS)
            for k in range(samples)
        ]
        parts = server_engine.sample(
            str(folder), Address(**{"url": model_server.url} | server), requests, LIMIT, {},
            str(tmp_path / state), None, lambda *_: None, lambda: None, run.facts.update,
        )  # fmt: skip
        return [completion for part in parts for completion in part]

    run.facts = {}
    return run


@pytest.fixture
def fails(sample):
    """A function that samples, expects an error, and asserts that the error has all `words`."""

    def run(answer, *words, **options):
        with pytest.raises(UserError) as error:
            sample(answer, **options)
        message = str(error.value)
        assert all(word in message for word in words), message
        return message

    return run


@pytest.fixture
def is_normal(sample):
    """A function that samples from an odd server and asserts that the completions equal those of a
    normal server."""

    def run(answer, **options):
        completions = sample(answer, **options)
        assert completions == sample(lambda body, number: completions_of(body), state="normal")

    return run


def with_choices(change):
    """Answers whose choices are `change(choices of a normal answer)`."""

    def answer(body, number):
        answer = completions_of(body)
        return answer | {"choices": change(answer["choices"])}

    return answer


def with_choice(**fields):
    return with_choices(lambda choices: [choice | fields for choice in choices])


def with_usage(tokens, **fields):
    """Answers whose choices have these fields, and whose usage states this number of tokens."""
    return lambda body, number: (
        with_choice(**fields)(body, number)
        | {"usage": {"prompt_tokens": 9, "completion_tokens": tokens}}
    )


def without_usage(answer):
    """Answers of `answer` that state no numbers of tokens."""
    return lambda body, number: answer(body, number) | {"usage": None}


def at_first(answer):
    """The first two answers are those of `answer`; all later answers are normal."""
    return lambda body, number: answer(body) if number < 2 else completions_of(body)


# --- choices ---


def test_more_choices_than_requested_are_not_used(is_normal):
    is_normal(with_choices(lambda choices: choices + [choices[0] | {"index": 9}]))


def test_choices_are_taken_in_the_order_of_their_index(is_normal):
    is_normal(with_choices(lambda choices: choices[::-1]))


@pytest.mark.parametrize("index", [0, None, "0", -1])
def test_choices_without_distinct_indices_are_taken_in_the_order_of_the_answer(is_normal, index):
    is_normal(with_choice(index=index))


def test_a_server_that_gives_at_most_three_choices_is_asked_for_the_remainder(sample, model_server):
    completions = sample(
        lambda body, number: completions_of(body | {"n": min(3, body.get("n", 1))})
    )
    assert len(completions) == 4 * PROMPTS and sample.facts["not_supported"] == []
    assert sorted(body.get("n", 1) for body in model_server.requests) == [1] * 6 + [4] * 6


NO_COMPLETIONS = [
    ({"message": {"content": {"text": "red"}}}, "a choice without text"),
    ({"message": None}, "a choice without text"),
    ({"finish_reason": None}, "an unknown reason ('None')"),
    ({"finish_reason": "error"}, "an unknown reason ('error')"),
    ({"finish_reason": ["stop"]}, "an unknown reason"),
]


@pytest.mark.parametrize(("fields", "words"), NO_COMPLETIONS)
def test_a_choice_that_is_no_completion_is_requested_again(fails, is_normal, fields, words):
    odd_answer = with_choice(**fields)
    fails(odd_answer, words)
    is_normal(at_first(lambda body: odd_answer(body, 0)))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("function_call", "stop"),
        ("tool_calls", "stop"),
    ],
)
def test_other_names_of_finish_reasons_are_understood(sample, word, reason):
    completions = sample(with_usage(LIMIT * SAMPLES, finish_reason=word))
    assert {completion.finish_reason for completion in completions} == {reason}


@pytest.mark.parametrize(
    ("content", "reason", "text"),
    [
        ("", "length", ""),
        (None, "stop", ""),
        (" \n\t ", "stop", " \n\t "),
        ("red\ud800 \ud83d\ude00", "stop", "red\ufffd \U0001f600"),
        ("nul \0, bell \a, \u2028", "stop", "nul \0, bell \a, \u2028"),
    ],
)
def test_unusual_texts_are_kept_except_for_lone_surrogates_which_are_replaced(
    sample, content, reason, text
):
    completions = sample(
        with_choice(message={"content": content}, finish_reason=reason, logprobs=None)
    )
    assert {(completion.text, completion.finish_reason) for completion in completions} == {
        (text, reason)
    }


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"token": "red", "logprob": float("nan")}]},
        {"content": [{"token": "red", "logprob": -0.5}, {"token": "!", "logprob": None}]},
        {"content": [{"token": "red", "logprob": float("-inf")}]},
        {"content": [{"token": "red", "logprob": "-0.5"}]},
        {"content": "red"},
        {"token_logprobs": "red"},
        [],
        {},
        None,
    ],
)
def test_log_probabilities_that_are_no_numbers_are_unknown(sample, capsys, logprobs):
    completions = sample(with_choice(logprobs=logprobs))
    assert capsys.readouterr().out.count("the server gives no log-probabilities") == 1
    assert {completion.log_probability for completion in completions} == {None}
    normal = sample(lambda body, number: completions_of(body), state="normal")
    assert [c.text for c in completions] == [c.text for c in normal]


@pytest.mark.parametrize(
    "usage",
    [
        {"completion_tokens": -20, "prompt_tokens": -3},
        {"completion_tokens": 0, "prompt_tokens": 0},
        {"completion_tokens": True},
        {"prompt_tokens": 6},
        [20, 6],
        "20",
    ],
)
def test_tokens_are_counted_if_usage_does_not_state_their_number(sample, usage):
    completions = sample(lambda body, number: completions_of(body, usage=usage))
    assert {completion.tokens for completion in completions} == {5}
    assert sample.facts["input_tokens"] > 0


def test_usage_reported_for_a_single_choice_is_completed_from_the_log_probabilities(sample):
    """In `usage`, llama.cpp counts only the tokens of the first choice."""
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    completions = sample(lambda body, number: completions_of(body, usage=usage))
    assert {completion.tokens for completion in completions} == {5}
    assert sample.facts["output_tokens"] == 5 * SAMPLES * PROMPTS


@pytest.mark.parametrize("name", ["", "NAME-4b", "openai/org/name-4B", "name-4B:latest", 5])
def test_an_answer_with_another_spelling_of_the_models_name_is_accepted(sample, name):
    assert len(sample(lambda body, number: completions_of(body, model=name))) == 4 * PROMPTS


# --- forms of answers in JSON and HTTP ---


def raw(headers: str, data: bytes, status: str = "200 OK", version: str = "HTTP/1.1"):
    lines = [f"{version} {status}", *headers.splitlines(), "", ""]
    return RAW, "\r\n".join(lines).encode() + data


def encoded(body, **options):
    return json.dumps(completions_of(body), **options).encode()


@pytest.mark.parametrize(
    "wire",
    [
        lambda data: raw("Content-Type: application/json\nContent-Encoding: gzip\nConnection: close", gzip.compress(data)),
        lambda data: (200, b"\n\n \r\n" + data + b"\n", {}),
        lambda data: (200, b"\xef\xbb\xbf" + data, {}),
        lambda data: raw("Content-Type: application/json\nTransfer-Encoding: chunked\nConnection: close", b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)),
    ],
)  # fmt: skip
def test_every_form_of_a_json_answer_is_read(is_normal, wire):
    is_normal(lambda body, number: wire(encoded(body)))


@pytest.mark.parametrize(
    "wire",
    [
        lambda data: raw("Content-Type: application/json\nTransfer-Encoding: chunked", b"%x\r\n%s" % (len(data), data[:50])),
        lambda data: raw("Content-Type: application/json\nContent-Encoding: gzip\nConnection: close", gzip.compress(data)[:-20]),
        lambda data: raw("Content-Type: application/json\nContent-Encoding: gzip\nConnection: close", data),
        lambda data: (200, data.replace(b"think", b"th\xffnk"), {}),
        lambda data: (200, b"", {}),
        lambda data: (200, b"null", {}),
        lambda data: (200, b"[" * 100_000, {}),
        lambda data: (200, data[:-10], {}),
        lambda data: (200, b"<html><form action='/login'></html>", {"Content-Type": "text/html"}),
        lambda data: (200, {"error": {"message": "upstream overloaded", "code": 503}}, {}),
        lambda data: (529, {"error": {"message": "overloaded"}}, {}),
        lambda data: (502, b"", {}),
    ],
)  # fmt: skip
def test_a_damaged_or_empty_answer_is_requested_again(is_normal, wire):
    is_normal(at_first(lambda body: wire(encoded(body))))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"", {}), ["JSON"]),
        ((200, {"error": {"message": "No credits left", "code": 402}}), ["402", "No credits left"]),
        ((200, {"error": "model is loading"}), ["model is loading"]),
        ((402, {"error": {"message": "Insufficient Balance"}}), ["402", "Insufficient Balance"]),
        ((403, "<html><style>x</style><h1>Attention Required!</h1></html>"), ["403", "Attention Required!", "`key`"]),
        ((400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]), ["API key not valid."]),
        ((405, ""), ["405"]),
    ],
)  # fmt: skip
def test_an_error_in_every_form_ends_sampling_and_names_server_and_problem(
    fails, model_server, answer, words
):
    fails(lambda body, number: answer, model_server.url, *words)


# --- wrong model, wrong address ---


def test_a_server_that_is_too_slow_for_the_number_of_concurrent_requests_is_reported(
    sample, model_server, capsys
):
    late = []

    def answer(body, number):
        if "ball 3" in str(body) and len(late) < 2:
            if len(model_server.answered) >= PROMPTS - 1:
                late.append(number)
            time.sleep(1.5)
        return completions_of(body)

    assert len(sample(answer, timeout=1.0)) == PROMPTS * SAMPLES
    assert "no answer within 1 s" in (output := capsys.readouterr().out)
    assert "lower concurrency" in output


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_key_is_sent_to_the_target_of_a_redirect(fails, monkeypatch, status):
    monkeypatch.setenv("MY_ACCESS", "abcdef")
    elsewhere = ModelServer()
    place = f"{elsewhere.url}/chat/completions"
    answer = (status, "", {"Location": f"{place}?signature=verysecret"})
    line = fails(lambda body, number: answer, f"status {status}", key="MY_ACCESS")
    assert "verysecret" not in line and elsewhere.requests == [] and elsewhere.headers == []
    elsewhere.listener.shutdown()
    elsewhere.listener.server_close()


def test_a_server_that_does_not_accept_connections_is_not_called_slow_and_costs_nothing(
    sample, fails, monkeypatch
):
    monkeypatch.setattr(server_engine, "CONNECT_SECONDS", 0.2)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        # the queue of connections is full, so no further connection is answered
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        line = fails(None, "no connection", "(4 tries)", url=url, price=PRICE)
        assert "600" not in line and sample.facts["money"] == 0
        fails(None, url=url, timeout=0.1, price=PRICE)
        assert sample.facts["money"] == 0


# --- money ---

PRICE = {"input": 0, "output": 10_000}  # 0.01 for a token, 0.8 for SAMPLES at the limit
CHEAP = with_usage(1, logprobs=None)  # 0.01 for an answer


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (with_choice(finish_reason="error"), 20),
        (lambda body, number: completions_of(body, model="org/other-4B"), 20),
        (lambda body, number: completions_of(body, choices=[], error={"code": 400}), 20),
        # no number of completion tokens is stated: every completion may have reached the limit
        (without_usage(with_choice(finish_reason="error")), 80),
        (without_usage(lambda body, number: completions_of(body, model="org/other-4B")), 80),
        (lambda body, number: {"output": "red"}, 80),
        (lambda body, number: {"error": {"code": 400}}, 80),
        (lambda body, number: "<html><h1>Bad gateway</h1></html>", 80),
        (lambda body, number: (200, '{"choices": [', {"Content-Type": "application/json"}), 80),
    ],
)  # fmt: skip
def test_answers_without_usable_completions_are_paid_for(
    sample, fails, model_server, answer, tokens
):
    fails(answer, price=PRICE, concurrency=1)
    count = len(model_server.requests)
    cost = 0.01 * tokens * count
    assert sample.facts["money"] == pytest.approx(cost) and cost > 0
    # a later program knows what was spent
    fails(answer, "most_money", price=PRICE, most_money=cost + 0.7)
    assert len(model_server.requests) == count


def test_a_repeated_request_stays_below_the_limit_of_money(sample, fails, model_server):
    fails(with_choice(finish_reason="error"), "most_money", price=PRICE, most_money=1.0)
    assert 0 < sample.facts["money"] <= 1.0
    assert sample.facts["money"] == pytest.approx(0.05 * SAMPLES * len(model_server.requests))


def test_unusable_answers_that_state_no_tokens_stay_below_the_limit_of_money(
    sample, fails, model_server
):
    """One such answer counts as much as was reserved for its request: 80 tokens of completions, and
    between 200 and 240 tokens of the prompt."""
    price = {"input": 10_000, "output": 10_000}
    answer = without_usage(with_choice(finish_reason="error"))
    fails(answer, "most_money", price=price, most_money=7)
    assert len(model_server.requests) == 2 and 5.6 < sample.facts["money"] <= 6.4


@pytest.mark.parametrize("failure", ["time limit", "cut connection", "not gzip"])
@pytest.mark.parametrize("answers", [0, 1])
@pytest.mark.parametrize("tries", [1, 2])
def test_each_try_without_a_readable_answer_is_paid_for(
    sample, fails, model_server, capsys, failure, answers, tries
):
    """Each try counts with the limit of its completions, 80 tokens. The server answers `answers`
    requests, and the money is enough for `tries` tries of the next request."""

    def answer(body, number):
        if number < answers:
            return CHEAP(body, number)
        if failure == "time limit":
            time.sleep(1.5)
        if failure == "not gzip":
            return raw("Content-Encoding: gzip\nConnection: close", b"{}")
        return CUT

    most_money = 0.7 + 0.8 * tries
    options = {"price": PRICE, "concurrency": 1, "timeout": 0.5, "most_money": most_money}
    fails(answer, "most_money", **options)
    assert len(model_server.requests) == answers + tries
    assert sample.facts["money"] == pytest.approx(0.01 * (answers + 80 * tries))
    assert "the request is sent again" in capsys.readouterr().out, (
        "a try that may cost money must be reported at once"
    )
    # a later program knows what was spent
    fails(CHEAP, "most_money", **options)
    assert len(model_server.requests) == answers + tries


def test_tries_after_the_server_has_gone_cost_nothing(sample, fails):
    server = ModelServer()

    def answer(body, number):
        server.listener.shutdown()
        server.listener.server_close()
        return CUT

    server.answer = answer
    fails(None, "no connection", "tries)", url=server.url, price=PRICE, concurrency=1)
    assert sample.facts["money"] == pytest.approx(0.8) and len(server.requests) == 1


def test_a_proxy_that_makes_no_connection_costs_nothing(sample, fails, model_server, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, model_server.url.removesuffix("/v1"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    fails(None, "no connection", "HTTPS_PROXY", url="https://127.0.0.1:9/v1", price=PRICE)
    assert sample.facts["money"] == 0


def test_requests_that_find_no_server_cost_nothing(sample, fails):
    fails(None, "no connection", url="http://127.0.0.1:9/v1", price=PRICE)
    assert sample.facts["money"] == 0


def test_requests_that_wait_for_money_are_not_sent_in_the_pause_that_the_server_asks_for(sample):
    times = []

    def answer(body, number):
        times.append(time.monotonic())
        busy = (*refusal("slow down", 429), {"Retry-After": "1"})
        return busy if number == 0 else CHEAP(body, number)

    # only one request fits into the limit at a time
    sample(answer, price=PRICE, most_money=1.5)
    assert len(times) == 1 + PROMPTS and min(times[1:]) - times[0] >= 1


@pytest.mark.parametrize("name", ["seed", "n"])
def test_a_request_that_waits_for_money_leaves_out_what_was_refused_in_the_meantime(
    sample, model_server, name
):
    refused = refusal(f"unknown parameter: {name}")
    sample(
        lambda body, number: refused if name in body else CHEAP(body, number),
        price=PRICE,
        most_money=1.5,
    )
    assert sum(name in body for body in model_server.requests) == 1


def test_a_prompt_of_one_token_per_byte_stays_below_the_limit_of_money(sample, fails):
    def answer(body, number):
        tokens = len(body["messages"][0]["content"].encode()) + 30
        return completions_of(body, usage={"prompt_tokens": tokens, "completion_tokens": 5})

    price = {"input": 10_000, "output": 0}
    question = "\N{LARGE RED CIRCLE}" * 100 + "{n}"
    fails(answer, "most_money", question=question, price=price, most_money=7)
    assert 4 < sample.facts["money"] <= 7


# --- too little context ---


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"message": "Requested token count exceeds the model's maximum context length of 192 tokens."}),
        (400, {"message": "max_tokens must be at least 1, got -50."}),
        (400, {"message": "too large", "type": "exceed_context_size_error", "n_ctx": 192}),
        (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    ],
)  # fmt: skip
def test_the_error_names_the_prompt_however_a_server_words_too_little_context(fails, status, body):
    answer = (status, body if isinstance(body, str) else {"error": body})
    fails(
        lambda body, number: answer if "ball 3" in str(body) else completions_of(body),
        "Which colour has ball 3?",
        "context",
        "completion_tokens",
    )


# --- parameters that a server does not take ---


def strict(*unknown, answer):
    """A server that refuses requests with a parameter in `unknown`. The refusal names the first
    such parameter."""

    def respond(body, number):
        name = next((name for name in unknown if name in body), None)
        return completions_of(body) if name is None else answer(name)

    return respond


@pytest.mark.parametrize(
    "answer",
    [
        lambda name: (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 1}]}),
        lambda name: refusal(f"property '{name}' is unsupported, did you mean something else?"),
        lambda name: (400, [{"error": {"message": f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'}}]),
        lambda name: refusal("Unsupported parameter", param=name, code="unsupported_parameter"),
    ],
)  # fmt: skip
def test_parameters_are_left_out_one_by_one(sample, capsys, answer):
    completions = sample(strict("seed", "top_k", "logprobs", "n", answer=answer), concurrency=1)
    assert len(completions) == 4 * PROMPTS
    assert capsys.readouterr().out.count("the server refuses") == 4
    assert sample.facts["not_supported"] == ["logprobs", "n", "seed", "top_k"]


def test_temperature_1_is_left_out_if_the_server_refuses_the_parameter(sample, is_normal):
    words = "Unsupported value: 'temperature' does not support 1.0 with this model."
    is_normal(
        lambda body, number: (
            refusal(words) if "temperature" in body else completions_of(body | {"temperature": 1.0})
        )
    )


# --- Retry-After ---


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("1.5", 1.5),
        (" 2 ", 2),
        ("-5", 0),
        ("soon", 0),
        ("nan", 0),
        ("", 0),
        ("..", 0),
        ("86400", 86400),
    ],
)
def test_seconds_of_retry_after(value, seconds):
    assert read_retry_after({"retry-after": value}) == seconds


def test_a_long_retry_after_ends_the_program_at_once(fails, model_server):
    answer = (*refusal("daily limit reached", 429), {"Retry-After": str(2 * LONGEST_RETRY_AFTER)})
    fails(
        lambda body, number: completions_of(body) if number < 2 else answer,
        "daily limit reached",
        "Retry-After",
        "30 minutes",
        "8 completions are in",
        concurrency=1,
    )
    assert len(model_server.requests) == 3
