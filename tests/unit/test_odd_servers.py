"""Unusual answers of servers, proxies and hosted services, sent by a local HTTP server. Sampling
ends with the right completions, or with a one-line error that says what to do."""

import collections
import contextlib
import gzip
import json
import socket
import tempfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
        answer=None, samples=SAMPLES, temperature=1.0, state="state",
        question="Which colour has ball {n}?", **server,
    ):  # fmt: skip
        if answer is not None:
            model_server.answer = answer
        source = {"kind": "server", "model": MODEL}
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


def at_first(answer):
    """The first two answers are those of `answer`; all later answers are normal."""
    return lambda body, number: answer(body) if number < 2 else completions_of(body)


# --- one answer: kept, requested again, or refused ---


def raw(headers: str, data: bytes):
    lines = ["HTTP/1.1 200 OK", *headers.splitlines(), "", ""]
    return RAW, "\r\n".join(lines).encode() + data


def on_wire(change):
    """Normal answers whose bytes are `change`d."""
    return lambda body, number: change(json.dumps(completions_of(body)).encode())


def always(*answer):
    return lambda body, number: answer


GZIP = "Content-Type: application/json\nContent-Encoding: gzip\nConnection: close"
CHUNKED = "Content-Type: application/json\nTransfer-Encoding: chunked\nConnection: close"
ANSWERS = {
    "kept": [  # the completions equal those of a normal answer
        with_choices(lambda choices: choices + [choices[0] | {"index": 9}]),
        with_choices(lambda choices: choices[::-1]),
        *(with_choice(index=index) for index in (0, None, "0", -1)),
        on_wire(lambda data: raw(GZIP, gzip.compress(data))),
        on_wire(lambda data: raw(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))),
        on_wire(lambda data: (200, b"\n\n \r\n" + data + b"\n", {})),
        on_wire(lambda data: (200, b"\xef\xbb\xbf" + data, {})),
        *(
            lambda body, number, name=name: completions_of(body, model=name)
            for name in ("", None, 5, "NAME-4b", "openai/org/name-4B", "name-4B:latest",
                         "org/name-4B-2026-01-31", "/models/name-4B")
        ),
    ],
    "again": [  # and refused with these words if the server never gives another answer
        (with_choice(message={"content": {"text": "red"}}), "a choice without text"),
        (with_choice(message=None), "a choice without text"),
        (with_choice(finish_reason=None), "'None'"),
        (with_choice(finish_reason="error"), "'error'"),
        (with_choice(finish_reason=["stop"]), "reason"),
        (on_wire(lambda data: raw(CHUNKED, b"%x\r\n%s" % (len(data), data[:50]))), ""),
        (on_wire(lambda data: raw(GZIP, gzip.compress(data)[:-20])), ""),
        (on_wire(lambda data: raw(GZIP, data)), ""),
        (on_wire(lambda data: (200, data.replace(b"think", b"th\xffnk"), {})), "JSON"),
        (on_wire(lambda data: (200, data[:-10], {})), "JSON"),
        (always(200, b"", {}), "JSON"),
        (always(200, b"null", {}), "JSON"),
        (always(200, b"[" * 100_000, {}), "JSON"),
        (always(200, {}), "choices"),
        (always(200, "<!DOCTYPE html><html>Welcome</html>"), "<!DOCTYPE"),
        (always(200, {"error": {"message": "overloaded", "code": 503}}), "overloaded"),
        (always(200, {"error": "model is loading"}), "model is loading"),
        (always(529, {"error": {"message": "overloaded"}}), "529"),
        (always(502, b"", {}), "502"),
        (always(*refusal("slow down", 429)), "slow down"),
        (always(*refusal("down", 500)), "500"),
        (lambda body, number: CUT, ""),
        (always(200, {"error": {"message": "No credits left", "code": 402}}), "No credits left"),
        (always(*refusal("You exceeded your quota", 429, code="insufficient_quota")), "exceeded your quota"),
    ],
    "refused": [  # also if the server would give another answer
        (always(402, {"error": {"message": "Insufficient Balance"}}), "402", "Insufficient Balance"),
        (always(403, "<html><style>x</style><h1>Attention Required!</h1></html>"), "403", "Attention Required!", "`key`"),
        (always(400, [{"error": {"code": 400, "message": "API key not valid."}}]), "API key not valid."),
        (always(405, ""), "405"),
        (always(302, "", {"Location": "http://127.0.0.1:9/v1"}), "302"),
        (always(*refusal("Incorrect API key provided", 401)), "401", "Incorrect API key", "`key`"),
        (always(*refusal("The model `org/name-4B` does not exist.", 404)), "404", "does not exist"),
        (always(404, "<html><h1>Not Found</h1></html>"), "404", "Not Found", "/v1"),
        (always(*refusal("Unknown field: messages", 400)), "Unknown field: messages"),
        (always(422, {"detail": [{"loc": ["body", "model"], "msg": "Field required"}]}), "Field required"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS["kept"])
def test_an_unusual_form_of_a_right_answer_is_kept(is_normal, answer):
    is_normal(answer)


@pytest.mark.parametrize(("answer", "words"), ANSWERS["again"])
def test_a_damaged_or_empty_answer_is_requested_again(
    fails, is_normal, model_server, answer, words
):
    is_normal(at_first(lambda body: answer(body, 0)))
    fails(answer, words, model_server.url, state="another")


@pytest.mark.parametrize("case", ANSWERS["refused"])
def test_an_answer_that_will_not_change_is_refused_at_once(fails, model_server, case):
    answer, *words = case
    fails(at_first(lambda body: answer(body, 0)), model_server.url, *words)


@pytest.mark.parametrize("name", ["other-7B", "org/name-4B-chat"])
def test_an_answer_from_another_model_is_refused(fails, name):
    fails(lambda body, number: completions_of(body, model=name), f"'{name}'", f"'{MODEL}'")


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"message": {"content": ""}, "finish_reason": "length"}, "", "length"),
        ({"message": {"content": None}}, "", "stop"),
        ({"message": {"content": " \n\t "}}, " \n\t ", "stop"),
        ({"message": {"content": "red\ud800 \ud83d\ude00"}}, "red\ufffd \U0001f600", "stop"),
        ({"message": {"content": "nul \0, bell \a, \u2028"}}, "nul \0, bell \a, \u2028", "stop"),
        ({"message": {"content": None, "refusal": "I cannot"}}, "", "stop"),
        # thoughts are no part of the completion
        ({"message": {"content": None, "reasoning_content": "Let me"}}, "", "length"),
        ({"message": {"content": "", "reasoning": "Let me think"}}, "", "length"),
        ({"message": {"content": "#### red", "reasoning_content": "Let me"}}, "#### red", "stop"),
        ({"message": {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "red"}]}}, "red", "stop"),
        *(
            ({"message": {"content": "red"}, "finish_reason": word}, "red", reason)
            for word, reason in (("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"),
                                 ("function_call", "stop"), ("tool_calls", "stop"))
        ),
    ],
)  # fmt: skip
def test_the_text_of_a_completion_and_the_reason_why_it_ends(sample, fields, text, reason):
    """Only lone surrogates are replaced in a text. The limit is reached, as `usage` states."""
    completions = sample(with_usage(LIMIT * SAMPLES, logprobs=None, **fields))
    assert {(sampled.text, sampled.finish_reason) for sampled in completions} == {(text, reason)}
    assert {sampled.tokens for sampled in completions} == {LIMIT}


