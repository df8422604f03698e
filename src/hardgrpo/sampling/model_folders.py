"""Load configuration, tokenizer and weights of a model folder, and apply its chat template. All
other modules of the package load them through this module; only vLLM loads model folders itself.

Model folders are untrusted. Every error that their files cause in a library becomes a `UserError`,
and file sizes are checked before loading. A chat template is a program, and a tokenizer.json can
expand a short text without limit. Therefore a child process with limited processor time and memory
applies templates and tokenizers to prompts. This module imports transformers.
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
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, logging
from transformers.utils import chat_template_utils

from hardgrpo.runtime import errors, exact_products, files, replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.json_text import nested_entries

MIB = 2**20
# Largest accepted files, in MiB
MAX_FILE_MIB = {
    "tokenizer.json": 200,
    "vocab.json": 200,
    "merges.txt": 200,
    "chat_template.jinja": 1,
    "*.json": 100,
}
# a configuration with at most this many layers is accepted, even if the weights have fewer tensors
MIN_LAYER_LIMIT = 1000
LAYER_KEY = re.compile(
    r"(?:\w+_)?(?:n|num|encoder|decoder)_(?:\w+_)?(?:layers?|blocks?|experts?)", re.IGNORECASE
)
# Limits of a tokenizer: characters of a token, and the factor by which all replacements together
# may lengthen a text.
MAX_TOKEN_CHARACTERS, MAX_REPLACEMENT_GROWTH = 10_000, 1000
MEMORY_BYTES = 2 << 30  # limit for the child process that applies template and tokenizer
# Limit of processor time: a constant, plus time per prompt and per character. A prompt of 111
# characters took 0.0002 s.
SECONDS, SECONDS_PER_PROMPT, SECONDS_PER_CHARACTER = 20.0, 5e-3, 2e-5
# limit of a prompt's tokens: a constant, plus tokens per character
MAX_EXTRA_TOKENS, MAX_TOKENS_PER_CHARACTER = 100_000, 10
SAFE_FILES = {"local_files_only": True, "trust_remote_code": False}
SAFE_ARGUMENTS = SAFE_FILES | {"use_safetensors": True}
Conversation = list[dict[str, str]]

if not sys.stderr.isatty():
    logging.disable_progress_bar()  # a log would contain each state of the bar


class FixedDate(datetime):
    """The date that chat templates write into prompts (`strftime_now`): the same on every day, so
    that all jobs of a study have the same prompts. Llama's templates have this date as a default.
    """

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, tzinfo=tz)


replacements.replace(chat_template_utils, "datetime", FixedDate)


def load_config(folder: str | Path):
    """The configuration of the model in a folder. Raise a `UserError` if a file is too large or
    cannot be used."""
    check_sizes(Path(folder))
    with errors.while_loading(folder):
        return AutoConfig.from_pretrained(folder, **SAFE_FILES)


def load_tokenizer(folder: str | Path, **arguments):
    """The tokenizer in a folder. `arguments` are passed to `from_pretrained`. Raise a `UserError`
    if the tokenizer cannot be used."""
    check_sizes(Path(folder))
    # tokenizer_config.json may name tokenizer.4.0.json
    for path in Path(folder).glob("tokenizer*.json"):
        check_growth(path)
    with errors.while_loading(folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, **SAFE_FILES, **arguments)
        # tokens from all files: vocab.json, added_tokens.json, tokenizer_config.json ...
        tokens = tokenizer.get_vocab()
    if (longest := max(map(len, tokens), default=0)) > MAX_TOKEN_CHARACTERS:
        raise _growth_error(folder, longest)
    return tokenizer


def load_model(folder: str | Path, **arguments):
    """The model in a folder. `arguments` are passed to `from_pretrained`. Raise a `UserError` if
    the model cannot be used, or if its files lack weights."""
    check_sizes(Path(folder))
    check_layers(Path(folder))
    arguments = SAFE_ARGUMENTS | exact_products.model_arguments() | arguments
    with errors.while_loading(folder):
        model, report = AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True, **arguments
        )
    # transformers initialises missing weights at random
    if names := sorted(map(str, report["missing_keys"])):
        raise UserError(
            f"{folder}: the files lack {len(names)} weights of the model, the first is {names[0]}; fetch the model again, or choose another model"
        )
    return model


def check_sizes(folder: Path) -> None:
    """Raise a `UserError` if a settings file, a vocabulary or a chat template is larger than in any
    real model."""
    for pattern, limit in MAX_FILE_MIB.items():
        for path in folder.glob(pattern):
            size = path.stat().st_size / MIB
            if size > MAX_FILE_MIB.get(path.name, limit):
                raise UserError(
                    f"{path}: {size:.0f} MiB, expected at most {limit}; choose another model"
                )


def check_layers(folder: Path) -> None:
    """Raise a `UserError` if the configuration has more layers or experts than both MIN_LAYER_LIMIT
    and the number of tensors in the weights. transformers would take hours to build a model from
    such a configuration."""
    tensors = 0
    for path in folder.glob("*.safetensors"):
        with errors.while_loading(folder), safe_open(path, framework="pt") as stream:
            tensors += len(stream.keys())
    if not tensors:  # the weights are not in safetensors files
        return
    config = files.read_json(
        folder / "config.json", f"{folder}: config.json", "fetch the model again"
    )
    for key, value in _iterate_entries(config):
        if (
            LAYER_KEY.fullmatch(key)
            and type(value) in (int, float)
            and value > max(tensors, MIN_LAYER_LIMIT)
        ):
            raise UserError(
                f"{folder}: config.json: {key} is {value:,}, but the weights have {tensors:,} tensors; choose another model"
            )


def check_growth(path: Path) -> None:
    """Raise a `UserError` if a tokenizer's JSON file can make a text many times longer, either by
    long tokens or by successive replacements, whose growth factors multiply."""
    settings = files.read_json(path, remedy=errors.CHOOSE_ANOTHER)
    model = settings.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else []
    # A vocabulary is {token: number} or [[token, score], ...].
    if not isinstance(vocabulary, dict | list | None):
        raise UserError(f"{path}: model.vocab is not a list of tokens; {errors.CHOOSE_ANOTHER}")
    tokens = [
        entry[0] if isinstance(entry, list) and entry else entry for entry in vocabulary or []
    ]
    # `added_tokens_decoder` is the key of tokenizer_config.json.
    added_tokens = [settings.get(key) for key in ("added_tokens", "added_tokens_decoder")]
    tokens += [value for key, value in _iterate_entries(added_tokens) if key == "content"]
    longest = max((len(token) for token in tokens if isinstance(token, str)), default=0)
    pipeline = [settings.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    replacements = [
        value
        for key, value in _iterate_entries(pipeline)
        if key == "content" and isinstance(value, str)
    ]
    growth = math.prod(max(1, len(replacement)) for replacement in replacements)
    if longest > MAX_TOKEN_CHARACTERS or growth > MAX_REPLACEMENT_GROWTH:
        raise _growth_error(path, max(growth, longest))


def _growth_error(path: str | Path, growth: int) -> UserError:
    return UserError(
        f"{path}: the tokenizer makes a text up to {growth:,} times longer; expected tokens of at most {MAX_TOKEN_CHARACTERS:,} characters and"
        f" replacements that make a text at most {MAX_REPLACEMENT_GROWTH} times longer; choose another model"
    )


def _iterate_entries(settings: object) -> Iterator[tuple[str, object]]:
    """Yield (key, value) of all dictionaries in nested settings."""
    for entry in nested_entries(settings):
        if isinstance(entry, dict):
            yield from entry.items()


# --- the chat template


def token_ids(tokenizer, conversations: list[Conversation], chat: dict) -> list[list[int]]:
    """Token ids of each conversation, up to the start of the answer. `chat` are arguments of the
    chat template.

    Raise a `UserError` if the template or the tokenizer fails, does not end, or returns no token or
    too many tokens.
    """

    def apply(conversation: Conversation) -> bytes:
        ids = tokenizer.apply_chat_template(
            conversation, add_generation_prompt=True, return_dict=True, **chat
        )["input_ids"]
        characters = sum(len(message["content"]) for message in conversation)
        if not 0 < len(ids) <= MAX_EXTRA_TOKENS + MAX_TOKENS_PER_CHARACTER * characters:
            raise ValueError(f"the tokenizer makes {len(ids)} tokens of {characters} characters")
        return array.array("q", ids).tobytes()

    return [
        array.array("q", ids).tolist()
        for ids in _apply_in_child(apply, tokenizer.name_or_path, conversations)
    ]


def render_conversation(tokenizer, conversation: Conversation, source: str) -> str:
    """The text of a complete conversation under the chat template. Raise a `UserError`, which starts
    with `source`, if the template fails or does not end."""
    (rendered,) = _apply_in_child(
        lambda turns: tokenizer.apply_chat_template(turns, tokenize=False).encode(),
        source,
        [conversation],
    )
    return rendered.decode()


def _apply_in_child(
    apply: Callable[[Conversation], bytes], source: str, conversations: list[Conversation]
) -> list[bytes]:
    """The return value of `apply` for each conversation, computed in a child process. Raise a
    `UserError` if the child process fails or does not end."""
    characters = sum(
        len(message["content"]) for conversation in conversations for message in conversation
    )
    seconds = SECONDS + SECONDS_PER_PROMPT * len(conversations) + SECONDS_PER_CHARACTER * characters
    context = multiprocessing.get_context("fork")  # the child inherits the loaded tokenizer
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, apply, conversations, seconds), daemon=True)
    # Python 3.12 warns of a fork in a program with threads, because the child could wait forever
    # for a lock that another thread held. This child needs no such lock.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sender.close()
    replies = []
    try:
        while len(replies) < len(conversations):
            message = receiver.recv_bytes()
            if message[:1] == b"!":
                raise errors.unusable(source, *json.loads(message[1:]))
            replies.append(message[1:])
    except EOFError:
        raise UserError(
            f"{source}: chat template and tokenizer did not finish {len(conversations)} prompts within {seconds:.0f} seconds of processor time"
            f" and {MEMORY_BYTES >> 30} GiB of memory; choose another model"
        ) from None
    finally:
        receiver.close()
        child.kill()
        child.join()
    return replies


def _send(
    sender,
    apply: Callable[[Conversation], bytes],
    conversations: list[Conversation],
    seconds: float,
) -> None:
    """Run in the child process. Send `=` and the return value of `apply` for each conversation, or
    `!` and an error as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # native code writes to stderr before it aborts
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with contextlib.suppress(ValueError, OSError):  # some systems do not limit memory
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + MEMORY_BYTES,) * 2)
    try:
        for conversation in conversations:
            sender.send_bytes(b"=" + apply(conversation))
    except MemoryError:
        os._exit(1)
    except BaseException as error:  # errors of tokenizers in Rust do not inherit from `Exception`
        sender.send_bytes(b"!" + json.dumps([type(error).__name__, str(error)]).encode())
