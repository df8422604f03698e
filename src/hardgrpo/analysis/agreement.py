"""Compare the gains of a study that was computed here with those of its committed reference.

Processors round differently, so the same seed trains a different run on another machine. Both machines use the same problems, so
the gains are compared by cell and paired by seed: d_s is the gain of seed s here less that of the reference. The interval of the
mean of d_s is Student's t over the seeds, t(.975, S - 1) sd(d) / sqrt(S): for new seeds and these problems.
"""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import as_columns
from hardgrpo.analysis.columns import CELL

COLUMNS = [*CELL, "gain_reference", "gain_here", "difference", "difference_low", "difference_high", "seeds", "leaves_zero_out"]


def compare(here: list[dict], reference: list[dict]) -> list[dict]:
    """A row a cell, from the rows of `decomposition_runs` here and of the reference: last step, the task's own grading.

    Cells and seeds that only one side has are left out. A single seed gives no interval.
    """
    ours, theirs = _gains(here), _gains(reference)
    rows = []
    for cell in ours:
        seeds = sorted(ours[cell].keys() & theirs.get(cell, {}).keys())
        if not seeds:
            continue
        one, other = (np.array([gains[cell][seed] for seed in seeds]) for gains in (ours, theirs))
        found = statistics.seeds_interval(one - other)
        rows.append(
            dict(zip(CELL, cell))
            | {"gain_reference": other.mean(), "gain_here": one.mean()}
            | as_columns("difference", found)
            | {"seeds": len(seeds), "leaves_zero_out": found.low > 0 or found.high < 0}
        )
    return rows


def _gains(rows: list[dict]) -> dict[tuple, dict[float, float]]:
    """{cell: {seed: gain}} at the last step of each cell."""
    found: dict[tuple, dict[float, tuple]] = {}
    for row in rows:
        if row["grading"] == "task":
            seeds = found.setdefault(tuple(row[name] for name in CELL), {})
            seeds[row["seed"]] = max(seeds.get(row["seed"], (-1, 0.0)), (row["step"], row["gain"]))
    return {cell: {seed: gain for seed, (_, gain) in seeds.items()} for cell, seeds in found.items()}