def test_a_server_that_gives_at_most_three_choices_is_asked_for_the_remainder(sample, model_server):
    completions = sample(
        lambda body, number: completions_of(body | {"n": min(3, body.get("n", 1))})
    )
    assert len(completions) == 4 * PROMPTS and sample.facts["not_supported"] == []
    assert sorted(body.get("n", 1) for body in model_server.requests) == [1] * 6 + [4] * 6


@pytest.mark.parametrize(
    "logprobs",
    [
        *({"content": [{"token": "red", "logprob": -0.5}, {"token": "!", "logprob": value}]}
          for value in (float("nan"), float("-inf"), None, "-0.5")),
        {"content": "red"}, {"token_logprobs": "red"}, [], {}, None,
    ],
)  # fmt: skip
def test_log_probabilities_that_are_no_numbers_are_unknown(sample, capsys, logprobs):
    completions = sample(with_choice(logprobs=logprobs))
    assert capsys.readouterr().out.count("the server gives no log-probabilities") == 1
    assert {completion.log_probability for completion in completions} == {None}


@pytest.mark.parametrize(
    "usage",
    [
        None, {}, [20, 6], "20", {"prompt_tokens": 6}, {"completion_tokens": True}, {"completion_tokens": "many"},
        {"completion_tokens": -20, "prompt_tokens": -3}, {"completion_tokens": 0, "prompt_tokens": 0},
        {"prompt_tokens": 9, "completion_tokens": 5},  # llama.cpp counts only the first choice
    ],
)  # fmt: skip
def test_tokens_are_counted_if_usage_does_not_state_their_number(sample, usage):
    completions = sample(lambda body, number: completions_of(body, usage=usage))
    assert {completion.tokens for completion in completions} == {5}
    assert sample.facts["input_tokens"] > 0
    assert sample.facts["output_tokens"] == 5 * SAMPLES * PROMPTS


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

    assert len(sample(answer, timeout=1.0, price=PRICE)) == PROMPTS * SAMPLES
    tries = sum("ball 3" in str(body) for body in model_server.requests)
    cost = 0.05 * SAMPLES * PROMPTS + 0.8 * (tries - 1)
    assert sample.facts["money"] == pytest.approx(cost), "a try without an answer counts"
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
        line = fails(None, "no connection (timed out)", "(4 tries)", url=url, price=PRICE)
        assert "600" not in line and sample.facts["money"] == 0
        fails(None, url=url, timeout=0.3, price=PRICE)
        assert sample.facts["money"] == 0


