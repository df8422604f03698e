"""How difficult a problem is for the base model: its completions graded and counted, a row of difficulty.csv."""

from hardgrpo.grading import graders

COLUMNS = ["id", "tier", "samples", "correct", "answered", "strict", "lenient", "truncated", "tokens", "pass_rate", "measured_by"]
# Of a probe that stopped early, besides: samples that were planned, whether all were taken, between what the pass rate lies, how sure the
# subset is that it stopped for. The pass rate itself is left empty where not all samples were taken.
STOPPED_COLUMNS = ["planned", "complete", "pass_rate_low", "pass_rate_high", "confidence"]


def measure(problem: dict, samples: list[dict], grader: str, with_prompt: bool = False) -> dict:
    """A row of the table; without figures where the prompt should be graded too but was not recorded."""
    if with_prompt and not all("prompt" in sample for sample in samples):
        return dict.fromkeys(COLUMNS) | {"id": problem["id"], "tier": problem.get("tier"), "samples": len(samples)}
    grades = [
        graders.grade(grader, (s["prompt"] + "\n" if with_prompt else "") + s["completion"], problem["answer"]) for s in samples
    ]
    counts = {name: sum(getattr(v, name) for v in grades) for name in ("correct", "answered", "strict", "lenient")}
    return _row(problem, samples, counts, "reference")


def measure_agreement(problem: dict, samples: list[dict], grader: str) -> dict:
    """A row for a problem without a reference answer: what most samples answer is taken for it, no answer agrees with none."""
    groups: list[list[str]] = []  # of equal answers
    for answer in filter(None, (graders.GRADERS[grader].extract(sample["completion"]) for sample in samples)):
        group = next((g for g in groups if graders.same(grader, g[0], answer)), None)
        if group is None:
            groups.append(group := [])
        group.append(answer)
    sizes = [len(group) for group in groups]
    counts = {"correct": max(sizes, default=0), "answered": sum(sizes), "strict": None, "lenient": None}
    return _row(problem, samples, counts, "agreement")


def _row(problem: dict, samples: list[dict], counts: dict, measured_by: str) -> dict:
    known = [s["tokens"] for s in samples if s.get("tokens") is not None]
    reasons = [s.get("finish_reason") for s in samples]
    return counts | {
        "id": problem["id"],
        "tier": problem.get("tier"),
        "samples": len(samples),
        "truncated": reasons.count("length") if all(reasons) else None,
        "tokens": sum(known) if len(known) == len(samples) else None,
        "pass_rate": counts["correct"] / len(samples) if samples else None,
        "measured_by": measured_by,
    }


def stopped(row: dict, planned: int, confidence: float) -> dict:
    """The row of a problem that got `row["samples"]` of `planned` samples, in the manner of STOPPED_COLUMNS."""
    left = planned - row["samples"]
    bounds = {"pass_rate_low": row["correct"] / planned, "pass_rate_high": (row["correct"] + left) / planned}
    known = {"pass_rate": row["pass_rate"] if left == 0 else None, "complete": left == 0}
    return row | bounds | known | {"planned": planned, "confidence": confidence}
