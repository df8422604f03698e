"""Propose a grader for reference answers."""

import importlib.util
import itertools
import re
from collections.abc import Callable

from hardgrpo.grading import quantities
from hardgrpo.grading.graders import GRADERS, accepts_reference, grade

READABLE_SHARE = 0.99
TRIAL_ANSWERS = 200
# how models write an answer
SPELLINGS = ("%s", "%s.", "**%s**", "**%s.**", "$%s$", r"\text{%s}", r"\text{%s}.", r"\textbf{%s}")
LETTER_SPELLINGS = ("(%s)", "%s)", r"\text{(%s)}")

FORMULA = re.compile(
    r"[\\^={}<>|*√∞π]|\w ?\+ ?\w|(?<!\w)\w ?[-/] ?\w(?!\w)|(?<![^\W\d_])(?:pi|sqrt|sin|cos|tan|log|ln)(?![^\W\d_])"
)
WORD = re.compile(r"[^\W\d_]{3}|[^\W\d_a-zA-Z]")  # in most scripts, a letter alone may be a word
DATE_WORD = re.compile(rf"\d.*\b(?:{quantities.DATE_WORDS})\b", re.IGNORECASE)
NUMERIC_DATE = re.compile(r"\d+[-:]\d+|\d+([-./:])\d+\1\d+")


def is_text(answer: str) -> bool:
    """Whether an answer is a date, a time of day, or words, which are no formula."""
    has_words = WORD.search(answer) or not re.search(r"\d", answer)
    is_date = NUMERIC_DATE.fullmatch(answer) or DATE_WORD.search(answer)
    return bool(is_date or (has_words and has_no_formula(answer)))


def has_no_formula(answer: str) -> bool:
    return not FORMULA.search(answer)


# graders, in the order in which they are tried, and the answers for which they are tried
Candidate = tuple[str, Callable[[str], bool]]
CANDIDATES: dict[str, list[Candidate]] = {
    "boxed": [
        ("choice_letter_lenient", bool),
        ("number_lenient", bool),
        ("boxed_text", is_text),
        ("math", bool),
        ("boxed_text", has_no_formula),
    ],
    "marks": [("final_number", bool), ("final_word", has_no_formula)],
}


def propose(answers: list[str], form: str | None = None) -> str | None:
    """The first grader that reads almost all reference answers, also in the usual spellings of
    models; None if there is none. `form`: how completions state an answer, `boxed` (default) or
    `marks` (after `####`)."""
    for grader, is_suitable in CANDIDATES[form or "boxed"] if answers else []:
        if grader == "math" and importlib.util.find_spec("math_verify") is None:
            continue
        is_readable = [is_suitable(answer) for answer in answers]
        for i in unreadable(grader, answers):
            is_readable[i] = False
        if not _are_almost_all(is_readable):
            continue
        trial_answers = list(dict.fromkeys(itertools.compress(answers, is_readable)))
        if _are_almost_all(
            [_accepts_spellings(grader, answer) for answer in trial_answers[:TRIAL_ANSWERS]]
        ):
            return grader
    return None


def unreadable(grader: str, answers: list[str]) -> list[int]:
    """The indices of the answers that the grader does not accept as reference answers."""
    accepted = {answer: accepts_reference(grader, answer) for answer in dict.fromkeys(answers)}
    return [i for i, answer in enumerate(answers) if not accepted[answer]]


def _are_almost_all(values: list[bool]) -> bool:
    """Whether the share of true values is READABLE_SHARE, or one of at least ten values is false."""
    return values.count(False) <= max((1 - READABLE_SHARE) * len(values), len(values) >= 10)


def _accepts_spellings(grader: str, answer: str) -> bool:
    answer = answer.strip()
    is_letter = grader != "math" and re.fullmatch("[A-Za-z]", answer)
    return all(
        grade(grader, GRADERS[grader].form % (spelling % answer), answer).correct
        for spelling in SPELLINGS + (LETTER_SPELLINGS if is_letter else ())
    )