# --- money ---

PRICE = {"input": 0, "output": 10_000}  # 0.01 for a token, 0.8 for SAMPLES at the limit
CHEAP = with_usage(1, logprobs=None)  # 0.01 for an answer


NOTHING, LIMITS = "nothing", "limits"  # charged: no token, or the limits of prompt and completions
UNUSABLE = [  # (changes of a right answer, or another answer; what is charged: a number of tokens, ...)
    ({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, 7),
    ({"model": "org/other-4B", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, 7),
    ({"choices": [], "usage": None}, LIMITS), ({"model": "org/other-4B", "usage": None}, LIMITS),
    *((answer, LIMITS) for answer in (CUT, "<html>Bad gateway</html>", (200, '{"choices": ['), raw(GZIP, b"{}"))),
    (refusal("busy", 503), NOTHING), (refusal("no", 403), NOTHING),
]  # fmt: skip


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(st.none() | st.sampled_from(UNUSABLE), max_size=12),
    most_money=st.floats(6, 60),
    concurrency=st.integers(1, 4),
    circles=st.integers(0, 40),
)
def test_what_is_charged_is_counted_below_the_limit_and_no_stored_completion_is_requested_again(
    sample, model_server, script, most_money, concurrency, circles
):
    """A service charges at most one token for each byte of a prompt and 200 for the template, and
    also charges for answers that do not arrive. A sampling that was refused is started again."""
    charged, answered, spent = 0, collections.Counter(), 0

    def answer(body, number):
        nonlocal charged
        text, samples = body["messages"][0]["content"], body.get("n", 1)
        prompt_tokens = len(text.encode()) + 200
        if number >= len(script) or not script[number]:
            answered[text] += samples
            charged += prompt_tokens + 5 * samples
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 5 * samples}
            return completions_of(body, usage=usage)
        unusable, tokens = script[number]
        largest = prompt_tokens + LIMIT * samples
        charged += {NOTHING: 0, LIMITS: largest}.get(tokens, tokens)
        return completions_of(body, **unusable) if isinstance(unusable, dict) else unusable

    model_server.requests.clear()
    state = tempfile.mkdtemp()
    question = "Which colour has ball {n}?" + "\N{LARGE RED CIRCLE}" * circles
    for _ in range(3):
        try:
            completions = sample(
                answer, question=question, state=state, concurrency=concurrency,
                price={"input": 10_000, "output": 10_000}, most_money=most_money,
            )  # fmt: skip
            assert len(completions) == PROMPTS * SAMPLES
            assert set(answered.values()) == {SAMPLES}
        except UserError:
            pass
        spent += sample.facts["money"]
        assert 0.01 * charged <= spent + 1e-6 and spent <= most_money + 1e-6
        assert max(answered.values(), default=0) <= SAMPLES


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
    for url in ("https://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"):  # without a server, too
        fails(None, "no connection", "HTTPS_PROXY", url=url, price=PRICE)
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


# --- too little context ---


@pytest.mark.parametrize("status", [400, 413, 500])
def test_the_error_names_the_prompt_that_is_too_long_for_the_context(fails, status):
    answer = refusal("This model's maximum context length is 192 tokens.", status)
    words = ("Which colour has ball 3?", "context", "completion_tokens")
    fails(lambda body, _: answer if "ball 3" in str(body) else completions_of(body), *words)


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


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("logprobs", refusal("You are not allowed to request logprobs from this model.")),
        ("seed", refusal("seed is not supported")),
        ("n", refusal("n must be 1", 422)),
        ("top_k", refusal("Unrecognized request argument supplied: top_k")),
        ("max_tokens", refusal("'max_tokens' is not supported. Use 'max_completion_tokens' instead.")),
    ],
)  # fmt: skip
def test_an_optional_parameter_that_is_refused_is_left_out(sample, model_server, name, answer):
    completions = sample(lambda body, n: answer if name in body else completions_of(body))
    assert len(completions) == 4 * PROMPTS and name not in model_server.requests[-1]
    assert {c.log_probability is None for c in completions} == {name == "logprobs"}
    assert sample.facts["not_supported"] == [name]


def test_temperature_1_is_left_out_if_the_server_refuses_the_parameter(sample, is_normal):
    words = "Unsupported value: 'temperature' does not support 1.0 with this model."
    is_normal(
        lambda body, number: (
            refusal(words) if "temperature" in body else completions_of(body | {"temperature": 1.0})
        )
    )


# --- Retry-After ---


def test_seconds_of_retry_after():
    seconds = {"0": 0, "1.5": 1.5, " 2 ": 2, "86400": 86400}
    seconds |= dict.fromkeys(("-5", "soon", "nan", "", ".."), 0)
    assert {text: read_retry_after({"retry-after": text}) for text in seconds} == seconds


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
