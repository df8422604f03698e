"""Write tables, captions and macros in LaTeX."""

import itertools
import unicodedata

from hardgrpo.report.table_columns import Cell, Column, Math, known_columns, plain
from hardgrpo.study import paths

INSTALL = (
    "install latexmk and TeX Live (Debian: latexmk texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended"
    " lmodern) or tectonic"
)
CHARACTERS = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--", "→": r"$\to$", "‘": "`", "’": "'",
    "\N{NARROW NO-BREAK SPACE}": r"\,", "\N{ZERO WIDTH SPACE}": r"\allowbreak{}",
}  # fmt: skip
SIGNS = {"+": "$+$", "<": "$<$"}


def escape(text: str) -> str:
    """Escape a text so that TeX prints it unchanged. Control characters and line separators, at
    which pdflatex stops, become "?"."""
    return "".join(
        CHARACTERS.get(
            character,
            "?"
            if unicodedata.category(character) in ("Zl", "Zp")
            or unicodedata.category(character)[0] == "C"
            else character,
        )
        for character in str(text)
    )


def number(text: str) -> str:
    """A number that was formatted by hardgrpo.analysis.formats, in LaTeX."""
    return "".join(SIGNS.get(character, escape(character)) for character in text)


def render(cell: Cell, as_number: bool = False) -> str:
    if isinstance(cell, tuple):
        return "".join(render(part, as_number) for part in cell)
    if isinstance(cell, Math):
        return f"${cell.tex}$"
    return number(cell) if as_number else escape(cell)


def fill_note(note: Cell, cell: str) -> str:
    """A column's note, filled with the only value of the column's cells."""
    if isinstance(note, tuple):
        return "".join(fill_note(part, cell) for part in note)
    return (
        render(note).replace("{}", escape(cell))
        if isinstance(note, Math)
        else escape(note.format(cell))
    )


def allow_breaks(cell: str, column: Column) -> str:
    """Allow line breaks after underscores if the column wraps its text."""
    return cell.replace(r"\_", r"\_\allowbreak{}") if column.width else cell


def table(columns: list[Column]) -> str:
    r"""A booktabs longtable, which may break over pages; "" if there are no rows.

    The table has a caption if \tablecaption is defined. `printed_columns` says which columns move
    into the caption. A table of more than MOST_ROWS rows is not printed: \filedtable prints its
    number of rows.
    """
    if not columns or not columns[0].cells:
        return ""
    if len(columns[0].cells) > MOST_ROWS:
        return f"\\filedtable{{{len(columns[0].cells)}}}\n"
    caption_notes, shown_columns = printed_columns(columns)
    notes = "; ".join(caption_notes)
    # The first columns name the row. In all of them but the last, a cell is left empty if it and
    # the cells to its left equal the cells above.
    is_name = lambda column: column.align == "l" and not column.width
    names = len(list(itertools.takewhile(is_name, shown_columns)))
    lines, previous_row = [], [None] * len(shown_columns)
    for row in zip(
        *(
            [allow_breaks(render(cell, column.number), column) for cell in column.cells]
            for column in shown_columns
        )
    ):
        repeats = list(
            itertools.accumulate((a == b for a, b in zip(row, previous_row)), lambda x, y: x and y)
        )
        lines.append([("" if repeats[i] and i < names - 1 else cell) for i, cell in enumerate(row)])
        previous_row = row
    head = head_rows([render(column.header) for column in shown_columns])
    caption_note = f"{notes[:1].upper()}{notes[1:]}." if notes else ""
    text = [
        rf"\ifdefined\tablecaption{font_command(shown_columns)}\fi",
        rf"\begin{{longtable}}{{@{{}}{''.join(map(alignment, shown_columns))}@{{}}}}",
        rf"\ifdefined\tablecaption\caption{{\tablecaption{{}} {caption_note}}}\\\fi{'  % ' + caption_note if caption_note else ''}",
        rf"\toprule {head} \midrule\endfirsthead",
        rf"\toprule {head} \midrule\endhead",
        r"\bottomrule\endfoot",
        r"\bottomrule\endlastfoot",
    ]
    text += [" & ".join(row) + r" \\" for row in lines]
    return "\n".join([*text, r"\end{longtable}", ""])


def printed_columns(columns: list[Column]) -> tuple[list[str], list[Column]]:
    """(notes for the caption, columns to print). A column with a `note` becomes a note if all its
    cells that are not empty are equal. A column without a `note` becomes a note if all its cells
    are equal and not empty, and the table has at least FEW rows. A column of numbers that are all
    unknown is left out."""
    notes, shown_columns = [], []
    for column in known_columns(columns):
        values = list(filter(None, dict.fromkeys(column.cells)))
        if len(values) == 1 and column.note:
            notes.append(fill_note(column.note, values[0]))
        elif values and len(set(column.cells)) == 1 and len(column.cells) >= FEW:
            notes.append(f"{render(column.header)}: {render(values[0], column.number)}")
        else:
            shown_columns.append(column)
    return notes, shown_columns


def head_rows(headers: list[str]) -> str:
    r"""The rows of a table's head. The part of a header after a comma ("gain, pp") is in a second
    row, which keeps columns narrow."""
    names, units = zip(*(header.partition(", ")[::2] for header in headers))
    rows = [names, units] if any(units) else [names]
    return " ".join(" & ".join(row) + r" \\" for row in rows)


def alignment(column: Column) -> str:
    return (
        rf">{{\raggedright\arraybackslash}}p{{{column.width:.2f}\linewidth}}"
        if column.width
        else column.align
    )


# least number of rows for which equal cells become a note; in fewer rows, they may be a coincidence
FEW = 3
MOST_ROWS = 40  # largest number of rows of a table that is printed, about one page
TEXT_WIDTH = 455  # points


def font_command(columns: list[Column]) -> str:
    """The command of the largest font in which the estimated width of a table fits the paper's text
    width ("" for the usual font). If no font fits, `\\tiny` with less space between the columns."""
    # arrows are not counted, because the digits beside them are narrow
    length = lambda cell: len(plain(cell).replace("→", ""))
    characters = sum(
        max(map(length, (column.header, *column.cells))) for column in columns if not column.width
    )
    space = TEXT_WIDTH * (1 - sum(column.width for column in columns)) - 7 * len(columns)
    fonts = {"": 4.6, r"\scriptsize": 4.0}  # mean width of a character, in points
    narrow = r"\tiny\setlength{\tabcolsep}{2.5pt}"
    return next((font for font, width in fonts.items() if characters * width <= space), narrow)


def macros(values: dict[str, str]) -> str:
    r"""LaTeX that defines `\result{key}` for every key. An unknown key stops the compilation."""
    header = (
        "% Made from the summaries by write_numbers.py; not to be edited.\n"
        r"\makeatletter"
        "\n"
        r"\newcommand{\result}[1]{\@ifundefined{result@#1}{\PackageError{results}{No result named #1}{}}{\csname result@#1\endcsname}}"
        "\n"
    )
    body = "".join(f"\\@namedef{{result@{key}}}{{{value}}}\n" for key, value in values.items())
    return header + body + "\\makeatother\n"


def captions(kind: str, values: dict[str, str], sources: dict[str, str]) -> str:
    r"""A call of \register, which supplement.tex defines, for every table or figure. The arguments
    of \register are kind, name, caption and source."""
    return "".join(
        f"\\register{{{kind}}}{{{name}}}{{{caption}}}{{{sources[name]}}}\n"
        for name, caption in values.items()
    )


def source(program: str, tables: list[str]) -> str:
    r"""A sentence that names the program that makes a figure or table, and the tables that the
    program reads. Files of the repository are links (\projectfile of supplement.tex)."""
    return f"Made by {project_file(program)} from {', '.join(map(project_file, tables))}."


def project_file(path: str) -> str:
    command = "projectfile" if paths.is_committed(path) else "nolinkurl"
    return rf"\{command}{{{path}}}"
