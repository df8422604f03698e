"""Fill the templates of pages/templates/."""

from hardgrpo.analysis.formats import change, change_interval
from hardgrpo.report import paper
from hardgrpo.report.markdown import environment, quoted, table

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent / "templates"


def fill(name: str, root: Path, **values) -> str:
    """The text of a template, which may read committed tables as the paper does (`rows`)."""
    templates = environment(FOLDER)
    templates.filters |= {"table": table, "change": change, "quoted": quoted}
    functions = (estimate, paper.each, paper.own, paper.largest_gains, paper.Paper(root, {}).rows)
    templates.globals |= {function.__name__: function for function in functions}
    return templates.get_template(f"{name}.md.j2").render(**values)


def estimate(rows: pd.DataFrame, column: str) -> str:
    """The value of a column in the only row, in points, with its interval."""
    ends = [paper.end(rows, column, ending) for ending in paper.ENDS]
    return change_interval(*(rows[name].item() for name in (column, *ends)))
