"""Make docs/tables.csv from the registry: each table and figure of studies with runs, its inputs,
and the function that makes the table or figure."""

from hardgrpo.analysis import summaries
from hardgrpo.report import registry
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import ResolvedStudy
from pages import committed

import re
from pathlib import Path

import pandas as pd

# {table: number of HE's table with the same quantities}
HE = {"gain": 1, "learnable": 2, "weaker_signal": 3, "out_of_distribution": 4}
COLUMNS = ["kind", "name", "number", "shows", "made_from", "function", "columns"]


def made_from(root: Path, config: dict) -> pd.DataFrame:
    """A row for each table of the supplement, each figure and each summary table, except those of
    analyses of published numbers."""
    numbers = numbered(root, config)
    lines = []
    for name, table in registry.TABLES.items():
        function = f"{name} in src/hardgrpo/report/tables/{table.module}.py"
        number, inputs = numbers.get(name, ""), listed(table.of)
        lines.append(
            ["table of the supplement", name, number, plain(table.caption), inputs, function, ""]
        )
    for name, figure in registry.FIGURES.items():
        function = f"draw in src/hardgrpo/report/figures/{name}.py"
        lines.append(["figure", name, "", plain(figure.caption), listed(figure.of), function, ""])
    for name, summary in registry.SUMMARIES.items():
        origin = listed(registry.INPUTS.get(source, source) for source in summary.of)
        function = f"{name} in src/hardgrpo/analysis/{summary.module}.py"
        lines.append(["summary table", name, "", "", origin, function, listed(summary.columns)])
    for name, table in registry.JUDGED.items():
        function = "main in scripts/summaries/judge_claims.py"
        lines.append(
            ["summary table", name, "", "", listed(table.of), function, listed(table.columns)]
        )
    return pd.DataFrame(lines, columns=COLUMNS)


def same_in_paper(root: Path, config: dict) -> pd.DataFrame:
    """The tables that HE also has, with the number of each table in HE and in the PDF."""
    numbers = numbered(root, config)
    lines = [
        [f"Table {number}", f"`{name}`", f"Table {numbers[name]}" if name in numbers else ""]
        for name, number in HE.items()
    ]
    return pd.DataFrame(lines, columns=["HE", "table", f"PDF of {committed.REFERENCE}"])


def numbered(root: Path, config: dict) -> dict[str, int]:
    """{table: number} in the PDF of study `mini_reference`. The PDF leaves out empty tables."""
    text = (root / "paper/supplement.tex").read_text(encoding="utf-8")
    text_order = [
        name for name in re.findall(r"\\resulttable\{(\w+)\}", text) if name in registry.TABLES
    ]
    order = dict.fromkeys([*text_order, *registry.TABLES])
    study = ResolvedStudy.of(config, committed.REFERENCE)
    folder = root / paths.reference(committed.REFERENCE)
    tables = {
        path.stem: summaries.read_labelled(path, study.first_recipe)
        for path in folder.glob("*.csv")
    }
    tables |= committed.judged(root, study) | {
        "deviations": summaries.read(root / paths.PUBLISHED / "deviations.csv")
    }
    design = designs.design(study)
    filled = [name for name in order if len(registry.make_table(name, tables, design)[0])]
    return {name: number for number, name in enumerate(filled, start=1)}


def listed(names) -> str:
    return ", ".join(names)


def plain(latex: str) -> str:
    """A caption in Markdown, without citations."""
    text = re.sub(r"~?\\cite\{[^}]*\}", "", latex).replace("et al..", "et al.")
    text = re.sub(r"\\emph\{([^}]*)\}", r"*\1*", text)
    text = re.sub(r"\\texttt\{([^}]*)\}", r"`\1`", text)
    return text.replace(r"\,\%", " %").replace(r"\%", "%").replace(r"\_", "_").replace("$", "")
