"""Every number of the paper's text as a LaTeX macro: \\result{gain.tiny.swaps.swaps.hard.sampled} is '3.1 [1.2, 5.0]'.

    python scripts/write_numbers.py --summaries results/summaries/mini --study '{...}' --output paper/mini/numbers.tex

Design numbers (updates, seeds, K) come from the configuration, results from the summaries, sentences from both.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

from hardgrpo import errors, files, latex
from hardgrpo.latex import escape, points, with_interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summaries", required=True)
    parser.add_argument("--study", required=True, type=json.loads, help="the design, from the configuration")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    folder = Path(args.summaries)
    tables = {}
    for name in ("gains", "learnable", "parts", "subsets", "fit", "claims"):
        files.read_text(folder / f"{name}.csv")
        tables[name] = pd.read_csv(folder / f"{name}.csv", dtype={"model": str, "task": str, "policy": str})
    values = design(args.study) | results(tables) | {"summary": sentences(tables)}
    files.write_text(args.output, latex.macros(values))
    print(f"{args.output}: {len(values)} numbers")


def design(study: dict) -> dict[str, str]:
    recipe = study["recipe"]
    return {
        "title": escape(study["title"]),
        "study": escape(study["study"]),
        "tasks": escape(listed(study["tasks"])),
        "policies": escape(listed(study["policies"])),
        "seeds": str(study["seeds"]),
        "budget": f"{100 * study['budget']:g}\\,\\%" if study["budget"] else "--",
        "probe.samples": str(study["probe_samples"]),
        "test.samples": str(study["test_samples"]),
        "limits": escape(listed([f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()])),
    } | {f"recipe.{key}": escape(value) for key, value in recipe.items()}


def results(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    values = {}
    for r in tables["gains"].itertuples():
        key = f"{cell(r)}.{r.decoding}"
        values[f"gain.{key}"] = with_interval(r.gain, r.gain_low, r.gain_high)
        values[f"base.{r.model}.{r.eval_task}.{r.decoding}"] = points(r.base_accuracy)
    for r in tables["learnable"].itertuples():
        values[f"learnable.{r.model}.{r.task}.{r.policy}"] = with_interval(r.learnable, r.learnable_low, r.learnable_high)
    for r in tables["parts"].itertuples():
        for part in ("finishing", "correctness"):
            estimate = (getattr(r, f"{part}{end}") for end in ("", "_low", "_high"))
            values[f"{part}.{cell(r)}"] = with_interval(*estimate)
    for r in tables["subsets"].itertuples():
        values[f"zero.{r.model}.{r.task}.{r.policy}"] = points(r.zero_share)
    for r in tables["fit"].itertuples():
        values[f"fit.{r.task}"] = f"{r.r_squared:.2f} [{r.r_squared_low:.2f}, {r.r_squared_high:.2f}]"
    return values


def cell(row) -> str:
    return f"{row.model}.{row.task}.{row.eval_task}.{row.policy}"


def sentences(tables: dict[str, pd.DataFrame]) -> str:
    """One paragraph a task: what happened, in the words that the numbers allow."""
    gains, claims = tables["gains"], tables["claims"]
    at_home = gains[(gains.task == gains.eval_task) & (gains.decoding == "sampled")]
    paragraphs = []
    for (model, task), group in at_home.groupby(["model", "task"], sort=False):
        gained = [f"{escape(r.policy)} {with_interval(r.gain, r.gain_low, r.gain_high)}" for r in group.itertuples()]
        text = (
            f"\\textbf{{{escape(task)}}} ({escape(model)}, {points(group.base_accuracy.iloc[0])}\\,\\% before). Gains in points: "
        )
        text += f"{listed(gained)}. "
        parts = tables["parts"]
        for r in parts[(parts.model == model) & (parts.task == task) & (parts.eval_task == task)].itertuples():
            text += (
                f"Of '{escape(r.policy)}', {points(r.finishing)} are finishing and {points(r.correctness)} correctness"
                f" (answered {points(r.base_answered)} $\\to$ {points(r.answered)}\\,\\%). "
            )
        zero = tables["subsets"][(tables["subsets"].model == model) & (tables["subsets"].task == task)]
        if len(zero):
            shares = [f"{escape(r.policy)} {points(r.zero_share)}\\,\\%" for r in zero.itertuples()]
            text += f"Never solved by the base model: {listed(shares)}. "
        for r in claims[
            (claims.model == model) & (claims.task == task) & (claims.eval_task == task) & (claims.paper != "here")
        ].itertuples():
            text += f"Claim ({r.paper}) that {escape(r.claim)}: {r.verdict} here, {escape(r.test)} = {with_interval(r.estimate, r.low, r.high)}. "
        paragraphs.append(text.strip())
    return "\n\n".join(paragraphs)


def listed(items: list[str]) -> str:
    return ", ".join(items)


if __name__ == "__main__":
    errors.run(main)
