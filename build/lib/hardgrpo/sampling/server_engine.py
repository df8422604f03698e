"""Sample from a model behind a server with OpenAI's interface: vLLM, SGLang, llama.cpp, Ollama or a
hosted service.

The samples of a prompt are requested together if the server accepts the parameter `n`. Optional
parameters that the server refuses are left out of all further requests. An answer is stored as soon
as it arrives (`answers.py`), and a stored completion is never requested again, so a stopped program
continues where it stopped. Each request has its own seed. Samples are reproducible only if the
server uses seeds.
"""

import asyncio
import contextlib
import contextvars
import difflib
import email.utils
import itertools
import json
import math
import os
import random
import re
import time
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
from pydantic import ValidationError

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling.answers import AnswerFile, Usage, completion_key
from hardgrpo.sampling.requests import CHARACTERS_PER_TOKEN, MOST_SAMPLES, Completion, Request
from hardgrpo.study.model import Server

CONCURRENCY, TIMEOUT_SECONDS = 32, 600.0  # defaults
CONNECT_SECONDS = 30.0  # time limit for making a connection
TEMPLATE_TOKENS = 200  # assumed upper limit of the tokens that a chat template adds to a prompt
# Largest number of tries of a request. FIRST_TRIES: as long as the server has not answered any
# request, if no connection is made or an answer cannot be read.
MOST_TRIES, FIRST_TRIES = 10, 4
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two tries
SECONDS_BETWEEN_SYNCS = 2.0  # how often the file of answers is flushed to the disk
LONGEST_RETRY_AFTER = 900.0  # seconds; sampling ends if the server asks for a longer pause
# seconds to wait for the server's list of models; largest number of models in an error message
LOOK_UP_SECONDS, MOST_MODELS = 10.0, 10
FEWEST_GROUPS = 5  # equal samples are reported only if at least this many groups were sampled
# A completion that is truncated below this share of the completion limit was not truncated by this
# limit, but by the model's context or by a lower limit of the server.
MIN_LIMIT_SHARE = 0.9
LLAMA_CPP_PYTHON = "me"  # the owner that llama-cpp-python's server states for its models
TRANSIENT = (408, 409, 425, 429)  # statuses below 500 after which the same request may succeed
SEEDS = 2**31  # number of different seeds; every server accepts seeds of 32 bits
# Values with which a server samples from the model's complete distribution. By default, servers cut
# the distribution. Which parameters do so depends on the server.
WHOLE_DISTRIBUTION = {
    "top_p": 1.0,
    "top_k": 1_000_000,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
}
# {parameter: (pattern of a server's refusal, consequence of leaving the parameter out)}. `top_p`
# stands for all parameters of WHOLE_DISTRIBUTION.
OPTIONAL = {
    "logprobs": (r"\b(top_)?logprobs", "the signal log_probability is unknown"),
    "seed": (r"\bseed", "the same request may give other completions"),
    "n": (
        r"(?<![\w\\])n\b|one completion|multiple completions",
        "the samples of a prompt are requested one by one",
    ),
    "max_tokens": (
        r"max_tokens.*(not supported|unsupported)|unsupported.*max_tokens",
        "the limit is sent as max_completion_tokens",
    ),
    "top_p": (
        "|".join(WHOLE_DISTRIBUTION),
        "the server's own settings may cut the distribution of tokens",
    ),
    # left out only from requests with temperature 1, the default of most servers
    "temperature": (r"\btemperature", "the server samples at its default temperature"),
    # Unlike the other parameters, `stream` is sent only if a server demands it.
    "stream": (
        r"\bonly supports? stream|stream\w*\W+(must|should|has to|needs to) be|enable the stream",
        "a stream is requested instead",
    ),
}
CONTEXT_WORDS = (
    r"context[ _](length|size|window)|too long|too many tokens|maximum.*tokens|token limit|maximum model length"
    r"|max_tokens must be at least 1|max_new_tokens.* must be <=|reduce the length|range of input length"
)
MODEL_WORDS = r"model.*(not found|not exist|not available|no such|invalid|unknown|not a valid)|((no such|invalid|unknown|not a valid) model)"
FINISH_REASONS = {
    "stop": (
        "stop",
        "eos",
        "eos_token",
        "end_turn",
        "stop_sequence",
        "tool_calls",
        "function_call",
    ),
    "length": ("length", "max_tokens"),
    "content_filter": ("content_filter", "safety", "sensitive"),
}
FINISH_REASON_OF = {word: reason for reason, words in FINISH_REASONS.items() for word in words}


