"""Check the steps of a worked solution, where the task is generated here and has demonstrations (hardgrpo.data.generated)."""

from functools import lru_cache

from hardgrpo.data import generated


def sound(problem: dict, completion: str) -> bool | None:
    """Whether every step of a completion is right, and its answer; None where the steps of the problem cannot be checked.

    The steps must be those of a demonstration without slips, in their order. `problem` is a row of a task's file.
    """
    kind, _, rest = str(problem.get("source")).partition(":")
    known = _solutions(rest.partition(":")[0], problem["question"]) if kind == "generated" else None
    return None if known is None else tuple(completion.split()) in known


@lru_cache(maxsize=10_000)
def _solutions(family: str, question: str) -> frozenset | None:
    found = generated.solutions(family, question)
    return None if found is None else frozenset(tuple(text.split()) for text in found)
