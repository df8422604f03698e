"""The paper's tables as LaTeX and HTML (points, with intervals) and CSV (shares, all digits), from a study's summaries.

    python scripts/paper/write_tables.py --tables results/summaries/mini/*.csv paper/mini/*.csv --study '{...}' --deviations paper/deviations.csv \\
        --output paper/mini/tables

--study is the study's design (config.described) as JSON. In a table of gains the best policy is bold and the second best
underlined only where they are resolved: where the Holm-corrected p of the difference from every policy below is under 0.05.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

from hardgrpo.report import latex
from hardgrpo.report.latex import Column, escape, points, probability, signed, with_interval
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files.add_tables(parser)
    parser.add_argument("--study", required=True, type=json.loads, help="the design, from the configuration")
    parser.add_argument("--deviations", required=True, help="what HE wrote and released, setting by setting")
    parser.add_argument("--output", required=True, help="folder of the tables")
    args = parser.parse_args()

    read = lambda name: read_table(args.tables[name])
    gains, learnable, compared = read("gains"), read("learnable"), read("compared")
    passes, tiers, differences, decomposition = read("pass_at_k"), read("tiers"), read("differences"), read("decomposition")
    weaker = args.study["weaker_signal"]
    weak = gains[(gains.decoding == "sampled") & (gains.task.isin(weaker) | gains.model.isin(weaker))]
    last = decomposition[decomposition.step == decomposition.groupby(CELL).step.transform("max")]
    elsewhere = passes[passes.task != passes.eval_task]
    mcnemar = read("mcnemar")
    deviations = read_table(Path(args.deviations))
    tables = {
        "gain": (at_home(gains).sort_values("decoding", ascending=False, kind="stable"), gain_columns, differences, compared),
        "learnable": (learnable, learnable_columns, compared),
        "weaker_signal": (at_home(weak).merge(learnable, on=KEYS, suffixes=("", "_updates")), weaker_columns),
        "out_of_distribution": (elsewhere, pass_columns),
        "transfer": (gains[(gains.task != gains.eval_task) & (gains.decoding == "sampled")], transfer_columns, differences),
        "differences": (differences, difference_columns),
        "parts": (read("parts"), part_columns),
        "graders": (last[last.tier.isna()], grader_columns),
        "tier_parts": (last[last.tier.notna() & (last.grading == "task")], tier_part_columns),
        "tiers": (at_home(tiers), tier_columns),
        "reach": (read("reach"), reach_columns),
        "subsets": (read("subsets"), subset_columns),
        "budgets": (read("budgets"), budget_columns),
        "regressions": (read("regressions"), regression_columns),
        "single_samples": (mcnemar[mcnemar.groupby(["model", "task"]).seed.transform("nunique") == 1], mcnemar_columns),
        "compared": (compared, compared_columns),
        "claims": (read("claims"), claim_columns),
        "deviations": (deviations.assign(here=[here(args.study, key) for key in deviations.key]), deviation_columns),
    }
    for name, (frame, columns, *others) in tables.items():
        files.write_text(Path(args.output) / f"{name}.csv", frame.to_csv(index=False))
        shown = columns(frame, *others)
        files.write_text(Path(args.output) / f"{name}.tex", latex.table(shown))
        files.write_text(Path(args.output) / f"{name}.html", latex.page(f"{args.study['study']}: {name.replace('_', ' ')}", shown))
    print(f"{args.output}: {len(tables)} tables")


KEYS = ["model", "task", "policy"]
CELL = ["model", "task", "eval_task", "policy"]


def read_table(path: Path) -> pd.DataFrame:
    files.read_text(path)  # a missing or unreadable file is named
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=latex.NAMES)


def at_home(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.task == frame.eval_task]


def column(frame: pd.DataFrame, name: str, header: str, show=escape, align: str = "l", note: str = "") -> Column:
    return Column(header, [show(value) for value in frame[name]], align, note)


def estimate(frame: pd.DataFrame, name: str, header: str, show=with_interval) -> Column:
    ends = zip(frame[name], frame[f"{name}_low"], frame[f"{name}_high"])
    return Column(f"{header} [95\\,\\%]", [show(*end) for end in ends], "r")


def named(frame: pd.DataFrame, *columns: str) -> list[Column]:
    """The columns that say what a row is about."""
    headers = {"task": "trained on", "eval_task": "tested on"}
    if "eval_task" in columns and "task" in columns and (frame.task == frame.eval_task).all():
        columns = tuple(name for name in columns if name != "eval_task")
    if "eval_task" not in columns:
        headers["task"] = "task"
    notes = {"model": "Model {}", "task": "task {}", "eval_task": "tested on {}", "decoding": "decoding {}"}
    return [column(frame, name, headers.get(name, name), note=notes.get(name, "")) for name in columns]


def seeds(frame: pd.DataFrame) -> Column:
    return column(frame, "seeds", "seeds", whole, "r", "seeds: {}")


def design(frame: pd.DataFrame) -> list[Column]:
    return [column(frame, "problems", "$n$", whole, "r", "$n={}$ problems"), seeds(frame)]


def whole(value: float) -> str:
    return "--" if pd.isna(value) else f"{value:,.0f}".replace(",", "\\,")


def marks(frame: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
    """`\\textbf` for the best sampled gain of a (model, task, test), `\\underline` for the second, each only where it is resolved from
    all below it; else nothing."""
    found = []
    for row in frame.itertuples():
        group = frame[(frame.model == row.model) & (frame.task == row.task) & (frame.eval_task == row.eval_task)]
        ranked = list(group[group.decoding == "sampled"].sort_values("gain", ascending=False).policy)
        rank = ranked.index(row.policy) if row.decoding == "sampled" and row.policy in ranked else 2
        pairs = differences[
            (differences.model == row.model) & (differences.task == row.task) & (differences.eval_task == row.eval_task)
        ]
        below = [
            pairs[pairs.policy.isin([row.policy, other]) & pairs.minus.isin([row.policy, other])].p_holm
            for other in ranked[rank + 1 :]
        ]
        resolved = len(ranked) > rank + 1 and all((p < 0.05).any() for p in below)
        found.append(["\\textbf", "\\underline"][rank] if rank < 2 and resolved else "")
    return found


def beside(frame: pd.DataFrame, compared: pd.DataFrame, quantity: str) -> list[Column]:
    """A column with the published number of each row; none where nothing was published."""
    kept = compared[compared.quantity == quantity]
    known = {(r.model, r.task, r.policy): r.published for r in kept.itertuples()}
    shown = [known.get((r.model, r.task, r.policy)) for r in frame.itertuples()]
    if all(value is None for value in shown):
        return []
    return [Column("published", ["" if value is None else points(value) for value in shown], "r")]


def marked_gain(frame: pd.DataFrame, differences: pd.DataFrame) -> Column:
    gained = []
    for mark, r in zip(marks(frame, differences), frame.itertuples()):
        text = f"{mark}{{{signed(r.gain)}}}" if mark else signed(r.gain)
        gained.append(f"{text} {latex.interval(r.gain_low, r.gain_high)}")
    return Column("gain [95\\,\\%]", gained, "r")


def gain_columns(frame: pd.DataFrame, differences: pd.DataFrame, compared: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "decoding", "policy"),
        column(frame, "base_accuracy", "base \\%", points, "r"),
        marked_gain(frame, differences),
        *beside(frame, compared, "gain"),
        column(frame, "mdd", "detectable", points, "r"),
        *design(frame),
    ]


def learnable_columns(frame: pd.DataFrame, compared: pd.DataFrame) -> list[Column]:
    columns = [*named(frame, "model", "task", "policy"), estimate(frame, "learnable", "learnable \\%")]
    columns += beside(frame, compared, "learnable")
    return columns + [column(frame, "updates", "updates", whole, "r", "{} updates"), seeds(frame)]


def weaker_columns(frame: pd.DataFrame) -> list[Column]:
    shown = [estimate(frame, "gain", "gain"), estimate(frame, "learnable", "learnable \\%")]
    return [*named(frame, "model", "task", "policy"), *shown, *design(frame)]


def pass_columns(frame: pd.DataFrame) -> list[Column]:
    shown = [column(frame, "k", "$k$", whole, "r"), column(frame, "base", "base pass@$k$", points, "r")]
    shown += [estimate(frame, "pass", "pass@$k$"), estimate(frame, "gain", "gain")]
    return [*named(frame, "model", "task", "eval_task", "policy"), *shown, *design(frame)]


def transfer_columns(frame: pd.DataFrame, differences: pd.DataFrame) -> list[Column]:
    shown = [column(frame, "base_accuracy", "base \\%", points, "r"), marked_gain(frame, differences)]
    return [*named(frame, "model", "task", "eval_task", "policy"), *shown, *design(frame)]


def difference_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "eval_task", "policy"),
        column(frame, "minus", "minus"),
        estimate(frame, "difference", "difference"),
        column(frame, "p", "$p$", probability, "r"),
        column(frame, "p_holm", "$p$ (Holm)", probability, "r"),
        column(frame, "mdd", "detectable", points, "r"),
        *design(frame),
    ]


def arrow(frame: pd.DataFrame, before: str, after: str, header: str, show=points) -> Column:
    return Column(header, [f"{show(a)} $\\to$ {show(b)}" for a, b in zip(frame[before], frame[after])], "r")


def gain_and_parts(frame: pd.DataFrame) -> list[Column]:
    parts = [estimate(frame, part, part) for part in ("finishing", "correctness")]
    return [column(frame, "gain", "gain", signed, "r"), *parts]


def part_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "eval_task", "policy"),
        arrow(frame, "base_answered", "answered", "answered \\%"),
        arrow(frame, "base_accuracy_answered", "accuracy_answered", "right if so \\%"),
        *gain_and_parts(frame),
        *design(frame),
    ]


def grader_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "eval_task", "policy", "grading"),
        arrow(frame, "base_truncated", "truncated", "cut off \\%"),
        arrow(frame, "base_tokens", "tokens", "tokens", whole),
        *gain_and_parts(frame),
        seeds(frame),
    ]


def tier_part_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "eval_task", "policy", "tier"),
        arrow(frame, "base_answered", "answered", "answered \\%"),
        *gain_and_parts(frame),
        *design(frame),
    ]


def tier_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "policy", "tier"),
        column(frame, "base_accuracy", "base \\%", points, "r"),
        estimate(frame, "accuracy", "accuracy"),
        estimate(frame, "gain", "gain"),
        *design(frame),
    ]


def reach_columns(frame: pd.DataFrame) -> list[Column]:
    spread = [whole(a) if a == b or pd.isna(a) else f"{whole(a)} to {whole(b)}" for a, b in zip(frame.step_first, frame.step_last)]
    return [
        *named(frame, "model", "task", "eval_task", "policy"),
        column(frame, "target", "accuracy of `all' \\%", points, "r"),
        column(frame, "step", "reached at update", whole, "r"),
        Column("over seeds", spread, "r"),
        column(frame, "steps", "of", whole, "r"),
        Column("seeds", [f"{whole(a)} of {whole(b)}" for a, b in zip(frame.seeds_reached, frame.seeds)], "r"),
    ]


def subset_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "policy"),
        column(frame, "prompts", "prompts", whole, "r"),
        column(frame, "pool", "pool", whole, "r"),
        column(frame, "mean_pass_rate", "mean $\\hat p$", "{:.3f}".format, "r"),
        column(frame, "zero_share", "$\\hat p = 0$ \\%", points, "r"),
        column(frame, "boundary_pass_rate", "edge $\\hat p$", "{:.2f}".format, "r"),
        column(frame, "tied", "tied there", whole, "r"),
        column(frame, "tied_chosen", "chosen", whole, "r"),
    ]


def budget_columns(frame: pd.DataFrame) -> list[Column]:
    counted = [column(frame, name, name, whole, "r") for name in ("updates", "prompts", "rollouts")]
    limit = column(frame, "completion_tokens", "limit", whole, "r")
    spread = [
        f"{t / 1e6:.3g} ({a / 1e6:.3g} to {b / 1e6:.3g})" for t, a, b in zip(frame.tokens, frame.tokens_least, frame.tokens_most)
    ]
    time = [
        "--" if pd.isna(s) else f"{s / 60:.3g} ({a / 60:.3g} to {b / 60:.3g})"
        for s, a, b in zip(frame.seconds, frame.seconds_least, frame.seconds_most)
    ]
    spent = [Column("tokens, millions", spread, "r"), Column("minutes", time, "r")]
    return [
        *named(frame, "model", "task", "policy"),
        *counted,
        limit,
        *spent,
        seeds(frame),
    ]


def regression_columns(frame: pd.DataFrame) -> list[Column]:
    words = {"learnable": "learnable share", "tokens": "mean length"}
    named_so = lambda value: "--" if pd.isna(value) else escape(words.get(value, value))
    return [
        column(frame, "task", "task"),
        column(frame, "predictor", "gain explained by", named_so),
        column(frame, "adjusted_for", "adjusted for", named_so),
        estimate(frame, "r_squared", "$R^2$", latex.r_squared),
        column(frame, "slope", "slope", lambda value: f"${'+' if value > 0 else '-'}$", "r"),
        column(frame, "p", "$p$", probability, "r"),
        column(frame, "cells", "cells", whole, "r"),
    ]


def mcnemar_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "task", "eval_task", "decoding", "policy"),
        column(frame, "minus", "minus"),
        column(frame, "only_this", "only this right", whole, "r"),
        column(frame, "only_other", "only the other", whole, "r"),
        column(frame, "difference", "difference", signed, "r"),
        column(frame, "p", "$p$", probability, "r"),
        column(frame, "p_holm", "$p$ (Holm)", probability, "r"),
        column(frame, "problems", "$n$", whole, "r", "$n={}$ problems"),
    ]


def compared_columns(frame: pd.DataFrame) -> list[Column]:
    return [
        *named(frame, "model", "eval_task", "policy"),
        column(frame, "quantity", "quantity", lambda value: escape(value.replace("_", " "))),
        column(frame, "place", "from"),
        column(frame, "published", "published", points, "r"),
        Column("here [95\\,\\%]", [with_interval(r.here, r.low, r.high) for r in frame.itertuples()], "r"),
        seeds(frame),
    ]


def claim_columns(frame: pd.DataFrame) -> list[Column]:
    figures = [figure(r) for r in frame.itertuples()]
    wide = ">{\\raggedright\\arraybackslash}p{%s}"
    wrapped = lambda text: escape(text).replace("\\_", "\\_\\allowbreak{}").replace("-", "-\\allowbreak{}")
    where = [
        task if test == task or pd.isna(test) else f"{task}, tested on {test}" for task, test in zip(frame.task, frame.eval_task)
    ]
    return [
        column(frame, "paper", "paper"),
        column(
            frame, "model", "model", lambda value: "" if pd.isna(value) else wrapped(value), wide % "0.10\\linewidth", "Model {}"
        ),
        Column("claim", [escape(text) for text in frame.claim], wide % "0.27\\linewidth"),
        Column("on", [wrapped(text) for text in where], wide % "0.15\\linewidth"),
        Column(
            "decided by", [wrapped(text).replace("R\\textasciicircum{}2", "$R^2$") for text in frame.test], wide % "0.14\\linewidth"
        ),
        Column("estimate [95\\,\\%]", figures, wide % "0.13\\linewidth"),
        column(frame, "verdict", "verdict"),
    ]


def figure(row) -> str:
    """A claim's estimate: an R^2 as it is, shares and their differences in points."""
    return (latex.r_squared if row.test.startswith("R^2") else with_interval)(row.estimate, row.low, row.high)


