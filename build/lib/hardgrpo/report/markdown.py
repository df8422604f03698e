"""Tables, lists of names and templates in Markdown."""

from pathlib import Path

import jinja2
import pandas as pd


def environment(folder: Path) -> jinja2.Environment:
    """The environment of a folder's templates. A missing value raises `jinja2.UndefinedError`."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def table(frame: pd.DataFrame) -> str:
    """A data frame as a Markdown table. A missing value becomes an empty cell."""
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.fillna("").itertuples(index=False)]
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([lines[0], lines[1].replace(" ", ""), *lines[2:]])


def quoted(names) -> str:
    """The names in backquotes, separated by commas, without duplicates: "`a`, `b`"."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))
