"""Sample from a model behind a server with OpenAI's interface.

The samples of a prompt are requested together if the server accepts `n`. Optional parameters that
the server refuses are left out of all further requests. An answer is stored as soon as it arrives
(`answers.py`) and never requested again. Samples are reproducible only if the server uses the
requests' seeds.
"""

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import httpx2
from pydantic import Field, ValidationError

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling.answers import AnswerFile, ServedModel, Usage
from hardgrpo.sampling.requests import CHARACTERS_PER_TOKEN, MOST_SAMPLES, Completion, Request
from hardgrpo.study.model import Server
from hardgrpo.study.strict import Count

CONNECT_SECONDS = 30.0  # time limit for making a connection
TEMPLATE_TOKENS = 200  # assumed upper limit of the tokens that a chat template adds to a prompt
MOST_TRIES, FIRST_TRIES = 10, 4  # tries of a request; without a connection to a new server
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two tries
LONGEST_RETRY_AFTER = 900.0  # seconds; sampling ends if the server asks for a longer pause
TRANSIENT = (408, 409, 425, 429)  # statuses below 500 after which the same request may succeed
LARGEST_TOKENS = 2**40  # a larger number of tokens in an answer is none
SEEDS = 2**31  # number of different seeds; every server accepts seeds of 32 bits
# Servers cut the distribution by default. Which of these parameters prevents it depends on the server.
WHOLE_DISTRIBUTION = {
    "top_p": 1.0,
    "top_k": 1_000_000,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
}
# {optional parameter: regular expression of its name in a refusal}. A refused max_tokens is sent as
# max_completion_tokens. A parameter of CHOSEN is left out only if it is 1, the default of most servers:
# another value is a person's choice.
CHOSEN = ("temperature", "top_p")
OPTIONAL = {name: name for name in ("n", "seed", "temperature", *WHOLE_DISTRIBUTION)} | {
    "logprobs": "(top_)?logprobs",
    "max_tokens": "max_completion_tokens",
}
FINISH_REASONS = {name: name for name in ("stop", "length", "content_filter")}
FINISH_REASONS |= {"tool_calls": "stop", "function_call": "stop"}
# failures of the client before it has sent a request; a group contains the error of a wrong port
NO_CONNECTION = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, ExceptionGroup)


class Address(Server):
    """How a server is used: a model's `source` in the configuration, with all defaults. `key` is the
    name of an environment variable."""

    kind: Literal["server"] = "server"
    model: Literal["(in the manifest)"] = "(in the manifest)"
    concurrency: Count = 32
    timeout: Annotated[float, Field(gt=0)] = 600.0

    def money(self, usage: Usage) -> float:
        if not self.price:
            return 0.0
        input_money = usage.input_tokens * self.price.input
        return (input_money + usage.output_tokens * self.price.output) / 1e6

    def secret(self) -> str | None:
        """The key. Raise a `UserError` if the environment variable holds none."""
        if self.key is None:
            return None
        errors.hide(self.key)
        value = os.environ.get(self.key, "").strip()
        if not (value and value.isascii() and value.isprintable()):
            raise UserError(
                f"{self.url}: the environment variable {self.key} holds no key (printable ASCII characters); export {self.key}"
            )
        return value


def read_address(settings: dict, place: str = "--server") -> Address:
    """The address in the argument `place` of a program. Raise a `UserError` if the argument is
    wrong; the message quotes no value, because a value may be secret."""
    try:
        return Address.model_validate(settings)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        raise UserError(
            f"{place}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}; expected url, and optional key (a name of a variable), concurrency, timeout,"
            " price and most_money"
        ) from None


