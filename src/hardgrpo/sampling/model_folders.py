"""Load configuration, tokenizer and weights of a model folder, and apply its chat template. Nothing else in the project does.

A folder may come from anyone. Every error that its files cause in a library becomes a `UserError`, and sizes are limited before anything is
loaded. A chat template is a program, and tokenizer.json can make a short text long without end. So both are first applied to prompts in
a child process with limited processor time and memory. Imports transformers.
"""

import array
import contextlib
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

MIB = 2**20
# Largest files, in MiB
MOST_MIB = {"tokenizer.json": 200, "vocab.json": 200, "merges.txt": 200, "chat_template.jinja": 1, "*.json": 100}
LEAST_LAYERS = 1000  # a model may ask for so many layers, however few tensors it has
LAYERS = re.compile(r"(?:\w+_)?(?:n|num|encoder|decoder)_(?:\w+_)?(?:layers?|blocks?|experts?)", re.IGNORECASE)
LONGEST_TOKEN, MOST_TIMES = 10_000, 1000  # characters; how many times longer all replacements together may make a text
MEMORY_BYTES = 2 << 30  # that template and tokenizer may take for prompts
# Processor time for prompts: so much, and more for each prompt and character. A prompt of 111 characters took 0.0002 s.
SECONDS, SECONDS_PER_PROMPT, SECONDS_PER_CHARACTER = 20.0, 5e-3, 2e-5
MOST_ADDED, MOST_GROWTH = 100_000, 10  # tokens of a prompt: so many, and so many more for each character
SAFE = {"local_files_only": True, "use_safetensors": True, "trust_remote_code": False}
Conversation = list[dict[str, str]]


def load_config(folder: str | Path):
    """The configuration of the model in a folder. Raise a `UserError` if a file is too large or cannot be used."""
    check_sizes(Path(folder))
    with errors.while_loading(folder):
        return AutoConfig.from_pretrained(folder, local_files_only=True)


def load_tokenizer(folder: str | Path, **arguments):
    """The tokenizer in a folder; `arguments` are those of from_pretrained. Raise a `UserError` if it cannot be used."""
    check_sizes(Path(folder))
    for path in Path(folder).glob("tokenizer*.json"):  # tokenizer_config.json may name tokenizer.4.0.json
        check_growth(path)
    with errors.while_loading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **arguments)
        tokens = tokenizer.get_vocab()  # of all files: vocab.json, added_tokens.json, tokenizer_config.json ...
    if (longest := max(map(len, tokens), default=0)) > LONGEST_TOKEN:
        raise _too_long(folder, longest)
    return tokenizer


def load_model(folder: str | Path, **arguments):
    """The model in a folder; `arguments` are those of from_pretrained. Raise a `UserError` if it cannot be used."""
    check_sizes(Path(folder))
    check_layers(Path(folder))
    with errors.while_loading(folder):
        return AutoModelForCausalLM.from_pretrained(folder, **SAFE | arguments)


def check_sizes(folder: Path) -> None:
    """Raise a `UserError` if a file of settings, a vocabulary or a chat template is larger than that of any real model."""
    for pattern, most in MOST_MIB.items():
        for path in folder.glob(pattern):
            size = path.stat().st_size / MIB
            if size > MOST_MIB.get(path.name, most):
                raise UserError(f"{path}: {size:.0f} MiB, expected at most {most}; choose another model")


def check_layers(folder: Path) -> None:
    """Raise a `UserError` if the configuration asks for more layers or experts than there are tensors: to build them takes hours."""
    tensors = 0
    for path in folder.glob("*.safetensors"):
        with errors.while_loading(folder), safe_open(path, framework="pt") as stream:
            tensors += len(stream.keys())
    if not tensors:  # weights of another kind
        return
    config = files.read_json(folder / "config.json", f"{folder}: config.json", "fetch the model again")
    for key, value in _entries(config):
        if LAYERS.fullmatch(key) and type(value) in (int, float) and value > max(tensors, LEAST_LAYERS):
            raise UserError(
                f"{folder}: config.json: {key} is {value:,}, but the weights have {tensors:,} tensors; choose another model"
            )


