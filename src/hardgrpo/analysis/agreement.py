"""Compare the gains of a local study with the gains of the study's committed reference.

Processors round differently, so a training with the same seed and problems may have another result
on another machine. Gains are compared by cell: d_s is the local gain of seed s minus the reference
gain of seed s. The mean of d_s has a Student's t interval over seeds, for new seeds and the same
problems.
"""

import pandas as pd

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
    names = [*CELL, "seed", "gain"]
    local, reference = (pd.DataFrame(table, columns=names) for table in (rows, reference_rows))
    both = pd.concat([local, reference.rename(columns={"gain": "gain_reference"})])
    gains = both.groupby([*CELL, "seed"], sort=False).first()
    return [
        dict(zip(CELL, cell)) | _compare_cell(group)
        for cell, group in gains.groupby(level=CELL, sort=False)
    ]


def _compare_cell(gains: pd.DataFrame) -> dict:
    """The columns of a cell, from the gain of each seed here and in the reference; nan if
    unknown."""
    both = gains.dropna()
    differences = (both.gain - both.gain_reference).to_numpy()
    interval = statistics.seeds_interval(differences) if len(both) else statistics.UNKNOWN
    return {
        "gain_reference": both.gain_reference.mean(),
        "gain_here": both.gain.mean(),
        **estimates(difference=interval),
        "seeds": len(both),
        "seeds_only_here": int(gains.gain_reference.isna().sum()),
        "seeds_only_reference": int(gains.gain.isna().sum()),
        "leaves_zero_out": interval.low > 0 or interval.high < 0,
    }
