"""The numbers of tables in the paper of HE and in the PDF of study `mini_reference`."""

from hardgrpo.analysis import summaries
from hardgrpo.report import registry
from hardgrpo.report import tables as shown_tables
from hardgrpo.runtime import files
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import ResolvedStudy
from pages import committed

import re
from pathlib import Path

import pandas as pd

# {table: number of HE's table with the same quantities}
HE = {"gain": 1, "learnable": 2, "weaker_signal": 3, "out_of_distribution": 4}


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
        name for name in re.findall(r"\\resulttable\{(\w+)\}", text) if name in shown_tables.TABLES
    ]
    order = dict.fromkeys([*text_order, *shown_tables.TABLES])
    study = ResolvedStudy.of(config, committed.REFERENCE)
    tables = summaries.read_all(
        files.Tables.below(root / paths.reference(committed.REFERENCE)),
        registry.SUMMARIES,
        study.first_recipe,
    )
    tables |= committed.judged(root, study) | {
        "deviations": summaries.read(root / paths.PUBLISHED / "deviations.csv")
    }
    design = designs.design(study)
    filled = [name for name in order if len(shown_tables.make(name, tables, design)[0])]
    return {name: number for number, name in enumerate(filled, start=1)}
