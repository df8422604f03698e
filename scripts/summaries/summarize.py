"""Write the summary tables of a study or of an analysis of published numbers, from which figures,
LaTeX tables and numbers are made.

    python scripts/summaries/summarize.py --study mini --config '{...}' \\
        --output results/summaries/mini

--config is the part of the configuration that determines the study's files (paths.study_part), as
JSON. Intervals are 95 % intervals for new problems and new seeds, unless a column's name or the
docstring of the table's function says otherwise; see src/hardgrpo/analysis/statistics.py.
src/hardgrpo/analysis/summary_tables.py says how a table is defined.
"""

from hardgrpo.runtime import errors, files, warm
from hardgrpo.study import paths, pools
from hardgrpo.study.resolved import resolve_study
from hardgrpo.study.strict import plain
from hardgrpo.study.study import Study

from pathlib import Path


class Tables(dict):
    """Summary tables and their inputs by name. Each entry is computed when it is first read."""

    def __init__(self, study: Study):
        # imported late: see hardgrpo.runtime.warm
        from hardgrpo.analysis import cells, explanations, summary_tables, training
        from hardgrpo.data import published_counts

        self.tables = summary_tables.all_tables()
        self.inputs = {  # data from which tables are computed, besides other tables
            "cells": lambda: cells.load_cells(study),
            "updates": lambda: training.read_updates(study),
            "plan": lambda: study,
            "parity": lambda: training.parity(self["updates"], self["plan"]),
            "leads": lambda: explanations.leads(self["cells"], self["difficulty_files"]),
            "seconds": lambda: training.read_seconds(self["updates"]),
            "subset_files": lambda: paths.subsets(study),
            "signal_files": lambda: paths.signal_files(study),
            "difficulty_files": lambda: paths.difficulties(study),
            "published_runs": lambda: [
                (*run, paths.published_accuracies(*run)) for run in paths.published_runs(study)
            ],
            "comparisons": lambda: pools.comparisons(study),
            "trajectory_files": lambda: paths.trajectories(study),
            "counts": lambda: published_counts.read(paths.counts(study.name)),
            "analysis": lambda: plain(study.analysis),
        }

    def __missing__(self, name: str):
        if name in self.inputs:
            self[name] = self.inputs[name]()
        else:
            self[name] = self.tables[name].make(
                *[self[source] for source in self.tables[name].inputs]
            )
        return self[name]


def main() -> None:
    parser = errors.parser(__doc__, "--study")
    parser.add_argument("--config", required=True, type=files.as_object)
    parser.add_argument("--output", required=True, help="folder for the tables")
    args = parser.parse_args()

    from hardgrpo.report import registry  # imported late: see hardgrpo.runtime.warm

    study = resolve_study(args.config, args.study)
    tables = Tables(study)
    summaries = {name: tables[name] for name in registry.summary_tables(study)}
    for name, rows in summaries.items():
        rounded = files.round_floats(rows)
        if study.is_analysis:
            rounded = round_differences(rounded)
        columns = tables.tables[name].columns
        files.write_rows(Path(args.output) / f"{name}.csv", columns, rounded)
    print(f"{args.output}: {sum(map(len, summaries.values()))} rows in {len(summaries)} tables")


def round_differences(rows: list[dict]) -> list[dict]:
    """The rows with floats rounded to nine decimals, too. The difference of two nearly equal numbers
    has fewer than ten exact digits, and its other digits may differ between machines."""
    return [
        {
            # + 0.0 turns -0.0 into 0.0
            key: round(value, 9) + 0.0 if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in rows
    ]


if __name__ == "__main__":
    warm.run(main)
