"""Put the reference studies' results into README.md, between its two markers, from the committed summaries.

python scripts/maintenance/write_readme.py --readme README.md --figures paper
"""

import argparse
import shutil
from pathlib import Path

import pandas as pd
import yaml

from hardgrpo.analysis import claims, summaries
from hardgrpo.analysis.formats import change
from hardgrpo.analysis.verdicts import Study
from hardgrpo.report import registry
from hardgrpo.runtime import errors, files
from hardgrpo.study import paths

ROOT = Path(__file__).parents[2]

REFERENCE, TRUNCATION = Path("results/reference/mini_reference"), Path("results/reference/mini_truncation")
FIGURES = {"accuracy.png": REFERENCE.name, "truncation.png": TRUNCATION.name}
START, END = "<!-- results: ", "<!-- end of results -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readme", default="README.md")
    parser.add_argument("--figures", help="folder of the studies' figures, to copy those that it shows")
    args = parser.parse_args()
    text = files.read_text(args.readme)
    if START not in text or END not in text:
        raise errors.UserError(
            f"{args.readme}: the markers '{START}...' and '{END}' are missing; put them where the results belong"
        )
    for figure, study in FIGURES.items() if args.figures else []:
        with files.atomic(Path("docs/images") / figure) as temporary:
            shutil.copyfile(Path(args.figures) / study / "figures" / figure, temporary)
    files.write_text(args.readme, insert(text, section(REFERENCE, TRUNCATION)))


def insert(text: str, results: str) -> str:
    head, rest = text.split(START, 1)
    marker = rest.split("\n", 1)[0]
    return f"{head}{START}{marker}\n\n{results}\n{END}{text.split(END, 1)[1]}"


def judged(folder: Path) -> pd.DataFrame:
    """The claims, judged by a study's committed summaries."""
    config = yaml.safe_load(files.read_text(ROOT / "config.yaml"))
    conditions = paths.conditions(config, folder.name)
    entry = registry.JUDGED["claims"]
    tables = summaries.read_tables(files.Tables.below(folder), entry.of)
    study = Study(tables, conditions["tasks"], conditions["weaker"])
    return pd.DataFrame(files.rounded(claims.judge(claims.read(ROOT / "paper/claims.yaml"), study)), columns=entry.columns)


def section(folder: Path, truncation: Path) -> str:
    """The results in Markdown: the ten-seed miniature's table, the claims that it decides, and the two limits."""
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in ("gains", "learnable", "parts", "subsets")}
    tables["claims"] = judged(folder)
    gains = tables["gains"]
    gains = gains[(gains.task == gains.eval_task) & (gains.decoding == "sampled")]
    seeds, problems = int(gains.seeds.iloc[0]), int(gains.problems.iloc[0])
    lines = [
        "## What it found here",
        "",
        f"Study `{folder.name}` is the miniature of `make demo` with {seeds} seeds: three cannot resolve what it asks.",
        "",
        "![Accuracy by checkpoint and policy, with 95 % intervals](docs/images/accuracy.png)",
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
            f"| {change(part.finishing, '-')} | {change(part.correctness, '-')} | {100 * same('learnable').learnable.iloc[0]:.1f} "
            f"| {100 * same('subsets').zero_share.iloc[0]:.1f} |"
        )
    lines += [
        "",
        verdicts(tables["claims"]) + " What decides those that are not undecided (points, paired by problem and seed):",
        "",
    ]
    lines += ["| paper | task | claim | test | estimate | verdict |", "|---|---|---|---|---|---|"]
    for row in tables["claims"].itertuples():
        if row.paper == "here" or row.verdict == "undecided":
            continue
        task = row.task if row.task == row.eval_task else f"{row.task} → {row.eval_task}"
        figure = spread(row.estimate, row.low, row.high)
        if "R^2" in row.test:
            figure = f"{row.estimate:.2f} [{row.low:.2f}, {row.high:.2f}]"
        lines.append(f"| {row.paper} | {task} | {row.claim} | {row.test.replace('R^2', 'R²')} | {figure} | {row.verdict} |")
    return "\n".join([*lines, "", *limits(truncation), ""])


def limits(folder: Path) -> list[str]:
    """The same runs tested under two completion limits."""
    parts = pd.read_csv(folder / "parts.csv")
    seeds, problems = int(parts.seeds.iloc[0]), int(parts.problems.iloc[0])
    tests = list(dict.fromkeys(parts.task))
    base = {test: parts[parts.eval_task == test].iloc[0] for test in tests}
    said = ", ".join(
        f"{100 * row.base_accuracy:.1f} % right and {100 * row.base_answered:.1f} % answered on {test}"
        for test, row in base.items()
    )
    lines = [
        "### A completion limit alone can make the published picture",
        "",
        f"Study `{folder.name}`: a base model that writes the same solution short or long ({said}: the same problems under a tight"
        f" limit and with room), {seeds} seeds, {problems} problems. Points, finishing and correctness add up to the gain.",
        "",
        "![Gain by policy and limit, split into finishing and correctness](docs/images/truncation.png)",
        "",
        "| trained on | policy | " + " | ".join(f"gain on {test} | finishing | correctness" for test in tests) + " |",
        "|---|---|" + "---|---|---|" * len(tests),
    ]
    for (task, policy), group in parts.groupby(["task", "policy"], sort=False):
        cells = []
        for test in tests:
            row = group[group.eval_task == test].iloc[0]
            cells += [change(row.gain), spread(row.finishing, row.finishing_low, row.finishing_high)]
            cells.append(spread(row.correctness, row.correctness_low, row.correctness_high))
        lines.append(f"| {task} | {policy} | {' | '.join(cells)} |")
    lines += ["", "The mechanism is built in: this shows that a limit suffices, not that it is what happened in any other study."]
    return lines


def verdicts(claims: pd.DataFrame) -> str:
    """How the two papers' claims came out, in numbers."""
    claims = claims[claims.paper != "here"]
    counts = [f"{(claims.verdict == verdict).sum()} {verdict}" for verdict in ("supported", "contradicted", "undecided")]
    return f"Of the papers' claims, counted by task, {', '.join(counts)} at this scale."


def spread(value: float, low: float, high: float) -> str:
    return f"{change(value)} [{change(low)}, {change(high)}]"


if __name__ == "__main__":
    errors.run(main)
