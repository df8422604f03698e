"""For docs/results.md: each table and figure, its inputs and the function that makes it, from the registry."""

from hardgrpo.analysis import summaries
from hardgrpo.report import registry
from hardgrpo.study import paths, settings
from pages import results

import importlib
import re
from pathlib import Path

HE = {
    "gain": "Table 1",
    "learnable": "Table 2",
    "weaker_signal": "Table 3",
    "out_of_distribution": "Table 4",
}  # with the same content


def made_from(root: Path, config: dict) -> str:
    """Three tables: of the paper's tables, of figures, of summary tables."""
    numbers = numbered(root, config)
    lines = [
        "### Tables of the paper",
        "",
        f"| table | in the PDF of {results.REFERENCE} | in HE | shows | made from | function |",
        "|---|---|---|---|---|---|",
    ]
    for name, table in registry.TABLES.items():
        number = f"Table {numbers[name]}" if name in numbers else ""
        lines.append(
            f"| `{name}` | {number} | {HE.get(name, '')} | {plain(table.caption)} | {listed(table.of)} | `{name}` in `src/hardgrpo/report/tables/{table.module}.py` |"
        )
    lines += ["", "### Figures", "", "| figure | shows | made from | function |", "|---|---|---|---|"]
    for name, figure in registry.FIGURES.items():
        lines.append(
            f"| `{name}` | {plain(figure.caption)} | {listed(figure.of)} | `draw` in `src/hardgrpo/report/figures/{name}.py` |"
        )
    lines += ["", "### Summary tables", "", "| table | made from | function | columns |", "|---|---|---|---|"]
    for name, summary in registry.SUMMARIES.items():
        origin = ", ".join(registry.INPUTS.get(one, f"`{one}`") for one in summary.of)
        lines.append(
            f"| `{name}` | {origin} | `{name}` in `src/hardgrpo/analysis/{summary.module}.py` | {', '.join(summary.columns)} |"
        )
    for name, table in registry.JUDGED.items():
        lines.append(
            f"| `{name}` | {listed(table.of)} | `main` in `scripts/summaries/judge_claims.py` | {', '.join(table.columns)} |"
        )
    return "\n".join(lines)


def numbered(root: Path, config: dict) -> dict[str, int]:
    """Numbers of the tables in the reference study's PDF: in the order of the text, without tables that have no rows."""
    text = (root / "paper/main.tex").read_text(encoding="utf-8")
    placed = [name for name in re.findall(r"\\resulttable\{(\w+)\}", text) if name in registry.TABLES]
    order = dict.fromkeys([*placed, *registry.TABLES])
    given = {path.stem: summaries.read(path) for path in (root / paths.reference(results.REFERENCE)).glob("*.csv")}
    given |= results.judged(root, config, results.REFERENCE) | {
        "deviations": summaries.read(root / paths.PUBLISHED / "deviations.csv")
    }
    design = settings.described(config, results.REFERENCE)
    filled = [name for name in order if len(rows(name, given, design))]
    return {name: number for number, name in enumerate(filled, start=1)}


def rows(name: str, given: dict, design: dict):
    table = registry.TABLES[name]
    make = getattr(importlib.import_module(f"hardgrpo.report.tables.{table.module}"), name)
    return make(**{one: given[one] for one in table.of}, **({"study": design} if table.design else {}))[0]


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def plain(latex: str) -> str:
    """A caption without LaTeX's commands."""
    text = re.sub(r"\\emph\{([^}]*)\}", r"*\1*", re.sub(r" HE is~.*", "", latex))
    return text.replace(r"\,\%", " %").replace(r"\%", "%").replace("$", "")
