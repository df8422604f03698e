"""Examples of the tasks `swaps` and `arithmetic` for the paper: a problem, a demonstration without
mistakes, and a demonstration with a wrong answer."""

import random

from hardgrpo.data import generated
from hardgrpo.report import latex

SEED, STEPS = 1, 2  # any seed; few steps, so that an example fits on a line


def examples() -> dict[str, tuple[str, str, str]]:
    """{task: (problem, demonstration without mistakes, demonstration with a wrong answer)}"""
    return {
        "swaps": texts("swaps", generated.draw_swaps(random.Random(SEED), [3], [STEPS])),
        "arithmetic": texts("arithmetic", generated.draw_arithmetic(random.Random(SEED), [STEPS])),
    }


def texts(task: str, chain: generated.Chain) -> tuple[str, str, str]:
    def demonstrate(seed: int, slip: float) -> str:
        slips = slip if task == "swaps" else dict.fromkeys("+-*/", slip)
        return generated.DEMONSTRATE[task](chain, random.Random(seed), slips)

    wrong = (demonstrate(seed, 0.5) for seed in range(100))
    is_wrong = lambda text: text.rpartition("#### ")[2] != chain.answer
    return chain.question, demonstrate(SEED, 0.0), next(filter(is_wrong, wrong))


def as_latex() -> str:
    r"""The examples as the entries of a LaTeX description list."""
    lines = ["% Made by hardgrpo.report.task_examples"]
    for task, example in examples().items():
        arguments = "".join(f"{{{latex.escape(text)}}}" for text in (task, *example))
        lines.append(rf"\example{arguments}")
    return "\n".join([*lines, ""])