def deviation_columns(frame: pd.DataFrame) -> list[Column]:
    wide = ">{\\raggedright\\arraybackslash}p{0.25\\linewidth}"
    shown = [
        column(frame, name, header, align=wide)
        for name, header in (("written", "as written"), ("released", "as released"), ("here", "run here"))
    ]
    return [column(frame, "what", "what", align=wide.replace("0.25", "0.17")), *shown]


def here(study: dict, key: str) -> str:
    """What this study does, by a key of `deviations.csv`: of its recipe, of its design, or what holds for every study."""
    always = {
        "ties": "broken at random, by the seed",
        "graded": "the completion alone",
        "seeds": f"{study['seeds']}",
        "graders": ", ".join(study["graders"]),
        "completion_tokens": ", ".join(f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()),
        "probe_samples": f"{study['probe_samples']}",
        "test_samples": f"mean of {study['test_samples']} at temperature 1, last checkpoint",
    }
    if pd.isna(key):
        return "see the task's source"
    if key in always:
        return always[key]
    if not study["recipe"]:
        return "not trained here"
    value = study["recipe"].get(key)
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry:g}" for name, entry in value.items())
    if key == "schedule" and study["recipe"]["warmup_share"]:
        return f"{value}, warm-up {study['recipe']['warmup_share']:g}"
    return "none" if value is None else f"{value}"


if __name__ == "__main__":
    errors.run(main)
