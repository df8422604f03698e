"""Put the miniature's results into README.md, between its two markers, from the committed summaries.

python scripts/write_readme.py --summaries results/summaries/mini --readme README.md
"""

import argparse
import shutil
from pathlib import Path

import pandas as pd

from hardgrpo import errors, files

FIGURES = ("accuracy.png", "parts.png", "learnable.png")
START, END = "<!-- results: ", "<!-- end of results -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summaries", default="results/summaries/mini")
    parser.add_argument("--readme", default="README.md")
    parser.add_argument("--figures", help="folder of the study's figures")
    args = parser.parse_args()
    text = files.read_text(args.readme)
    if START not in text or END not in text:
        raise errors.UserError(
            f"{args.readme}: the markers '{START}...' and '{END}' are missing; put them where the results belong"
        )
    for figure in FIGURES if args.figures else []:
        with files.atomic(Path("docs/images") / figure) as temporary:
            shutil.copyfile(Path(args.figures) / figure, temporary)
    files.write_text(args.readme, insert(text, section(Path(args.summaries))))


def insert(text: str, results: str) -> str:
    head, rest = text.split(START, 1)
    marker = rest.split("\n", 1)[0]
    return f"{head}{START}{marker}\n\n{results}\n{END}{text.split(END, 1)[1]}"


def section(folder: Path) -> str:
    """The results in Markdown: figures, a table a task, and the claims with their verdicts."""
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in ("gains", "learnable", "parts", "subsets", "claims", "parity")}
    gains = tables["gains"]
    gains = gains[(gains.task == gains.eval_task) & (gains.decoding == "sampled")]
    seeds, problems = int(gains.seeds.iloc[0]), int(gains.problems.iloc[0])
    lines = [
        "## What it made here",
        "",
        "![Accuracy by checkpoint and policy, with 95 % intervals](docs/images/accuracy.png)",
        "",
        "![What the gains are made of: finishing and correctness](docs/images/parts.png)",
        "",
        "![Learnable share against gain, with R² over all cells and within each task](docs/images/learnable.png)",
        "",
        f"Gain in points after {int(gains.step.iloc[0])} updates, with 95 % interval ({seeds} seeds, {problems} test problems a task);"
        " of the subset: learnable % during training and the share that the base model never solved.",
        "",
        "| task | policy | base % | gain | finishing | correctness | learnable % | p̂ = 0 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in gains.itertuples():
        same = lambda name, row=row: tables[name][(tables[name].task == row.task) & (tables[name].policy == row.policy)]
        parts = same("parts")
        part = parts[parts.eval_task == row.task].iloc[0]
        lines.append(
            f"| {row.task} | {row.policy} | {100 * row.base_accuracy:.1f} | {spread(row.gain, row.gain_low, row.gain_high)} "
            f"| {points(part.finishing)} | {points(part.correctness)} | {100 * same('learnable').learnable.iloc[0]:.1f} "
            f"| {100 * same('subsets').zero_share.iloc[0]:.1f} |"
        )
    lines += ["", "The papers' claims at this scale (difference in points, paired by problem and seed):", ""]
    lines += ["| paper | task | claim | test | estimate | verdict |", "|---|---|---|---|---|---|"]
    for row in tables["claims"].itertuples():
        if row.paper == "here":
            continue
        r2 = "R^2" in row.test
        task = row.task if row.task == row.eval_task else f"{row.task} → {row.eval_task}"
        figure = f"{row.estimate:.2f} [{row.low:.2f}, {row.high:.2f}]" if r2 else spread(row.estimate, row.low, row.high)
        lines.append(
            f"| {row.paper} | {task} | {row.claim} | {row.test.replace('R^2', 'R²').replace('|', '¦')} | {figure} | {row.verdict} |"
        )
    return "\n".join([*lines, "", *verdicts(tables["claims"]), ""])


def verdicts(claims: pd.DataFrame) -> list[str]:
    """A sentence a task: what of the two papers' claims the numbers support and contradict, and how many they leave open."""
    claims = claims[claims.paper != "here"]
    sentences = []
    for task in dict.fromkeys(claims.task):
        here, said = claims[claims.task == task], []
        for verdict, verb in (("supported", "support"), ("contradicted", "contradict")):
            which = [f"{row.claim} ({row.paper})" for row in here[here.verdict == verdict].itertuples()]
            if which:
                said.append(f"{verb} that {'; that '.join(which)}")
        said.append(f"leave {(here.verdict == 'undecided').sum()} of {len(here)} claims undecided")
        sentences.append(f"- {'Over all cells' if task == 'all' else f'On {task}'} the numbers {', and '.join(said)}.")
    return sentences


def points(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f}"


def spread(value: float, low: float, high: float) -> str:
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


if __name__ == "__main__":
    errors.run(main)
