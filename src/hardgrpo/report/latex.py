"""Write tables, captions and macros in LaTeX."""

import itertools
import unicodedata

from hardgrpo.report.table_columns import Cell, Column, Marked, Math, plain

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
MARKS = {"best": r"\textbf", "second": r"\underline"}


def escape(text: str) -> str:
    """Text that TeX prints as it is. Control characters become "?", and so do separators of lines, at which pdflatex stops."""
    return "".join(
        CHARACTERS.get(
            character,
            "?" if unicodedata.category(character) in ("Zl", "Zp") or unicodedata.category(character)[0] == "C" else character,
        )
        for character in str(text)
    )


def number(text: str) -> str:
    """A number as hardgrpo.analysis.formats writes it."""
    return "".join(SIGNS.get(character, escape(character)) for character in text)


def render(cell: Cell, as_number: bool = False) -> str:
    if isinstance(cell, tuple):
        return "".join(render(part, as_number) for part in cell)
    if isinstance(cell, Math):
        return f"${cell.tex}$"
    if isinstance(cell, Marked):
        return f"{MARKS[cell.rank]}{{{number(cell.text)}}}"
    return number(cell) if as_number else escape(cell)


def fill_note(note: Cell, cell: str) -> str:
    """A column's note, filled with the cell that is the same in all rows."""
    if isinstance(note, tuple):
        return "".join(fill_note(part, cell) for part in note)
    return render(note).replace("{}", escape(cell)) if isinstance(note, Math) else escape(note.format(cell))


def allow_breaks(cell: str, column: Column) -> str:
    """Allow line breaks after underscores if the column wraps its text."""
    return cell.replace(r"\_", r"\_\allowbreak{}") if column.width else cell


def table(columns: list[Column]) -> str:
    r"""A booktabs longtable, which may break over pages; empty if there are no rows.

    It has a caption if \tablecaption is defined. A column with a note and the same cell in all rows goes into the caption.
    """
    if not columns or not columns[0].cells:
        return ""
    said, kept = [], []
    for column in columns:
        alike = list(filter(None, dict.fromkeys(column.cells)))
        if column.note and len(alike) == 1:
            said.append(fill_note(column.note, alike[0]))
        else:
            kept.append(column)
    notes = "; ".join(said)
    # In the columns that name the row, a cell that repeats the one above is left empty.
    names = sum(1 for _ in itertools.takewhile(lambda column: column.align == "l" and not column.width, kept))
    lines, above = [], [None] * len(kept)
    for row in zip(*([allow_breaks(render(cell, column.number), column) for cell in column.cells] for column in kept)):
        same = list(itertools.accumulate((a == b for a, b in zip(row, above)), lambda x, y: x and y))
        lines.append([("" if same[i] and i < names - 1 else cell) for i, cell in enumerate(row)])
        above = row
    head = " & ".join(render(column.header) for column in kept) + r" \\"
    said_once = f"{notes[:1].upper()}{notes[1:]}." if notes else ""
    text = [
        rf"\ifdefined\tablecaption{size(kept)}\fi",
        rf"\begin{{longtable}}{{@{{}}{''.join(map(alignment, kept))}@{{}}}}",
        rf"\ifdefined\tablecaption\caption{{\tablecaption{{}} {said_once}}}\\\fi{'  % ' + said_once if said_once else ''}",
        rf"\toprule {head} \midrule\endfirsthead",
        rf"\toprule {head} \midrule\endhead",
        r"\bottomrule\endfoot",
        r"\bottomrule\endlastfoot",
    ]
    text += [" & ".join(row) + r" \\" for row in lines]
    return "\n".join([*text, r"\end{longtable}", ""])


def alignment(column: Column) -> str:
    return rf">{{\raggedright\arraybackslash}}p{{{column.width:.2f}\linewidth}}" if column.width else column.align


TEXT_WIDTH = 455  # points


def size(columns: list[Column]) -> str:
    """The largest font in which a table fits the paper's text width; empty for the usual font."""
    length = lambda cell: len(plain(cell).replace("→", ""))  # arrows stand between digits, which are narrower than average
    characters = sum(max(map(length, (column.header, *column.cells))) for column in columns if not column.width)
    space = TEXT_WIDTH * (1 - sum(column.width for column in columns)) - 7 * len(columns)
    fonts = {"": 4.6, r"\scriptsize": 4.0}  # points a character, on average
    return next((font for font, width in fonts.items() if characters * width <= space), r"\tiny")


def macros(values: dict[str, str]) -> str:
    r"""`\result{key}` for every key; an unknown key stops the compilation instead of printing nothing."""
    head = (
        "% Made from the summaries by write_numbers.py; not to be edited.\n"
        r"\makeatletter"
        "\n"
        r"\newcommand{\result}[1]{\@ifundefined{result@#1}{\PackageError{results}{No result named #1}{}}{\csname result@#1\endcsname}}"
        "\n"
    )
    body = "".join(f"\\@namedef{{result@{key}}}{{{value}}}\n" for key, value in values.items())
    return head + body + "\\makeatother\n"


def captions(kind: str, values: dict[str, str]) -> str:
    r"""Register every table or figure with its caption for main.tex, which defines \register."""
    return "".join(f"\\register{{{kind}}}{{{name}}}{{{caption}}}\n" for name, caption in values.items())