@dataclass(frozen=True)
class Address:
    """A server's address, and how the server is used. The fields are keys of a model's `source` in
    the configuration."""

    url: str
    key: str | None = None
    concurrency: int = CONCURRENCY
    timeout: float = TIMEOUT_SECONDS
    price: dict[str, float] | None = None
    most_money: float = math.inf

    def money(self, usage: Usage) -> float:
        price = self.price or {"input": 0.0, "output": 0.0}
        return (usage.input_tokens * price["input"] + usage.output_tokens * price["output"]) / 1e6

    def secret(self) -> str | None:
        """The key. Raise a `UserError` if the environment variable is not set."""
        if self.key is None:
            return None
        errors.hide(self.key)
        value = os.environ.get(self.key, "").strip()
        if not value:
            raise UserError(
                f"{self.url}: the key is expected in the environment variable {self.key}, which is not set; export {self.key}"
            )
        if not (value.isascii() and value.isprintable()):
            raise UserError(
                f"{self.url}: the value of {self.key} cannot be a key, because it has characters that an HTTP header must not have; correct the value"
            )
        return value


def read_address(settings: dict, place: str = "--server") -> Address:
    """The address in the argument `place` of a program. Raise a `UserError` if the argument is
    wrong; the message quotes no value, because a value may be secret."""
    try:
        Server.model_validate({"kind": "server", "model": "any"} | settings)
        return Address(**settings)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        problem = f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
    except TypeError:
        problem = "kind, model and endpoint must not be set"
    raise UserError(
        f"{place}: {problem}; expected url, and optional key (a name of a variable), concurrency, timeout, price and most_money"
    )


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
    folder of stored answers.

    When sampling ends, `on_end` receives facts for the provenance, such as the address, the numbers
    of tokens and the cost.
    """
    source = files.read_json(Path(folder) / "manifest.json").get("source", {})
    sampler = Sampler(
        address, source["model"], source.get("endpoint", "chat"), max_tokens, chat, on_batch
    )
    keys = [
        completion_key(sampler.model, sampler.endpoint, chat, max_tokens, request)
        for request in requests
    ]
    sampler.open_answers(AnswerFile(Path(state) / f"server-{Path(folder).name}"), keys)
    on_ready()
    with asyncio.Runner() as runner:
        try:
            for part in [range(len(requests))] if parts is None else parts:
                yield runner.run(
                    sampler.complete(
                        [requests[index] for index in part], [keys[index] for index in part]
                    )
                )
        finally:
            runner.run(sampler.client.aclose())
            on_end(sampler.facts())


class Sampler:
    """Requests completions of one model, at most `address.concurrency` requests at a time."""

    def __init__(
        self,
        address: Address,
        model: str,
        endpoint: str,
        max_tokens: int,
        chat: dict,
        on_batch: Callable[[int, str], None],
    ):
        self.address, self.model, self.endpoint, self.max_tokens, self.chat = (
            address,
            model,
            endpoint,
            max_tokens,
            chat,
        )
        self.on_batch = on_batch
        self.refuses_early_truncation = True
        self.client = open_client(address)
        self.refused: set[str] = set()  # keys of OPTIONAL
        self.problems: set[str] = set()  # problems that were reported
        self.answers_received, self.is_model_checked = 0, False
        # number of groups (samples of one prompt), and of groups whose samples are all equal
        self.groups = self.equal_groups = 0
        # The error that ends the sampling. Answers to requests in flight are still stored.
        self.failure: Exception | None = None
        self.paused_until = 0.0
        # usage of this program's answers, and of the answers that were stored before
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
            f"{self.address.url}: model {printable(self.model)}, {len(keys)} completions, {len(self.stored)} of them are in {answers.path}"
        )

    def facts(self) -> dict:
        """Facts for the provenance. The numbers of tokens and the money exclude answers that were
        stored before this program started, and include assumed numbers (`answers.Usage`)."""
        return {
            "url": self.address.url,
            "model": self.model,
            "answered_by": sorted((self.earlier_usage + self.usage).models),
            "not_supported": sorted(self.refused),
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "groups_of_equal_samples": self.equal_groups,
            "money": round(self.address.money(self.usage), 6) if self.address.price else None,
        }

    async def complete(self, requests: list[Request], keys: list[str]) -> list[Completion]:
        """The completions of the requests. Raise a `UserError` if a request gets no completion, an
        `OSError` if the answers cannot be written. Answers that arrived before the error stay
        stored."""
        self.arrived = asyncio.Condition()
        if stored := sum(key in self.stored for key in keys):
            self.on_batch(stored, "stored before")
        if stored < len(keys) and not self.is_model_checked:
            self.is_model_checked = True
            await self._check_model()
        groups = iter(group_requests(requests, keys))
        self.failure = None
        sync = asyncio.create_task(self._sync_answers())
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(self.address.concurrency, len(requests))):
                    tasks.create_task(self._work(groups))
        finally:
            sync.cancel()
        # A call may be shorter than the time between two syncs.
        await asyncio.to_thread(self.answers.sync)
        if self.failure:
            raise self.failure
        if FEWEST_GROUPS <= self.groups == self.equal_groups:
            self._report(
                f"all samples of a prompt are equal, for every prompt ({self.groups} groups), so pass rates are only 0 or 1; the server may ignore"
                " seeds and temperature, or repeat stored answers: switch its cache off"
            )
        return [self.stored[key] for key in keys]

    async def _sync_answers(self) -> None:
        """Flush the file of answers to the disk every few seconds, so that a power cut loses
        little. A thread waits for the disk, so that requests continue."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_SYNCS)
            try:
                await asyncio.to_thread(self.answers.sync)
            except OSError as error:
                self.failure = self.failure or error

    async def _work(self, groups: Iterator[tuple[list[str], list[Request]]]) -> None:
        for keys, requests in groups:
            try:
                await self._complete_group(keys, requests)
            except (UserError, OSError) as error:
                self.failure = self.failure or error
            if self.failure:
                return

    async def _complete_group(self, keys: list[str], requests: list[Request]) -> None:
        """Request the missing samples of one prompt until all are stored: in one request, or one by
        one if the server does not take `n`."""
        while missing := [
            (key, request) for key, request in zip(keys, requests) if key not in self.stored
        ]:
            batch = missing[:1] if "n" in self.refused else missing
            completions, usage = await self._request(batch[0][1], len(batch))
            # the server has refused an optional parameter: ask again without it
            if completions is None:
                continue
            if len(completions) == 1 < len(batch):
                self._leave_out("n", "gives one completion where several are requested")
            if usage.output_tokens > len(completions) * self.max_tokens:
                self._report(
                    f"the server does not respect the limit of {self.max_tokens} tokens ({usage.output_tokens} in {len(completions)}"
                    " completions); a longer completion counts as finished if the server reports so"
                )
            with_text = [completion for completion in completions if completion.text]
            lacks_log_probability = with_text and all(
                completion.log_probability is None for completion in with_text
            )
            if (
                batch[0][1].log_probability
                and lacks_log_probability
                and "logprobs" not in self.refused
            ):
                self._report(f"the server gives no log-probabilities; {OPTIONAL['logprobs'][1]}")
            batch_completions = dict(zip((key for key, _ in batch), completions))
            self._store(batch_completions, usage)
            self.on_batch(len(batch_completions), self._note())
        texts = {self.stored[key].text for key in keys}
        if len(keys) > 1 and texts != {""}:
            self.groups += 1
            self.equal_groups += len(texts) == 1

    def _store(self, completions: dict[str, Completion], usage: Usage) -> None:
        self.answers.add(completions, usage)
        self.stored |= completions
        self.usage += usage
        if completions:
            self.completion_tokens += usage.output_tokens

    def _store_unanswered(self, request: Request, samples: int) -> bool:
        """Count a request that was sent but not answered. A hosted service may ask money for it, so
        its largest usage is assumed if the address has a price. Return whether it has one."""
        if self.address.price:
            self._store({}, self._maximum_usage(request, samples))
        return bool(self.address.price)

    def _report(self, problem: str) -> None:
        """Print a problem with the server, unless it has been printed before. The text before "("
        identifies the problem."""
        if problem.partition("(")[0] not in self.problems:
            self.problems.add(problem.partition("(")[0])
            say(printable(f"{self.address.url}: {problem}"))

    def _note(self) -> str:
        note = f"{self.completion_tokens / max(1e-9, time.monotonic() - self.started):.0f} tokens/s"
        return note + (
            f", {self.address.money(self.earlier_usage + self.usage):.4g} spent"
            if self.address.price
            else ""
        )

    # --- money ---

    def _maximum_usage(self, request: Request, samples: int) -> Usage:
        """The usage if each byte of the prompt is a token and each completion reaches the limit."""
        size = sum(len(text.encode("utf-8", "replace")) for text in contents(request))
        return Usage(size + TEMPLATE_TOKENS, samples * self.max_tokens)

    @contextlib.asynccontextmanager
    async def _turn(self, cost: float) -> AsyncIterator[None]:
        """Wait until a request of at most this cost fits into `most_money`, and then until the
        pause has passed that the server asked for. The cost is reserved until the context ends.
        Raise the error that has ended the sampling in the meantime."""
        await self._reserve(cost)
        try:
            while not self.failure and (pause := self.paused_until - time.monotonic()) > 0:
                await self._pause(pause)
            if self.failure:
                raise self.failure
            yield
        finally:
            await self._release(cost)

    async def _reserve(self, cost: float) -> None:
        """Wait until a request of at most this cost fits into `most_money`. Raise a `UserError` if
        the request does not fit even when no other request is in flight."""
        most = self.address.most_money
        if math.isinf(most):
            return

        def fits() -> bool:
            self.answers.read()  # other jobs may sample from the same model
            return self.address.money(self.answers.usage) + self.reserved + cost <= most

        async with self.arrived:
            await self.arrived.wait_for(lambda: fits() or not self.in_flight or self.failure)
            if self.failure:
                raise self.failure
            if not fits():
                raise UserError(
                    f"most_money: {self.address.money(self.answers.usage):.6g} of {most:g} is spent for model {self.model} (a request without an answer, or with an unusable answer that states no tokens, counts with its largest cost), and the next request may"
                    f" cost {cost:.2g}; the completions sampled so far are kept in {self.answers.path}: raise most_money (--most-money) and start the same command again"
                )
            self.reserved, self.in_flight = self.reserved + cost, self.in_flight + 1

    async def _release(self, cost: float) -> None:
        if math.isinf(self.address.most_money):
            return
        async with self.arrived:
            self.in_flight -= 1
            self.reserved = self.reserved - cost if self.in_flight else 0.0
            self.arrived.notify_all()

    # --- one request ---

    def _body(self, request: Request, samples: int) -> dict:
        is_chat = self.endpoint == "chat"
        body: dict = {"model": self.model, "temperature": request.temperature}
        if "temperature" in self.refused and request.temperature == 1:
            del body["temperature"]
        if "stream" in self.refused:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= (
            {"messages": list(request.messages)}
            if is_chat
            else {"prompt": "\n".join(contents(request))}
        )
        body["max_completion_tokens" if "max_tokens" in self.refused else "max_tokens"] = (
            self.max_tokens
        )
        if self.chat:
            body["chat_template_kwargs"] = self.chat
        if samples > 1:
            body["n"] = samples
        if "seed" not in self.refused:
            body["seed"] = request.seed % SEEDS
        # The log-probabilities also give the number of tokens of each sample.
        if (request.log_probability or samples > 1) and "logprobs" not in self.refused:
            body["logprobs"] = True if is_chat else 1
        if "top_p" in self.refused:
            return body
        return body | WHOLE_DISTRIBUTION | {"top_p": request.top_p}

    async def _try_once(
        self, body: dict, request: Request, samples: int, attempt: "Attempt"
    ) -> tuple[list[Completion], Usage]:
        """The completions in the answer to a request, and the usage. An answer without a usable
        completion is paid for, too: its usage is stored before the error is raised. If it
        states no tokens, the maximum is assumed; an error or a web page is assumed to be free."""
        path = "/chat/completions" if self.endpoint == "chat" else "/completions"
        current_attempt.set(attempt)
        async with asyncio.timeout(self.address.timeout):
            response = await self._post(path, body)
        answer = None
        try:
            answer = read_body(response)
            completions, usage = read_answer(answer, request, samples, self.model)
            tokens = tokens_of_early_truncation(answer, completions, self.max_tokens)
            if tokens and self.refuses_early_truncation:
                raise self._unusable_prompt(
                    request,
                    f"was truncated after {tokens} of {self.max_tokens} tokens: the model's context ended, or the server has a lower limit",
                )
        except (UserError, Malformed, ErrorAnswer, ValueError, RecursionError) as error:
            is_page = "html" in response.headers.get("content-type", "")
            is_free = isinstance(error, ErrorAnswer) or is_page
            assumed = Usage() if is_free else self._maximum_usage(request, samples)
            usage = Usage(
                stated_tokens(answer, "prompt") or assumed.input_tokens,
                stated_tokens(answer, "completion") or assumed.output_tokens,
            )
            if usage != Usage():
                self._store({}, usage)
            raise
        return completions, usage

    async def _post(self, path: str, body: dict) -> httpx2.Response:
        """The response of status 2xx to a request. Raise an `ErrorStatus` for another status, a
        `ConnectionFailed` without a readable response."""
        try:
            response = await self.client.post(path, json=body)
        except (OverflowError, ExceptionGroup):  # a wrong port, see `_request`
            raise
        except Exception as error:  # of the client, of TLS, of the operating system
            raise ConnectionFailed from error
        if not response.is_success:
            raise ErrorStatus(response)
        return response

    async def _request(
        self, request: Request, samples: int
    ) -> tuple[list[Completion] | None, Usage]:
        """Repeat a request until the server answers. Return (None, no usage) if the server refuses
        an optional parameter. Raise a `UserError` if there is no answer after the last try."""
        tries, pause, answers_before = 0, FIRST_PAUSE, self.answers_received
        cost = self.address.money(self._maximum_usage(request, samples))
        while True:
            async with self._turn(cost):
                if samples > 1 and "n" in self.refused:  # refused in the meantime
                    return None, Usage()
                body, retry_after, may_cost = self._body(request, samples), 0.0, False
                most_tries = MOST_TRIES if self.answers_received else FIRST_TRIES
                attempt = Attempt()
                try:
                    completions, usage = await self._try_once(body, request, samples, attempt)
                    self.answers_received += 1
                    return completions, usage
                except (ErrorStatus, ErrorAnswer) as error:
                    failure = read_failure(error)
                    if failure.code == "content_filter":
                        return [Completion("", 0, "content_filter")] * samples, Usage()
                    if self._drop_refused_parameter(failure, body):
                        return None, Usage()
                    retry_after, most_tries = read_retry_after(failure.headers), MOST_TRIES
                    if failure.is_permanent or retry_after > LONGEST_RETRY_AFTER:
                        raise await self._refusal(failure, retry_after, request) from None
                    problem = failure.problem
                    # The server limits the rate of requests, but has answered other requests in
                    # the meantime: the count of tries starts again.
                    if failure.status == 429 and self.answers_received > answers_before:
                        tries, answers_before = 0, self.answers_received
                except TimeoutError:
                    may_cost = attempt.was_sent and self._store_unanswered(request, samples)
                    problem, most_tries = f"no answer within {self.address.timeout:g} s", MOST_TRIES
                    if self.answers_received > answers_before:
                        problem += "; for a server that answers few requests at a time, lower concurrency (--concurrency)"
                except ConnectionFailed as error:
                    may_cost = attempt.was_sent and self._store_unanswered(request, samples)
                    failed = "no readable answer" if attempt.was_sent else "no connection"
                    problem = (
                        f"{failed} ({connection_problem(error)}{proxy_note(self.address.url)})"
                    )
                # errors of the operating system's calls about the port of a proxy
                except (OverflowError, ExceptionGroup) as error:
                    if isinstance(error, ExceptionGroup) and error.split(OverflowError)[1]:
                        raise
                    problem = f"no connection (a port must be between 0 and 65535{proxy_note(self.address.url)})"
                except Malformed as error:
                    problem, may_cost = str(error), True
                except (ValueError, RecursionError):
                    problem, may_cost = "the answer is not JSON", True
                # Set before the context ends, which wakes the requests that wait for money.
                self.paused_until = max(self.paused_until, time.monotonic() + retry_after)
            tries += 1
            if tries >= most_tries:
                raise UserError(
                    f"{self.address.url}: {problem} ({tries} tries); check the server and its address, which usually ends in /v1, then start"
                    f" the same command again: {len(self.stored)} completions are in {self.answers.path}"
                )
            if tries > 1 or may_cost:
                self._report(f"{problem}; the request is sent again")
            await self._pause(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than a second after another request has ended the sampling."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0 and not self.failure:
            await asyncio.sleep(min(1.0, remaining))

    def _drop_refused_parameter(self, failure: "Failure", body: dict) -> bool:
        """Whether the server refuses an optional parameter of a request. If so, all further
        requests leave the parameter out."""
        if not failure.is_about_request or failure.is_about_context:
            return False
        for name, (pattern, _) in OPTIONAL.items():
            if failure.status == 500:  # a message may name a parameter without refusing it
                pattern = rf"(?:{pattern})\W+(?:is|are) not supported"
            is_sent = name in body if name != "stream" else name not in body
            if name == "temperature":
                is_sent = body.get(name) == 1
            if is_sent and re.search(pattern, failure.detail, re.IGNORECASE):
                self._leave_out(name, f"refuses {name}" if name != "stream" else "only streams")
                return True
        return False

    def _leave_out(self, name: str, problem: str) -> None:
        if name not in self.refused:
            self.refused.add(name)
            say(printable(f"{self.address.url}: the server {problem}; {OPTIONAL[name][1]}"))

    async def _refusal(self, failure: "Failure", retry_after: float, request: Request) -> UserError:
        """The error for a request that the server refuses permanently or for a long time, with a
        remedy."""
        problem, remedy = failure.problem, "correct the configuration or the server"
        if retry_after > LONGEST_RETRY_AFTER:
            problem += (
                f"; the server asks for a pause of {retry_after / 60:.0f} minutes (Retry-After)"
            )
            remedy = "start the same command again after this pause"
        elif failure.status in (401, 403):
            remedy = (
                f"check the key in {self.address.key}"
                if self.address.key
                else "set `key` (--key) to the name of the environment variable that holds the server's key"
            )
        elif 300 <= failure.status < 400:
            problem += (
                f"; the request is redirected to {failure.location}, and no redirect is followed"
            )
            remedy = "if you trust that address, write it as the source's `url` (--url)"
        elif failure.is_about_context:
            return self._unusable_prompt(
                request,
                f"has up to {self.max_tokens} tokens, which together with the prompt exceed the model's context ({problem})",
            )
        elif failure.status in (404, 405) or re.search(MODEL_WORDS, failure.words, re.IGNORECASE):
            problem += await self._list_models()
            remedy = f"check the address, which usually ends in /v1, and whether the server's name of the model is '{self.model}'"
        elif not request.temperature and "temperature" in failure.words:
            remedy = "the server refuses greedy decoding: write `greedy: false` in the task's test"
        return UserError(
            f"{self.address.url}: {problem}; {remedy}. {len(self.stored)} completions are in {self.answers.path}"
        )

    def _unusable_prompt(self, request: Request, problem: str) -> UserError:
        """The error about a prompt whose completion does not fit; `problem` begins with a verb."""
        prompt = request.messages[-1]["content"]
        return UserError(
            f"{self.address.url}: a completion of the prompt '{prompt[:60]}...' {problem};"
            " lower the task's completion_tokens (--completion-tokens), shorten or remove the prompt, or start the server with a larger context."
            f" {len(self.stored)} completions are in {self.answers.path}"
        )

    async def _list_models(self) -> str:
        """A note for an error message: the names of the server's models. If the server lists its
        models at an address that is not configured, the note starts with this address. The note is
        empty if the server lists no models."""
        url = self.address.url.rstrip("/")
        base = re.sub(r"(/v1)*(/chat)?(/completions)?$", "", url)
        for address in dict.fromkeys([url, f"{base}/v1", base]):
            if models := await self._models_at(address):
                names = sorted(
                    models,
                    key=lambda name: -difflib.SequenceMatcher(None, name, self.model).ratio(),
                )
                place = "" if address == url else f"; the server answers at {address}"
                more = len(names) - MOST_MODELS
                return f"{place}; the server's models are {', '.join(names[:MOST_MODELS])}" + (
                    f" and {more} more" if more > 0 else ""
                )
        return ""

    async def _models_at(self, address: str) -> dict[str, object]:
        """{name: owner} of the models that a server lists; {} if it lists none."""
        # OverflowError and ExceptionGroup: see `_request`
        with contextlib.suppress(
            httpx2.HTTPError,
            httpx2.InvalidURL,
            OSError,
            ValueError,
            TypeError,
            KeyError,
            RecursionError,
            OverflowError,
            ExceptionGroup,
        ):
            async with asyncio.timeout(LOOK_UP_SECONDS):
                answer = await self.client.get(f"{address}/models")
            entries = answer.raise_for_status().json()["data"]
            return {str(entry["id"]): entry.get("owned_by") for entry in entries}
        return {}

    async def _check_model(self) -> None:
        """Raise a `UserError` if the only model of a llama-cpp-python server is not the requested
        model. Such a server accepts every name of a model and repeats the name in its answers."""
        models = await self._models_at(self.address.url.rstrip("/"))
        if list(models.values()) != [LLAMA_CPP_PYTHON]:
            return
        (name,) = models
        if not is_same_model(name, self.model):
            raise UserError(
                f"{self.address.url}: the only model of the server is '{name}', expected '{self.model}'; write '{name}' as"
                f" the source's `model` (--model), or start a server with '{self.model}'"
            )


@dataclass
class Attempt:
    """One try of a request. `was_sent` is true from the moment at which the client begins to send
    the request to the server or to a proxy that forwards it."""

    was_sent: bool = False


current_attempt: contextvars.ContextVar[Attempt] = contextvars.ContextVar("current_attempt")


async def note_sending(request: httpx2.Request) -> None:
    """A hook of httpx2 that sets `was_sent` of the task's attempt."""
    attempt = current_attempt.get(Attempt())  # other requests, such as for the list of models

    async def trace(event: str, info: dict) -> None:
        # CONNECT only asks a proxy for a connection
        if event.endswith("send_request_headers.started") and info["request"].method != b"CONNECT":
            attempt.was_sent = True

    request.extensions["trace"] = trace


def open_client(address: Address) -> httpx2.AsyncClient:
    """A client that sends no credentials except the key of the address, follows no redirects, and
    verifies certificates. Proxies come from the usual environment variables (HTTPS_PROXY)."""
    secret = address.secret()
    limits = httpx2.Limits(
        max_connections=address.concurrency, max_keepalive_connections=address.concurrency
    )
    try:
        _ = urllib.parse.urlsplit(address.url).port  # raises a ValueError for a wrong port
        return httpx2.AsyncClient(
            base_url=address.url,
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=limits,
            event_hooks={"request": [note_sending]},
        )
    # a wrong address; a proxy that is not supported; a missing or damaged file of certificates
    except (httpx2.InvalidURL, ValueError, ImportError, OSError) as error:
        raise UserError(
            f"{address.url}: no connection is possible ({error}); correct the address or, in the environment, the proxy (HTTP_PROXY, HTTPS_PROXY,"
            " ALL_PROXY: expected an HTTP proxy) or the certificates (SSL_CERT_FILE)"
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


def contents(request: Request) -> list[str]:
    """The texts of the messages."""
    return [message["content"] for message in request.messages]


# --- answers ---


def read_body(response: httpx2.Response) -> object:
    """The answer in a response: JSON, or a stream of events, which are joined. A text that is
    neither is returned unchanged."""
    with contextlib.suppress(ValueError):
        return json.loads(response.content)
    body = response.text
    lines = [line.strip() for line in body.split("\n")]
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    if not data:
        return body
    events = [json.loads(text) for text in data if text != "[DONE]"]
    try:
        return join_events(events)
    except (AttributeError, TypeError):
        raise Malformed(
            f"the stream has events of an unknown form, the first is {data[0][:40]!r}"
        ) from None


def join_events(events: list[dict]) -> dict:
    """The answer that joins the events of a stream. A choice that has not ended has no finish
    reason."""
    answer: dict = {}
    choices: dict[object, dict] = {}
    for event in events:
        answer |= {key: value for key, value in event.items() if value is not None}
        for piece in event.get("choices") or []:
            index, delta = piece.get("index", 0), piece.get("delta") or {}
            choice = choices.setdefault(index, {"index": index, "finish_reason": None})
            if "text" in piece:
                choice["text"] = choice.get("text", "") + (piece["text"] or "")
            else:
                message = choice.setdefault("message", {"content": ""})
                for key in ("content", "reasoning_content", "reasoning"):
                    if isinstance(delta.get(key), str):
                        message[key] = message.get(key, "") + delta[key]
            for key, values in (piece.get("logprobs") or {}).items():
                if isinstance(values, list):
                    choice.setdefault("logprobs", {}).setdefault(key, []).extend(values)
            choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
    return answer | {"choices": list(choices.values())}


def read_answer(
    answer: object, request: Request, samples: int, model: str
) -> tuple[list[Completion], Usage]:
    """(at most `samples` completions, usage). Raise `Malformed` if there is no completion, a
    `UserError` if another model answered."""
    if isinstance(answer, dict) and answer.get("error") and not answer.get("choices"):
        raise ErrorAnswer(answer["error"])
    if not isinstance(answer, dict):
        raise Malformed(f"the answer is not a JSON object; it begins with {str(answer)[:40]!r}")
    choices = answer.get("choices")
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(choice, dict) for choice in choices)
    ):
        raise Malformed(f"the answer has no choices ({str(list(answer))[:100]})")
    name = answer.get("model")
    if isinstance(name, str) and name and not is_same_model(name, model):
        raise UserError(
            f"model '{name}' answers, expected '{model}'; write the name of the model that you want as the source's `model` (--model)"
        )
    indices = [choice.get("index") for choice in choices]
    if all(type(index) is int for index in indices):
        choices = sorted(choices, key=lambda choice: choice["index"])
    parts = [_read_choice(choice) for choice in choices[:samples]]
    lengths = [
        len(log_probabilities) or -(-len(text) // CHARACTERS_PER_TOKEN) or 1
        for text, _, log_probabilities in parts
    ]
    # llama.cpp counts only the tokens of the first choice. It returns fewer log-probabilities than
    # tokens if a character consists of several tokens.
    output_tokens = max(
        stated_tokens(answer, "completion") or sum(lengths),
        sum(len(log_probabilities) for _, _, log_probabilities in parts),
    )
    completions = [
        Completion(
            text,
            tokens,
            finish_reason,
            sum(log_probabilities) / len(log_probabilities) if log_probabilities else None,
        )
        for (text, finish_reason, log_probabilities), tokens in zip(
            parts, share_tokens(output_tokens, lengths)
        )
    ]
    characters = sum(map(len, contents(request)))
    input_tokens = stated_tokens(answer, "prompt") or -(-characters // CHARACTERS_PER_TOKEN)
    return completions, Usage(
        input_tokens, output_tokens, frozenset([name] if isinstance(name, str) else [])
    )


def tokens_of_early_truncation(answer: dict, completions: list[Completion], max_tokens: int) -> int:
    """The number of tokens in the answer's usage if the first completion was truncated clearly
    below the limit, and no completion has reasoning; otherwise 0.

    llama.cpp truncates a completion where the model's context ends. Some servers report the tokens
    of the first completion, others the tokens of all completions.
    """
    stated, prompt, total = (
        stated_tokens(answer, kind) for kind in ("completion", "prompt", "total")
    )
    # some servers count tokens of reasoning only in the total
    tokens = max(stated, total - prompt)
    is_truncated = completions[0].finish_reason == "length" and completions[0].text != ""
    is_early = is_truncated and tokens < MIN_LIMIT_SHARE * max_tokens
    has_thoughts = any(_has_thoughts(choice.get("message")) for choice in answer["choices"])
    return tokens if is_early and not has_thoughts else 0


def _has_thoughts(message: object) -> bool:
    return isinstance(message, dict) and bool(
        message.get("reasoning_content")
        or message.get("reasoning")
        or message.get("reasoning_details")
    )


def _read_choice(choice: dict) -> tuple[str, str, list[float]]:
    """(text, finish reason, log-probabilities of the tokens) of a choice. The log-probabilities are
    empty if unknown. Raise `Malformed` if the choice has no text or an unknown finish reason."""
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    if isinstance(content, list):  # parts of a text, without the thoughts
        content = "".join(
            str(part.get("text") or "")
            for part in content
            if isinstance(part, dict) and part.get("type") == "text"
        )
    if (
        content is not None
        and not isinstance(content, str)
        or not isinstance(message, dict)
        and content is None
    ):
        raise Malformed("the answer has a choice without text")
    finish_reason = FINISH_REASON_OF.get(str(choice.get("finish_reason")).lower())
    if finish_reason is None:
        raise Malformed(
            f"the answer ends for an unknown reason ({str(choice.get('finish_reason'))[:40]!r})"
        )
    if not content and _has_thoughts(message):
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


def stated_tokens(answer: object, kind: str) -> int:
    """The number of tokens in an answer's usage; 0 if the answer states none. `kind` is prompt,
    completion or total."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    number = usage.get(f"{kind}_tokens") if isinstance(usage, dict) else None
    return number if type(number) is int and number > 0 else 0


def is_same_model(name: str, model: str) -> bool:
    """Whether a name in an answer means the requested model. Letter case and folders are ignored,
    and the name may end in a version that `model` lacks (gpt-5-2026-01-31)."""
    short = [text.lower().rstrip("/").rpartition("/")[2] for text in (name, model)]
    return short[0] == short[1] or bool(
        re.fullmatch(re.escape(short[1]) + r"([-@:]\d[\d.-]*|:latest)", short[0])
    )


# --- failures ---


class Malformed(Exception):
    """An answer without completions. The message says what is wrong with the answer."""


class ConnectionFailed(Exception):
    """A request without a readable response. The cause is the client's exception."""


class ErrorStatus(Exception):
    """A response whose status is not 2xx. `body` is the error in its JSON, or its text."""

    def __init__(self, response: httpx2.Response):
        self.response = response
        self.body: object = response.text.strip()
        with contextlib.suppress(ValueError, RecursionError):
            self.body = json.loads(self.body)
        if isinstance(self.body, dict):
            self.body = self.body.get("error", self.body)


class ErrorAnswer(Exception):
    """An error in an answer of status 200. `body` is the error as the server words it."""

    def __init__(self, body: object):
        self.body = body


@dataclass(frozen=True)
class Failure:
    """A refused request. `words` are the server's message; `detail` joins the server's error codes
    and this message."""

    status: int
    words: str
    detail: str
    code: str
    headers: Mapping[str, str]

    @property
    def problem(self) -> str:
        return f"status {self.status}, {self.words[:300]}"

    @property
    def is_about_context(self) -> bool:
        """Whether a request is refused because the model's context is too small."""
        return self.status == 413 or (
            # llama.cpp answers with 500; a gateway's 502 to 504 are temporary, whatever they say
            self.status <= 500
            and self.status not in (401, 403, 404, *TRANSIENT)
            and bool(re.search(CONTEXT_WORDS, self.detail, re.IGNORECASE))
        )

    @property
    def is_about_request(self) -> bool:
        """Whether the failure may be the refusal of a parameter. llama-cpp-python refuses a
        parameter with status 500."""
        return self.status in (400, 403, 422, 500, 501)

    @property
    def is_permanent(self) -> bool:
        """Whether the same request can never succeed."""
        is_passing = self.status >= 500 or self.status in TRANSIENT
        return not is_passing or self.code == "insufficient_quota" or self.is_about_context

    @property
    def location(self) -> str:
        """The target of a redirect, without its query, which may hold a signature."""
        return self.headers.get("location", "?").partition("?")[0]


def read_failure(error: ErrorStatus | ErrorAnswer) -> Failure:
    """The failure in a response of the server."""
    body = error.body
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0].get("error", body[0])
    fields = body if isinstance(body, dict) else {}
    words = fields.get("message") or fields.get("detail") or body or ""
    if isinstance(body, str):
        words = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", body, flags=re.DOTALL)
    if isinstance(error, ErrorAnswer):
        code = fields.get("code")
        status = code if type(code) is int and 400 <= code < 600 else 500
        headers, phrase = {}, "an error"
    else:
        status, headers = error.response.status_code, error.response.headers
        phrase = error.response.reason_phrase
    text = " ".join(str(words).split()) or phrase
    codes = [str(fields[name]) for name in ("code", "type", "param") if fields.get(name)]
    return Failure(status, text, ": ".join([*codes, text]), str(fields.get("code")), headers)


def read_retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait (header Retry-After: a number of seconds, or a date). 0
    if the header is missing or invalid."""
    value = headers.get("retry-after", "").strip()
    with contextlib.suppress(ValueError, TypeError):
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        seconds = (
            float(value)
            if re.fullmatch(r"[\d.]+", value)
            else email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        )
        return max(0.0, seconds)
    return 0.0


def connection_problem(error: Exception) -> str:
    """The operating system's message about a failed connection, or the time limit."""
    if isinstance(error.__cause__, httpx2.ConnectTimeout):  # the client's only time limit
        return f"no answer to the request for a connection within {CONNECT_SECONDS:g} s"
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
    return str(error) or type(error).__name__


def proxy_note(url: str) -> str:
    """A note that requests to an address go through a proxy; empty without a proxy."""
    parts = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies()
    name = next((name for name in (parts.scheme, "all") if name in proxies), None)
    return (
        f", through the proxy of {name.upper()}_PROXY"
        if name and not urllib.request.proxy_bypass(parts.hostname or "")
        else ""
    )
