"""Measure how difficult a problem is for the base model: grade and count its completions, for a row of difficulty.csv."""

from hardgrpo.data import steps
from hardgrpo.grading import graders

GRADED = ("correct", "answered", "strict", "lenient", "undecided", "sound")  # counted; empty where they are not known
COLUMNS = ["id", "tier", "samples", *GRADED, "truncated", "tokens", "pass_rate", "held_out", "held_out_correct"]
# Further columns after a probe that stopped early: samples that were planned, whether all were taken, bounds of the pass rate, and the
# confidence in the subset. A problem without all samples has no pass rate.
STOPPED_COLUMNS = ["planned", "complete", "pass_rate_low", "pass_rate_high", "confidence"]


def measure(problem: dict, samples: list[dict], grader: str, with_prompt: bool = False) -> dict:
    """A row of COLUMNS. `with_prompt`: grade prompt + completion; without recorded prompts only id, tier and samples are filled."""
    if with_prompt and not all("prompt" in sample for sample in samples):
        return dict.fromkeys(COLUMNS) | {"id": problem["id"], "tier": problem.get("tier"), "samples": len(samples)}
    grades = [
        graders.grade(grader, (s["prompt"] + "\n" if with_prompt else "") + s["completion"], problem["answer"]) for s in samples
    ]
    counts = {name: sum(getattr(v, name) for v in grades) for name in GRADED[:-1]}
    sound = [steps.sound(problem, sample["completion"]) for sample in samples]
    counts["sound"] = None if None in sound else sum(sound)
    return _row(problem, samples, counts)


def _row(problem: dict, samples: list[dict], counts: dict) -> dict:
    known = [s["tokens"] for s in samples if s.get("tokens") is not None]
    reasons = [s.get("finish_reason") for s in samples]
    return counts | {
        "id": problem["id"],
        "tier": problem.get("tier"),
        "samples": len(samples),
        "truncated": reasons.count("length") if all(reasons) else None,
        "tokens": sum(known) if len(known) == len(samples) else None,
        "pass_rate": counts["correct"] / len(samples) if samples else None,
        "held_out": None,
        "held_out_correct": None,
    }


def stopped(row: dict, planned: int, confidence: float) -> dict:
    """Add STOPPED_COLUMNS to the row of a problem that got `row["samples"]` of `planned` samples."""
    left = planned - row["samples"]
    bounds = {"pass_rate_low": row["correct"] / planned, "pass_rate_high": (row["correct"] + left) / planned}
    known = {"pass_rate": row["pass_rate"] if left == 0 else None, "complete": left == 0}
    return row | bounds | known | {"planned": planned, "confidence": confidence}
