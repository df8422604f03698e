"""The stages of a study, from the pool of prompts to the results, with numbers such as the number
of prompts or runs."""

import re
import textwrap

import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report import plotting
from hardgrpo.report.plotting import format_range

LETTERS = 16  # largest number of letters in a line of a box


def draw(study: dict, subsets, parity, accuracy):
    """(figure with a box of text for each stage, table with the lines of text before wrapping).
    `study` is the study's design (designs.design)."""
    # imported late: `plotting` first sets the variables that Matplotlib reads
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    stages = [
        (name, [line for line in lines if line])
        for name, lines in stages_of(study, subsets, parity, accuracy)
    ]
    stages = [stage for stage in stages if stage[1]]
    wrapped = [
        [part for line in lines for part in textwrap.wrap(split_long_names(line), LETTERS)]
        for _, lines in stages
    ]
    height = 0.45 + 0.145 * max(map(len, wrapped))
    plotting.plt.style.use(plotting.STYLE)
    figure, axis = plotting.plt.subplots(figsize=(plotting.WIDE, height), layout="constrained")
    axis.set(xlim=(0, len(stages)), ylim=(0, height))
    axis.set_axis_off()
    for place, ((name, _), lines) in enumerate(zip(stages, wrapped)):
        box = FancyBboxPatch(
            (place + 0.05, 0.08), 0.86, height - 0.16, boxstyle="round,pad=0,rounding_size=0.06", mutation_aspect=1.0,
            facecolor="0.96", edgecolor="0.35", linewidth=0.8,
        )  # fmt: skip
        axis.add_patch(box)
        axis.text(
            place + 0.48, height - 0.16, name, ha="center", va="top", fontsize=8, fontweight="bold"
        )
        axis.text(
            place + 0.48,
            height - 0.36,
            "\n".join(lines),
            ha="center",
            va="top",
            fontsize=7,
            linespacing=1.3,
        )
        if place:
            ends = (place - 0.09, height / 2), (place + 0.05, height / 2)
            axis.add_patch(
                FancyArrowPatch(
                    *ends, arrowstyle="-|>", mutation_scale=8, color="0.2", shrinkA=0, shrinkB=0
                )
            )
    return figure, pd.DataFrame(
        [{"stage": name, "line": line} for name, lines in stages for line in lines]
    )


def stages_of(study: dict, subsets, parity, accuracy) -> list[tuple[str, list[str]]]:
    """[(stage, lines)]. A line is '' if its value is unknown."""
    recipe, has_training, has_subsets = study["recipe"], len(parity) > 0, len(subsets) > 0
    supervised = recipe.get("objective") == "sft"
    accuracy = accuracy[accuracy.decoding == "sampled"]
    after = accuracy[accuracy.step > 0]
    runs = len(parity) if has_training else int(own_test_rows(after).groupby(RUNS).ngroups)
    seeds = format_range(subsets.seeds) if has_subsets else str(study["seeds"])
    pool = [f"{format_count(len(study['tasks']), 'task')}: {list_names(study['tasks'])}"]
    training = [format_count(runs, "run") if runs else ""]
    probe, policies, tests = [], [], []
    bases = len(study["models"]) * (study["seeds"] if study["own_bases"] else 1)
    if has_subsets:
        pool.append(
            f"{format_range(subsets.pool)} prompts{' each' if len(study['tasks']) > 1 else ''}"
        )
        probe = [
            f"{format_count(bases, 'base model')}: {list_names(study['models'])}",
            f"{format_range(study['probes'].values())} completions a prompt"
            if study["probes"]
            else "recorded completions",
            f"at most {format_range(study['completion_tokens'].values())} tokens",
        ]
        policies = [
            f"{format_count(subsets.policy.nunique(), 'policy', 'policies')}: {list_names(list(dict.fromkeys(subsets.policy)))}",
            f"{format_range(subsets.prompts)} prompts ({format_range(100 * subsets.prompts / subsets.pool, '.0f')} % of the pool)",
        ]
    if has_training:
        unit = "worked solutions" if supervised else f"prompts × {recipe['group_size']} completions"
        prompts = f"{recipe['prompts_per_update']} {unit}"
        training = [
            f"{format_range(parity.updates)} updates",
            prompts,
            format_count(int(seeds), "seed") if seeds.isdigit() else "",
            *training,
        ]
    if len(after):
        tests = [
            format_count(accuracy.eval_task.nunique(), "test set"),
            f"{format_range(accuracy.problems)} problems",
            f"{format_range(accuracy.samples)} {'sample' if accuracy.samples.max() == 1 else 'samples'} each",
            f"base and {format_range(after.groupby(['model', 'task', 'policy', 'recipe']).step.nunique(), word='checkpoint')}",
        ]
    results = (
        ["gains, 95 % intervals", "finishing and correctness", "figures, tables, paper"]
        if runs
        else ["difficulty, subsets"]
    )
    names = (
        "Pool",
        "Probe",
        "Subsets",
        ("SFT" if supervised else "GRPO") if has_training else "Recorded runs",
        "Tests",
        "Results",
    )
    return list(zip(names, (pool, probe, policies, training, tests, results)))


def split_long_names(line: str) -> str:
    """Insert spaces after hyphens and underscores of names with more than LETTERS letters, so that
    `textwrap` can break these names."""
    return re.sub(
        rf"\S{{{LETTERS + 1},}}",
        lambda name: re.sub(rf"(\S{{1,{LETTERS - 1}}}[-_])(?=\S)", r"\1 ", name.group()),
        line,
    )


def format_count(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def list_names(names: list[str], limit: int = 6) -> str:
    """All names, or the first `limit` - 1 and the number of remaining names if there are more
    than `limit`."""
    return (
        ", ".join(names)
        if len(names) <= limit
        else f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    )
