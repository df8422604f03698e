"""Tables as web pages, for Snakemake's report."""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from hardgrpo.report.table_columns import Cell, Column, Math, known_columns

TEMPLATES = Path(__file__).with_name("templates")


TEX = {  # {pattern of a command in a caption: its plain text}
    r"\\(?:emph|texttt|textbf)\{([^}]*)\}": r"\1",
    r"~?\\cite\{[^}]*\}": "",  # a page has no list of references
    r"\\,|~": " ",
    r"\$([^$]*)\$": r"\1",
    r"\\([%_&#$])": r"\1",
}


def page(title: str, columns: list[Column], caption: str = "") -> str:
    """The page of a table that can be sorted by each column. `caption` is the table's caption in
    LaTeX."""
    columns = known_columns(columns)
    rows = list(zip(*(column.cells for column in columns)))
    script = Markup((TEMPLATES / "table.js").read_text(encoding="utf-8"))
    values = {"title": title, "columns": columns, "rows": rows, "description": plain_text(caption)}
    return template("table.html", render=render, checksum=checksum).render(script=script, **values)


def plain_text(caption: str) -> str:
    """A caption in which the commands of TEX are replaced by plain text."""
    for pattern, text in TEX.items():
        caption = re.sub(pattern, text, caption)
    return caption


def checksum(text: str) -> str:
    """The source expression that allows an inline script or style in a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def template(name: str, **filters: Callable) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(name)


def render(cell: Cell) -> Markup:
    if isinstance(cell, tuple):
        return Markup("").join(map(render, cell))
    if isinstance(cell, Math):
        return Markup("<i>{}</i>").format(cell.plain)
    return Markup.escape(cell)
