"""Find questions of a pool that are also in a test split, and questions that are repeated within a
split.

Two questions are *equal* if they have the same words, numbers and symbols, ignoring case, spaces
and punctuation. They are *near* if they are not equal, but at least NEAR_SHARE of the n-grams
(sequences of n words) of the question with fewer n-grams also occur in the other question. n is 8,
as in open-r1 (scripts/decontaminate.py), and 13 if the test question (within a split: the later
question) has more than LONG_QUESTION_WORDS words. Boilerplate never counts as occurring.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hardgrpo.runtime.errors import UserError, first_entries

NGRAM_WORDS, LONG_NGRAM_WORDS = 8, 13
LONG_QUESTION_WORDS = 100
NEAR_SHARE = 0.25
# An n-gram is boilerplate if it occurs in more than this number of questions and in more than this
# share of all questions.
BOILERPLATE_QUESTIONS, BOILERPLATE_SHARE = 5, 0.001

TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\.\d+|[^\W\d_]+|[^\w\s]|_")
WORD = re.compile(r"\w+")
# A hyphen or dash between two words. Between single letters or numbers, the sign is a minus.
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})\s*-\s*(?=[^\W\d_]{2})")
FACTORIAL = re.compile(r"(?<=[\d)])!|(?<=\b[a-z])!")
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
PUNCTUATION = frozenset(
    ".,;:?!\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u00bf\u00a1\u2026$"
)


@dataclass(frozen=True)
class Match:
    """The best match of question `index`, see `find_matches`."""

    index: int
    reference_index: int
    share: float  # of the n-grams of the question that has fewer; 1.0 for equal questions
    equal: bool

    @property
    def kind(self) -> str:
        """`equal`, `near` (see the module's docstring), or `shares` for other questions that share
        n-grams."""
        return "equal" if self.equal else "near" if self.share >= NEAR_SHARE else "shares"


def normalize(question: str) -> str:
    """The words, numbers and symbols of a question, casefolded, without punctuation, separated by
    single spaces. A text of punctuation alone is only stripped."""
    text = unicodedata.normalize("NFKC", question).casefold().translate(DASHES).replace("\\$", "$")
    text = FACTORIAL.sub(" factorial ", HYPHEN.sub(" ", text))
    return (
        " ".join(token for token in TOKEN.findall(text) if token not in PUNCTUATION)
        or question.strip()
    )


def find_matches(questions: Sequence[str], references: Sequence[str] | None = None) -> list[Match]:
    """At most one match for each question: an equal question of `references` (default: of the
    questions before it) if possible, else the one with the largest share of n-grams, in descending
    order of the share."""
    equal_matches = _equal_matches(questions, references)
    split = None if references is None else len(questions)
    words = [WORD.findall(text.casefold()) for text in [*questions, *(references or [])]]
    long_rows = {row for row in range(len(questions)) if len(words[row]) > LONG_QUESTION_WORDS}
    near_matches = []
    for ngram_words, rows in (
        (NGRAM_WORDS, set(range(len(questions))) - long_rows),
        (LONG_NGRAM_WORDS, long_rows),
    ):
        if rows := rows - equal_matches.keys():
            near_matches += _ngram_matches(words, rows, split, ngram_words)
    near_matches.sort(key=lambda match: (-match.share, match.index))
    return [*equal_matches.values(), *near_matches]


def _equal_matches(questions: Sequence[str], references: Sequence[str] | None) -> dict[int, Match]:
    """{index: match} of the questions with an equal question; see `find_matches`."""
    keys = list(map(normalize, questions))
    first_index: dict[str, int] = {}
    for index, key in enumerate(keys if references is None else map(normalize, references)):
        first_index.setdefault(key, index)
    return {
        index: Match(index, first_index[key], 1.0, True)
        for index, key in enumerate(keys)
        if key in first_index and (references is not None or first_index[key] != index)
    }


def drop_repetitions(
    problems: list[dict],
    places: dict[str, str],
    same_answer: Callable[[str | None, str | None], bool],
) -> tuple[list[dict], list[tuple[str, str]]]:
    """(problems without repetitions, pairs (id of a removed problem, id of the first with an equal
    question)). `places` maps ids to files and rows; `same_answer` compares two answers. The first
    of several equal problems lists the ids of the others as `repeated_as`. Raise a `UserError` for
    equal questions with different answers."""
    first_problems: dict[str, dict] = {}
    removed_ids: dict[str, list[str]] = {}
    repetitions, contradictions = [], []
    for problem in problems:
        first = first_problems.setdefault(normalize(problem["question"]), problem)
        if first is problem:
            continue
        if not same_answer(first["answer"], problem["answer"]):
            pair = f"{places[first['id']]} ('{first['answer']}') and {places[problem['id']]} ('{problem['answer']}')"
            contradictions.append(pair)
        repetitions.append((problem["id"], first["id"]))
        removed_ids.setdefault(first["id"], []).append(problem["id"])
    if contradictions:
        raise UserError(
            f"{len(contradictions)} pairs of equal questions have different answers: {first_entries(contradictions)};"
            " correct the answers, or remove rows"
        )
    distinct = [
        problem
        | ({"repeated_as": removed_ids[problem["id"]]} if problem["id"] in removed_ids else {})
        for problem in first_problems.values()
    ]
    return distinct, repetitions


def _ngram_matches(
    words: list[list[str]], rows: set[int], split: int | None, ngram_words: int
) -> list[Match]:
    """The best match of each of `rows` among the texts from index `split` on or, without `split`,
    among the texts before the row, if they share n-grams that are not boilerplate."""
    ngrams = [
        {tuple(text[start : start + ngram_words]) for start in range(len(text) - ngram_words + 1)}
        for text in words
    ]
    texts_with = defaultdict(list)
    for index, ngrams_of_text in enumerate(ngrams):
        for ngram in ngrams_of_text:
            texts_with[ngram].append(index)
    limit = max(BOILERPLATE_QUESTIONS, BOILERPLATE_SHARE * len(words))
    matches = []
    for row in rows:
        shared = Counter(
            index
            for ngram in ngrams[row]
            if len(texts_with[ngram]) <= limit
            for index in texts_with[ngram]
            if (index < row if split is None else index >= split)
        )
        shares = [
            (number / min(len(ngrams[row]), len(ngrams[index])), -index)
            for index, number in shared.items()
        ]
        if shares:
            share, index = max(shares)  # of equal shares, the first reference
            matches.append(Match(row, -index - (split or 0), share, False))
    return matches
