"""Show short tables of a study's results, and the files to open.

python scripts/paper/show_results.py --study mini --tables results/summaries/mini/*.csv
"""

from hardgrpo.analysis import arms, random_choice, summaries
from hardgrpo.analysis.columns import interval
from hardgrpo.analysis.formats import change, change_interval
from hardgrpo.report import latex, tables, worth
from hardgrpo.runtime import errors, files

from pathlib import Path

import pandas as pd

SHOWN = ("gain, sampled", "minus random", "gain, greedy", "finishing")  # columns of worth.html


def show(text: str = "") -> None:
    """Print lines. Control characters, which names in tables may contain, are escaped."""
    print("\n".join(map(errors.printable, text.split("\n"))))


def main() -> None:
    parser = errors.parser(__doc__, "--study")
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

    if "gains" not in args.tables or not args.tables["gains"].is_file():
        return  # the workflow ended before it made the summaries
    gains = summaries.read_labelled(args.tables["gains"], args.first_recipe)
    if gains.empty:
        show(
            f"\nStudy {args.study}: no trained runs; tables: {args.tables['gains'].parent}/difficulty.csv and subsets.csv"
        )
        show_trajectories(args.tables)
        look_at(args.study, args.no_tex)
        return
    show(
        f"\nStudy {args.study}: gains over the base model, in points with 95 % intervals; a sampled gain is finishing plus correctness"
    )
    show_gains(args.study, args.tables, args.first_recipe)
    seeds = gains.seeds.iloc[0]
    if seeds == 1:
        show("\nOne seed: the intervals are over problems only and say nothing about another run.")
    else:
        bases = "new base models of this kind, " if args.own_bases else ""
        show(f"\n{seeds:.0f} seeds; the intervals cover {bases}new seeds and new problems.")
    if args.agreement:
        first_recipe = arms.default_recipe(args.first_recipe, gains.recipe)
        show_agreement(args.agreement, first_recipe)
    look_at(args.study, args.no_tex)


def show_table(frame: pd.DataFrame) -> None:
    """Show a table of texts. Narrow spaces, which `show` would escape, become spaces."""
    lines = [list(frame), *frame.itertuples(index=False)]
    lines = [[cell.replace("\N{NARROW NO-BREAK SPACE}", " ") for cell in line] for line in lines]
    widths = [2 + max(map(len, cells)) for cells in zip(*lines)]
    texts = ["".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    show("\n".join([texts[0], "-" * sum(widths), *texts[1:]]))


def show_gains(study: str, paths: files.Tables, first_recipe: str) -> None:
    """Show a table of gains on the task's own test for each model and task."""
    path = Path("paper", study, "against_random.csv")
    leads = pd.DataFrame(columns=random_choice.COLUMNS)
    frames = {"against_random": summaries.read(path) if path.is_file() else leads}
    names = [name for name in worth.TABLES if name not in frames]
    frames |= summaries.read_all(paths, names, first_recipe)
    for group in worth.entries_by_model_and_task(**frames):
        entries = group["arms"]
        base = entries[0]["cells"]["before (%)"]
        show(f"\n{group['task']}, {group['model']}: base model {base} % right, sampled\n")
        columns = {"policy": [entry["name"] for entry in entries]}
        columns |= {name: [entry["cells"][name] or "-" for entry in entries] for name in SHOWN}
        columns["verdict (Holm)"] = [entry["lead_verdict"] for entry in entries]
        show_table(pd.DataFrame(columns))


def show_trajectories(paths: files.Tables) -> None:
    """Show the supplement's table of recorded training runs, if the study has such runs."""
    frames = summaries.read_all(paths, ["trajectories"], "")
    rows, columns = tables.make("trajectories", frames, {})
    if len(rows):
        show(f"\n{tables.plain_text(tables.TABLES['trajectories'].caption)}\n")
        show_table(tables.to_frame(columns, are_constant_shown=False))


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


def show_agreement(path: str, first_recipe: str) -> None:
    """Show the local gains beside the gains of the committed reference. Then show how many cells
    only one of the two has, and how many of the remaining cells have seeds that only one of the two
    has."""
    cells = summaries.read_labelled(path, first_recipe)
    compared = cells[cells.seeds > 0]
    if len(compared):
        show_compared(compared)
    else:
        show(
            "\nThe committed reference and this study have no seed in common in any cell, so there is nothing to compare."
        )
    only_here = cells.seeds + cells.seeds_only_reference == 0
    only_reference = cells.seeds + cells.seeds_only_here == 0
    if only_here.any() or only_reference.any():
        show(
            f"Cells not compared: {only_here.sum()} only here, {only_reference.sum()} only in the reference."
        )
    both = cells[~(only_here | only_reference)]
    local, referred = (both.seeds_only_here > 0).sum(), (both.seeds_only_reference > 0).sum()
    if local or referred:
        show(
            f"Cells with seeds that were not compared: {local} with seeds only here, {referred} with seeds only in the reference."
        )
    for compared_files in cells.files.dropna().unique():
        show(f"Files of the runs (weights, completions, logs, grades): {compared_files}.")
    show(f"The table is in {path}.")


def show_compared(cells: pd.DataFrame) -> None:
    """Show the cells in which the local study and the reference have a seed in common, and the
    number of intervals that exclude zero."""
    show(
        "\nAgreement with the committed reference: gains in points; difference for the same seeds and problems, with 95 % interval for new seeds\n"
    )
    estimates = cells[interval("difference")].itertuples(index=False)
    frame = cells[["model", "task", "eval_task", "arm"]].set_axis(
        ["model", "trained on", "tested on", "policy"], axis=1
    )
    frame["reference"] = cells.gain_reference.map(change)
    frame["here"] = cells.gain_here.map(change)
    frame["difference"] = [change_interval(*estimate) for estimate in estimates]
    show_table(frame if cells.model.nunique() > 1 else frame.drop(columns="model"))
    show()
    is_equal = not cells.difference.any()
    if is_equal:
        show("Every compared gain equals that of the reference.")
    intervals = cells[cells.difference_low.notna()]
    if len(intervals):
        nonzero = intervals.leaves_zero_out.sum()
        note = "each is [0, 0]" if is_equal else f"{len(intervals) / 20:.2g} expected by chance"
        show(f"{nonzero:.0f} of {len(intervals)} intervals exclude 0 ({note}).")
    else:
        show("One seed in common, so there are no intervals.")


if __name__ == "__main__":
    errors.run(main)
