"""Write every number of the paper's text as a LaTeX macro, and a list of where each number comes from.

    python scripts/paper/write_numbers.py --tables results/reference/mini/*.csv paper/mini/claims.csv --study '{...}' --output paper/mini/numbers.tex

`\\result{gain.tiny.swaps.swaps.hard.sampled}` is '+3.1 [1.2, 5.0]'. numbers.csv lists for each macro the summary table, the line, the
columns and the format (`written`). Sentences are made of these macros. Numbers of the design (updates, seeds, K) come from the
configuration and are listed without a table.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

from hardgrpo.analysis import formats, summaries
from hardgrpo.analysis.columns import interval
from hardgrpo.report import latex, registry
from hardgrpo.report.latex import escape
from hardgrpo.report.tables.gains import at_home
from hardgrpo.runtime import errors, files

# How the values of a row's columns become text.
FORMATS = {
    "points": formats.points,
    "gain": formats.signed_interval,
    "interval": formats.with_interval,
    "r squared": "{:.2f}".format,
    "p": formats.probability,
    "count": lambda value: f"{value:.0f}",
}
ORIGIN = ["key", "text", "table", "line", "columns", "written"]


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

    def define(self, key: str, text: str, *origin) -> str:
        """Define a macro and return its use; `origin` is table, line, columns and format."""
        self.values[key] = text
        self.origins.append(dict.fromkeys(ORIGIN, "") | dict(zip(ORIGIN, (key, text, *origin))))
        return rf"\result{{{key}}}"

    def add(self, key: str, table: str, row, columns: list[str], how: str) -> str:
        """Define a macro from a row of a table, unless it is defined; return its use."""
        if key in self.values:
            return rf"\result{{{key}}}"
        text = written(how, *(getattr(row, column) for column in columns))
        return self.define(key, text, table, row.line, " ".join(columns), how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files.add_tables(parser)
    parser.add_argument("--study", required=True, type=json.loads, help="the design, from the configuration")
    parser.add_argument("--output", required=True, help="the macros; numbers.csv is put beside them")
    args = parser.parse_args()

    numbers = Numbers(args.tables)
    for key, text in design(args.study).items():
        numbers.define(key, text)
    define(numbers)
    texts = {
        "gains": gains(numbers),
        "made.of": made_of(numbers),
        "verdicts": judged(numbers),
        "explained": explained(numbers),
        "elsewhere": elsewhere(numbers),
        "limits.compared": limits_compared(numbers, args.study["cut_from"]),
        "unsolved": unsolved(numbers),
        "trajectories": followed(numbers),
    }
    files.write_text(args.output, latex.macros(numbers.values | texts))
    files.write_rows(Path(args.output).with_suffix(".csv"), ORIGIN, numbers.origins)
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
        "probe.samples": str(study["probe_samples"] or ""),
        "test.samples": str(study["test_samples"] or ""),
        "origins": escape("; ".join(study["origins"])),
        "chosen.from": listed(map(str, study["chosen_from"])),
        "limits": escape(listed([f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()])),
        "held": escape(listed([name.replace("_", " ") for name in study["held_constant"]])),
        "pretrained": "yes" if study["pretrained"] else "",
        "recorded": "" if recipe or study["chosen_from"] else "yes",
    } | {f"recipe.{key}": escape(value) for key, value in recipe.items()}


def define(numbers: Numbers) -> None:
    """Define the macros that a text may want."""
    tables, add = numbers.tables, numbers.add
    for r in tables["gains"].itertuples():
        add(f"gain.{cell(r)}.{r.decoding}", "gains", r, interval("gain"), "gain")
        add(f"base.{r.model}.{r.eval_task}.{r.decoding}", "gains", r, ["base_accuracy"], "points")
        add(f"detectable.{cell(r)}.{r.decoding}", "gains", r, ["mdd"], "points")
    for r in tables["differences"].itertuples():
        add(f"difference.{cell(r)}.{r.minus}", "differences", r, interval("difference"), "gain")
        add(f"p.{cell(r)}.{r.minus}", "differences", r, ["p_holm"], "p")
        add(f"detectable.difference.{r.model}.{r.task}.{r.eval_task}", "differences", r, ["mdd"], "points")
    for r in tables["learnable"].itertuples():
        add(f"learnable.{r.model}.{r.task}.{r.policy}", "learnable", r, interval("learnable"), "interval")
    for r in tables["parts"].itertuples():
        for part in ("finishing", "correctness"):
            add(f"{part}.{cell(r)}", "parts", r, interval(part), "gain")
        for name in ("base_answered", "answered", "base_accuracy"):
            add(f"{name.replace('_', '.')}.{cell(r)}", "parts", r, [name], "points")
    for r in tables["subsets"].itertuples():
        add(f"zero.{r.model}.{r.task}.{r.policy}", "subsets", r, ["zero_share"], "points")
        add(f"tied.{r.model}.{r.task}.{r.policy}", "subsets", r, ["tied"], "count")
    whole_run = tables["trajectories"].stretch.isna()
    for r in tables["trajectories"][whole_run].itertuples():
        for name in ("mixed", "all_right", "all_wrong"):
            add(f"{name.replace('_', '.')}.{r.model}.{r.task}.{r.policy}", "trajectories", r, interval(name), "interval")
        add(f"never.solved.{r.model}.{r.task}.{r.policy}", "trajectories", r, ["never_solved"], "points")
    for r in tables["trajectories"][~whole_run].itertuples():
        for name, is_there in (("first", r.begin == 0), ("last", r.end == 1)):
            if is_there:
                add(f"mixed.{name}.{r.model}.{r.task}.{r.policy}", "trajectories", r, interval("mixed"), "interval")


def cell(row) -> str:
    return f"{row.model}.{row.task}.{row.eval_task}.{row.policy}"


def gains(numbers: Numbers) -> str:
    """A paragraph a model and task: gains, and which differences between policies are resolved."""
    table = at_home(numbers.tables["gains"])
    differences = at_home(numbers.tables["differences"])
    paragraphs = []
    for (model, task), group in table[table.decoding == "sampled"].groupby(["model", "task"], sort=False):
        text = rf"\textbf{{{escape(task)}}} ({escape(model)}, \result{{base.{model}.{task}.sampled}}\,\% before). "
        text += f"Gains in points: {gained(group)}. "
        pairs = differences[(differences.model == model) & (differences.task == task)]
        resolved = []
        for r in pairs[pairs.p_holm < 0.05].itertuples():
            better, worse = (r.policy, r.minus) if r.difference > 0 else (r.minus, r.policy)
            resolved.append(rf"{escape(better)} over {escape(worse)} ($p=$ \result{{p.{cell(r)}.{r.minus}}})")
        if resolved:
            text += f"Of the differences between policies these are resolved after Holm's correction: {listed(resolved)}. "
        elif len(pairs):
            text += "No difference between policies is resolved after Holm's correction. "
        if len(pairs) and pairs.mdd.notna().any():
            key = f"detectable.difference.{model}.{task}.{task}"
            text += rf"A difference of \result{{{key}}} points would have been found in four of five such studies. "
        paragraphs.append(text.strip())
    return "\n\n".join(paragraphs)


def gained(rows: pd.DataFrame) -> str:
    """Each policy's gain."""
    return listed([rf"{escape(r.policy)} \result{{gain.{cell(r)}.sampled}}" for r in rows.itertuples()])


