"""Fill the templates of pages/templates/."""

from hardgrpo.analysis.formats import change
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.report.markdown import quoted, table

from pathlib import Path

import jinja2

FOLDER = Path(__file__).parent / "templates"


def fill(name: str, **values) -> str:
    """The text of a template. A missing value raises `jinja2.UndefinedError`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"table": table, "change": change, "quoted": quoted}
    environment.globals |= {"interval": interval}
    return environment.get_template(f"{name}.md.j2").render(**values)
