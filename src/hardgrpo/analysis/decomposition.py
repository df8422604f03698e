"""The parts of a gain. Imports no library, because `hardgrpo worth` runs without SciPy."""


def decompose(
    base_answered: float, base_correct: float, answered: float, correct: float
) -> tuple[float, float]:
    """Split a gain in accuracy exactly into (finishing, correctness), by the symmetric
    Kitagawa-Oaxaca-Blinder decomposition.

    Arguments are shares of all completions. Let s be the share answered and a the accuracy of
    answered completions, with index 0 before and 1 after training. Then finishing = (s1 - s0)(a0 +
    a1)/2 and correctness = (a1 - a0)(s0 + s1)/2 add up to the gain. If s0 is 0, a0 is undefined and
    a1 replaces a0, so that the whole gain is finishing. If s1 is 0, a0 replaces a1.
    """
    a0 = base_correct / base_answered if base_answered else None
    a1 = correct / answered if answered else None
    a0, a1 = (a1 or 0.0) if a0 is None else a0, (a0 or 0.0) if a1 is None else a1
    finishing = (answered - base_answered) * (a0 + a1) / 2
    correctness = (a1 - a0) * (base_answered + answered) / 2
    return finishing, correctness