def sample(
    folder: str,
    address: Address,
    requests: list[Request],
    max_tokens: int,
    chat: dict,
    state: str,
    parts: Iterable[list[int]] | None,
    on_batch: Callable[[int, str], None],
    on_ready: Callable[[], None],
    on_end: Callable[[dict], None] = lambda facts: None,
) -> Iterator[list[Completion]]:
    """Like `engines.sample`, for the model that the manifest of `folder` names. `state` is the
    folder of stored answers. When sampling ends, `on_end` receives the `facts` of the sampler."""
    source = files.read_json(Path(folder) / "manifest.json").get("source", {})
    served = ServedModel(source["model"], chat, max_tokens)
    sampler = Sampler(address, served, on_batch)
    keys = list(map(served.key, requests))
    sampler.open_answers(AnswerFile(Path(state) / f"server-{Path(folder).name}"), keys)
    on_ready()
    with asyncio.Runner() as runner:
        try:
            for part in [range(len(requests))] if parts is None else parts:
                part_requests = [requests[index] for index in part]
                yield runner.run(sampler.complete(part_requests, [keys[index] for index in part]))
        finally:
            runner.run(sampler.client.aclose())
            on_end(sampler.facts())


class Sampler:
    """Requests completions of one model, at most `address.concurrency` requests at a time."""

    def __init__(self, address: Address, served: ServedModel, on_batch: Callable[[int, str], None]):
        self.address, self.served, self.on_batch = address, served, on_batch
        self.client = open_client(address)
        self.refused: set[str] = set()  # optional parameters
        self.reported: set[str] = set()  # problems that were printed
        self.answers_received = 0
        # the error that ends the sampling; answers to requests in flight are still stored
        self.failure: Exception | None = None
        self.paused_until = 0.0
        # of this program's answers, and of the answers that were stored before
        self.usage = self.earlier_usage = Usage()
        self.completion_tokens = 0  # tokens of this program's usable answers
        # largest possible cost of all requests in flight, and the number of these requests
        self.reserved, self.in_flight = 0.0, 0
        self.started = time.monotonic()

    def open_answers(self, answers: AnswerFile, keys: list[str]) -> None:
        """Read the stored completions that have one of `keys`."""
        self.answers = answers
        self.stored, self.earlier_usage = answers.read(set(keys)), answers.usage
        say(
            f"{self.address.url}: model {printable(self.served.model)}, {len(keys)} completions, {len(self.stored)} of them are in {answers.path}"
        )

    def facts(self) -> dict:
        """Facts for the provenance. Tokens and money are those of this program's requests."""
        return {
            "url": self.address.url,
            "model": self.served.model,
            "answered_by": sorted((self.earlier_usage + self.usage).models),
            "not_supported": sorted(self.refused),
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "money": round(self.address.money(self.usage), 6) if self.address.price else None,
        }

    async def complete(self, requests: list[Request], keys: list[str]) -> list[Completion]:
        """The completions of the requests. Raise a `UserError` if a request gets no completion, an
        `OSError` if the answers cannot be written. Answers that arrived before the error stay
        stored."""
        self.released = asyncio.Condition()  # money that was reserved for a request
        if stored := sum(key in self.stored for key in keys):
            self.on_batch(stored, "stored before")
        groups = iter(group_requests(requests, keys))
        self.failure = None
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self.address.concurrency, len(requests))):
                tasks.create_task(self._work(groups))
        self.answers.sync()
        if self.failure:
            raise self.failure
        return [self.stored[key] for key in keys]

    async def _work(self, groups: Iterator[tuple[list[str], list[Request]]]) -> None:
        for keys, requests in groups:
            try:
                await self._complete_group(keys, requests)
            except (UserError, OSError) as error:
                self.failure = self.failure or error
            if self.failure:
                return

    async def _complete_group(self, keys: list[str], requests: list[Request]) -> None:
        """Request the missing samples of one prompt until all are stored."""
        while missing := [
            (key, request) for key, request in zip(keys, requests) if key not in self.stored
        ]:
            batch = missing[:1] if "n" in self.refused else missing
            completions, usage = await self._request(batch[0][1], len(batch))
            if not completions:  # a parameter was refused: ask again without it
                continue
            if len(completions) == 1 < len(batch):
                self.refused.add("n")
                self._report(
                    "the server ignores n; the samples of a prompt are requested one by one"
                )
            scores = [completion.log_probability for completion in completions if completion.text]
            if batch[0][1].log_probability and scores and set(scores) == {None}:
                self._report("the server gives no log-probabilities, so their signal is unknown")
            completion_of_key = dict(zip((key for key, _ in batch), completions))
            self._store(completion_of_key, usage)
            self.completion_tokens += usage.output_tokens
            self.on_batch(len(completion_of_key), self._note())

    def _store(self, completions: dict[str, Completion], usage: Usage) -> None:
        self.answers.add(completions, usage)
        self.stored |= completions
        self.usage += usage

    def _report(self, problem: str) -> None:
        """Print a problem with the server, unless its text before "(" has been printed before."""
        if problem.partition("(")[0] not in self.reported:
            self.reported.add(problem.partition("(")[0])
            say(printable(f"{self.address.url}: {problem}"))

    def _note(self) -> str:
        speed = self.completion_tokens / max(1e-9, time.monotonic() - self.started)
        money = self.address.money(self.earlier_usage + self.usage)
        return f"{speed:.0f} tokens/s" + (f", {money:.4g} spent" if self.address.price else "")

    # --- money ---

    def _maximum_usage(self, request: Request, samples: int) -> Usage:
        """The usage if each byte of the prompt is a token and each completion reaches the limit."""
        size = len(prompt_of(request).encode("utf-8", "replace"))
        return Usage(size + TEMPLATE_TOKENS, samples * self.served.max_tokens)

    def _pay(self, usage: Usage) -> None:
        """Count a try that may cost money although it gave no completion."""
        if self.address.price:
            self._store({}, usage)

    @contextlib.asynccontextmanager
    async def _turn(self, cost: float) -> AsyncIterator[None]:
        """Reserve the cost of a request: wait until it fits into `most_money`, and until the pause
        has passed that the server asked for. Raise an error if it does not fit even when no other
        request is in flight, or if the sampling has ended in the meantime."""
        most = self.address.most_money or math.inf

        def fits() -> bool:
            if math.isinf(most):
                return True
            self.answers.read()  # other jobs may sample from the same model
            return self.address.money(self.answers.usage) + self.reserved + cost <= most

        async with self.released:
            await self.released.wait_for(lambda: fits() or not self.in_flight or self.failure)
            if not self.failure and not fits():
                raise UserError(
                    f"most_money: {self.address.money(self.answers.usage):.6g} of {most:g} is spent for model {self.served.model}, and the next request may"
                    f" cost {cost:.2g}; all completions are in {self.answers.path}: raise most_money (--most-money) and start the same command again"
                )
            self.reserved, self.in_flight = self.reserved + cost, self.in_flight + 1
        try:
            while not self.failure and (pause := self.paused_until - time.monotonic()) > 0:
                await self._pause(pause)
            if self.failure:
                raise self.failure
            yield
        finally:
            async with self.released:
                self.in_flight -= 1
                self.reserved = self.reserved - cost if self.in_flight else 0.0
                self.released.notify_all()

    # --- one request ---

    def _body(self, request: Request, samples: int) -> dict:
        served = self.served
        body = {"model": served.model, "seed": request.seed % SEEDS, **WHOLE_DISTRIBUTION}
        body |= {"temperature": request.temperature, "top_p": request.top_p}
        body |= {"max_tokens": served.max_tokens, "messages": request.messages}
        if served.chat:
            body["chat_template_kwargs"] = served.chat
        if samples > 1:
            body["n"] = samples
        # The log-probabilities also give the number of tokens of each sample.
        if request.log_probability or samples > 1:
            body["logprobs"] = True
        refused = self.refused - {name for name in CHOSEN if body[name] != 1}
        if "max_tokens" in refused:
            body["max_completion_tokens"] = served.max_tokens
        return {name: value for name, value in body.items() if name not in refused}

    async def _request(self, request: Request, samples: int) -> tuple[list[Completion], Usage]:
        """(completions, usage): repeat a request until the server answers. Without completions if
        the server refused an optional parameter: then request again without it. Raise a `UserError`
        if the server refuses the request, or after the last try."""
        most_usage = self._maximum_usage(request, samples)
        tries, pause, answers_before = 0, FIRST_PAUSE, self.answers_received
        while True:
            async with self._turn(self.address.money(most_usage)):
                if samples > 1 and "n" in self.refused:  # refused in the meantime
                    return [], Usage()
                try:
                    return await self._try(request, samples, most_usage)
                except Failure as error:
                    failure = error
            # A server that limits the rate, but answers other requests, is no failure: count anew.
            if failure.status == 429 and self.answers_received > answers_before:
                tries, answers_before = 0, self.answers_received
            tries += 1
            if failure.is_final:
                raise self._error(failure.problem, failure.status, request)
            if tries >= failure.most_tries:
                raise self._error(f"{failure.problem} ({tries} tries)", failure.status, request)
            self._report(f"{failure.problem}; the request is sent again")
            await self._pause(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _try(
        self, request: Request, samples: int, most_usage: Usage
    ) -> tuple[list[Completion], Usage]:
        """Send a request once. If the server may have computed an answer that is lost, `most_usage`
        is paid. Raise a `Failure` without an answer."""
        body = self._body(request, samples)
        try:
            async with asyncio.timeout(self.address.timeout):
                response = await self.client.post("/chat/completions", json=body)
        except NO_CONNECTION as error:
            most_tries = MOST_TRIES if self.answers_received else FIRST_TRIES
            raise Failure(f"no connection ({first_cause(error)})", most_tries=most_tries) from None
        except TimeoutError:
            self._pay(most_usage)
            raise Failure(
                f"no answer within {self.address.timeout:g} s; a server that answers few requests at a time needs a lower concurrency (--concurrency)"
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            self._pay(most_usage)
            raise Failure(f"no readable answer ({first_cause(error)})") from None
        status, seconds = response.status_code, read_retry_after(response.headers)
        if response.is_success:
            return self._read(read_body(response), request, samples, most_usage)
        if self._leave_out_refused(response, body):
            return [], Usage()
        problem = f"status {status}, {server_words(response)}"
        if seconds > LONGEST_RETRY_AFTER:
            problem += f"; the server asks for a pause of {seconds / 60:.0f} minutes (Retry-After)"
        if seconds > LONGEST_RETRY_AFTER or status < 500 and status not in TRANSIENT:
            raise Failure(problem, status, is_final=True)
        # set before the turn ends, which wakes the requests that wait for money
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)
        raise Failure(problem, status)

    def _read(
        self, answer: object, request: Request, samples: int, most_usage: Usage
    ) -> tuple[list[Completion], Usage]:
        try:
            completions, usage = read_answer(answer, request, samples, self.served.model)
        except (Failure, UserError):
            # numbers that the answer does not state are the largest
            tokens = stated_tokens(answer, "prompt") or most_usage.input_tokens
            sampled = stated_tokens(answer, "completion") or most_usage.output_tokens
            self._pay(Usage(tokens, sampled))
            raise
        self.answers_received += 1
        return completions, usage

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than a second after another request has ended the sampling."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0 and not self.failure:
            await asyncio.sleep(min(1.0, remaining))

    def _leave_out_refused(self, response: httpx2.Response, body: dict) -> bool:
        """Whether a refusal names optional parameters, which all further requests leave out."""
        if response.status_code not in (400, 422):
            return False
        names = {
            name
            for name, pattern in OPTIONAL.items()
            if name in body and re.search(rf"(?<![\w\\])({pattern})(?!\w)", response.text)
        }
        names -= {name for name in CHOSEN if body.get(name) != 1}
        for name in sorted(names - self.refused):
            self.refused.add(name)
            self._report(f"the server refuses {name}, which is left out of all further requests")
        return bool(names)

    def _error(self, problem: str, status: int | None, request: Request) -> UserError:
        """The error that ends the sampling after a response with this status; None: no response."""
        remedy = (
            "correct the configuration or the server; for a prompt that is too long, lower completion_tokens (--completion-tokens), shorten the"
            " prompt, or start the server with a larger context"
        )
        if status in (401, 403):
            remedy = "set `key` (--key) to the name of the environment variable that holds the server's key"
            if self.address.key:
                remedy = f"check the key in {self.address.key}"
        elif status is None or status in (404, 405) or status < 400:
            remedy = (
                f"check the server, its address, which usually ends in /v1, its name of the model ('{self.served.model}'), and the proxy (HTTP_PROXY,"
                " HTTPS_PROXY, ALL_PROXY)"
            )
        prompt = request.messages[-1]["content"][:60]
        return UserError(
            f"{self.address.url}: {problem}, for the prompt '{prompt}...'; {remedy}. Then start the same command again:"
            f" {len(self.stored)} completions are in {self.answers.path}"
        )


def open_client(address: Address) -> httpx2.AsyncClient:
    """A client that sends no credentials except the key of the address, follows no redirects, and
    verifies certificates. Proxies come from the usual environment variables (HTTPS_PROXY)."""
    secret = address.secret()
    # shorter than the time limit of a request, after which the request counts as sent
    connect = min(CONNECT_SECONDS, address.timeout / 2)
    try:
        return httpx2.AsyncClient(
            base_url=address.url,
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=httpx2.Timeout(None, connect=connect),
            limits=httpx2.Limits(
                max_connections=address.concurrency, max_keepalive_connections=address.concurrency
            ),
        )
    # a wrong address; a proxy that is not supported; a missing or damaged file of certificates
    except (httpx2.InvalidURL, ValueError, ImportError, OSError) as error:
        raise UserError(
            f"{address.url}: no connection is possible ({error}); correct the address, the proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY: an HTTP proxy)"
            " or the certificates (SSL_CERT_FILE)"
        ) from None


def group_requests(
    requests: list[Request], keys: list[str]
) -> Iterator[tuple[list[str], list[Request]]]:
    """Yield (keys, requests) of at most MOST_SAMPLES consecutive samples of one prompt. Greedy
    requests are yielded one by one."""
    sampling_key = lambda pair: (pair[1].messages, pair[1].temperature, pair[1].log_probability)
    for (_, temperature, _), group in itertools.groupby(zip(keys, requests), sampling_key):
        while batch := list(itertools.islice(group, MOST_SAMPLES if temperature else 1)):
            yield [key for key, _ in batch], [request for _, request in batch]


def prompt_of(request: Request) -> str:
    """The texts of the messages."""
    return "\n".join(message["content"] for message in request.messages)


# --- answers ---


@dataclass(eq=False)
class Failure(Exception):
    """A try that gave no completion."""

    problem: str
    status: int | None = None  # of the response, if there is one
    most_tries: int = MOST_TRIES
    is_final: bool = False


def read_body(response: httpx2.Response) -> object:
    """The JSON in a response; without JSON, its text."""
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text


def read_answer(
    answer: object, request: Request, samples: int, model: str
) -> tuple[list[Completion], Usage]:
    """(at most `samples` completions, usage). Raise `Failure` if there is no completion, a
    `UserError` if another model answered."""
    if not isinstance(answer, dict):
        raise Failure(f"the answer is not a JSON object; it begins with {str(answer)[:40]!r}", 200)
    choices = answer.get("choices")
    if not (isinstance(choices, list) and choices and all(type(c) is dict for c in choices)):
        raise Failure(f"the answer has no choices ({str(answer)[:300]})", 200)
    name = answer.get("model")
    if isinstance(name, str) and name and not is_same_model(name, model):
        raise UserError(
            f"model '{name}' answers, expected '{model}'; write the name of the model that you want as the source's `model` (--model)"
        )
    indices = [choice.get("index") for choice in choices]
    if all(type(index) is int for index in indices):
        choices = sorted(choices, key=lambda choice: choice["index"])
    parts = [_read_choice(choice) for choice in choices[:samples]]
    lengths = [len(scores) or assumed_tokens(text) for text, _, scores in parts]
    # llama.cpp counts only the tokens of the first choice. It returns fewer log-probabilities than
    # tokens if a character consists of several tokens.
    stated = stated_tokens(answer, "completion") or sum(lengths)
    output_tokens = max(stated, sum(len(scores) for _, _, scores in parts))
    completions = [
        Completion(text, tokens, finish_reason, sum(scores) / len(scores) if scores else None)
        for (text, finish_reason, scores), tokens in zip(
            parts, share_tokens(output_tokens, lengths)
        )
    ]
    input_tokens = stated_tokens(answer, "prompt") or assumed_tokens(prompt_of(request))
    return completions, Usage(
        input_tokens, output_tokens, frozenset([name] if isinstance(name, str) else [])
    )


def _read_choice(choice: dict) -> tuple[str, str, list[float]]:
    """(text, finish reason, log-probabilities of the tokens) of a choice. The log-probabilities are
    empty if unknown. Raise `Failure` if the choice has no text or an unknown finish reason."""
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else 0
    if isinstance(content, list):  # parts of a text, without the thoughts
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    if content is not None and not isinstance(content, str):
        raise Failure("the answer has a choice without text", 200)
    finish_reason = FINISH_REASONS.get(str(choice.get("finish_reason")))
    if finish_reason is None:
        reason = str(choice.get("finish_reason"))[:40]
        raise Failure(f"the answer ends for an unknown reason ({reason!r})", 200)
    if not content and (message.get("reasoning_content") or message.get("reasoning")):
        finish_reason = "length"  # thoughts without an answer
    # a lone surrogate cannot be encoded in UTF-8
    content = re.sub("[\ud800-\udfff]", "\ufffd", content or "")
    return content, finish_reason, _log_probabilities(choice.get("logprobs"))


def _log_probabilities(logprobs: object) -> list[float]:
    entries = logprobs if isinstance(logprobs, dict) else {}
    values, tokens = entries.get("token_logprobs"), entries.get("content")
    if isinstance(tokens, list):
        values = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    try:
        return values if math.isfinite(math.fsum(values)) else []
    except (TypeError, ValueError, OverflowError):  # not a list of finite numbers
        return []


def share_tokens(total: int, lengths: list[int]) -> list[int]:
    """Divide a number of tokens in proportion to lengths. The shares are integers with the sum
    `total`."""
    edges = [round(total * length / sum(lengths)) for length in itertools.accumulate(lengths)]
    return [end - start for start, end in zip([0, *edges], edges)]


def assumed_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN) or 1


