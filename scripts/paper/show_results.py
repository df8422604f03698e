"""Show short tables of a study's results, and the files to open.

python scripts/paper/show_results.py --study mini --tables results/summaries/mini/*.csv
"""

from hardgrpo.analysis import arms
from hardgrpo.analysis.columns import CELL, RUNS, interval
from hardgrpo.analysis.formats import change, change_interval, points, round_parts, with_interval
from hardgrpo.report import latex
from hardgrpo.runtime import errors, files

from pathlib import Path


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
    recipes = [row["recipe"] for row in files.read_rows(tables["gains"], {"recipe": str})]
    first_recipe = arms.default_recipe(args.first_recipe, recipes)
    show(
        f"\nStudy {args.study}: gains over the base model, in points with 95 % intervals; a sampled gain is finishing plus correctness"
    )
    seeds = show_gains(tables, Path("paper", args.study, "against_random.csv"), first_recipe)
    if seeds == 1:
        show("\nOne seed: the intervals are over problems only and say nothing about another run.")
    else:
        bases = "new base models of this kind, " if args.own_bases else ""
        show(f"\n{seeds:.0f} seeds; the intervals cover {bases}new seeds and new problems.")
    if args.agreement:
        show_agreement(args.agreement, first_recipe)
    look_at(args.study, args.no_tex)


def show_table(rows: list[dict[str, str]]) -> None:
    """Show rows with the same keys, which are the headers."""
    lines = [dict(zip(rows[0], rows[0])), *rows]
    widths = {name: 2 + max(len(line[name]) for line in lines) for name in rows[0]}
    texts = ["".join(f"{line[name]:<{widths[name]}}" for name in widths).rstrip() for line in lines]
    show("\n".join([texts[0], "-" * sum(widths.values()), *texts[1:]]))


def show_gains(tables: files.Tables, against_random: Path, first_recipe: str) -> float:
    """Show a table of gains on the task's own test for each model and task, with the leads over a
    random choice if the study has such a table. Return the number of seeds."""
    numbers = ["base_accuracy", *interval("gain"), "seeds"]
    gains = read(tables["gains"], [*CELL, "decoding"], numbers)
    cell = lambda row: tuple(row[name] for name in CELL)
    parts = {cell(row): row for row in read(tables["parts"], CELL, ["finishing", "correctness"])}
    leads = {}
    if against_random.is_file():
        for row in read(against_random, [*RUNS, "verdict"], ["difference", "low", "high"]):
            lead = change_interval(row["difference"], row["low"], row["high"])
            leads[tuple(row[name] for name in RUNS)] = lead, row["verdict"]
    groups: dict[tuple, dict] = {}
    for row in gains:
        if row["task"] == row["eval_task"]:
            by_cell = groups.setdefault((row["task"], row["model"]), {})
            by_cell.setdefault(cell(row), {})[row["decoding"]] = row
    for (task, model), by_cell in groups.items():
        bases = next(iter(by_cell.values()))
        texts = [f"{points(row['base_accuracy'])} % {name}" for name, row in bases.items()]
        show(f"\n{task}, {model}: base model {', '.join(texts)}\n")
        rows = []
        for key, by_decoding in by_cell.items():
            row, greedy = by_decoding["sampled"], by_decoding.get("greedy")
            names = ("finishing", "correctness")
            finishing, _ = round_parts(row["gain"], [parts[key][name] for name in names])
            lead, verdict = leads.get(tuple(row[name] for name in RUNS), ("-", ""))
            rows.append(
                {
                    "policy": arms.label(row["policy"], row["recipe"], first_recipe),
                    "gain, sampled": change_interval(*spread(row, "gain")),
                    "minus random": lead,
                    "gain, greedy": change_interval(*spread(greedy, "gain")) if greedy else "-",
                    "finishing": change(finishing, "-"),
                    "verdict (Holm)": verdict,
                }
            )
        show_table(rows)
    return gains[0]["seeds"]


def show_trajectories(path: str | Path) -> None:
    """Show the outcomes of groups of recorded training runs, if the study has such runs: in the
    later epochs, those by which no policy chooses."""
    outcomes = {"learnable": "mixed", "all right": "all_right", "all wrong": "all_wrong"}
    numbers = [column for name in outcomes.values() for column in interval(name)]
    names = dict.fromkeys(("model", "policy", "stretch"), str)
    rows = [
        {"model": row["model"], "policy": row["policy"]}
        | {header: with_interval(*spread(row, name)) for header, name in outcomes.items()}
        for row in files.read_rows(path, names | dict.fromkeys(numbers, float))
        if row["stretch"] is None
    ]
    if rows:
        show(
            "\nGroups in the later epochs (by which no policy chooses) of a recorded training run, per cent, with 95 % intervals for new prompts in this run\n"
        )
        show_table(rows)


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
    only = ("seeds_only_here", "seeds_only_reference")
    numbers = ["gain_reference", "gain_here", *interval("difference"), "seeds", *only]
    cells = read(path, [*CELL, "files"], [*numbers, "leaves_zero_out"])
    compared = [row for row in cells if row["seeds"]]
    if compared:
        show_compared(compared, first_recipe)
    else:
        show(
            "\nThe committed reference and this study have no seed in common in any cell, so there is nothing to compare."
        )
    is_common = lambda row: all(row["seeds"] + row[name] for name in only)
    unmatched = [row for row in cells if not is_common(row)]
    if unmatched:
        local = sum(row["seeds_only_here"] > 0 for row in unmatched)
        show(
            f"Cells not compared: {local} only here, {len(unmatched) - local} only in the reference."
        )
    local, reference = (sum(row[name] > 0 for row in cells if is_common(row)) for name in only)
    if local or reference:
        show(
            f"Cells with seeds that were not compared: {local} with seeds only here, {reference} with seeds only in the reference."
        )
    for compared_files in {row["files"]: None for row in cells if row["files"]}:
        show(f"Files of the runs (weights, completions, logs, grades): {compared_files}.")
    show(f"The table is in {path}.")


def show_compared(rows: list[dict], first_recipe: str) -> None:
    """Show the cells in which the local study and the reference have a seed in common, and the
    number of intervals that exclude zero."""
    show(
        "\nAgreement with the committed reference: gains in points; difference for the same seeds and problems, with 95 % interval for new seeds\n"
    )
    has_models = len({row["model"] for row in rows}) > 1
    show_table(
        [
            ({"model": row["model"]} if has_models else {})
            | {
                "trained on": row["task"],
                "tested on": row["eval_task"],
                "policy": arms.label(row["policy"], row["recipe"], first_recipe),
                "reference": change(row["gain_reference"]),
                "here": change(row["gain_here"]),
                "difference": change_interval(*spread(row, "difference")),
            }
            for row in rows
        ]
    )
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
