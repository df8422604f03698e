"""Run the benchmarks of scripts/bench/, print their table, and write it as CSV and as a figure.

    python scripts/bench.py                          all of them (`make bench`)
    python scripts/bench.py --only grading planning  these

Every figure is a ratio of two ways of doing the same, measured side by side in one run. A benchmark is a module with
`run(options)`, which returns rows (`hardgrpo.benchmarks.row`) or raises `Skipped` with what the machine lacks. The exit
status does not depend on what was measured: these are no tests.
"""

import argparse
import importlib
import math
import os
import sys
from pathlib import Path

from hardgrpo import errors, files
from hardgrpo.benchmarks import COLUMNS, Skipped

HERE = Path(__file__).parent / "bench"
NAMES = sorted(path.stem for path in HERE.glob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of measurements (default: %(default)s)")
    parser.add_argument("--data", default=os.environ.get("HARDGRPO_DATA", "data"), help="folder that holds recordings/")
    parser.add_argument(
        "--model", default="results/models/tiny", help="folder of a model to sample and train (default: %(default)s)"
    )
    parser.add_argument(
        "--before", help="another clone, in which `make demo` has run: what its stages took is set beside this one's"
    )
    parser.add_argument("--output", default="results/bench", help="folder to write (default: %(default)s)")
    options = parser.parse_args()
    if options.repeats < 1:
        raise errors.UserError(f"--repeats is {options.repeats}, expected at least 1")

    sys.path.insert(0, str(HERE))
    options.output = Path(options.output)
    rows, left_out = [], []
    for name in options.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            found = importlib.import_module(name).run(options)
        except Skipped as reason:
            left_out.append(f"{name}: not measured: {reason}")
            continue
        rows += found
        show(found)
        files.write_rows(options.output / "bench.csv", COLUMNS, rows)  # each time: what is measured outlives an interrupt
    print(*left_out, sep="\n")
    if rows:
        write_figure(rows, options.output)


def show(rows: list[dict]) -> None:
    for row in rows:
        met = {None: "", True: "met", False: "NOT met"}[row["met"]]
        baseline, ratio = (
            "" if row[key] is None else f"{row[key]:,.3g}" if row[key] < 1000 else f"{row[key]:,.0f}"
            for key in ("baseline", "ratio")
        )
        ours = f"{row['ours']:,.3g}" if row["ours"] < 1000 else f"{row['ours']:,.0f}"
        print(
            f"{row['benchmark']:<11}{row['what']:<74}{ours:>9}{baseline:>10} {row['unit']:<14}{ratio:>8}  {row['target']:<16}{met}"
        )
    sys.stdout.flush()


def write_figure(rows: list[dict], folder: Path) -> None:
    """bench.pdf and bench.png draw the ratios of bench.csv."""
    from hardgrpo import plotting  # after the benchmarks, whose programs should start as they would alone

    plotting.save(*draw(plotting, rows), [str(folder / f"bench.{kind}") for kind in ("pdf", "png")])
    print(f"{folder / 'bench.csv'}, {folder / 'bench.pdf'}")


def draw(plotting, rows: list[dict]):
    """(figure, rows drawn): the ratio of every row to its baseline on a logarithmic scale, with the target where it is one of the ratio."""
    frame = plotting.pd.DataFrame([row for row in rows if row["ratio"]], columns=COLUMNS)
    figure, (axis,) = plotting.panels(1, height=0.5 + 0.15 * len(frame), columns=1)
    figure.set_figwidth(plotting.WIDE)
    places = range(len(frame))[::-1]
    colors = [{True: "#009E73", False: "#D55E00"}.get(met, "0.6") for met in frame.met]
    axis.barh(places, frame.ratio - 1, left=1, color=colors)
    for place, row in zip(places, frame.itertuples()):
        if row.target.startswith("ratio"):
            axis.plot([float(row.target.split()[2])] * 2, [place - 0.5, place + 0.5], color="black")
        beside = {"xytext": (3 if row.ratio >= 1 else -3, 0), "textcoords": "offset points", "va": "center", "fontsize": 6}
        axis.annotate(f"{row.ratio:.2f}", (row.ratio, place), ha="left" if row.ratio >= 1 else "right", **beside)
    axis.axvline(1, color="black", linewidth=0.6)
    axis.set_xscale("log")
    low, high = frame.ratio.min(), frame.ratio.max()
    decades = [10.0**power for power in range(math.floor(math.log10(low / 2)), math.ceil(math.log10(high * 2)) + 1)]
    axis.set_xticks(decades, [f"{decade:g}" for decade in decades])
    axis.minorticks_off()
    axis.set_xlim(decades[0], decades[-1])
    axis.set_ylim(-0.7, len(frame) - 0.3)
    axis.set_yticks(places, [f"{row.benchmark}: {row.what}" for row in frame.itertuples()], fontsize=6)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("ours / baseline (black mark: target; green: met, red: not met)")
    return figure, frame


if __name__ == "__main__":
    errors.run(main)
