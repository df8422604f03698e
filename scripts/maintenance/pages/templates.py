"""Fill the templates of pages/templates/."""

from hardgrpo.analysis.formats import change
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.report.markdown import environment, quoted, table

from pathlib import Path

FOLDER = Path(__file__).parent / "templates"


def fill(name: str, **values) -> str:
    templates = environment(FOLDER)
    templates.filters |= {"table": table, "change": change, "quoted": quoted}
    templates.globals["interval"] = interval
    return templates.get_template(f"{name}.md.j2").render(**values)


def anchor(title: str) -> str:
    """GitHub's link to a heading."""
    letters = "".join(
        character for character in title.lower() if character.isalnum() or character in " -_"
    )
    return letters.replace(" ", "-")
