"""A short table of a study's results, and what to open.

python scripts/paper/show_results.py --study mini --tables results/summaries/mini/*.csv
"""

import argparse
from pathlib import Path

from hardgrpo.analysis.formats import change
from hardgrpo.report import latex
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", required=True)
    parser.add_argument("--no-tex", action="store_true", help="say what to install for the PDF")
    parser.add_argument("--agreement", help="CSV that compares this study with its reference")
    files.add_tables(parser)
    args = parser.parse_args()

    tables = args.tables
    if "gains" not in tables or not tables["gains"].is_file():
        return  # the target was a step before the summaries
    if not files.read_rows(tables["gains"], {"task": str}):
        print(f"\nStudy {args.study}: no trained runs; difficulties and subsets are in results/difficulty and results/subsets")
        return
    number = dict.fromkeys(("base_accuracy", "gain", "gain_low", "gain_high", "seeds", "problems"), float)
    text = dict.fromkeys(("model", "task", "eval_task", "policy", "decoding"), str)
    gains = files.read_rows(tables["gains"], text | number)
    shares = {
        (row["model"], row["task"], row["policy"]): row["learnable"]
        for row in files.read_rows(tables["learnable"], {"model": str, "task": str, "policy": str, "learnable": float})
    }
    columns = dict.fromkeys(("model", "task", "eval_task", "policy"), str) | {"finishing": float, "correctness": float}
    parts = {(r["model"], r["task"], r["eval_task"], r["policy"]): r for r in files.read_rows(tables["parts"], columns)}

    print(f"\nStudy {args.study}: accuracy at temperature 1, gain over the base model in points with 95 % interval\n")
    head = f"{'task':<24}{'policy':<16}{'base %':>7}  {'gain':<22}{'finishing':>10}{'correctness':>12}{'learnable %':>12}"
    print(head + "\n" + "-" * len(head))
    for row in gains:
        if row["decoding"] != "sampled" or row["task"] != row["eval_task"]:
            continue
        part = parts[row["model"], row["task"], row["eval_task"], row["policy"]]
        share = shares.get((row["model"], row["task"], row["policy"]))
        gain = change(row["gain"])
        if row["gain_low"] is not None:
            gain += f" [{change(row['gain_low'])}, {change(row['gain_high'])}]"
        print(
            f"{row['task']:<24}{row['policy']:<16}{100 * row['base_accuracy']:>7.1f}  {gain:<22}{change(part['finishing'], '-'):>10}"
            f"{change(part['correctness'], '-'):>12}" + (f"{100 * share:>12.1f}" if share is not None else f"{'-':>12}")
        )
    seeds = gains[0]["seeds"]
    if seeds == 1:
        print("\nOne run each: the intervals are over problems only and say nothing about another run.")
    else:
        print(f"\n{seeds:.0f} seeds; the intervals cover new seeds and new problems.")
    if args.agreement:
        show_agreement(args.agreement)
    paper = Path("paper") / args.study
    print("\nLook at:")
    for path, what in [
        (paper / "paper.pdf", "the paper"),
        (paper / "verified.txt", "what was verified of the results, and what could not be"),
        (paper / "figures", "figures, PDF and PNG"),
        (paper / "tables", "tables, LaTeX and CSV"),
        (paper / "explorer.html", "every completion beside its base model's"),
        (paper / "claims.csv", "the papers' claims, each with its test and verdict"),
    ]:
        if path.exists():
            print(f"  {path}  ({what})")
    if args.no_tex and not (paper / "paper.pdf").exists():
        print(f"  no PDF: {latex.INSTALL}, then: snakemake paper --profile laptop --config study={args.study}")


def show_agreement(path: str) -> None:
    """The gains here beside those of the committed reference."""
    numbers = dict.fromkeys(("gain_reference", "gain_here", "difference", "difference_low", "difference_high"), float)
    text = dict.fromkeys(("task", "eval_task", "policy", "leaves_zero_out"), str)
    rows = files.read_rows(path, text | numbers)
    print("\nAgreement with the committed reference: gains in points, difference with 95 % interval (same seeds and problems)\n")
    head = f"{'trained on':<18}{'tested on':<18}{'policy':<16}{'reference':>10}{'here':>8}  difference"
    print(head + "\n" + "-" * (len(head) + 14))
    for row in rows:
        known = row["difference_low"] is not None
        interval = f" [{change(row['difference_low'])}, {change(row['difference_high'])}]" if known else ""
        print(
            f"{row['task']:<18}{row['eval_task']:<18}{row['policy']:<16}{change(row['gain_reference']):>10}{change(row['gain_here']):>8}"
            f"  {change(row['difference'])}{interval}"
        )
    if not any(row["difference"] for row in rows):
        print("\nEvery gain is that of the reference: this processor rounds as the one that made it.")
    elif all(row["difference_low"] is None for row in rows):
        print("\nOne seed in common, so there are no intervals.")
    else:
        out = sum(row["leaves_zero_out"] == "1" for row in rows)
        print(f"\nThe interval leaves zero out in {out} of {len(rows)} cells; by chance alone about one in twenty does.")
    print(f"The table stands in {path}.")


if __name__ == "__main__":
    errors.run(main)
