"""Ids of prompts that follow from the text of the question, so that an id never depends on a row."""

import hashlib
from collections.abc import Iterable


def normalize_spaces(text: str) -> str:
    """The text with every run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def question_id(question: str) -> str:
    """The id of a question: `q` and 12 hexadecimal digits of the SHA-256 of its text, without
    differences in white space. No spreadsheet takes it for a number."""
    digest = hashlib.sha256(normalize_spaces(question).encode("utf-8", "replace"))
    return "q" + digest.hexdigest()[:12]


def question_ids(questions: Iterable[str]) -> list[str]:
    """The ids of questions, in order. The second of two equal questions gets the ending `-2`."""
    counts: dict[str, int] = {}
    ids = []
    for text in map(question_id, questions):
        counts[text] = counts.get(text, 0) + 1
        ids.append(text if counts[text] == 1 else f"{text}-{counts[text]}")
    return ids
