"""For README.md (part of a line) and docs/results.md: what others recorded of real models, from the committed summaries of the two studies of recordings."""

from hardgrpo.analysis.formats import adding_up, change
from hardgrpo.analysis.formats import change_interval as spread
from hardgrpo.study import paths
from pages import results
from pages.results import RECORDINGS, TRAJECTORIES

from pathlib import Path

import pandas as pd


def in_short(root: Path) -> list[str]:
    """A line for each of the two studies."""
    rows = whole_run(root)
    runs = "; ".join(
        f"{model_of(row.model)} on {row.eval_task}, trained on {row.policy}, {spread(row.gain, row.gain_low, row.gain_high)}, finishing"
        f" {part(row, 'finishing')}"
        for row in split(root)[::-1].itertuples()
    )
    learnable = ", ".join(f"*{row.policy}* {share(row, 'mixed')}" for row in rows.itertuples())
    return [
        f"**What the gains of the first paper's own completions are made of** (released by HE; one run each, intervals over problems): {runs}."
        f" {results.link(RECORDINGS)}",
        f"**How often groups are learnable while a real model trains** ({model_of(rows.model.iloc[0])}, one recorded run on all prompts, intervals over prompts), for the prompts that each"
        f" policy would have chosen: {learnable}. {results.link(TRAJECTORIES)}",
    ]


def told(row: pd.Series) -> str:
    """'qwen3-4b, trained on all and tested on gsm8k, +68.2, finishing +61.2'."""
    return f"{model_of(row.model)}, trained on {row.policy} and tested on {row.eval_task}, {change(row.gain)}, finishing {change(parts(row)['finishing'])}"


def model_of(name: str) -> str:
    """The model of a recording, without the word that says that it is recorded."""
    return f"`{name.removesuffix('-recorded').removesuffix('-trajectory')}`"


def split(root: Path) -> pd.DataFrame:
    """Gains of the recorded runs with their parts. Most finishing last."""
    tables = results.read(root, RECORDINGS)
    keys = ["model", "task", "eval_task", "policy", "step"]
    gains = tables["gains"][tables["gains"].decoding == "sampled"][[*keys, "gain_low", "gain_high"]]
    found = tables["parts"].merge(gains, on=keys)
    return found.sort_values("finishing", kind="stable", ignore_index=True)


def parts(row) -> dict[str, float]:
    """Finishing and correctness, rounded so that the two add up to the gain."""
    return dict(zip(("finishing", "correctness"), adding_up(row.gain, [row.finishing, row.correctness])))


def part(row, name: str) -> str:
    """Finishing or correctness with its interval."""
    return spread(parts(row)[name], getattr(row, f"{name}_low"), getattr(row, f"{name}_high"))


def whole_run(root: Path) -> pd.DataFrame:
    """Shares over all epochs of the recorded training run, by policy."""
    table = pd.read_csv(root / paths.reference(TRAJECTORIES) / "trajectories.csv")
    return table[table.stretch.isna()]


def share(row, name: str) -> str:
    """'14.0 [9.8, 18.2] %'."""
    value, low, high = (100 * getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return f"{value:.1f}" + ("" if pd.isna(low) else f" [{low:.1f}, {high:.1f}]") + " %"


def in_full(root: Path) -> list[str]:
    """The sections of docs/results.md."""
    rows, table = whole_run(root), pd.read_csv(root / paths.reference(TRAJECTORIES) / "trajectories.csv")
    lines = [
        f"## {results.HEADINGS[RECORDINGS]}",
        "",
        "HE released completions of some base models and checkpoints, one run each, so that the intervals are over problems: they say nothing about"
        " another run. They are graded again here. Points, finishing and correctness add up to the gain.",
        "",
        "| model | test | trained on | updates | problems | base answered % | gain | finishing | correctness |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.model} | {row.eval_task} | {row.policy} | {row.step} | {row.problems} | {100 * row.base_answered:.1f}"
        f" | {spread(row.gain, row.gain_low, row.gain_high)} | {part(row, 'finishing')} | {part(row, 'correctness')} |"
        for row in split(root)[::-1].itertuples()
    ]
    epochs, prompts = rows.epochs.mean(), table.groupby("policy").prompts.max()
    lines += [
        "",
        f"## {results.HEADINGS[TRAJECTORIES]}",
        "",
        f"One recorded run of {model_of(rows.model.iloc[0])} on all its prompts, about {epochs:.0f} epochs. The first epochs of a prompt give its pass rate, by"
        " which policies choose; the later ones tell how many groups of the chosen prompts would have been *learnable* (mixed), all right and all"
        " wrong. Nobody trained on the chosen prompts alone. Intervals are over prompts, for this run.",
        "",
        "| policy | prompts | learnable | all right | all wrong | learnable, first to last tenth of the run |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows.itertuples():
        stretches = table[(table.policy == row.policy) & table.stretch.notna()].sort_values("stretch").mixed
        lines.append(
            f"| {row.policy} | {prompts[row.policy]:.0f} | {share(row, 'mixed')} | {share(row, 'all_right')} | {share(row, 'all_wrong')}"
            f" | {100 * stretches.iloc[0]:.1f} to {100 * stretches.iloc[-1]:.1f} % |"
        )
    return lines