def stated_tokens(answer: object, kind: str) -> int:
    """The number of tokens of `kind`, prompt or completion, in an answer's usage; 0: not stated."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    number = usage.get(f"{kind}_tokens") if isinstance(usage, dict) else None
    return number if type(number) is int and 0 < number < LARGEST_TOKENS else 0


def is_same_model(name: str, model: str) -> bool:
    """Whether a name in an answer means the requested model. Letter case and folders are ignored,
    and the name may end in a version that `model` lacks (gpt-5-2026-01-31)."""
    short = [text.lower().rstrip("/").rpartition("/")[2] for text in (name, model)]
    return short[0] == short[1] or bool(
        re.fullmatch(re.escape(short[1]) + r"([-@:]\d[\d.-]*|:latest)", short[0])
    )


# --- failures ---


def server_words(response: httpx2.Response) -> str:
    """The beginning of the server's message in a response that is an error."""
    body = read_body(response)
    if isinstance(body, dict):
        body = body.get("error") or body.get("detail") or body
    if isinstance(body, dict):
        body = body.get("message") or body
    return " ".join(str(body).split())[:300] or response.reason_phrase


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait (header Retry-After); 0 if it does not state them."""
    value = headers.get("retry-after", "").strip()
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else 0.0


def first_cause(error: BaseException) -> str:
    """The operating system's message about a failed connection, or the client's."""
    while isinstance(error, ExceptionGroup) or error.__cause__ or error.__context__:
        is_group = isinstance(error, ExceptionGroup)
        error = error.exceptions[0] if is_group else error.__cause__ or error.__context__
        if isinstance(error, asyncio.CancelledError):  # the client's limit of time
            return "timed out"
    return str(error) or type(error).__name__
