"""Signals: statistics of a base model's completions of a prompt that need no reference answer.

None of these is a difficulty: a model may agree with itself and be wrong. They say where samples differ, and groups of rollouts whose
answers differ are what GRPO learns from. The functions get a prompt's completions and the grader that finds answers in them; no
reference answer reaches them.

    agreement         share of the samples that give the most frequent answer (self-consistency, arXiv 2203.11171)
    entropy           of the answers' distribution among the samples that give one, in nats (semantic entropy, arXiv 2302.09664, where
                      the grader says which answers mean the same); empty where no sample gives one
    answered_share    share of the samples in which the grader finds an answer
    mean_tokens       mean length of the samples, in tokens; empty where it is not known
    log_probability   mean log-probability of a token under the model that sampled it (self-certainty, arXiv 2505.19590, is
                      related), in nats; empty where the engine gave none
"""

import math

from hardgrpo.grading import graders
from hardgrpo.selection import policies

SIGNALS = policies.SIGNALS


def measure(samples: list[dict], grader: str) -> dict[str, float | None]:
    """The signals of one prompt, from one or more completions (`completion`; `tokens` and `log_probability` if known)."""
    codes = answer_codes([sample["completion"] for sample in samples], grader)
    sizes = [codes.count(code) for code in set(codes) - {-1}]
    answered, count = sum(sizes), len(samples)
    return {
        "agreement": max(sizes, default=0) / count,
        "entropy": -sum(n / answered * math.log(n / answered) for n in sizes) + 0.0 if answered else None,
        "answered_share": answered / count,
        "mean_tokens": _mean([sample.get("tokens") for sample in samples]),
        "log_probability": _mean([sample.get("log_probability") for sample in samples]),
    }


def answer_codes(texts: list[str], grader: str) -> list[int]:
    """A number for each completion's answer, from 0 in order of first occurrence; equal answers share it. -1: no answer."""
    firsts: list[str] = []
    codes = []
    for answer in map(graders.GRADERS[grader].extract, texts):
        if not answer:
            codes.append(-1)
            continue
        code = next((code for code, first in enumerate(firsts) if graders.same(grader, first, answer)), len(firsts))
        firsts += [answer] if code == len(firsts) else []
        codes.append(code)
    return codes


def majority(texts: list[str], grader: str) -> list[float]:
    """1.0 for each completion that gives the group's most frequent answer (of equally frequent ones the first that was given), else 0.0:
    the reward of test-time reinforcement learning (arXiv 2504.16084). All are 0 where no completion gives an answer."""
    codes = answer_codes(texts, grader)
    best = max(set(codes) - {-1}, key=lambda code: (codes.count(code), -code), default=None)
    return [float(code == best) for code in codes]


def _mean(values: list) -> float | None:
    return sum(values) / len(values) if None not in values else None