def made_of(numbers: Numbers) -> str:
    """The summary's own sentences on finishing and correctness, on each task's own test set."""
    rows = at_home(numbers.tables["sentences"]).itertuples()
    uses = [numbers.add(f"sentence.{r.model}.{r.task}.{r.eval_task}", "sentences", r, ["sentence"], "text") for r in rows]
    return "\n\n".join(uses)


def judged(numbers: Numbers) -> str:
    """A paragraph for each paper's primary claim: what it says, whom the answer holds for, and what was found on each task."""
    claims = numbers.tables["claims"]
    paragraphs = []
    for (paper, claim, holds_for), group in claims[claims.primary == 1].groupby(["paper", "claim", "population"], sort=False):
        said = []
        for r in group.itertuples():
            key = f"claim.{r.id}.{r.model}.{r.task}"
            estimate = numbers.add(key, "claims", r, ["estimate", "low", "high"], "gain")
            p = "" if pd.isna(r.p_holm) else f" ($p=$ {numbers.add(f'{key}.p', 'claims', r, ['p_holm'], 'p')})"
            verdict = numbers.add(f"{key}.verdict", "claims", r, ["verdict"], "text")
            said.append(f"{escape(r.task)} ({escape(r.model)}) {estimate}{p}, {verdict}")
        paragraphs.append(rf"\textbf{{{paper}}} claims: {escape(claim)}. In points, for {escape(holds_for)}: {'; '.join(said)}.")
    return "\n\n".join(paragraphs)


