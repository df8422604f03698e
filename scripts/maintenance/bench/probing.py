"""Samples that early-stopped probing draws, against the fewest that could prove the same subset, and against full probing.

The measurements are those of scripts/maintenance/bench_probing.py, which also says how full the batches were.
"""

import functools
from pathlib import Path

import bench_probing
import benchmarks

row = functools.partial(benchmarks.row, "probing")


def run(options) -> list[dict]:
    recordings = options.data if (Path(options.data) / bench_probing.RECORDING).is_file() else None
    if recordings is None:
        print(f"probing: no {bench_probing.RECORDING} in {options.data}, so the simulated pool alone")
    rows = []
    for one in bench_probing.rows(recordings):
        target = f"ratio <= {one['target']}" if one["target"] else ""
        rows.append(row(f"{one['name']}; cheapest proof", one["ours"], one["baseline"], "samples", target))
        rows.append(row(f"{one['name']}; all", one["ours"], one["ours"] / one["share_of_full"], "samples"))
    return rows
