"""Compare the gains of a study that was computed here with those of its committed reference.

Processors round differently, so the same seed trains a different run on another machine. Both machines use the same problems, so
the gains are compared by cell and paired by seed: d_s is the gain of seed s here less that of the reference. The interval of the
mean of d_s is Student's t over the seeds, t(.975, S - 1) sd(d) / sqrt(S): for new seeds and these problems.
"""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimate_columns
from hardgrpo.analysis.columns import CELL

COLUMNS = [*CELL, "gain_reference", "gain_here", "difference", "difference_low", "difference_high"]
COLUMNS += ["seeds", "seeds_only_here", "seeds_only_reference", "leaves_zero_out"]


def compare(rows: list[dict], reference_rows: list[dict]) -> list[dict]:
    """A row a cell, from the rows of `decomposition_runs` here and of the reference: last step, the task's own grading.

    Gains are shares, over the `seeds` that both sides have. A cell without such a seed has only the numbers of seeds, the rest is nan.
    A single seed gives no interval.
    """
    gains, reference_gains = _gains(rows), _gains(reference_rows)
    return [
        dict(zip(CELL, cell)) | _compared(gains.get(cell, {}), reference_gains.get(cell, {})) for cell in gains | reference_gains
    ]


def _compared(ours: dict[float, float], theirs: dict[float, float]) -> dict:
    """The columns of one cell, from {seed: gain} here and in the reference."""
    seeds = sorted(ours.keys() & theirs.keys())
    own_gains, reference_gains = (np.array([gains[seed] for seed in seeds]) for gains in (ours, theirs))
    interval = statistics.seeds_interval(own_gains - reference_gains) if seeds else statistics.UNKNOWN
    return (
        {"gain_reference": reference_gains.mean() if seeds else np.nan, "gain_here": own_gains.mean() if seeds else np.nan}
        | estimate_columns("difference", interval)
        | {"seeds": len(seeds), "seeds_only_here": len(ours) - len(seeds), "seeds_only_reference": len(theirs) - len(seeds)}
        | {"leaves_zero_out": interval.low > 0 or interval.high < 0}
    )


def _gains(rows: list[dict]) -> dict[tuple, dict[float, float]]:
    """{cell: {seed: gain}} at the last step of each cell."""
    last_gains: dict[tuple, dict[float, tuple]] = {}
    for row in rows:
        if row["grading"] == "task":
            by_seed = last_gains.setdefault(tuple(row[name] for name in CELL), {})
            by_seed[row["seed"]] = max(by_seed.get(row["seed"], (-1, 0.0)), (row["step"], row["gain"]))
    return {cell: {seed: gain for seed, (_, gain) in by_seed.items()} for cell, by_seed in last_gains.items()}
