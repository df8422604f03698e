"""All figures and tables of study mini from the committed summaries, as in a new clone, against the programs' imports alone."""

import benchmarks

import sys

IMPORTS = "import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot, pandas"


def run(options) -> list[dict]:
    drawn = []

    def figures(kind: int) -> float:
        with benchmarks.copy() as folder:
            measured = benchmarks.run(benchmarks.snakemake("figures", "--config", "study=mini"), folder)
            drawn[:] = (folder / "paper/mini/figures").glob("*.pdf")
            return measured[kind]

    def imports(kind: int) -> float:
        return sum(benchmarks.run([sys.executable, "-c", IMPORTS])[kind] for _ in drawn)

    figures(0)  # counts the figures, and brings the files into memory
    name, repeats = f"{len(drawn)} figures and all tables; {len(drawn)} imports of pyplot and pandas", max(1, options.repeats // 2)
    return [
        benchmarks.compared(name, unit, lambda k=kind: figures(k), lambda k=kind: imports(k), repeats, target)
        for kind, unit, target in ((0, "s", "ours <= 20"), (1, "processor s", ""))
    ]
