"""Show short tables of a study's results, and the files to open.

python scripts/paper/show_results.py --study mini --tables results/summaries/mini/*.csv
"""

from hardgrpo.analysis import arms
from hardgrpo.analysis.columns import CELL, RUNS, interval
from hardgrpo.analysis.formats import change, change_interval, points, round_parts, with_interval
from hardgrpo.report import latex
from hardgrpo.runtime import errors, files

import argparse
from pathlib import Path


def show(text: str = "") -> None:
    """Print lines. Control characters, which names in tables may contain, are escaped."""
    print("\n".join(map(errors.printable, text.split("\n"))))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True)
    parser.add_argument("--own-bases", action="store_true", help="each seed has its own base model")
    parser.add_argument(
        "--first-recipe", default="", help="the study's first recipe; labels of arms omit its name"
    )
    parser.add_argument(
        "--no-tex", action="store_true", help="TeX is missing: print how to install TeX"
    )
    parser.add_argument("--agreement", help="CSV that compares this study with its reference")
    files.add_tables(parser)
    args = parser.parse_args()

    tables = args.tables
    if "gains" not in tables or not tables["gains"].is_file():
        return  # the workflow ended before it made the summaries
    if not files.read_rows(tables["gains"], {"task": str}):
        show(
            f"\nStudy {args.study}: no trained runs; tables: {tables['gains'].parent}/difficulty.csv and subsets.csv"
        )
        show_trajectories(tables["trajectories"])
        look_at(args.study, args.no_tex)
        return
    gains = read(
        tables["gains"], [*CELL, "decoding"], ["base_accuracy", *interval("gain"), "seeds"]
    )
    first_recipe = arms.default_recipe(args.first_recipe, [row["recipe"] for row in gains])
    show(
        f"\nStudy {args.study}: gains over the base model, in points with 95 % intervals; a sampled gain is finishing plus correctness"
    )
    show_gains(
        [row for row in gains if row["task"] == row["eval_task"]],
        {cell(row): row for row in read(tables["parts"], CELL, ["finishing", "correctness"])},
        leads_over_random(Path("paper", args.study, "against_random.csv")),
        first_recipe,
    )
    seeds = gains[0]["seeds"]
    if seeds == 1:
        show("\nOne seed: the intervals are over problems only and say nothing about another run.")
    else:
        bases = "new base models of this kind, " if args.own_bases else ""
        show(f"\n{seeds:.0f} seeds; the intervals cover {bases}new seeds and new problems.")
    if args.agreement:
        show_agreement(args.agreement, first_recipe)
    look_at(args.study, args.no_tex)


def cell(row: dict) -> tuple[str, ...]:
    return tuple(row[name] for name in CELL)


def leads_over_random(path: Path) -> dict[tuple, tuple[str, str]]:
    """{(model, task, policy, recipe): (lead over a random choice of the same number of prompts with
    its interval, verdict)}; {} if the file does not exist."""
    numbers = ["difference", "low", "high"]
    rows = read(path, [*RUNS, "verdict"], numbers) if path.is_file() else []
    return {
        tuple(row[name] for name in RUNS): (
            change_interval(*(row[name] for name in numbers)),
            row["verdict"],
        )
        for row in rows
    }


def show_gains(
    rows: list[dict],
    parts: dict[tuple, dict],
    leads: dict[tuple, tuple[str, str]],
    first_recipe: str,
) -> None:
    """Show a table of gains for each model and task. `rows` are the gains on the task's own test,
    sampled and greedy."""
    greedy_rows = {cell(row): row for row in rows if row["decoding"] == "greedy"}
    label = lambda row: arms.label(row["policy"], row["recipe"], first_recipe)
    width = 2 + max([len("policy"), *(len(label(row)) for row in rows)])
    for model, task in dict.fromkeys(
        (row["model"], row["task"]) for row in rows if row["decoding"] == "sampled"
    ):
        group = [
            row
            for row in rows
            if (row["model"], row["task"], row["decoding"]) == (model, task, "sampled")
        ]
        bases = [f"{points(group[0]['base_accuracy'])} % sampled"]
        bases += [
            f"{points(greedy_rows[cell(row)]['base_accuracy'])} % greedy"
            for row in group[:1]
            if cell(row) in greedy_rows
        ]
        show(f"\n{task}, {model}: base model {', '.join(bases)}\n")
        head = f"{'policy':<{width}}{'gain, sampled':<21}{'minus random':<21}{'gain, greedy':<21}{'finishing':<11}{'verdict (Holm)':<19}"
        show(head + "\n" + "-" * len(head))
        for row in group:
            finishing, _ = round_parts(
                row["gain"], [parts[cell(row)][name] for name in ("finishing", "correctness")]
            )
            greedy_row = greedy_rows.get(cell(row))
            greedy_gain = change_interval(*spread(greedy_row, "gain")) if greedy_row else "-"
            lead, verdict = leads.get((model, task, row["policy"], row["recipe"]), ("-", ""))
            show(
                f"{label(row):<{width}}{change_interval(*spread(row, 'gain')):<21}{lead:<21}{greedy_gain:<21}{change(finishing, '-'):<11}{verdict}"
            )


