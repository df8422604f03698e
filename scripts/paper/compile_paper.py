"""Compile the paper over all studies, or the supplement of a study, with latexmk or tectonic.

    python scripts/paper/compile_paper.py --text paper/main.tex --material findings \\
        --output paper/paper.pdf
    python scripts/paper/compile_paper.py --text paper/mini/supplement.tex --material mini \\
        --output paper/mini/supplement.pdf

TeX runs in paper/. The text finds its figures and tables in the folder that the macro \\study names
(--material). The values of \\authors, \\repository and \\commit come from CITATION.cff and git;
\\repository is empty if CITATION.cff has no key repository-code. Nothing is written if a line or a
page is much too large (MOST_EXCESS; checked with latexmk only).
"""

from hardgrpo.report import latex
from hardgrpo.runtime import errors, files

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# warnings about flaws that a reader sees: text outside the margins, references without a target,
# missing fonts
FLAWS = r"^(?:Overfull .*|LaTeX Warning: (?:Reference|Citation|There were undefined).*|.*Citation.*undefined.*|LaTeX Font Warning: (?!Size).*)$"

PAPER = Path("paper")
MOST_EXCESS = {"h": 10.0, "v": 2.0}  # points by which a line (h) or a page (v) may be too large


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--text", required=True, type=Path, help="the text, in LaTeX")
    parser.add_argument(
        "--material",
        required=True,
        help="folder of the figures and tables in paper/",
    )
    parser.add_argument("--citation", default="CITATION.cff")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as build:
        # The wrapper defines the macros of the text. With pdfTeX it also omits dates, so that equal
        # text gives equal bytes.
        wrapper = Path(build) / "paper.tex"
        undated = r"\ifdefined\pdftrailerid \pdftrailerid{}\pdfinfoomitdate=1 \fi"
        wrapper.write_text(
            f"{undated}{origin(args.citation, args.material)}\\input{{{args.text.relative_to(PAPER)}}}\n",
            encoding="utf-8",
        )
        latexmk = "-norc -pdf -latexoption=-no-shell-escape -interaction=nonstopmode -halt-on-error"
        tectonic = "-X compile --untrusted --keep-logs -Z"
        tools = {
            "latexmk": latexmk.split(),
            "tectonic": [*tectonic.split(), f"search-path={PAPER.absolute()}"],
        }
        tool = next(filter(shutil.which, tools), None)
        if tool is None:
            raise errors.UserError(
                f"no TeX was found; {latex.INSTALL}, and run again; figures and tables do not need TeX"
            )
        command = [tool, *tools[tool], f"--outdir={build}", str(wrapper)]
        result = subprocess.run(
            command, cwd=PAPER, capture_output=True, text=True, errors="replace"
        )
        print(result.stdout, result.stderr)
        if result.returncode:
            message = next(
                (line for line in result.stdout.splitlines() if line.startswith("!")),
                "see the log above",
            )
            raise errors.UserError(
                f"{args.text}: {tool} failed: {message}; if a package is missing, {latex.INSTALL} and run again"
            )
        log = Path(build) / "paper.log"  # of the last TeX run
        flaws = (
            find_flaws(log.read_text(encoding="utf-8", errors="replace"), args.text.name)
            if log.exists()
            else []
        )
        for flaw in flaws:
            print(f"warning: {flaw}")
        print(f"{args.output}: {len(flaws)} warnings")
        # Figures, tables and lines were sized for the fonts of pdfTeX; tectonic uses other fonts.
        oversized = list(filter(is_oversized, flaws)) if tool == "latexmk" else []
        if oversized:
            raise errors.UserError(
                f"{args.output}: {len(oversized)} places are too wide or too high; the first: {oversized[0]}; make the figure, table or line smaller"
            )
        with files.atomic(args.output) as temporary:
            shutil.copyfile(Path(build) / "paper.pdf", temporary)


def origin(citation: str, material: str) -> str:
    """Definitions of the macros \\study, \\authors, \\repository and \\commit."""
    entry = files.read_yaml(citation) if Path(citation).exists() else {}
    names = ", ".join(
        author.get("name") or f"{author.get('given-names', '')} {author['family-names']}".strip()
        for author in entry.get("authors", [])
    )
    git = ["git", "rev-parse", "--short=10", "HEAD"]
    result = subprocess.run(git, capture_output=True, text=True) if shutil.which("git") else None
    commit = result.stdout.strip() if result is not None and result.returncode == 0 else ""
    values = {
        "study": material,
        "authors": latex.escape(names),
        "repository": entry.get("repository-code", "").rstrip("/"),
        "commit": commit,
    }
    return "".join(f"\\def\\{name}{{{value}}}" for name, value in values.items())


def find_flaws(log: str, name: str) -> list[str]:
    """The warnings of TeX's log that match FLAWS. Each starts with the name of the last file that
    TeX read before the warning."""
    flaws, file = [], name
    for line in re.findall(rf"{FLAWS}|[\w./-]+\.(?:tex|pdf|png)\b", log, re.MULTILINE):
        if re.match(FLAWS, line):
            flaws.append(f"{file}: {line}")
        else:
            file = line.removeprefix("./")
    return flaws


def is_oversized(flaw: str) -> bool:
    """Whether a warning is about a box that is too large by more than MOST_EXCESS."""
    excess = re.search(r"Overfull \\([hv])box \(([\d.]+)pt", flaw)
    return excess is not None and float(excess[2]) > MOST_EXCESS[excess[1]]


if __name__ == "__main__":
    errors.run(main)
