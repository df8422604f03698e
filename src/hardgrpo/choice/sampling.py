"""Sample completions of prompts from a server. All commands of a user share one store of
completions, which finds a completion by what was asked, so that no prompt is paid for twice."""

import asyncio
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hardgrpo.choice.prompts import Prompt
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling.answers import AnswerFile, ServedModel
from hardgrpo.sampling.requests import (
    CHARACTERS_PER_TOKEN,
    MOST_SAMPLES,
    Completion,
    Request,
    sample_seed,
)
from hardgrpo.sampling.server_engine import SEEDS, Address, Sampler

TEST_PROMPTS = 5


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How completions are sampled; `max_tokens` limits a completion."""

    model: str
    samples: int
    max_tokens: int
    temperature: float
    top_p: float

    def requests(self, prompt: Prompt) -> list[Request]:
        """The requests for a prompt's completions. The seeds follow from the prompt's messages."""
        text = json.dumps(prompt.messages, sort_keys=True)
        seeds = [sample_seed("choose", text, number) for number in range(self.samples)]
        return [
            Request(prompt.messages, seed, self.temperature, top_p=self.top_p) for seed in seeds
        ]

    @property
    def served(self) -> ServedModel:
        return ServedModel(self.model, "chat", {}, self.max_tokens)

    def keys(self, prompt: Prompt) -> list[str]:
        """The keys of a prompt's completions in the store."""
        return list(map(self.served.key, self.requests(prompt)))


def store_folder(model: str) -> Path:
    """The folder of a model's stored completions, below the user's folder of data."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-.")[-60:] or "model"
    digest = hashlib.sha256(model.encode("utf-8", "replace")).hexdigest()[:8]
    return Path(data) / "hardgrpo/completions" / f"{name}-{digest}"


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Let one command at a time sample with this store. A second command waits and says so."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / "lock", "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting   another hardgrpo samples from this model ({folder})")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def sample(
    prompts: list[Prompt],
    sampling: Sampling,
    address: Address,
    check_test: Callable[[dict[str, list[Completion]]], None],
) -> tuple[dict[str, list[Completion]], dict]:
    """({prompt id: completions}, facts about tokens and money). The first few prompts are a test:
    `check_test` receives their completions before the others are requested, and may raise."""
    keys = {prompt.id: sampling.keys(prompt) for prompt in prompts}
    all_keys = [key for prompt in prompts for key in keys[prompt.id]]
    purpose = hashlib.sha256("".join(sorted(all_keys)).encode()).hexdigest()[:16]
    folder = store_folder(sampling.model)
    with lock(folder), asyncio.Runner() as runner:
        progress = Progress("sampled", len(all_keys), "completions")
        sampler = Sampler(address, sampling.served, progress.advance)
        try:
            sampler.open_answers(AnswerFile(folder, purpose), all_keys)
            stored = len(sampler.stored)
            completions: dict[str, list[Completion]] = {}
            for part in (prompts[:TEST_PROMPTS], prompts[TEST_PROMPTS:]):
                requests = [request for prompt in part for request in sampling.requests(prompt)]
                part_keys = [key for prompt in part for key in keys[prompt.id]]
                if not part:
                    continue
                answers = iter(runner.run(sampler.complete(requests, part_keys)))
                for prompt in part:
                    completions[prompt.id] = [next(answers) for _ in keys[prompt.id]]
                if len(completions) <= TEST_PROMPTS:
                    check_test(completions)
        finally:
            runner.run(sampler.client.aclose())
    facts = sampler.facts()
    usage = sampler.earlier_usage + sampler.usage
    facts["total_money"] = address.money(usage) if address.price else None
    facts["stored"] = stored
    return completions, facts


def estimate(prompts: list[Prompt], sampling: Sampling, address: Address) -> str:
    """The largest numbers of requests and tokens, and the money, in words. Stored completions are
    left out."""
    folder = store_folder(sampling.model)
    all_keys = {key for prompt in prompts for key in sampling.keys(prompt)}
    stored = AnswerFile(folder).read(all_keys) if folder.is_dir() else {}
    missing = [prompt for prompt in prompts if not stored.keys() >= set(sampling.keys(prompt))]
    number = len(all_keys) - len(stored)
    characters = sum(len(m["content"]) for prompt in missing for m in prompt.messages)
    input_tokens = characters // CHARACTERS_PER_TOKEN
    if not missing:
        return f"none: all {len(stored):,} completions are stored"
    text = (
        f"{len(missing):,} (more if some fail), about {input_tokens:,} tokens of prompts, at most {number * sampling.max_tokens:,} sampled tokens"
        + (f"; {len(stored):,} completions are stored" if stored else "")
    )
    if address.price:
        output = number * sampling.max_tokens * address.price["output"]
        money = (input_tokens * address.price["input"] + output) / 1e6
        text += f"; {money:.3g} if every completion reaches the limit"
    return text


def batch_requests(
    prompts: list[Prompt],
    sampling: Sampling,
    have: dict[str, list[Completion]],
) -> list[dict]:
    """The requests of an OpenAI batch file for the completions that `have` lacks. The `custom_id`
    is the prompt's id, and a number if a prompt needs several requests."""
    lines = []
    settings = {
        "max_completion_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    for prompt in prompts:
        requests = sampling.requests(prompt)[len(have.get(prompt.id, [])) :]
        for start in range(0, len(requests), MOST_SAMPLES):
            batch = requests[start : start + MOST_SAMPLES]
            body = {"model": sampling.model, "messages": list(prompt.messages)} | settings
            body |= {"n": len(batch), "seed": batch[0].seed % SEEDS}
            name = f"{prompt.id}#{start}" if start else prompt.id
            line = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions"}
            lines.append(line | {"body": body})
    return lines
