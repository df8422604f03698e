"""Find questions of a pool that also stand in a test split, and questions that a split has more than once.

Two questions are *equal* if they have the same words, numbers and symbols, whatever their case, spaces and punctuation. Two other
questions are *near* if they share NEAR_SHARE of the runs of n words (n-grams) of the shorter one. n is 8, as in open-r1
(scripts/decontaminate.py), and 13 where a question has more than LONG_QUESTION_WORDS words. An n-gram that many questions contain is
boilerplate of the task and is not counted as shared.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardgrpo.runtime.errors import UserError, first_entries

NGRAM_WORDS, LONG_NGRAM_WORDS = 8, 13
LONG_QUESTION_WORDS = 100
NEAR_SHARE = 0.25
# An n-gram is boilerplate if more questions than this contain it, and more than this share of all questions.
BOILERPLATE_QUESTIONS, BOILERPLATE_SHARE = 5, 0.001

TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\.\d+|[^\W\d_]+|[^\w\s]|_")
WORD = re.compile(r"\w+")
# A hyphen or dash between two words. Between single letters or numbers it is a minus sign.
HYPHEN = re.compile(r"(?<=[^\W\d_]{2})\s*-\s*(?=[^\W\d_]{2})")
FACTORIAL = re.compile(r"(?<=[\d)])!|(?<=\b[a-z])!")
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
PUNCTUATION = frozenset(".,;:?!\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb\u00bf\u00a1\u2026$")
ROWS_AT_A_TIME = 2000  # of the matrix of shared n-grams, to bound memory


@dataclass(frozen=True)
class Match:
    """Question `index` of one list has the most n-grams in common with question `other` of another list."""

    index: int
    other: int
    share: float  # of the n-grams of the question that has fewer; 1.0 if the questions are equal
    equal: bool

    @property
    def near(self) -> bool:
        return not self.equal and self.share >= NEAR_SHARE


def normalized(question: str) -> str:
    """The words, numbers and symbols of a question, without case, punctuation and the kind and number of spaces."""
    text = unicodedata.normalize("NFKC", question).casefold().translate(DASHES).replace("\\$", "$")
    text = FACTORIAL.sub(" factorial ", HYPHEN.sub(" ", text))
    return " ".join(token for token in TOKEN.findall(text) if token not in PUNCTUATION) or question.strip()


def matches(questions: Sequence[str], others: Sequence[str] | None = None) -> list[Match]:
    """At most one match for each question: an equal question of `others` if there is one, otherwise the one that shares the most n-grams.

    Without `others`, each question is compared with the questions before it. A question that shares no n-gram has no match. Equal
    matches come first, then the others by falling share.
    """
    equal = _equal(questions, others)
    near: dict[int, Match] = {}
    split = None if others is None else len(questions)
    words = [WORD.findall(text.casefold()) for text in [*questions, *(others or [])]]
    is_long = np.array([len(question_words) > LONG_QUESTION_WORDS for question_words in words[: len(questions)]], dtype=bool)
    for ngram_words, rows in ((NGRAM_WORDS, np.flatnonzero(~is_long)), (LONG_NGRAM_WORDS, np.flatnonzero(is_long))):
        if len(rows):
            near |= {match.index: match for match in _shared_ngrams(words, rows, split, ngram_words) if match.index not in equal}
    return [*equal.values(), *sorted(near.values(), key=lambda match: (-match.share, match.index))]


def _equal(questions: Sequence[str], others: Sequence[str] | None) -> dict[int, Match]:
    """{index: its match} of the questions that have an equal one among `others` or, without `others`, before them."""
    first_of: dict[str, int] = {}
    for other, text in enumerate(others or []):
        first_of.setdefault(normalized(text), other)
    equal = {}
    for index, text in enumerate(questions):
        key = normalized(text)
        other = first_of.setdefault(key, index) if others is None else first_of.get(key, index)
        if other != index or others is not None and key in first_of:
            equal[index] = Match(index, other, 1.0, True)
    return equal


def without_repetitions(
    problems: list[dict], places: dict[str, str], same_answer: Callable[[str | None, str | None], bool]
) -> tuple[list[dict], list[tuple[str, str]]]:
    """(problems with only the first of each set of equal questions, pairs (id of a removed problem, id of the first one)).

    `places` maps each id to its file and row, for messages. The row of a first problem lists the removed ids as `repeated_as`. Raise a
    `UserError` that names the places of equal questions whose answers differ.
    """
    first_of: dict[str, dict] = {}
    repeated, contradictions = [], []
    for problem in problems:
        first = first_of.setdefault(normalized(problem["question"]), problem)
        if first is problem:
            continue
        if not same_answer(first["answer"], problem["answer"]):
            pair = f"{places[first['id']]} ('{first['answer']}') and {places[problem['id']]} ('{problem['answer']}')"
            contradictions.append(pair)
        repeated.append((problem["id"], first["id"]))
    if contradictions:
        raise UserError(
            f"{len(contradictions)} pairs of equal questions have different answers: {first_entries(contradictions)};"
            " correct the answers, or remove rows"
        )
    removed_ids: dict[str, list[str]] = {}
    for removed_id, first_id in repeated:
        removed_ids.setdefault(first_id, []).append(removed_id)
    removed = {removed_id for removed_id, _ in repeated}
    distinct = [
        problem | ({"repeated_as": removed_ids[problem["id"]]} if problem["id"] in removed_ids else {})
        for problem in problems
        if problem["id"] not in removed
    ]
    return distinct, repeated


def _shared_ngrams(words: list[list[str]], rows: np.ndarray, split: int | None, ngram_words: int) -> list[Match]:
    """The best match of each of `rows` among the texts from `split` on or, without `split`, among those before it."""
    counts = _ngram_counts(words, ngram_words)
    sizes = np.asarray(counts.sum(axis=1)).ravel()
    containing = np.asarray(counts.sum(axis=0)).ravel()
    limit = max(BOILERPLATE_QUESTIONS, BOILERPLATE_SHARE * len(words))
    counts = counts[:, (containing > 1) & (containing <= limit)]
    others = (counts if split is None else counts[split:]).T.tocsr()
    other_sizes = sizes if split is None else sizes[split:]
    best_matches = []
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        chunk = rows[start : start + ROWS_AT_A_TIME]
        shared = (counts[chunk] @ others).tocoo()
        row, other = chunk[shared.row], shared.col
        if split is None:
            before = other < row
            row, other, shared_counts = row[before], other[before], shared.data[before]
        else:
            shared_counts = shared.data
        shares = shared_counts / np.minimum(sizes[row], other_sizes[other])
        best = np.lexsort((other, -shares, row))  # of each row the largest share, then the first of the others
        first = np.ones(len(best), dtype=bool)
        first[1:] = row[best][1:] != row[best][:-1]
        best_matches += [Match(int(row[i]), int(other[i]), float(shares[i]), False) for i in best[first]]
    return best_matches


def _ngram_counts(words: list[list[str]], ngram_words: int):
    """Sparse matrix (texts x different n-grams): 1 where a text contains an n-gram."""
    from scipy import sparse  # not in the environment that prepares tasks on GPU nodes

    number: dict[str, int] = {}
    encoded = [np.array([number.setdefault(word, len(number)) for word in text_words], dtype=np.int64) for text_words in words]
    # An n-gram's key is the exclusive or of one random number for each word and position: two n-grams share a key by chance once in 2^64.
    random = np.random.default_rng(0).integers(0, 2**64, size=(ngram_words, max(1, len(number))), dtype=np.uint64)
    keys = []
    for text in encoded:
        windows = max(0, len(text) - ngram_words + 1)
        key = np.zeros(windows, dtype=np.uint64)
        for position in range(ngram_words):
            key ^= random[position, text[position : position + windows]]
        keys.append(np.unique(key))
    lengths = [len(key) for key in keys]
    _, columns = np.unique(np.concatenate(keys), return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    shape = (len(words), int(columns.max()) + 1 if len(columns) else 0)
    return sparse.csr_matrix((np.ones(len(columns), dtype=np.int32), columns, indptr), shape=shape)
