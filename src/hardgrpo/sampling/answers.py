"""Store the answers of a server as they arrive, so that no completion is paid for twice.

A model has one file, to which several programs may append at the same time. A line contains the
completions in one answer (none, if it was unusable but may cost money) and the numbers of input and
output tokens, and ends with a checksum. A damaged line (a program was killed, the disk was full) is
ignored.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from hardgrpo.sampling.requests import Completion, Request


@dataclass(frozen=True)
class ServedModel:
    """Everything besides a request that determines a completion of a server: the name of the model,
    the arguments of the chat template, and the limit of tokens."""

    model: str
    chat: dict
    max_tokens: int

    def key(self, request: Request) -> str:
        """A checksum of everything that determines the completion of a request. Add each new field of
        `Request` that changes the text."""
        fields = [self.model, "chat", self.chat, self.max_tokens]
        fields += [request.messages, request.seed, request.temperature]
        if request.top_p != 1:
            fields.append(request.top_p)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Usage:
    """Numbers of tokens: the server's count, or an assumed number if the server states none.
    `models` are the names of models in the server's answers."""

    input_tokens: int = 0
    output_tokens: int = 0
    models: frozenset[str] = frozenset()  # names of models in the server's answers

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.models | other.models,
        )


class AnswerFile:
    """The file of a model's answers. `usage` is the sum over the answers that `read` has read so far;
    with a `purpose`, only over answers that were added for this purpose and answers with a completion
    that `read` returned."""

    def __init__(self, folder: Path, purpose: str | None = None):
        self.path, self.purpose = folder / "answers.jsonl", purpose
        self.usage, self.position = Usage(), 0
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, keys: Collection[str] = ()) -> dict[str, Completion]:
        """{key: completion} of those `keys` whose completions this or another program has stored
        since the last call."""
        completions: dict[str, Completion] = {}
        if not self.path.exists():
            return completions
        with open(self.path, "rb") as stream:
            stream.seek(self.position)
            for line in stream:
                # another program is still writing this line, or was killed while it wrote
                if not line.endswith(b"\n"):
                    break
                self.position += len(line)
                text, _, ending = line.rstrip(b"\n").rpartition(b"\t")
                if ending != checksum(text):
                    continue
                answer = json.loads(text)
                matching = {
                    key: Completion(**fields)
                    for key, fields in answer["completions"].items()
                    if key in keys
                }
                if matching or self.purpose in (None, answer.get("purpose")):
                    self.usage += Usage(
                        answer["input_tokens"], answer["output_tokens"], frozenset(answer["models"])
                    )
                completions |= matching
        return completions

    def add(self, completions: dict[str, Completion], usage: Usage) -> None:
        """Append the completions in one answer. An appended line is kept if the program is killed;
        a power cut may lose the lines since the last `sync`."""
        answer = {
            "completions": {key: asdict(completion) for key, completion in completions.items()},
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "models": sorted(usage.models),
        } | ({"purpose": self.purpose} if self.purpose else {})
        text = json.dumps(answer).encode()
        with open(self.path, "ab+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # evaluation and probe may append at the same time
            size = stream.seek(0, os.SEEK_END)
            # the file ends with an incomplete line, which a killed program has left
            if size and os.pread(stream.fileno(), 1, size - 1) != b"\n":
                stream.write(b"\n")
            stream.write(text + b"\t" + checksum(text) + b"\n")

    def sync(self) -> None:
        """Flush the appended lines to the disk, so that a power cut does not lose them."""
        if self.path.exists():
            with open(self.path, "ab") as stream:
                os.fsync(stream.fileno())


def checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