def check_growth(path: Path) -> None:
    """Raise a `UserError` if a tokenizer.json makes a text many times longer: replacements multiply, and tokens may be long texts."""
    settings = files.read_json(path, remedy=errors.CHOOSE_ANOTHER)
    vocabulary = model.get("vocab") if isinstance(model := settings.get("model"), dict) else []
    # A vocabulary is {token: number} or [[token, score], ...].
    tokens = [entry[0] if isinstance(entry, list) and entry else entry for entry in vocabulary or []]
    added = [settings.get("added_tokens"), settings.get("added_tokens_decoder")]  # the second: of tokenizer_config.json
    tokens += [value for key, value in _entries(added) if key == "content"]
    longest = max((len(token) for token in tokens if isinstance(token, str)), default=0)
    steps = [settings.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    replacements = [value for key, value in _entries(steps) if key == "content" and isinstance(value, str)]
    growth = math.prod(max(1, len(replacement)) for replacement in replacements)
    if longest > LONGEST_TOKEN or growth > MOST_TIMES:
        raise _too_long(path, max(growth, longest))


def _too_long(path: str | Path, times: int) -> UserError:
    return UserError(
        f"{path}: the tokenizer makes a text up to {times:,} times longer; expected tokens of at most {LONGEST_TOKEN:,} characters and"
        f" replacements that make a text at most {MOST_TIMES} times longer; choose another model"
    )


def _entries(settings: object) -> Iterator[tuple[str, object]]:
    """All keys with their values, at every depth."""
    left = [settings]
    while left:
        entry = left.pop()
        if isinstance(entry, dict):
            yield from entry.items()
        left += entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []


# --- the chat template ---------------------------------------------------------------------------------------------


def token_ids(tokenizer, conversations: list[Conversation], chat: dict) -> list[list[int]]:
    """Token ids of each conversation, up to where the answer starts. `chat` holds arguments of the chat template.

    Raise a `UserError` if the template or the tokenizer fails, does not end, or makes nothing or too much of a conversation.
    """

    def apply(conversation: Conversation) -> bytes:
        ids = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, return_dict=True, **chat)["input_ids"]
        characters = sum(len(message["content"]) for message in conversation)
        if not 0 < len(ids) <= MOST_ADDED + MOST_GROWTH * characters:
            raise ValueError(f"it makes {len(ids)} tokens of a message of {characters} characters")
        return array.array("q", ids).tobytes()

    return [array.array("q", ids).tolist() for ids in _applied(apply, tokenizer.name_or_path, conversations)]


def text(tokenizer, conversation: Conversation, where: str) -> str:
    """A conversation that has ended, as the chat template writes it. `where`: what a message names. Errors as for `token_ids`."""
    (written,) = _applied(lambda turns: tokenizer.apply_chat_template(turns, tokenize=False).encode(), where, [conversation])
    return written.decode()


def _applied(apply: Callable[[Conversation], bytes], where: str, conversations: list[Conversation]) -> list[bytes]:
    """What `apply` returns for each conversation, in a child process."""
    characters = sum(len(message["content"]) for conversation in conversations for message in conversation)
    seconds = SECONDS + SECONDS_PER_PROMPT * len(conversations) + SECONDS_PER_CHARACTER * characters
    context = multiprocessing.get_context("fork")  # the tokenizer is loaded already
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, apply, conversations, seconds), daemon=True)
    with warnings.catch_warnings():  # Python 3.12 warns of threads; the child uses none of their locks
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sender.close()
    replies = []
    try:
        while len(replies) < len(conversations):
            message = receiver.recv_bytes()
            if message[:1] == b"!":
                raise errors.unusable(where, *json.loads(message[1:]))
            replies.append(message[1:])
    except EOFError:
        raise UserError(
            f"{where}: chat template and tokenizer did not end for {len(conversations)} prompts in {seconds:.0f} seconds of processor time"
            f" and {MEMORY_BYTES >> 30} GiB of memory; choose another model"
        ) from None
    finally:
        receiver.close()
        child.kill()
        child.join()
    return replies


def _send(sender, apply: Callable[[Conversation], bytes], conversations: list[Conversation], seconds: float) -> None:
    """In the child process: send `=` and what `apply` returns for each conversation, or `!` and what it raised as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # native code writes there before it aborts
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with contextlib.suppress(ValueError, OSError):  # where the system does not limit memory
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY_BYTES,) * 2)
    try:
        for conversation in conversations:
            sender.send_bytes(b"=" + apply(conversation))
    except MemoryError:
        os._exit(1)
    except BaseException as error:  # errors of tokenizers in Rust are no `Exception`
        sender.send_bytes(b"!" + json.dumps([type(error).__name__, str(error)]).encode())
