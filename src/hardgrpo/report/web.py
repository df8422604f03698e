"""Tables as web pages for the report."""

from collections.abc import Callable
from pathlib import Path

import jinja2
from markupsafe import Markup

from hardgrpo.report.table_columns import Cell, Column, Marked, Math, known_columns

TEMPLATES = Path(__file__).with_name("templates")
MARKS = {"best": Markup("<b>{}</b>"), "second": Markup("<u>{}</u>")}


def page(title: str, columns: list[Column]) -> str:
    columns = known_columns(columns)
    rows = list(zip(*(column.cells for column in columns)))
    return template("table.html", render=render).render(title=title, columns=columns, rows=rows)


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
    if isinstance(cell, Marked):
        return MARKS[cell.rank].format(cell.text)
    return Markup.escape(cell)
