"""Separate the reasoning of a thinking model from the answer that follows the reasoning."""

import re
from collections.abc import Iterable

_NAMES = "think|thinking|thought|thoughts|reasoning"
OPENING = re.compile(rf"<(?:{_NAMES})>|\[THINK\]|◁think▷", re.IGNORECASE)
CLOSING = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷", re.IGNORECASE)


LEAST_SHARE = 0.2  # a completion may quote a closing mark without being a reasoning


def starts_in_reasoning(completions: Iterable[str]) -> bool:
    """Whether completions only close the reasoning, because the chat template opens it: a part of
    them have a closing mark before any opening mark."""
    number = total = 0
    for text in completions:
        closing = CLOSING.search(text)
        total += 1
        number += closing is not None and not OPENING.search(text, 0, closing.start())
    return number > LEAST_SHARE * total


def answer_part(completion: str, in_reasoning: bool = False) -> str | None:
    """The text after the reasoning, if any; None if the completion ends in its reasoning. With
    `in_reasoning`, the completion starts in the reasoning (`starts_in_reasoning`)."""
    *reasoning, answer = CLOSING.split(completion)
    ends_in_reasoning = OPENING.search(answer) or (in_reasoning and not reasoning)
    return None if ends_in_reasoning else answer
