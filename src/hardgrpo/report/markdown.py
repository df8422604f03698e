"""Tables and lists of names in Markdown."""

import pandas as pd


def table(frame: pd.DataFrame) -> str:
    """A table in Markdown; an empty cell where a value is missing."""
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.fillna("").itertuples(index=False)]
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([lines[0], lines[1].replace(" ", ""), *lines[2:]])


def quoted(names) -> str:
    """The names in backquotes, separated by commas, without duplicates: "`a`, `b`"."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))
