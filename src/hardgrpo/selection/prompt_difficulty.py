"""Measure the difficulty of a problem for the base model: grade and count completions."""

from hardgrpo.data import generated
from hardgrpo.grading import graders

# columns of counts; None if the count is unknown
GRADE_COUNTS = ("correct", "answered", "strict", "lenient", "undecided", "sound")
COLUMNS = ["id", "tier", "samples", *GRADE_COUNTS, "truncated", "tokens", "pass_rate"]
COLUMNS += ["held_out", "held_out_correct"]


def measure(problem: dict, samples: list[dict], grader: str) -> dict:
    """A row of COLUMNS."""
    grades = [graders.grade(grader, sample["completion"], problem["answer"]) for sample in samples]
    counts = {name: sum(getattr(grade, name) for grade in grades) for name in GRADE_COUNTS[:-1]}
    sound = [generated.is_sound(problem, sample["completion"]) for sample in samples]
    counts["sound"] = None if None in sound else sum(sound)
    token_counts = [sample["tokens"] for sample in samples if sample.get("tokens") is not None]
    reasons = [sample.get("finish_reason") for sample in samples]
    return counts | {
        "id": problem["id"],
        "tier": problem.get("tier"),
        "samples": len(samples),
        "truncated": reasons.count("length") if all(reasons) else None,
        "tokens": sum(token_counts) if len(token_counts) == len(samples) else None,
        "pass_rate": counts["correct"] / len(samples) if samples else None,
        "held_out": None,
        "held_out_correct": None,
    }
