"""How far the gains that a study gave here agree with those of its committed reference.

Processors round differently, so that the same seed trains another run elsewhere. Both took the same problems, so the gains are
compared by cell and paired by seed: d_s is the gain of seed s here less that of the reference. The interval of the mean of d_s is
Student's t over the seeds, t(.975, S - 1) sd(d) / sqrt(S): for new seeds and these problems.
"""

import math

import numpy as np
from scipy import stats

from hardgrpo.analysis.columns import CELL
from hardgrpo.runtime.errors import UserError

COLUMNS = [*CELL, "gain_reference", "gain_here", "difference", "difference_low", "difference_high", "seeds", "leaves_zero_out"]


def compare(here: list[dict], reference: list[dict]) -> list[dict]:
    """A row a cell, from the rows of `decomposition_runs` here and of the reference, at the last step by the task's own grading.

    Cells and seeds that only one of the two has are left out; the interval is nan for a single seed.
    """
    ours, theirs = _gains(here), _gains(reference)
    rows = []
    for cell in ours:
        seeds = sorted(ours[cell].keys() & theirs.get(cell, {}).keys())
        if not seeds:
            continue
        one, other = (np.array([gains[cell][seed] for seed in seeds]) for gains in (ours, theirs))
        low, high = _interval(one - other)
        rows.append(
            dict(zip(CELL, cell))
            | {"gain_reference": other.mean(), "gain_here": one.mean(), "difference": (one - other).mean()}
            | {"difference_low": low, "difference_high": high, "seeds": len(seeds), "leaves_zero_out": low > 0 or high < 0}
        )
    if not rows:
        raise UserError("no cell of the study stands in its reference; compare the same study")
    return rows


def _gains(rows: list[dict]) -> dict[tuple, dict[float, float]]:
    """{cell: {seed: gain}} at the last step of each cell."""
    found: dict[tuple, dict[float, tuple]] = {}
    for row in rows:
        if row["grading"] == "task":
            seeds = found.setdefault(tuple(row[name] for name in CELL), {})
            seeds[row["seed"]] = max(seeds.get(row["seed"], (-1, 0.0)), (row["step"], row["gain"]))
    return {cell: {seed: gain for seed, (_, gain) in seeds.items()} for cell, seeds in found.items()}


def _interval(differences: np.ndarray) -> tuple[float, float]:
    count = len(differences)
    if count < 2:
        return math.nan, math.nan
    half = stats.t.ppf(0.975, count - 1) * differences.std(ddof=1) / math.sqrt(count)
    return differences.mean() - half, differences.mean() + half
