"""Run the benchmarks of scripts/maintenance/bench/, print their table, and write it as CSV and as a
figure.

    python scripts/maintenance/bench.py                          all benchmarks (`make bench`)
    python scripts/maintenance/bench.py --only grading planning  two benchmarks

Most rows compare a measurement of the project with a baseline that is measured in the same run, for
example with another implementation of the same work. A benchmark is a module of
scripts/maintenance/bench/ with a function `run(options)`, which returns rows (`benchmarks.row`) or
raises `Skipped` with the reason. The exit status does not depend on the measurements.
"""

from benchmarks import COLUMNS, Skipped
from hardgrpo.runtime import errors, files
from hardgrpo.study import paths

import argparse
import importlib
import os
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent / "bench"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        metavar="NAME",
        help=f"benchmarks to run (default: all): {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        help="pairs of measurements for each row; some rows have fewer, or a fixed number (default: %(default)s)",
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("HARDGRPO_DATA", "data"),
        help="folder that holds recordings/ (default: HARDGRPO_DATA, or data)",
    )
    parser.add_argument(
        "--model",
        default=paths.model_folder("steady-seed0"),
        help="model folder to sample and train (default: %(default)s)",
    )
    parser.add_argument(
        "--output", default="results/bench", help="folder to write (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.repeats < 1:
        raise errors.UserError(f"--repeats is {options.repeats}, expected at least 1")

    sys.path.insert(0, str(BENCHMARKS))
    options.output = Path(options.output)
    rows, skipped = [], []
    for name in options.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            benchmark_rows = [
                {"benchmark": name} | row for row in importlib.import_module(name).run(options)
            ]
        except Skipped as reason:
            skipped.append(f"{name}: not measured: {reason}")
            continue
        rows += benchmark_rows
        print_rows(benchmark_rows)
        # Write after each benchmark, so that an interrupt loses no rows.
        files.write_rows(options.output / "bench.csv", COLUMNS, rows)
    print(*skipped, sep="\n")
    if rows:
        write_figure(rows, options.output)


def print_rows(rows: list[dict]) -> None:
    """Print rows of the table."""
    for row in rows:
        verdict = {None: "", True: "met", False: "NOT met"}[row["met"]]
        project_value, baseline, ratio = (
            format_number(row[key]) for key in ("ours", "baseline", "ratio")
        )
        print(
            f"{row['benchmark']:<11}{row['what']:<74}{project_value:>9}{baseline:>10} {row['unit']:<14}",
            end="",
        )
        print(f"{ratio:>8}  {row['target']:<16}{verdict}", flush=True)


def format_number(value: float | None) -> str:
    """A number below 1000 with three significant digits, a larger number without decimals; "" for
    None."""
    return "" if value is None else f"{value:,.3g}" if value < 999.5 else f"{value:,.0f}"


def write_figure(rows: list[dict], folder: Path) -> None:
    """Draw the rows that have a target, except a target of 0, as bench.pdf and bench.png."""
    from hardgrpo.report import plotting  # imports matplotlib, which no benchmark needs

    target_rows = [
        row | compare_with_target(row)
        for row in rows
        if row["target"] and not row["target"].endswith("== 0")
    ]
    if target_rows:
        plotting.save(
            *draw(plotting, target_rows), [str(folder / f"bench.{kind}") for kind in ("pdf", "png")]
        )
    print(folder / "bench.csv", folder / "bench.pdf" if target_rows else "")


def compare_with_target(row: dict) -> dict:
    """`times`: how good the measurement is relative to its target (1: target just met, 2: twice as
    good). `label`: measurement and target in words."""
    quantity, sign, limit = row["target"].split()
    value, limit = row[quantity], float(limit)
    unit = "" if quantity == "ratio" else f" {row['unit']}"
    return {
        "times": value / limit if sign == ">=" else limit / value,
        "label": f"{format_number(value)}, {'at least' if sign == '>=' else 'at most'} {limit:,g}{unit}",
    }


def draw(plotting, rows: list[dict]):
    """(figure, frame of the rows). The figure shows `times` of each row on a logarithmic scale."""
    frame = plotting.pd.DataFrame(rows, columns=[*COLUMNS, "times", "label"])
    figure, (axis,) = plotting.panels(1, height=0.3 + 0.2 * len(frame), columns=1)
    figure.set_figwidth(plotting.WIDE)
    places = range(len(frame))[::-1]
    axis.barh(
        places, frame.times - 1, left=1, color=frame.met.map({True: "#009E73", False: "#D55E00"})
    )
    for place, row in zip(places, frame.itertuples()):
        annotation = {
            "xytext": (3, 0),
            "textcoords": "offset points",
            "va": "center",
            "fontsize": 6,
        }
        axis.annotate(row.label, (max(row.times, 1), place), **annotation)
    axis.axvline(1, color="black", linewidth=0.6)
    axis.set_xscale("log")
    low, high = min(0.9, frame.times.min() / 1.1), max(frame.times.max(), 2)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlim(low, high**1.6)  # room for the labels
    axis.set_ylim(-0.7, len(frame) - 0.3)
    axis.set_yticks(
        places, [f"{row.benchmark}: {row.what}" for row in frame.itertuples()], fontsize=6
    )
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("times as good as the target (1: just met)")
    return figure, frame


if __name__ == "__main__":
    errors.run(main)
