"""Summarise a study: every table that its figures, LaTeX tables and numbers are made from.

    python scripts/summaries/summarize.py --study mini --config '{...}' --output results/summaries/mini

--config is the part of config.yaml that decides the study's files (paths.of_study), as JSON. Intervals are 95 % and cover new
problems and new seeds unless a column says otherwise; see src/hardgrpo/analysis/statistics.py.
"""

import argparse
import json
from pathlib import Path

from hardgrpo.analysis import summaries
from hardgrpo.analysis.columns import COLUMNS
from hardgrpo.runtime import errors, files
from hardgrpo.study import paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True)
    parser.add_argument("--config", required=True, type=json.loads)
    parser.add_argument("--output", required=True, help="folder of the tables")
    args = parser.parse_args()

    study, config = args.study, args.config
    runs, plan = paths.runs(config, study), config["studies"][study]
    cells = summaries.load_cells(config, study)
    updates = summaries.read_updates(config, study)
    subsets, difficulties = paths.subsets(config, study), paths.difficulties(config, study)

    tables = {
        "accuracy": summaries.accuracy(cells),
        "gains": summaries.gains(cells),
        "differences": summaries.differences(cells),
        "mcnemar": summaries.mcnemar(cells),
        "parts": summaries.parts(cells),
        "decomposition": summaries.decomposition(cells),
        "decomposition_runs": summaries.decomposition_runs(cells),
        "pass_at_k": summaries.pass_at_k(cells),
        "learnable": summaries.learnable(updates, plan),
        "curves": summaries.curves(updates, plan),
        "parity": summaries.parity(updates, plan),
        "tiers": summaries.tiers(cells),
        "reach": summaries.reach(cells),
        "subsets": summaries.subsets(subsets),
        "difficulty": summaries.difficulty(difficulties, subsets),
        "published": summaries.published(paths.recorded_probes(config, study)),
    }
    tables["sentences"] = summaries.sentences(tables["decomposition"])
    tables["budgets"] = summaries.budgets(tables["parity"], summaries.read_seconds(updates, plan))
    tables["regressions"] = summaries.regressions(tables["gains"], tables["learnable"], tables["accuracy"])
    tables["fit"] = summaries.fit(tables["gains"], tables["learnable"])
    for name, rows in tables.items():
        files.write_rows(Path(args.output) / f"{name}.csv", COLUMNS[name], files.rounded(rows))
    print(f"{args.output}: {len(cells)} cells of {len(runs)} runs, {sum(map(len, tables.values()))} rows in {len(tables)} tables")


if __name__ == "__main__":
    errors.run(main)
