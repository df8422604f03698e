"""Summary tables of analyses of published numbers of right answers, exactly by hypergeometric probabilities, without simulation.

Each function receives the rows of a table of counts (data/published_counts.py) and the analysis, an entry of `analyses` in the
configuration. N is the number of prompts, S of seeds, n of samples per prompt, K of samples that choose.
"""

import numpy as np

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.selection import probe_sizes as probes

ALL = "all"  # in the column `file`: the distinct prompts of all files


# --- samples per prompt ------------------------------------------------------------------------------------------------


def probe_sizes(counts: list[dict], analysis: dict) -> list[dict]:
    """How chosen prompts behave in new samples, by rule and number K of samples that choose (`probe_sizes.compare`): for the
    distinct prompts of all files, then for each file."""
    rows = []
    for file, members in pools(counts, analysis["budget"]).items():
        correct, samples = (np.array([row[name] for row in members]) for name in ("correct", "samples"))
        sizes = list(range(1, analysis["probe"] + 1))
        for row in probes.compare(correct, samples, analysis["budget"], sizes, analysis["group"]):
            rows.append({"model": analysis["model"], "task": analysis["prompts"], "file": file, "pool": len(members)} | row)
    return rows


def pools(counts: list[dict], budget: float) -> dict[str, list[dict]]:
    """{name: rows} of all files together, and of each file if there are several. A prompt of several files counts once in ALL, by
    its first row. Raise a `UserError` if the budget pays for no prompt of a file."""
    by_file: dict[str, list[dict]] = {}
    for row in counts:
        by_file.setdefault(row["file"], []).append(row)
    distinct = {row["id"]: row for row in reversed(counts)}  # the first row of a prompt replaces later ones
    for file, members in by_file.items():
        if policies.subset_size(budget, len(members)) < 1:
            raise UserError(f"{file}: a budget of {budget} of {len(members)} prompts is less than one prompt; raise the budget")
    return {ALL: [row for row in counts if distinct[row["id"]] is row], **(by_file if len(by_file) > 1 else {})}
