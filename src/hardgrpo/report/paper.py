"""The text of the paper over all studies, and the text of a study's supplement, filled from tables.

A text (paper/main.tex.j2, paper/supplement.tex.j2) reads a number where the number is written, and
tests a sentence's condition beside the sentence:

    <% set hard = rows("mini_reference/gains", policy="hard", decoding="sampled") %>
    <% do holds(above(hard, "gain", 0)) %>
    The hardest tenth gains << gain(hard, "gain") >> points.

The paper names a table as in `paths.committed_table`, a supplement by the table's name alone.
Keywords select rows; a list allows several values. A condition that the tables do not fulfil stops
the paper.
"""

import re
import traceback
from pathlib import Path

import jinja2
import pandas as pd

from hardgrpo.analysis import arms, formats, summaries
from hardgrpo.analysis.formats import ENDS, FORMATS
from hardgrpo.report import latex, task_examples
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

ORIGIN = ["text", "file", "lines", "column", "show"]


class Paper:
    """Functions that the text calls. `origins` holds a row of ORIGIN for each number of a table.
    `tables` are the tables of a supplement; without them, tables are committed tables below `root`.
    """

    def __init__(self, root: str | Path, design: dict, tables: files.Tables | None = None):
        self.root, self.configuration, self.tables = Path(root), design, tables
        self.frames: dict[str, pd.DataFrame] = {}
        self.origins: list[dict] = []

    def fill(self, path: str | Path) -> str:
        """The text of a template. Raise a `UserError` if a table does not support a sentence."""
        environment = jinja2.Environment(
            block_start_string="<%", block_end_string="%>", variable_start_string="<<", variable_end_string=">>",
            comment_start_string="<#", comment_end_string="#>", trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
            undefined=jinja2.StrictUndefined, extensions=["jinja2.ext.do"], loader=jinja2.FileSystemLoader(Path(path).parent),
        )  # fmt: skip
        functions = (
            self.rows,
            self.row_count,
            self.total,
            self.design,
            self.percent,
            holds,
            above,
            below,
            includes,
            own,
            by,
            each,
            settings_in_words,
        )
        environment.globals |= {function.__name__: function for function in functions}
        environment.globals |= {show: self.format(show) for show in FORMATS}
        environment.globals |= {"examples": task_examples.as_latex, "study": self.configuration}
        environment.filters |= {"tex": latex.escape, "tidy": tidy}
        try:
            return environment.get_template(Path(path).name).render()
        except (UserError, AttributeError, KeyError, jinja2.TemplateError) as error:
            frames = [
                f
                for f in traceback.extract_tb(error.__traceback__)
                if Path(f.filename).name == Path(path).name
            ]
            line = frames[-1].lineno if frames else getattr(error, "lineno", None)
            raise UserError(
                f"{path}:{line}: {error}; if the table is right, rewrite the sentence and its condition"
            ) from error

    def rows(self, table: str, **where) -> pd.DataFrame:
        """The rows of a table, with numbers where a column has only numbers."""
        if table not in self.frames:
            self.frames[table] = self.read(table)
        frame = self.frames[table]
        for column, value in where.items():
            frame = frame[
                frame[column].isin(list(map(str, value if isinstance(value, list) else [value])))
            ]
        frame = frame.apply(as_numbers) if len(frame) else frame.copy()
        frame.attrs["path"] = self.path(table)
        return frame

    def path(self, table: str) -> str:
        if self.tables is None:
            return paths.committed_table(table)
        return str(self.tables.get(table, f"{table}.csv"))

    def read(self, table: str) -> pd.DataFrame:
        """The cells of a table as text, indexed by their lines; of a supplement, with the labels of
        arms."""
        if self.tables is not None and summaries.has_no_file(self.tables, table):
            frame = summaries.empty(table)
        else:
            header, cells = files.read_cells(self.root / self.path(table))
            frame = pd.DataFrame(cells, columns=header, index=range(2, len(cells) + 2))
        if self.tables is None:
            return frame
        return arms.add_labels(frame, self.configuration["first_recipe"])

    def row_count(self, rows: pd.DataFrame) -> str:
        return self.note(formats.integer(len(rows)), rows, "", "count of rows")

    def total(self, rows: pd.DataFrame, column: str) -> str:
        return self.note(formats.integer(rows[column].sum()), rows, column, "sum")

    def format(self, show: str):
        """The function `show` of the text."""
        endings, format_values = FORMATS[show]

        def text(rows: pd.DataFrame, column: str, extreme: str = "") -> str:
            """The only value of a column or, with `extreme`, its least or its largest (most)."""
            if extreme:
                find = rows[column].idxmin if extreme == "least" else rows[column].idxmax
                rows = rows.loc[[find()]]
            names = [column] + [end(rows, column, ending) for ending in endings[1:]]
            texts = {format_values(*values) for values in rows[names].itertuples(index=False)}
            if len(texts) != 1:
                raise UserError(f"{place(rows)}: {len(texts)} values of {column}; expected one")
            return self.note(texts.pop(), rows, column, show)

        return text

    def note(self, text: str, rows: pd.DataFrame, column: str, show: str) -> str:
        text, lines = latex.number(text), " ".join(map(str, rows.index))
        row = (text, rows.attrs["path"], lines, column, show)
        self.origins.append(dict(zip(ORIGIN, row)))
        return text

    def design(self, path: str) -> str:
        """A number of the configuration."""
        return latex.number(formats.integer(self.entry(path)))

    def percent(self, path: str) -> str:
        return latex.number(f"{100 * self.entry(path):g}")

    def entry(self, path: str) -> float:
        value = self.configuration
        for key in path.split("/"):
            value = value[key]
        return value


