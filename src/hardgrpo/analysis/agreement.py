"""Compare the gains of a local study with the gains of the study's committed reference.

Processors round differently, so a training with the same seed and problems may have another result
on another machine. Gains are compared by cell: d_s is the local gain of seed s minus the reference
gain of seed s. The mean of d_s has a Student's t interval over seeds, for new seeds and the same
problems.
"""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimates
from hardgrpo.analysis.columns import CELL

COLUMNS = [*CELL, "gain_reference", "gain_here", "difference", "difference_low", "difference_high"]
COLUMNS += ["seeds", "seeds_only_here", "seeds_only_reference", "leaves_zero_out", "files"]


def compare(rows: list[dict], reference_rows: list[dict]) -> list[dict]:
    """A row for each cell of `rows` (table `decomposition_runs` of the local study) or of
    `reference_rows` (the same table of the reference).

    Gains are differences of shares (-1 to 1), averaged over the `seeds` that both tables have. In a
    cell without a common seed, the gains, the difference and its interval are nan. A single common
    seed gives no interval.
    """
    gains, reference_gains = _gains(rows), _gains(reference_rows)
    return [
        dict(zip(CELL, cell)) | _compare_cell(gains.get(cell, {}), reference_gains.get(cell, {}))
        for cell in gains | reference_gains
    ]


def _compare_cell(gains: dict[float, float], reference_gains: dict[float, float]) -> dict:
    """The columns of a cell, from the cell's {seed: gain} in both studies."""
    seeds = sorted(gains.keys() & reference_gains.keys())
    local, reference = (
        np.array([by_seed[seed] for seed in seeds]) for by_seed in (gains, reference_gains)
    )
    interval = statistics.seeds_interval(local - reference) if seeds else statistics.UNKNOWN
    return {
        "gain_reference": reference.mean() if seeds else np.nan,
        "gain_here": local.mean() if seeds else np.nan,
        **estimates(difference=interval),
        "seeds": len(seeds),
        "seeds_only_here": len(gains) - len(seeds),
        "seeds_only_reference": len(reference_gains) - len(seeds),
        "leaves_zero_out": interval.low > 0 or interval.high < 0,
    }


def _gains(rows: list[dict]) -> dict[tuple, dict[float, float]]:
    """{cell: {seed: gain}}."""
    gains: dict[tuple, dict[float, float]] = {}
    for row in rows:
        gains.setdefault(tuple(row[name] for name in CELL), {})[row["seed"]] = row["gain"]
    return gains
