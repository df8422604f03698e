"""Summarise a study: every table that its figures, LaTeX tables and numbers are made from.

    python scripts/summarize.py --study mini --config '{...}' --output results/summaries/mini

--config is the part of config.yaml that decides the study's files (layout.of_study), as JSON. Intervals are 95 % and cover new
problems and new seeds unless a column says otherwise; see hardgrpo/statistics.py.
"""

import argparse
import json
from pathlib import Path

from hardgrpo import errors, files, layout, summaries

# Columns are fixed by name, so that a table without rows still says what it would hold.
INTERVAL = lambda name: [name, f"{name}_low", f"{name}_high"]
COLUMNS = {
    "accuracy": [*summaries.CELL, "decoding", "step", *INTERVAL("accuracy"), "answered_mean", "truncated_mean", "tokens_mean", "problems", "samples", "seeds"],
    "gains": [*summaries.CELL, "decoding", "step", "base_accuracy", *INTERVAL("gain"), "problems", "samples", "seeds"],
    "differences": [*summaries.CELL, "minus", *INTERVAL("difference"), "problems", "seeds"],
    "parts": [
        *summaries.CELL, "step", "gain", *INTERVAL("finishing"), *INTERVAL("correctness"), *INTERVAL("finishing_minus_correctness"),
        "base_answered", "answered", "base_accuracy", "accuracy", "base_accuracy_answered", "accuracy_answered", "problems", "seeds",
    ],
    "pass_at_k": [*summaries.CELL, "k", "step", "base", *INTERVAL("pass"), *INTERVAL("gain"), "problems", "seeds"],
    "learnable": ["model", "task", "policy", *INTERVAL("learnable"), "updates", "seeds"],
    "tiers": [*summaries.CELL, "tier", "step", "base_accuracy", *INTERVAL("accuracy"), *INTERVAL("gain"), "problems", "seeds"],
    "reach": [*summaries.CELL, "target", "step", "steps", "step_first", "step_last", "seeds_reached", "seeds"],
    "parity": ["model", "task", "policy", "seed", "updates", "prompts", "rollouts", "completion_tokens", "tokens"],
    "subsets": ["model", "task", "policy", "pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate", "tied", "tied_chosen", "seeds"],
    "difficulty": ["model", "task", "group", "pass_rate", "problems"],
    "fit": ["task", *INTERVAL("r_squared"), "slope", "cells"],
    "published": ["model", "task", "id", "published", "with_prompt", "alone"],
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True)
    parser.add_argument("--config", required=True, type=json.loads)
    parser.add_argument("--output", required=True, help="folder of the tables")
    args = parser.parse_args()

    study, config = args.study, args.config
    runs, plan = layout.runs(config, study), config["studies"][study]
    cells = summaries.load_cells(config, study)
    updates = summaries.read_updates(config, study)
    subsets, difficulties = layout.subsets(config, study), layout.difficulties(config, study)

    tables = {
        "accuracy": summaries.accuracy(cells),
        "gains": summaries.gains(cells),
        "differences": summaries.differences(cells),
        "parts": summaries.parts(cells),
        "pass_at_k": summaries.pass_at_k(cells),
        "learnable": summaries.learnable(updates, plan),
        "parity": summaries.parity(updates, plan),
        "tiers": summaries.tiers(cells),
        "reach": summaries.reach(cells),
        "subsets": summaries.subsets(subsets),
        "difficulty": summaries.difficulty(difficulties, subsets),
        "published": summaries.published(layout.recorded_probes(config, study)),
    }
    tables["fit"] = summaries.fit(tables["gains"], tables["learnable"])
    for name, rows in tables.items():
        files.write_rows(Path(args.output) / f"{name}.csv", COLUMNS[name], files.rounded(rows))
    print(f"{args.output}: {len(cells)} cells of {len(runs)} runs, {sum(map(len, tables.values()))} rows in {len(tables)} tables")


if __name__ == "__main__":
    errors.run(main)