def as_numbers(cells: pd.Series) -> pd.Series:
    """A column as numbers, if all its cells are numbers or empty."""
    numbers = pd.to_numeric(cells, errors="coerce")
    return cells if (numbers.isna() & (cells != "")).any() else numbers


def own(rows: pd.DataFrame) -> pd.DataFrame:
    return summaries.own_test_rows(rows)


def by(rows: pd.DataFrame, *keys: str) -> list[tuple[tuple, pd.DataFrame]]:
    """[(values of the keys, rows)], in the table's order."""
    columns = list(keys) if len(keys) > 1 else keys[0]
    groups = rows.groupby(columns, sort=False).groups if len(rows) else {}
    return [
        (key if isinstance(key, tuple) else (key,), rows.loc[lines])
        for key, lines in groups.items()
    ]


def each(rows: pd.DataFrame) -> list[pd.DataFrame]:
    return [rows.loc[[line]] for line in rows.index]


def largest_gains(gains: pd.DataFrame) -> list[pd.DataFrame]:
    """The row with the largest gain of each model and task."""
    return [rows.loc[[rows.gain.idxmax()]] for _, rows in by(gains, "model", "task")]


def settings_in_words(settings: dict) -> str:
    """{'loss': 'dr_grpo', 'adapter': {'rank': 8}} -> 'loss dr_grpo, adapter (rank 8)'. Keys with
    the value None (the recipe has no such setting) are omitted."""
    words = {
        key: f"({settings_in_words(value)})" if isinstance(value, dict) else value
        for key, value in settings.items()
        if value is not None
    }
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in words.items())


def tidy(text: str) -> str:
    """The text with one line per paragraph, blank lines between paragraphs, single spaces, and no
    space before punctuation."""
    paragraphs = (re.sub(r"[ \n]+", " ", part).strip() for part in re.split(r"\n *\n\s*", text))
    return "\n\n".join(
        re.sub(r" ([,.;:)])", r"\1", part).replace(r" \seefigure", r"\seefigure")
        for part in paragraphs
        if part
    )


def end(rows: pd.DataFrame, column: str, ending: str) -> str:
    """The column with an end of the interval of `column`. A table with one estimate per row calls its
    ends `low` and `high`."""
    return f"{column}{ending}" if f"{column}{ending}" in rows else ending.removeprefix("_")


def above(rows: pd.DataFrame, column: str, limit: float) -> pd.Series:
    return rows[end(rows, column, "_low")] > limit


def below(rows: pd.DataFrame, column: str, limit: float) -> pd.Series:
    return rows[end(rows, column, "_high")] < limit


def includes(rows: pd.DataFrame, column: str, limit: float) -> pd.Series:
    low, high = (rows[end(rows, column, ending)] for ending in ENDS)
    return (low <= limit) & (high >= limit)


def holds(*conditions: pd.Series | bool) -> None:
    """Raise a `UserError` unless each condition holds in at least one row, and in all its rows."""
    for condition in conditions:
        if isinstance(condition, pd.Series):
            failed = condition[~condition.astype(bool)]
            if condition.empty or len(failed):
                raise UserError(f"{place(failed)}: the table does not support this sentence")
        elif not condition:
            raise UserError("the tables do not support this sentence")


def place(rows: pd.DataFrame | pd.Series) -> str:
    """The table and the lines of rows."""
    lines = ", ".join(map(str, rows.index[:5]))
    return f"{rows.attrs.get('path', 'the tables')}: {f'line {lines}' if lines else 'no row'}"
