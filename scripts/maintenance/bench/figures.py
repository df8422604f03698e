"""Time to make all figures and tables of study `mini` from the committed summaries in a new clone,
compared with the time that the programs need for their imports."""

import benchmarks

import sys

IMPORTS = "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot, pandas"


def run(options) -> list[dict]:
    figure_paths = []

    def figures(kind: int) -> float:
        with benchmarks.clone_copy() as folder:
            measurement = benchmarks.run(
                benchmarks.snakemake("figures", "--config", "study=mini"), folder
            )
            figure_paths[:] = (folder / "paper/mini/figures").glob("*.pdf")
            return measurement[kind]

    def imports(kind: int) -> float:
        return sum(benchmarks.run([sys.executable, "-c", IMPORTS])[kind] for _ in figure_paths)

    figures(0)  # counts the figures, and brings the files into memory
    name = f"{len(figure_paths)} figures and all tables; {len(figure_paths)} imports of pyplot and pandas"
    repeats = max(1, options.repeats // 2)
    return [
        benchmarks.compare(
            name, unit, lambda k=kind: figures(k), lambda k=kind: imports(k), repeats, target
        )
        for kind, unit, target in ((0, "s", "ours <= 20"), (1, "processor s", ""))
    ]
