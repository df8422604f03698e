"""Time to make all figures and tables of study `mini` from the committed summaries in a new clone,
compared with the time to import pyplot and pandas once for each figure."""

import benchmarks

import functools
import sys

IMPORTS = "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot, pandas"


def run(options) -> list[dict]:
    figure_paths = []

    def draw_figures(time_index: int) -> float:
        with benchmarks.clone_copy() as folder:
            measurement = benchmarks.run(
                benchmarks.snakemake("figures", "--config", "study=mini"), folder
            )
            figure_paths[:] = (folder / "paper/mini/figures").glob("*.pdf")
            return measurement[time_index]

    def import_modules(time_index: int) -> float:
        return sum(
            benchmarks.run([sys.executable, "-c", IMPORTS])[time_index] for _ in figure_paths
        )

    draw_figures(0)  # counts the figures, and fills the operating system's cache of files
    name = f"{len(figure_paths)} figures and all tables; {len(figure_paths)} imports of pyplot and pandas"
    repeats = max(1, options.repeats // 2)
    # `time_index` is an index in the result of `benchmarks.run`: 0 wall, 1 processor seconds
    return [
        benchmarks.compare(
            name,
            unit,
            functools.partial(draw_figures, time_index),
            functools.partial(import_modules, time_index),
            repeats,
            target,
        )
        for time_index, unit, target in ((0, "s", "ours <= 20"), (1, "processor s", ""))
    ]
