"""Compare the gains of a study that was computed here with those of its committed reference.

Processors round differently, so the same seed trains a different run on another machine. Both machines use the same problems, so
the gains are compared by cell and paired by seed: d_s is the gain of seed s here less that of the reference. The interval of the
mean of d_s is Student's t over the seeds, t(.975, S - 1) sd(d) / sqrt(S): for new seeds and these problems.
"""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import as_columns
from hardgrpo.analysis.columns import CELL

COLUMNS = [*CELL, "gain_reference", "gain_here", "difference", "difference_low", "difference_high"]
COLUMNS += ["seeds", "seeds_only_here", "seeds_only_reference", "leaves_zero_out"]


def compare(here: list[dict], reference: list[dict]) -> list[dict]:
    """A row a cell, from the rows of `decomposition_runs` here and of the reference: last step, the task's own grading.

    Gains are shares, over the `seeds` that both sides have. A cell without such a seed has only the numbers of seeds, the rest is nan.
    A single seed gives no interval.
    """
    ours, theirs = _gains(here), _gains(reference)
    return [dict(zip(CELL, cell)) | _compared(ours.get(cell, {}), theirs.get(cell, {})) for cell in ours | theirs]


def _compared(ours: dict[float, float], theirs: dict[float, float]) -> dict:
    """The columns of one cell, from {seed: gain} here and in the reference."""
    seeds = sorted(ours.keys() & theirs.keys())
    one, other = (np.array([gains[seed] for seed in seeds]) for gains in (ours, theirs))
    found = statistics.seeds_interval(one - other) if seeds else statistics.UNKNOWN
    return (
        {"gain_reference": other.mean() if seeds else np.nan, "gain_here": one.mean() if seeds else np.nan}
        | as_columns("difference", found)
        | {"seeds": len(seeds), "seeds_only_here": len(ours) - len(seeds), "seeds_only_reference": len(theirs) - len(seeds)}
        | {"leaves_zero_out": found.low > 0 or found.high < 0}
    )


def _gains(rows: list[dict]) -> dict[tuple, dict[float, float]]:
    """{cell: {seed: gain}} at the last step of each cell."""
    found: dict[tuple, dict[float, tuple]] = {}
    for row in rows:
        if row["grading"] == "task":
            seeds = found.setdefault(tuple(row[name] for name in CELL), {})
            seeds[row["seed"]] = max(seeds.get(row["seed"], (-1, 0.0)), (row["step"], row["gain"]))
    return {cell: {seed: gain for seed, (_, gain) in seeds.items()} for cell, seeds in found.items()}