def show_trajectories(path: str | Path) -> None:
    """Show the outcomes of groups of recorded training runs, if the study has such runs: in the
    later epochs, those by which no policy chooses."""
    numbers = [column for name in ("mixed", "all_right", "all_wrong") for column in interval(name)]
    rows = files.read_rows(
        path, {"model": str, "policy": str, "stretch": str} | dict.fromkeys(numbers, float)
    )
    rows = [row for row in rows if row["stretch"] is None]
    if not rows:
        return
    header = f"{'model':<34}{'policy':<16}{'learnable':<20}{'all right':<20}{'all wrong':<20}"
    show(
        "\nGroups in the later epochs (by which no policy chooses) of a recorded training run, per cent, with 95 % intervals for new prompts in this run\n"
    )
    show(header + "\n" + "-" * len(header))
    for row in rows:
        shares = (with_interval(*spread(row, name)) for name in ("mixed", "all_right", "all_wrong"))
        show(f"{row['model']:<34}{row['policy']:<16}" + "".join(f"{share:<20}" for share in shares))


def look_at(study: str, no_tex: bool) -> None:
    """List the files of a study. The last line names the file to open first."""
    paper = Path("paper") / study
    contents = {
        "worth.html": "was it worth it: the gain, its parts and its cost, for each arm",
        "supplement.pdf": "figures and tables of the study, as a document",
        "figures": "figures, as PDF, PNG and CSV",
        "tables": "tables, as LaTeX, HTML and CSV",
        "claims.csv": "the papers' claims, each with its test; primary claims also with a verdict",
        "explorer.html": "completions after training, beside the base model's completions",
    }
    first_file, *other_files = [paper / name for name in contents if (paper / name).exists()] or [
        None
    ]
    if other_files:
        show("\nAlso:")
    for path in other_files:
        show(f"  {path}  ({contents[path.name]})")
    if no_tex and not (paper / "supplement.pdf").exists():
        show(
            f"  no PDF: {latex.INSTALL}, then: .venv/bin/snakemake supplement --profile laptop --config study={study}"
        )
    if first_file:
        show(f"\nOpen first: {first_file}  ({contents[first_file.name]})")


def read(path: str | Path, text: list[str], numbers: list[str]) -> list[dict]:
    return files.read_rows(path, dict.fromkeys(text, str) | dict.fromkeys(numbers, float))


def spread(row: dict, name: str) -> list[float]:
    """An estimate and the ends of its interval."""
    return [row[column] for column in interval(name)]


def show_agreement(path: str, first_recipe: str) -> None:
    """Show the local gains beside the gains of the committed reference. Then show how many cells
    only one of the two has, and how many of the remaining cells have seeds that only one of the two
    has."""
    numbers = [
        "gain_reference",
        "gain_here",
        *interval("difference"),
        "seeds",
        "seeds_only_here",
        "seeds_only_reference",
    ]
    all_rows = read(path, [*CELL, "files"], [*numbers, "leaves_zero_out"])
    for row in all_rows:
        row["arm"] = arms.label(row["policy"], row["recipe"], first_recipe)
    rows = [row for row in all_rows if row["seeds"]]
    if rows:
        show_compared(rows)
    else:
        show(
            "\nThe committed reference and this study have no seed in common in any cell, so there is nothing to compare."
        )
    common = [
        row
        for row in all_rows
        if all(row["seeds"] + row[name] for name in ("seeds_only_here", "seeds_only_reference"))
    ]
    unmatched = [row for row in all_rows if row not in common]
    if unmatched:
        local = sum(row["seeds_only_here"] > 0 for row in unmatched)
        show(
            f"Cells not compared: {local} only here, {len(unmatched) - local} only in the reference."
        )
    local, reference = (
        sum(row[name] > 0 for row in common) for name in ("seeds_only_here", "seeds_only_reference")
    )
    if local or reference:
        show(
            f"Cells with seeds that were not compared: {local} with seeds only here, {reference} with seeds only in the reference."
        )
    for compared_files in {row["files"]: None for row in all_rows if row["files"]}:
        show(f"Files of the runs (weights, completions, logs, grades): {compared_files}.")
    show(f"The table is in {path}.")


def show_compared(rows: list[dict]) -> None:
    """Show the cells in which the local study and the reference have a seed in common, and the
    number of intervals that exclude zero."""
    header = {"model": "model", "task": "trained on", "eval_task": "tested on", "arm": "policy"}
    widths = {name: 2 + max(len(row[name]) for row in [header, *rows]) for name in header}
    widths["model"] *= len({row["model"] for row in rows}) > 1
    names = lambda row: "".join(f"{row[name]:<{width}.{width}}" for name, width in widths.items())
    show(
        "\nAgreement with the committed reference: gains in points; difference for the same seeds and problems, with 95 % interval for new seeds\n"
    )
    line = f"{names(header)}{'reference':>10}{'here':>8}  difference"
    show(line + "\n" + "-" * (len(line) + 14))
    for row in rows:
        gains = f"{change(row['gain_reference']):>10}{change(row['gain_here']):>8}"
        show(f"{names(row)}{gains}  {change_interval(*spread(row, 'difference'))}")
    show()
    is_equal = not any(row["difference"] for row in rows)
    if is_equal:
        show("Every compared gain equals that of the reference.")
    intervals = [row for row in rows if row["difference_low"] is not None]
    if intervals:
        nonzero = sum(row["leaves_zero_out"] for row in intervals)
        note = "each is [0, 0]" if is_equal else f"{len(intervals) / 20:.2g} expected by chance"
        show(f"{nonzero:.0f} of {len(intervals)} intervals exclude 0 ({note}).")
    else:
        show("One seed in common, so there are no intervals.")


if __name__ == "__main__":
    errors.run(main)
