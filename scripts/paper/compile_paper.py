"""Compile paper/main.tex for a study, with latexmk or tectonic.

python scripts/paper/compile_paper.py --study mini --output paper/mini/paper.pdf
"""

from hardgrpo.report import latex
from hardgrpo.runtime import errors, files, seals

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Flaws that a reader sees: text outside the margins or below the page, references without a target,
# missing fonts.
FLAWS = r"^(?:Overfull .*|LaTeX Warning: (?:Reference|Citation|There were undefined).*|.*Citation.*undefined.*|LaTeX Font Warning: (?!Size).*)$"

MOST_EXCESS = {"h": 10.0, "v": 2.0}  # points by which a line or a page may be too large


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True)
    parser.add_argument(
        "--paper",
        default="paper",
        help="folder that contains main.tex and the studies' figures and tables",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    folder = Path(args.paper) / args.study
    for path in (*folder.rglob("*.tex"), *folder.glob("figures/*.pdf")):  # the files that TeX reads
        seals.check(path)
    with tempfile.TemporaryDirectory() as build:
        # The wrapper defines \study, by which main.tex finds the study's figures and numbers. It
        # also omits dates, so that equal text gives equal bytes.
        wrapper = Path(build) / "paper.tex"
        undated = r"\ifdefined\pdftrailerid \pdftrailerid{}\pdfinfoomitdate=1 \fi"
        wrapper.write_text(
            f"{undated}\\def\\study{{{args.study}}}\\input{{main.tex}}\n", encoding="utf-8"
        )
        if shutil.which("latexmk"):
            options = [
                "-latexoption=-no-shell-escape",
                "-interaction=nonstopmode",
                "-halt-on-error",
            ]
            command = ["latexmk", "-norc", "-pdf", *options, f"-outdir={build}", str(wrapper)]
        elif shutil.which("tectonic"):
            options = [
                "--untrusted",
                "-Z",
                f"search-path={Path(args.paper).absolute()}",
                f"--outdir={build}",
            ]
            command = ["tectonic", "-X", "compile", *options, str(wrapper)]
        else:
            raise errors.UserError(
                f"no TeX was found; {latex.INSTALL}, and run again; figures and tables do not need it"
            )
        result = subprocess.run(
            command, cwd=args.paper, capture_output=True, text=True, errors="replace"
        )
        print(result.stdout, result.stderr)
        if result.returncode:
            message = next(
                (line for line in result.stdout.splitlines() if line.startswith("!")),
                "see the log above",
            )
            raise errors.UserError(
                f"{args.paper}/main.tex: {command[0]} failed: {message}; if a package is missing, {latex.INSTALL} and run again"
            )
        log = Path(build) / "paper.log"  # log of the last TeX run
        flaws = (
            find_flaws(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else []
        )
        for flaw in flaws:
            print(f"warning: {flaw}")
        print(f"{args.output}: {len(flaws)} warnings")
        if lost := [flaw for flaw in flaws if is_lost(flaw)]:
            raise errors.UserError(
                f"{args.output}: {len(lost)} places do not fit on their page, the first in {lost[0]}; make that figure or table smaller"
            )
        with files.atomic(args.output) as temporary:
            shutil.copyfile(Path(build) / "paper.pdf", temporary)


def find_flaws(log: str) -> list[str]:
    """The warnings of TeX's log that match FLAWS, each after the last file that TeX read before
    it."""
    flaws, file = [], "main.tex"
    for line in re.findall(rf"{FLAWS}|[\w./-]+\.(?:tex|pdf|png)\b", log, re.MULTILINE):
        if re.match(FLAWS, line):
            flaws.append(f"{file}: {line}")
        else:
            file = line.removeprefix("./")
    return flaws


def is_lost(flaw: str) -> bool:
    """Whether content is cut off: TeX's warning about a box that is larger than its place by more
    than a reader overlooks."""
    excess = re.search(r"Overfull \\([hv])box \(([\d.]+)pt", flaw)
    return excess is not None and float(excess[2]) > MOST_EXCESS[excess[1]]


if __name__ == "__main__":
    errors.run(main)
