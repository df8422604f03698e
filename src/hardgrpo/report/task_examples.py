"""Examples of the tasks `swaps` and `arithmetic` for the paper: a problem, a demonstration without
mistakes, and a demonstration with a wrong answer."""

import random
from dataclasses import dataclass

from hardgrpo.data import generated
from hardgrpo.report import latex

SEED, STEPS = 1, 2  # any seed; few steps, so that an example fits on a line


@dataclass(frozen=True)
class Example:
    """A problem, a demonstration without mistakes, and a demonstration with a wrong answer."""

    task: str
    question: str
    right: str
    wrong: str


def examples() -> list[Example]:
    swaps = generated.draw_swaps(random.Random(SEED), [3], [STEPS])
    arithmetic = generated.draw_arithmetic(random.Random(SEED), [STEPS])
    slips = dict.fromkeys("+-*/", 0.5)
    return [
        make("swaps", swaps, lambda rng, slip: generated.demonstrate_swaps(swaps, rng, slip)),
        make(
            "arithmetic",
            arithmetic,
            lambda rng, slip: generated.demonstrate_arithmetic(
                arithmetic, rng, slips if slip else dict.fromkeys(slips, 0.0)
            ),
        ),
    ]


def make(task: str, chain: generated.Chain, demonstrate) -> Example:
    """The example of a problem. `demonstrate` maps a random generator and the probability of a
    wrong step to a demonstration."""
    answer = lambda text: text.rpartition("#### ")[2]
    right = demonstrate(random.Random(SEED), 0.0)
    wrong = next(
        text
        for seed in range(100)
        if answer(text := demonstrate(random.Random(seed), 0.5)) != chain.answer
    )
    return Example(task, chain.question, right, wrong)


def as_latex() -> str:
    r"""The examples as the entries of a LaTeX description list."""
    lines = ["% Made by hardgrpo.report.task_examples"]
    for example in examples():
        question, right, wrong = map(latex.escape, (example.question, example.right, example.wrong))
        lines.append(
            rf"\example{{{latex.escape(example.task)}}}{{{question}}}{{{right}}}{{{wrong}}}"
        )
    return "\n".join([*lines, ""])
