"""Sample completions of prompts from a server. All commands of a user share one store of
completions, which finds a completion by what was asked, so that no prompt is paid for twice."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hardgrpo.choice.choice_options import Options
from hardgrpo.choice.choice_plan import Plan
from hardgrpo.choice.prompts import Prompt
from hardgrpo.runtime.interruption import say
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling.answers import AnswerFile, ServedModel, Usage
from hardgrpo.sampling.requests import (
    CHARACTERS_PER_TOKEN,
    MOST_SAMPLES,
    Completion,
    Request,
    sample_seed,
)
from hardgrpo.sampling.server_engine import SEEDS, Sampler

TEST_PROMPTS = 5


def prompt_requests(prompt: Prompt, options: Options) -> list[Request]:
    """The requests for a prompt's completions. The seeds follow from the prompt's messages."""
    text = json.dumps(prompt.messages, sort_keys=True)
    return [
        Request(
            prompt.messages,
            sample_seed("choose", text, number),
            options.temperature,
            top_p=options.top_p,
        )
        for number in range(options.samples)
    ]


def served_model(options: Options) -> ServedModel:
    return ServedModel(options.model or "", {}, options.completion_tokens)


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
    plan: Plan, check_test: Callable[[dict[str, list[Completion]]], None]
) -> tuple[dict[str, list[Completion]], dict]:
    """({prompt id: completions}, facts about tokens and money). The first few prompts are a test:
    `check_test` receives their completions before the others are requested, and may raise."""
    served, address = served_model(plan.options), plan.address
    requests = {p.id: prompt_requests(p, plan.options) for p in plan.pool.prompts}
    keys = {key: list(map(served.key, group)) for key, group in requests.items()}
    all_keys = [key for group in keys.values() for key in group]
    purpose = hashlib.sha256("".join(sorted(all_keys)).encode()).hexdigest()[:16]
    folder = store_folder(served.model)
    with lock(folder), asyncio.Runner() as runner:
        progress = Progress("sampled", len(all_keys), "completions")
        sampler = Sampler(address, served, progress.advance)
        try:
            sampler.open_answers(AnswerFile(folder, purpose), all_keys)
            stored, ids = len(sampler.stored), list(requests)
            completions: dict[str, list[Completion]] = {}
            for part in filter(None, (ids[:TEST_PROMPTS], ids[TEST_PROMPTS:])):
                part_requests = [request for key in part for request in requests[key]]
                answers = iter(
                    runner.run(
                        sampler.complete(part_requests, [k for key in part for k in keys[key]])
                    )
                )
                completions |= {key: [next(answers) for _ in keys[key]] for key in part}
                if len(completions) <= TEST_PROMPTS:
                    check_test(completions)
        finally:
            runner.run(sampler.client.aclose())
    usage = sampler.earlier_usage + sampler.usage
    money = address.money(usage) if address.price else None
    return completions, sampler.facts() | {"total_money": money, "stored": stored}


def estimate(plan: Plan) -> str:
    """The largest numbers of requests and tokens, and the money, in words. Stored completions are
    left out."""
    served, address = served_model(plan.options), plan.address
    keys = {p.id: set(map(served.key, prompt_requests(p, plan.options))) for p in plan.pool.prompts}
    folder, all_keys = store_folder(served.model), set().union(*keys.values())
    stored = AnswerFile(folder).read(all_keys) if folder.is_dir() else {}
    missing = [prompt for prompt in plan.pool.prompts if not stored.keys() >= keys[prompt.id]]
    output_tokens = (len(all_keys) - len(stored)) * served.max_tokens
    characters = sum(len(m["content"]) for prompt in missing for m in prompt.messages)
    input_tokens = characters // CHARACTERS_PER_TOKEN
    if not missing:
        return f"none: all {len(stored):,} completions are stored"
    text = (
        f"{len(missing):,} (more if some fail), about {input_tokens:,} tokens of prompts, at most {output_tokens:,} sampled tokens"
        + (f"; {len(stored):,} completions are stored" if stored else "")
    )
    if address.price:
        money = address.money(Usage(input_tokens, output_tokens))
        text += f"; {money:.3g} if every completion reaches the limit"
    return text


def batch_requests(plan: Plan, have: dict[str, list[Completion]]) -> list[dict]:
    """The requests of an OpenAI batch file for the completions that `have` lacks. The `custom_id`
    is the prompt's id, and a number if a prompt needs several requests."""
    lines, options = [], plan.options
    for prompt in plan.pool.prompts:
        requests = prompt_requests(prompt, options)[len(have.get(prompt.id, [])) :]
        for start in range(0, len(requests), MOST_SAMPLES):
            batch = requests[start : start + MOST_SAMPLES]
            body = {
                "model": options.model,
                "messages": list(prompt.messages),
                "max_completion_tokens": options.completion_tokens,
                "temperature": options.temperature,
                "top_p": options.top_p,
                "n": len(batch),
                "seed": batch[0].seed % SEEDS,
            }
            name = f"{prompt.id}#{start}" if start else prompt.id
            line = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions"}
            lines.append(line | {"body": body})
    return lines
