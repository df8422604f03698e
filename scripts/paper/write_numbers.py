"""Every number of the paper's text as a LaTeX macro, and beside it where each comes from.

    python scripts/paper/write_numbers.py --tables results/reference/mini/*.csv paper/mini/claims.csv --study '{...}' --output paper/mini/numbers.tex

`\\result{gain.tiny.swaps.swaps.hard.sampled}` is '+3.1 [1.2, 5.0]'. numbers.csv lists for each macro the summary table, its line, its
columns and how they are written (`written`). Sentences are made of these macros. Design numbers (updates, seeds, K) come from the
configuration and stand in the list without a table.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

from hardgrpo.analysis import formats, summaries
from hardgrpo.report import latex, registry
from hardgrpo.report.latex import escape
from hardgrpo.report.tables.gains import at_home
from hardgrpo.runtime import errors, files

# How the values of a row's columns become text.
FORMATS = {
    "points": formats.points,
    "gain": formats.signed_interval,
    "interval": formats.with_interval,
    "r squared": formats.r_squared,
    "p": formats.probability,
    "count": lambda value: f"{value:.0f}",
}


def written(how: str, *values) -> str:
    return escape(*values) if how == "text" else latex.number(FORMATS[how](*values))


class Numbers:
    """Macros by key, each with its origin."""

    def __init__(self, tables: files.Tables):
        self.values: dict[str, str] = {}
        self.origins: list[dict] = []
        self.tables = {}
        for name in registry.NUMBERED:
            frame = summaries.read(tables[name])
            self.tables[name] = frame.assign(line=range(2, len(frame) + 2))

    def design(self, key: str, text: str) -> None:
        self.values[key] = text
        self.origins.append({"key": key, "text": text, "table": "", "line": "", "columns": "", "written": ""})

    def add(self, key: str, table: str, line: int, columns: list[str], how: str) -> str:
        """Define a macro, unless it is there; its use."""
        if key in self.values:
            return rf"\result{{{key}}}"
        row = self.tables[table].iloc[line - 2]
        self.values[key] = written(how, *(row[column] for column in columns))
        origin = {"table": table, "line": line, "columns": " ".join(columns), "written": how}
        self.origins.append({"key": key, "text": self.values[key]} | origin)
        return rf"\result{{{key}}}"

    def count(self, key: str, table: str, column: str, value: str) -> str:
        """Define how many rows of a table have a value in a column."""
        self.values[key] = str(int((self.tables[table][column] == value).sum()))
        origin = {"table": table, "line": "", "columns": f"{column}={value}", "written": "rows"}
        self.origins.append({"key": key, "text": self.values[key]} | origin)
        return rf"\result{{{key}}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files.add_tables(parser)
    parser.add_argument("--study", required=True, type=json.loads, help="the design, from the configuration")
    parser.add_argument("--output", required=True, help="the macros; numbers.csv is put beside them")
    args = parser.parse_args()

    numbers = Numbers(args.tables)
    for key, text in design(args.study).items():
        numbers.design(key, text)
    define(numbers)
    texts = {
        "gains": gains(numbers),
        "made.of": made_of(numbers),
        "verdicts": verdicts(numbers),
        "explained": explained(numbers),
        "elsewhere": elsewhere(numbers),
        "limits.compared": limits_compared(numbers, args.study["completion_tokens"], args.study["cut_from"]),
        "unsolved": unsolved(numbers),
    }
    files.write_text(args.output, latex.macros(numbers.values | texts))
    columns = ["key", "text", "table", "line", "columns", "written"]
    files.write_rows(Path(args.output).with_suffix(".csv"), columns, numbers.origins)
    print(f"{args.output}: {len(numbers.values)} numbers in {sum(map(bool, texts.values()))} paragraphs")


def design(study: dict) -> dict[str, str]:
    recipe = study["recipe"]
    return {
        "title": escape(study["title"]),
        "study": escape(study["study"]),
        "models": escape(listed(study["models"])),
        "tasks": escape(listed(study["tasks"])),
        "policies": escape(listed(study["policies"])),
        "seeds": str(study["seeds"]),
        "budget": f"{100 * study['budget']:g}\\,\\%" if study["budget"] else "",
        "probe.samples": str(study["probe_samples"]),
        "test.samples": str(study["test_samples"]),
        "limits": escape(listed([f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()])),
        "held": escape(listed([name.replace("_", " ") for name in study["held_constant"]])),
        "pretrained": "yes" if study["pretrained"] else "",
        "recorded": "" if recipe else "yes",
    } | {f"recipe.{key}": escape(value) for key, value in recipe.items()}


def define(numbers: Numbers) -> None:
    """The macros that anyone may want for a text of their own."""
    tables = numbers.tables
    for r in tables["gains"].itertuples():
        numbers.add(f"gain.{cell(r)}.{r.decoding}", "gains", r.line, ["gain", "gain_low", "gain_high"], "gain")
        numbers.add(f"base.{r.model}.{r.eval_task}.{r.decoding}", "gains", r.line, ["base_accuracy"], "points")
        numbers.add(f"detectable.{cell(r)}.{r.decoding}", "gains", r.line, ["mdd"], "points")
    for r in tables["differences"].itertuples():
        ends = ["difference", "difference_low", "difference_high"]
        numbers.add(f"difference.{cell(r)}.{r.minus}", "differences", r.line, ends, "gain")
        numbers.add(f"p.{cell(r)}.{r.minus}", "differences", r.line, ["p_holm"], "p")
        numbers.add(f"detectable.difference.{r.model}.{r.task}.{r.eval_task}", "differences", r.line, ["mdd"], "points")
    for r in tables["learnable"].itertuples():
        ends = ["learnable", "learnable_low", "learnable_high"]
        numbers.add(f"learnable.{r.model}.{r.task}.{r.policy}", "learnable", r.line, ends, "interval")
    for r in tables["parts"].itertuples():
        for part in ("finishing", "correctness"):
            numbers.add(f"{part}.{cell(r)}", "parts", r.line, [part, f"{part}_low", f"{part}_high"], "gain")
        for name in ("base_answered", "answered", "base_accuracy"):
            numbers.add(f"{name.replace('_', '.')}.{cell(r)}", "parts", r.line, [name], "points")
    for r in tables["subsets"].itertuples():
        numbers.add(f"zero.{r.model}.{r.task}.{r.policy}", "subsets", r.line, ["zero_share"], "points")
        numbers.add(f"tied.{r.model}.{r.task}.{r.policy}", "subsets", r.line, ["tied"], "count")


def cell(row) -> str:
    return f"{row.model}.{row.task}.{row.eval_task}.{row.policy}"


def gains(numbers: Numbers) -> str:
    """A paragraph a model and task: gains, and which differences between policies are resolved."""
    table = at_home(numbers.tables["gains"])
    table = table[table.decoding == "sampled"]
    differences = at_home(numbers.tables["differences"])
    paragraphs = []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        gained = [rf"{escape(r.policy)} \result{{gain.{cell(r)}.sampled}}" for r in group.itertuples()]
        text = rf"\textbf{{{escape(task)}}} ({escape(model)}, \result{{base.{model}.{task}.sampled}}\,\% before). "
        text += f"Gains in points: {listed(gained)}. "
        pairs = differences[(differences.model == model) & (differences.task == task)]
        resolved = [
            (r.policy, r.minus, r) if r.difference > 0 else (r.minus, r.policy, r) for r in pairs.itertuples() if r.p_holm < 0.05
        ]
        if resolved:
            said = [
                rf"{escape(better)} over {escape(worse)} ($p=$ \result{{p.{cell(r)}.{r.minus}}})" for better, worse, r in resolved
            ]
            text += f"Of the differences between policies these are resolved after Holm's correction: {listed(said)}. "
        elif len(pairs):
            text += "No difference between policies is resolved after Holm's correction. "
        if len(pairs) and pairs.mdd.notna().any():
            key = f"detectable.difference.{model}.{task}.{task}"
            text += rf"A difference of \result{{{key}}} points would have been found in four of five such studies. "
        paragraphs.append(text.strip())
    return "\n\n".join(paragraphs)


def made_of(numbers: Numbers) -> str:
    """The summary's own sentences on finishing and correctness, on each task's own test set."""
    table = at_home(numbers.tables["sentences"])
    return "\n\n".join(
        numbers.add(f"sentence.{r.model}.{r.task}.{r.eval_task}", "sentences", r.line, ["sentence"], "text")
        for r in table.itertuples()
    )


def verdicts(numbers: Numbers) -> str:
    """How many claims came out how, and those that are not undecided in words."""
    claims = numbers.tables["claims"]
    if claims.empty:
        return ""
    counted = [f"{numbers.count(f'claims.{v}', 'claims', 'verdict', v)} {v}" for v in ("supported", "contradicted", "undecided")]
    text = f"Of the claims that this study can decide, counted by model and task, {listed(counted)} at this scale. "
    for verdict in ("contradicted", "supported"):
        rows = claims[(claims.verdict == verdict) & claims.paper.isin(["HE", "LDS"])]
        said = []
        for (paper, claim), group in rows.groupby(["paper", "claim"], sort=False):
            where = []
            for r in group.itertuples():
                how = "r squared" if str(r.test).startswith("R^2") else "gain"
                key = f"claim.{r.id}.{r.model}.{r.task}.{r.eval_task}"
                if pd.isna(r.estimate):
                    where.append(escape(r.task))
                    continue
                where.append(f"{escape(r.task)} {numbers.add(key, 'claims', r.line, ['estimate', 'low', 'high'], how)}")
            said.append(f"{escape(claim)} ({paper}; {listed(where)})")
        if said:
            text += f"\n\n{verdict.capitalize()}: {'; '.join(said)}."
    return text


def explained(numbers: Numbers) -> str:
    """R^2 of learnable share and of length, over all cells."""
    table = numbers.tables["regressions"]
    table = table[table.task == "all"]
    alone = {r.predictor: r for r in table[table.adjusted_for.isna()].itertuples()}
    if not {"learnable", "tokens"} <= set(alone):
        return ""
    ends = ["r_squared", "r_squared_low", "r_squared_high"]
    said = {
        name: numbers.add(f"explained.{name}", "regressions", alone[name].line, ends, "r squared")
        for name in ("learnable", "tokens")
    }
    cells = numbers.add("explained.cells", "regressions", alone["learnable"].line, ["cells"], "count")
    text = f"Over {cells} cells (model, task, policy) the learnable share explains the gain with $R^2=$ {said['learnable']} and the mean"
    return (
        text
        + f" length of the trained model's completions with $R^2=$ {said['tokens']}. Cells are few and share their base models."
    )


def elsewhere(numbers: Numbers) -> str:
    """Gains on other test sets than the task's own."""
    table = numbers.tables["gains"]
    table = table[(table.task != table.eval_task) & (table.decoding == "sampled")]
    paragraphs = []
    for (model, task, test), group in table.groupby(["model", "task", "eval_task"], sort=False):
        gained = [rf"{escape(r.policy)} \result{{gain.{cell(r)}.sampled}}" for r in group.itertuples()]
        text = (
            rf"Trained on {escape(task)} and tested on {escape(test)} ({escape(model)}, \result{{base.{model}.{test}.sampled}}\,\%"
        )
        paragraphs.append(f"{text} before): {listed(gained)}.")
    return "\n\n".join(paragraphs)