def explained(numbers: Numbers) -> str:
    """R^2 of learnable share and of length, over all cells."""
    table = numbers.tables["regressions"]
    table = table[(table.task == "all") & table.adjusted_for.isna()]
    alone = {r.predictor: r for r in table.itertuples()}
    if not {"learnable", "tokens"} <= set(alone):
        return ""
    learnable, tokens = (
        numbers.add(f"explained.{name}", "regressions", alone[name], ["r_squared"], "r squared") for name in ("learnable", "tokens")
    )
    cells = numbers.add("explained.cells", "regressions", alone["learnable"], ["cells"], "count")
    return (
        f"Over {cells} cells (model, task, policy) the learnable share explains the gain with $R^2=$ {learnable} and the mean"
        f" length of the trained model's completions with $R^2=$ {tokens}. Cells share base models and problems, so that there is no interval."
    )


def elsewhere(numbers: Numbers) -> str:
    """Gains on other test sets than the task's own."""
    table = numbers.tables["gains"]
    table = table[(table.task != table.eval_task) & (table.decoding == "sampled")]
    return "\n\n".join(
        rf"Trained on {escape(task)} and tested on {escape(test)} ({escape(model)}, \result{{base.{model}.{test}.sampled}}\,\%"
        f" before): {gained(group)}."
        for (model, task, test), group in table.groupby(["model", "task", "eval_task"], sort=False)
    )


def limits_compared(numbers: Numbers, cut_from: dict[str, str]) -> str:
    """Tasks that differ only in the completion limit: the gains under each limit, split into finishing and correctness."""
    parts, paragraphs = numbers.tables["parts"], []
    for tight, ample in cut_from.items():
        for trained in (tight, ample):
            for model, group in parts[parts.task == trained].groupby("model", sort=False):
                for test in (tight, ample):
                    rows = list(group[group.eval_task == test].itertuples())
                    if not rows:
                        continue
                    said = [
                        rf"{escape(r.policy)} \result{{finishing.{cell(r)}}} and \result{{correctness.{cell(r)}}}" for r in rows
                    ]
                    answered = rf"\result{{base.answered.{cell(rows[0])}}}"
                    text = f"Trained on {escape(trained)}, tested on {escape(test)} ({escape(model)}; {answered}\\,\\% answered before)"
                    paragraphs.append(f"{text}: finishing and correctness in points are {'; '.join(said)}.")
    return "\n\n".join(paragraphs)


def unsolved(numbers: Numbers) -> str:
    """Share of each subset that the base model never solved."""
    sentences = []
    for (model, task), group in numbers.tables["subsets"].groupby(["model", "task"], sort=False):
        shares = [rf"{escape(r.policy)} \result{{zero.{model}.{task}.{r.policy}}}\,\%" for r in group.itertuples()]
        sentences.append(f"{escape(task)} ({escape(model)}): {listed(shares)}.")
    return " ".join(sentences)


def followed(numbers: Numbers) -> str:
    """Recorded training runs: where groups are mixed most and least often over all later epochs, and for hard and all prompts."""
    table, paragraphs = numbers.tables["trajectories"], []
    for (model, prompts), group in table[table.stretch.isna()].groupby(["model", "task"], sort=False):
        shares = group.set_index("policy").mixed
        shown = dict.fromkeys([shares.idxmax(), *shares.index.intersection(["all", "hard"]), shares.idxmin()])
        said = [rf"{escape(policy)} \result{{mixed.{model}.{prompts}.{policy}}}\,\%" for policy in shown]
        text = rf"\textbf{{{escape(model)}}}. Share of groups that are mixed in the later epochs, of the prompts that a policy chooses: {listed(said)}"
        text += r"\seefigure{trajectories}\seetable{trajectories}."
        if "all" in shares:
            text += rf" Of all prompts \result{{never.solved.{model}.{prompts}.all}}\,\% are never solved in the first epochs."
        moved = [
            rf"{escape(policy)} \result{{mixed.first.{model}.{prompts}.{policy}}} and \result{{mixed.last.{model}.{prompts}.{policy}}}\,\%"
            for policy in ("hard", "easy")
            if policy in shares
        ]
        if moved:
            text += f" In the first and in the last stretch of these epochs it is {listed(moved)}."
        paragraphs.append(text)
    return "\n\n".join(paragraphs)


def listed(items: list[str]) -> str:
    return ", ".join(items)


if __name__ == "__main__":
    errors.run(main)
