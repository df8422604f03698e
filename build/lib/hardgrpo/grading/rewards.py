"""The reward of a completion, for trainers outside of this project."""

from hardgrpo.grading.graders import grade
from hardgrpo.grading.reasoning import answer_part


def score(grader: str, completion: str, answer: object, in_reasoning: bool = False) -> float:
    """1.0 if a completion is right, else 0.0. With `in_reasoning`, the model's chat template opens
    the reasoning, so that a completion without an end of the reasoning states no answer."""
    text = answer_part(completion, in_reasoning)
    return float(grade(grader, text or "", str(answer)).correct)