def limits_compared(numbers: Numbers, limits: dict[str, int], cut_from: dict[str, str]) -> str:
    """Of tasks that differ in the limit alone: what is gained under each limit, and what that is made of."""
    parts, paragraphs = numbers.tables["parts"], []
    for tight, ample in cut_from.items():
        for trained in (tight, ample):
            for (model,), group in parts[parts.task == trained].groupby(["model"], sort=False):
                for test in (tight, ample):
                    rows = group[group.eval_task == test]
                    if rows.empty:
                        continue
                    said = [
                        rf"{escape(r.policy)} \result{{finishing.{cell(r)}}} and \result{{correctness.{cell(r)}}}"
                        for r in rows.itertuples()
                    ]
                    first = next(rows.itertuples())
                    answered = rf"\result{{base.answered.{cell(first)}}}"
                    text = f"Trained on {escape(trained)}, tested on {escape(test)} ({escape(model)}; {answered}\\,\\% answered before)"
                    paragraphs.append(f"{text}: finishing and correctness in points are {'; '.join(said)}.")
    return "\n\n".join(paragraphs)


def unsolved(numbers: Numbers) -> str:
    """Share of each subset that the base model never solved, and what chance decided."""
    table, sentences = numbers.tables["subsets"], []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        shares = [rf"{escape(r.policy)} \result{{zero.{model}.{task}.{r.policy}}}\,\%" for r in group.itertuples()]
        sentences.append(f"{escape(task)} ({escape(model)}): {listed(shares)}.")
    return " ".join(sentences)


def listed(items: list[str]) -> str:
    return ", ".join(items)


if __name__ == "__main__":
    errors.run(main)
