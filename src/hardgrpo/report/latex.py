"""LaTeX tables and macros from summary rows."""

import html
import itertools
import math
import re
from dataclasses import dataclass

NAMES = dict.fromkeys(  # columns that hold text, also where it looks like a number
    ["model", "task", "eval_task", "policy", "minus", "tier", "place", "what", "written", "released", "key"], str
)
INSTALL = (
    "install latexmk and TeX Live (Debian: latexmk texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended"
    " lmodern) or tectonic"
)


def escape(text: str) -> str:
    table = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(table.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in str(text))


def points(value: float, digits: int = 1) -> str:
    """A share in percentage points, with a sign of the width of a plus: 0.031 -> '3.1'."""
    if value is None or math.isnan(value):
        return "--"
    text = f"{100 * value:.{digits}f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    return text.replace("-", "$-$")


def interval(low: float, high: float, digits: int = 1) -> str:
    """'[1.2, 3.4]' in points, or nothing where the design gives no interval."""
    if any(end is None or math.isnan(end) for end in (low, high)):
        return ""
    return f"[{points(low, digits)}, {points(high, digits)}]"


def with_interval(value: float, low: float, high: float) -> str:
    return f"{points(value)} {interval(low, high)}".strip()


def signed(value: float, digits: int = 1) -> str:
    """A change in percentage points, always with its sign."""
    text = points(value, digits)
    return text if text.startswith("$-$") or text in ("--", f"{0:.{digits}f}") else f"$+${text}"


def r_squared(value: float, low: float, high: float) -> str:
    """'0.61 [0.20, 0.80]', not in points; the value alone where the design gives no interval."""
    return f"{value:.2f}" + ("" if math.isnan(low) else f" [{low:.2f}, {high:.2f}]")


def probability(value: float) -> str:
    """'0.032', '<0.001', or a dash."""
    if value is None or math.isnan(value):
        return "--"
    return "$<$0.001" if value < 0.001 else f"{value:.3f}"


@dataclass(frozen=True)
class Column:
    """A column of a table: header and cells are LaTeX already. With `note`, a column whose cells are all alike becomes a note."""

    header: str
    cells: list[str]
    align: str = "l"
    note: str = ""  # e.g. "model {}"


def table(columns: list[Column]) -> str:
    r"""A booktabs longtable, so that it may go over pages; nothing where there are no rows.

    It has a caption where \tablecaption is defined. What is the same in all rows is said once, in the caption.
    """
    if not columns or not columns[0].cells:
        return ""
    said, kept = [], []
    for column in columns:
        alike = set(filter(None, column.cells))
        (said if column.note and len(alike) == 1 else kept).append(column)
    notes = "; ".join(column.note.format(*filter(None, dict.fromkeys(column.cells))) for column in said)
    # A cell that repeats the one above is left empty, in the columns that name the row.
    names = sum(1 for _ in itertools.takewhile(lambda column: column.align == "l", kept))
    lines, above = [], [None] * len(kept)
    for row in zip(*(column.cells for column in kept)):
        same = list(itertools.accumulate((a == b for a, b in zip(row, above)), lambda x, y: x and y))
        lines.append([("" if same[i] and i < names - 1 else cell) for i, cell in enumerate(row)])
        above = row
    head = " & ".join(column.header for column in kept) + r" \\"
    said_once = f"{notes[:1].upper()}{notes[1:]}." if notes else ""
    text = [
        rf"\ifdefined\tablecaption{size(kept)}\fi",
        rf"\begin{{longtable}}{{@{{}}{''.join(column.align for column in kept)}@{{}}}}",
        rf"\ifdefined\tablecaption\caption{{\tablecaption{{}} {said_once}}}\\\fi{'  % ' + said_once if said_once else ''}",
        rf"\toprule {head} \midrule\endfirsthead",
        rf"\toprule {head} \midrule\endhead",
        r"\bottomrule\endfoot",
        r"\bottomrule\endlastfoot",
    ]
    text += [" & ".join(row) + r" \\" for row in lines]
    return "\n".join([*text, r"\end{longtable}", ""])


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #111; background: #fff }}
table {{ border-collapse: collapse; border-block: 1.5px solid #111 }} th {{ border-bottom: 1px solid #111 }}
th, td {{ padding: .2em .7em; text-align: left; vertical-align: top }} .r {{ text-align: right; white-space: nowrap }}
</style></head><body><h1>{title}</h1>{table}</body></html>
"""


def page(title: str, columns: list[Column]) -> str:
    """The same table as a web page of its own, for the report."""
    if not columns or not columns[0].cells:
        return PAGE.format(title=html.escape(title), table="<p>This study has no rows for this table.</p>")
    kinds = ["r" if column.align == "r" else "l" for column in columns]
    row = lambda tag, cells: "<tr>" + "".join(f'<{tag} class="{k}">{as_html(c)}</{tag}>' for k, c in zip(kinds, cells)) + "</tr>\n"
    body = "".join(row("td", cells) for cells in zip(*(column.cells for column in columns)))
    return PAGE.format(title=html.escape(title), table=f"<table>{row('th', (c.header for c in columns))}{body}</table>")


def as_html(cell: str) -> str:
    """A cell's LaTeX, of the few kinds that tables use, as HTML."""
    for latex, plain in (
        (r"\to", "→"), ("$-$", "−"), (r"\,", "\u202f"), (r"\allowbreak{}", ""), (r"\hat p", "p̂"), (r"\textasciicircum{}", "^"),
        (r"\textasciitilde{}", "~"), ("R^2", "R²"), ("`", "‘"), ("'", "’"),
    ):  # fmt: skip
        cell = cell.replace(latex, plain)
    cell = html.escape(re.sub(r"\\([&%$#_{}])", r"\1", cell.replace("$", "")), quote=False)
    return re.sub(r"\\(?:textbf|underline)\{(.*?)\}", r"<b>\1</b>", cell)


TEXT_WIDTH = 455  # points


def size(columns: list[Column]) -> str:
    """The largest font in which a table, in the paper's text width, does not stick out; nothing for the usual one."""
    visible = lambda text: len(re.sub(r"\\[a-zA-Z]+|[\\${}]", "", text))
    fixed = [float(width) for column in columns for width in re.findall(r"p\{([\d.]+)\\linewidth", column.align)]
    characters = sum(max(map(visible, (column.header, *column.cells))) for column in columns if "p{" not in column.align)
    space = TEXT_WIDTH * (1 - sum(fixed)) - 7 * len(columns)
    fonts = {"": 4.6, r"\scriptsize": 4.0}  # points a character, on average
    return next((font for font, width in fonts.items() if characters * width <= space), r"\tiny")


def macros(values: dict[str, str]) -> str:
    r"""`\result{key}` for every key; an unknown key stops the compilation instead of printing nothing."""
    head = (
        "% Made from the summaries by write_numbers.py; not to be edited.\n"
        r"\makeatletter"
        "\n"
        r"\newcommand{\result}[1]{\@ifundefined{result@#1}{\PackageError{results}{No result named #1}{}}{\csname result@#1\endcsname}}"
        "\n"
    )
    body = "".join(f"\\@namedef{{result@{key}}}{{{value}}}\n" for key, value in values.items())
    return head + body + "\\makeatother\n"
