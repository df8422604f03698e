"""Check the steps of a completion, for generated tasks with demonstrations
(hardgrpo.data.generated)."""

from functools import lru_cache

from hardgrpo.data import generated


def is_sound(problem: dict, completion: str) -> bool | None:
    """Whether the steps of a completion are those of a demonstration without wrong steps; None if
    the steps of the problem, a row of a task's file, cannot be checked."""
    kind, _, details = str(problem.get("source")).partition(":")
    if kind != "generated":
        return None
    solutions = _solutions(details.partition(":")[0], problem["question"])
    return None if solutions is None else tuple(completion.split()) in solutions


@lru_cache(maxsize=10_000)
def _solutions(family: str, question: str) -> frozenset | None:
    texts = generated.solutions(family, question)
    return None if texts is None else frozenset(tuple(text.split()) for text in texts)
