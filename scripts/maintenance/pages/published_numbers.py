"""docs/published-numbers.md, and the section on samples per prompt in docs/which-prompts.md:
results of the analyses of published numbers of right answers."""

from hardgrpo.report import answers
from hardgrpo.runtime import files
from hardgrpo.study import paths
from pages import templates

import itertools
from pathlib import Path

import pandas as pd

# analyses of all problems of MATH, and of prompts that were drawn by difficulty
UNSELECTED, DESIGNED_MIX = (
    ("math_probing", "math_probing_general", "math_probing_instruct"),
    "probing",
)
SIZES = (2, 4, 8, 16)  # numbers of samples per prompt in docs/which-prompts.md


def page(root: Path, config: dict) -> str:
    """The page docs/published-numbers.md: the results of analyses before and after training, and the
    sources of all analyses with committed tables."""
    analyses = {
        name: analysis
        for name, analysis in config["analyses"].items()
        if (root / paths.reference(name)).is_dir()
    }
    texts = {
        name: answers.text(analysis, tables(root, name, analysis))
        for name, analysis in analyses.items()
        if analysis["kind"] == "before_after"
    }
    sources = []
    for _, group in itertools.groupby(analyses.items(), lambda item: item[1]["source"]["files"]):
        names, read_from_it = zip(*group)
        sources.append((names, read_from_it[0]))
    return templates.fill(
        "published-numbers", root, analyses=analyses, texts=texts, sources=sources
    )


def samples_section(root: Path, config: dict) -> str:
    """The section of docs/which-prompts.md on the number of samples per prompt, in Markdown."""
    analyses = config["analyses"]
    pools = [
        answers.samples_per_prompt(analyses[name], tables(root, name, analyses[name]))
        | {"model": analyses[name]["model"]}
        for name in (*UNSELECTED, DESIGNED_MIX)
    ]
    *unselected, mix = pools
    names = [f"MATH, {values['model']}" for values in unselected]
    last = analyses[DESIGNED_MIX]["probe"]
    rows = ["none: a random choice", *SIZES, last, "*sufficient number*", "predicted"]
    sizes = {"samples per prompt": rows}
    for name, values in zip([*names, f"drawn by difficulty, {mix['model']}"], pools):
        half = values["by_rule"]["nearest_half"].mixed
        shares = [values["by_rule"]["random"].mixed[0], *(half[size] for size in (*SIZES, last))]
        predicted = [
            f"{answers.points(row['mixed'])} ({answers.points(row['random'])})"
            for row in values["predicted"]
        ]
        sizes[name] = [*map(answers.points, shares), values["sufficient"]["nearest_half"]]
        sizes[name] += predicted or [""]
    return templates.fill(
        "samples",
        root,
        unselected=unselected,
        mix=mix,
        sizes=pd.DataFrame(sizes),
        reached={size: reached(unselected, size, last) for size in (4, 8)},
        least=mix["least"],
        last=last,
        group=analyses[UNSELECTED[0]]["group"],
        samples=analyses[UNSELECTED[0]]["samples"],
        points=answers.points,
    )


def reached(pools: list[dict], size: int, last: int) -> str:
    """The range, over pools, of the improvement over a random choice by `size` samples, in per cent
    of the improvement by `last` samples."""
    shares = []
    for values in pools:
        half, random = (values["by_rule"][rule].mixed for rule in ("nearest_half", "random"))
        shares.append(100 * (half[size] - random[0]) / (half[last] - random[0]))
    return f"{min(shares):.0f} to {max(shares):.0f}"


def tables(root: Path, name: str, analysis: dict) -> dict:
    """{name: committed summary table} of an analysis."""
    return answers.read_tables(analysis, files.Tables.below(root / paths.reference(name)))
