"""Find questions of a pool that are also in a test split, and questions that are repeated within a
split.

Two questions are *equal* if they have the same words, numbers and symbols, ignoring case, spaces
and punctuation. They are *near* if they are not equal, but at least NEAR_SHARE of the n-grams
(sequences of n words) of the question with fewer n-grams also occur in the other question. n is 8,
as in open-r1 (scripts/decontaminate.py), and 13 if the test question (within a split: the later
question) has more than LONG_QUESTION_WORDS words. An n-gram that many questions contain is
boilerplate of the task and never counts as occurring in the other question.
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
# number of questions that are compared with the references at once, to bound the memory
ROWS_AT_A_TIME = 2000


@dataclass(frozen=True)
class Match:
    """The best match of question `index`: question `reference_index` of the references, or an
    earlier question of the same list if there are no references. See `find_matches`."""

    index: int
    reference_index: int
    # number of n-grams that both questions contain (without boilerplate), divided by the number of
    # all n-grams of the question that has fewer; 1.0 for equal questions
    share: float
    equal: bool

    @property
    def is_near(self) -> bool:
        """Whether the questions are near each other, as defined in the module's docstring."""
        return not self.equal and self.share >= NEAR_SHARE


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
    """At most one match for each question: an equal question of `references` if possible, else the
    question of `references` with the largest share (`Match.share`).

    Without `references`, each question is compared with the questions before it. A question that
    equals no other question and shares no n-gram, apart from boilerplate, has no match. Matches of
    equal questions come first; the others are in descending order of the share.
    """
    equal_matches = _equal_matches(questions, references)
    near_matches: dict[int, Match] = {}
    split = None if references is None else len(questions)
    words = [WORD.findall(text.casefold()) for text in [*questions, *(references or [])]]
    is_long = np.array(
        [len(question_words) > LONG_QUESTION_WORDS for question_words in words[: len(questions)]],
        dtype=bool,
    )
    for ngram_words, has_length in ((NGRAM_WORDS, ~is_long), (LONG_NGRAM_WORDS, is_long)):
        rows = np.flatnonzero(has_length)
        if len(rows):
            near_matches |= {
                match.index: match
                for match in _ngram_matches(words, rows, split, ngram_words)
                if match.index not in equal_matches
            }
    return [
        *equal_matches.values(),
        *sorted(near_matches.values(), key=lambda match: (-match.share, match.index)),
    ]


def _equal_matches(questions: Sequence[str], references: Sequence[str] | None) -> dict[int, Match]:
    """{index: match} of the questions that equal a question of `references` or, without
    `references`, a question before them."""
    first_index: dict[str, int] = {}
    for reference_index, text in enumerate(references or []):
        first_index.setdefault(normalize(text), reference_index)
    equal_matches = {}
    for index, text in enumerate(questions):
        key = normalize(text)
        reference_index = (
            first_index.setdefault(key, index)
            if references is None
            else first_index.get(key, index)
        )
        if reference_index != index or references is not None and key in first_index:
            equal_matches[index] = Match(index, reference_index, 1.0, True)
    return equal_matches


def drop_repetitions(
    problems: list[dict],
    places: dict[str, str],
    same_answer: Callable[[str | None, str | None], bool],
) -> tuple[list[dict], list[tuple[str, str]]]:
    """(problems without repetitions, pairs (id of a removed problem, id of the first problem with
    an equal question)).

    `places` maps each id to its file and row, for messages; `same_answer` compares two answers. The
    first of several problems with equal questions lists the ids of the others as `repeated_as`.
    Raise a `UserError` that names the places of equal questions with different answers.
    """
    first_problems: dict[str, dict] = {}
    repetitions, contradictions = [], []
    for problem in problems:
        first_problem = first_problems.setdefault(normalize(problem["question"]), problem)
        if first_problem is problem:
            continue
        if not same_answer(first_problem["answer"], problem["answer"]):
            pair = f"{places[first_problem['id']]} ('{first_problem['answer']}') and {places[problem['id']]} ('{problem['answer']}')"
            contradictions.append(pair)
        repetitions.append((problem["id"], first_problem["id"]))
    if contradictions:
        raise UserError(
            f"{len(contradictions)} pairs of equal questions have different answers: {first_entries(contradictions)};"
            " correct the answers, or remove rows"
        )
    removed_ids: dict[str, list[str]] = {}
    for removed_id, first_id in repetitions:
        removed_ids.setdefault(first_id, []).append(removed_id)
    first_ids = dict(repetitions)
    distinct = [
        problem
        | ({"repeated_as": removed_ids[problem["id"]]} if problem["id"] in removed_ids else {})
        for problem in problems
        if problem["id"] not in first_ids
    ]
    return distinct, repetitions


def _ngram_matches(
    words: list[list[str]], rows: np.ndarray, split: int | None, ngram_words: int
) -> list[Match]:
    """The best match of each of `rows` among the texts from index `split` on or, without `split`,
    among the texts before the row. Rows that share no n-gram, apart from boilerplate, have no
    match."""
    counts = _ngram_counts(words, ngram_words)
    sizes = np.asarray(counts.sum(axis=1)).ravel()
    document_counts = np.asarray(counts.sum(axis=0)).ravel()
    boilerplate_limit = max(BOILERPLATE_QUESTIONS, BOILERPLATE_SHARE * len(words))
    counts = counts[:, (document_counts > 1) & (document_counts <= boilerplate_limit)]
    reference_counts = (counts if split is None else counts[split:]).T.tocsr()
    reference_sizes = sizes if split is None else sizes[split:]
    best_matches = []
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        chunk = rows[start : start + ROWS_AT_A_TIME]
        shared = (counts[chunk] @ reference_counts).tocoo()
        row_indices, reference_indices, shared_counts = chunk[shared.row], shared.col, shared.data
        if split is None:
            is_earlier = reference_indices < row_indices
            row_indices = row_indices[is_earlier]
            reference_indices = reference_indices[is_earlier]
            shared_counts = shared_counts[is_earlier]
        shares = shared_counts / np.minimum(sizes[row_indices], reference_sizes[reference_indices])
        # for each row: the largest share, then the first reference
        ranking = np.lexsort((reference_indices, -shares, row_indices))
        is_best = np.ones(len(ranking), dtype=bool)
        is_best[1:] = row_indices[ranking][1:] != row_indices[ranking][:-1]
        best_matches += [
            Match(int(row_indices[i]), int(reference_indices[i]), float(shares[i]), False)
            for i in ranking[is_best]
        ]
    return best_matches


def _ngram_counts(words: list[list[str]], ngram_words: int):
    """Sparse matrix (texts, distinct n-grams): 1 where a text contains an n-gram."""
    # Imported here, because prepare_task.py also runs where scipy is not installed: in the image of
    # envs/training.def.
    from scipy import sparse

    number: dict[str, int] = {}
    encoded = [
        np.array([number.setdefault(word, len(number)) for word in text_words], dtype=np.int64)
        for text_words in words
    ]
    # An n-gram's key is the exclusive or of one random number for each word and position. Two
    # different n-grams have equal keys with probability 2^-64.
    random = np.random.default_rng(0).integers(
        0, 2**64, size=(ngram_words, max(1, len(number))), dtype=np.uint64
    )
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
