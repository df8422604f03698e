"""Fill the templates of pages/templates/ and write tables in Markdown."""

from hardgrpo.analysis.formats import change
from hardgrpo.analysis.formats import change_interval as interval

from pathlib import Path

import jinja2
import pandas as pd

FOLDER = Path(__file__).parent / "templates"


def fill(name: str, **values) -> str:
    """The text of a template. A missing value raises `jinja2.UndefinedError`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"table": table, "change": change, "quoted": quoted}
    environment.globals |= {"interval": interval}
    return environment.get_template(f"{name}.md.j2").render(**values)


def table(frame: pd.DataFrame) -> str:
    """A table in Markdown; an empty cell where a value is missing."""
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.fillna("").itertuples(index=False)]
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([lines[0], lines[1].replace(" ", ""), *lines[2:]])


def quoted(names) -> str:
    """The names in backquotes, separated by commas, without duplicates: "`a`, `b`"."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))
