"""Write text and captions in LaTeX."""

import unicodedata

from hardgrpo.study import paths

INSTALL = (
    "install latexmk and TeX Live (Debian: latexmk texlive-latex-recommended texlive-latex-extra texlive-fonts-recommended"
    " lmodern) or tectonic"
)
CHARACTERS = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "\N{MINUS SIGN}": "$-$", "\N{EN DASH}": "--", "→": r"$\to$", "‘": "`", "’": "'",
    "\N{NARROW NO-BREAK SPACE}": r"\,", "²": "$^2$",
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
    ).replace("p\N{COMBINING CIRCUMFLEX ACCENT}", r"$\hat p$")


def number(text: str) -> str:
    """A number that was formatted by hardgrpo.analysis.formats, in LaTeX."""
    return "".join(SIGNS.get(character, escape(character)) for character in text)


def caption(kind: str, name: str, text: str, source: str) -> str:
    r"""A call of \register, which supplement.tex.j2 defines, for a table or figure."""
    return f"\\register{{{kind}}}{{{name}}}{{{text}}}{{{source}}}\n"


def source(program: str, tables: list[str]) -> str:
    r"""A sentence that names the program that makes a figure or table, and the tables that the
    program reads. Files of the repository are links (\projectfile of supplement.tex.j2)."""
    return f"Made by {project_file(program)} from {', '.join(map(project_file, tables))}."


def project_file(path: str) -> str:
    command = "projectfile" if paths.is_committed(path) else "nolinkurl"
    return rf"\{command}{{{path}}}"
