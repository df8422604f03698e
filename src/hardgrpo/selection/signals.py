"""Signals: statistics of a base model's completions of a prompt, computed without the reference
answer.

A signal does not measure difficulty, because a model may give the same wrong answer in all samples.

    agreement         share of the samples with the most frequent answer (self-consistency, arXiv 2203.11171)
    entropy           entropy of the answers, as the grader compares them, in nats (semantic entropy, arXiv 2302.09664)
    answered_share    share of the samples in which the grader finds an answer
    mean_tokens       mean length of the samples, in tokens
    log_probability   mean log-probability of a token under the model that sampled it, in nats (arXiv 2505.19590)
"""

import math

from hardgrpo.grading import graders
from hardgrpo.selection import policies

SIGNALS = policies.SIGNALS


def measure(samples: list[dict], grader: str) -> dict[str, float | None]:
    """The signals of one prompt. A sample has the key `completion`, and `tokens` and
    `log_probability` if known."""
    return signals_of_answers(answer_codes([row["completion"] for row in samples], grader)) | {
        "mean_tokens": _mean([sample.get("tokens") for sample in samples]),
        "log_probability": _mean([sample.get("log_probability") for sample in samples]),
    }


def signals_of_answers(codes: list[int]) -> dict[str, float | None]:
    """The signals that follow from `answer_codes`."""
    counts = [codes.count(code) for code in set(codes) - {-1}]
    answered = sum(counts)
    shares = [count / answered for count in counts]
    return {
        "agreement": max(counts, default=0) / len(codes),
        # never -0.0
        "entropy": -sum(share * math.log(share) for share in shares) + 0.0 if answered else None,
        "answered_share": answered / len(codes),
    }


def answer_codes(texts: list[str], grader: str) -> list[int]:
    """A number for the answer of each completion: distinct answers from 0 by first occurrence, -1
    for none."""
    distinct_answers: list[str] = []
    codes = []
    for answer in (graders.extract_answer(grader, text) for text in texts):
        if not answer:
            codes.append(-1)
            continue
        matches = (
            code
            for code, distinct in enumerate(distinct_answers)
            if graders.are_equal(grader, distinct, answer)
        )
        code = next(matches, len(distinct_answers))
        if code == len(distinct_answers):
            distinct_answers.append(answer)
        codes.append(code)
    return codes


def majority_rewards(texts: list[str], grader: str) -> list[float]:
    """The majority reward (test-time reinforcement learning, arXiv 2504.16084): 1.0 for each
    completion with the group's most frequent answer (of several, the first), else 0.0."""
    codes = answer_codes(texts, grader)
    best = max(set(codes) - {-1}, key=lambda code: (codes.count(code), -code), default=None)
    return [float(code == best) for code in codes]


def _mean(values: list) -> float | None:
    return sum(values) / len(values) if None not in values else None
