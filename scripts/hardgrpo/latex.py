"""LaTeX tables and macros from summary rows."""

import math

INSTALL = (
    "install latexmk and TeX Live (Debian: latexmk texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended"
    " lmodern) or tectonic, and run again; figures and tables are there without it"
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


def table(columns: list[str], rows: list[list[str]], align: str) -> str:
    """A booktabs tabular; headers and cells are LaTeX already."""
    lines = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", " & ".join(columns) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


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
