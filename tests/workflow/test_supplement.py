"""The text and tables of a study's supplement: every number that reports a result comes
from a summary table or from claims.csv, and changes with this table."""

import csv
import re
import shutil
import subprocess

import pandas as pd
import pytest

import fakes
from command_line import run
from conftest import ROOT, World
from origins import wrong_numbers

STUDIES = ["mini", "mini_reference", "mini_truncation", "small_real", "recordings", "trajectories"]
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def origins(world, study="mini") -> list[dict]:
    return list(
        csv.DictReader((world.folder / f"paper/{study}/numbers.csv").read_text().splitlines())
    )


def write(world, study="mini"):
    world.run(f"paper/{study}/supplement.tex", "--config", f"study={study}", "draw=reference")


@pytest.fixture(
    scope="module",
    params=[
        study
        if study in ("mini", "trajectories")
        else pytest.param(study, marks=pytest.mark.nightly)
        for study in STUDIES
    ],
)
def written(request, tmp_path_factory):
    """(a `World`, the study whose numbers were written there). Tests must not change the world."""
    world = World(tmp_path_factory.mktemp("written") / "world")
    write(world, request.param)
    return world, request.param


def test_every_number_equals_the_cell_that_numbers_csv_names(written):
    world, study = written
    rows = origins(world, study)
    assert rows and wrong_numbers(rows, world.folder) == []


def test_a_changed_row_of_a_summary_changes_only_the_text_of_its_own_number(world):
    write(world)
    before = origins(world)
    table = "results/reference/mini/subsets.csv"
    frame = pd.read_csv(world.folder / table)
    (changed,) = frame.index[frame.policy == "hard"]
    frame.loc[changed, "zero_share"] = 0.4321
    world.edit(table, lambda _: frame.to_csv(index=False))
    done = world.snakemake("--forcerun", "write_supplement", "--allowed-rules", "write_supplement", "--config", "draw=reference",
                           "--", "paper/mini/supplement.tex")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    after = origins(world)
    changes = [row for old, row in zip(before, after, strict=True) if old != row]
    assert [(row["lines"], row["text"]) for row in changes] == [(str(changed + 2), "43.2")]
    assert r"43.2\,\%" in (world.folder / "paper/mini/supplement.tex").read_text()
    assert "43.2" in (world.folder / "paper/mini/tables/subsets.tex").read_text()


def test_no_number_is_typed_into_the_text():
    text = (ROOT / "paper/supplement.tex.j2").read_text()
    body = re.sub(r"(?s)<%.*?%>|<<.*?>>", "", text[text.index(r"\begin{document}") :])
    body = re.sub(
        r"\\(cite|label|ref|ifrows|iffigure|seefigure|seetable|resultfigure|resulttable|others|leadwith)\{[^}]*\}",
        "",
        body,
    )
    assert set(NUMBER.findall(body)) <= {"95", "0", "1", "2", "10"}, (
        "only the level of intervals, the temperature and numbers in formulas may be typed"
    )
    body = re.sub(r"\$[^$]*\$", "", body)
    assert set(NUMBER.findall(body)) <= {"95", "0", "1"}


def compile_paper(folder, text="paper/main.tex", material="study", output="paper.pdf"):
    return run(folder, "compile_paper", text=text, material=material, output=output)


@pytest.mark.tex
@pytest.mark.parametrize("study", STUDIES)
def test_the_supplement_has_no_warnings_and_no_number_from_elsewhere(world, study):
    write(world, study)
    folder = world.folder / "paper"
    # the PDF is compiled without figures, because numbers on their axes are in no source
    (folder / study / "figures").mkdir(exist_ok=True)
    pdf = f"paper/{study}/supplement.pdf"
    done = compile_paper(world.folder, f"paper/{study}/supplement.tex", study, pdf)
    assert f"{pdf}: 0 warnings" in done.stdout, done.stdout + done.stderr
    if not shutil.which("pdftotext"):
        pytest.skip("pdftotext (poppler-utils) is not installed")
    process = subprocess.run(
        ["pdftotext", "-layout", f"paper/{study}/supplement.pdf", "-"],
        cwd=world.folder,
        capture_output=True,
        text=True,
    )
    plain = re.sub(r"-\n\s*", "", process.stdout)
    assert ("greedy accuracy is reported" in " ".join(plain.split())) == (
        study in ("mini", "mini_reference")
    )
    assert ("was pretrained" in " ".join(plain.split())) == study.startswith("mini")
    # without the numbers of headings
    plain = re.sub(r"^\s*\d\.\d\s+[A-Z]", "", plain, flags=re.MULTILINE)
    sources = [
        path.read_text() for path in (folder / study).rglob("*") if path.suffix in (".tex", ".csv")
    ]
    sources += [(folder / name).read_text() for name in ("references.bib", "claims.yaml")]
    # numbers in the sources, and the numbers below 60, which may number pages, tables or citations
    known_numbers = set(NUMBER.findall(" ".join(sources))) | set(map(str, range(60)))
    known_numbers |= set(
        NUMBER.findall(" ".join(re.findall(r"[a-z]\w*-\w+", " ".join(sources))).replace("-", ""))
    )  # also numbers in hyphenated names after the hyphens are removed, because a line may break there
    strange = {number for number in NUMBER.findall(plain) if number not in known_numbers}
    assert not {
        number for number in strange if not set(re.split("[.,]", number)) <= known_numbers
    }, strange


@pytest.mark.tex
def test_tex_runs_no_program(tmp_path):
    (tmp_path / "paper/study").mkdir(parents=True)
    text = r"\documentclass{article}\begin{document}\ifnum\pdfshellescape=0 a\else\errmessage{programs run}\fi\end{document}"
    (tmp_path / "paper/main.tex").write_text(text)
    done = compile_paper(tmp_path)
    assert done.returncode == 0 and (tmp_path / "paper.pdf").exists(), done.stderr


TECTONIC = """#!/bin/sh
for argument
do case $argument in --outdir=*) folder=${argument#--outdir=};; --keep-logs) keeps_log=yes;; esac
done
printf 'a PDF' > "$folder/paper.pdf"
if [ "$keeps_log" ]
then echo 'Overfull \\hbox (12.5pt too wide) in paragraph at lines 1--2' > "$folder/paper.log"
fi
"""


def test_warnings_of_tectonic_are_counted(tmp_path, monkeypatch):
    (tmp_path / "paper/study").mkdir(parents=True)
    (tmp_path / "paper/main.tex").write_text("a text that the stand-in for tectonic ignores")
    monkeypatch.setenv("PATH", fakes.without_tex(tmp_path / "programs"))
    (tmp_path / "programs/tectonic").write_text(TECTONIC)
    (tmp_path / "programs/tectonic").chmod(0o755)
    done = compile_paper(tmp_path)
    assert done.returncode == 0 and "paper.pdf: 1 warnings" in done.stdout, done.stderr


@pytest.mark.tex
@pytest.mark.parametrize(
    "content, place",
    [
        (
            r"\begin{tabular}{l}\hbox to 600pt{a\hfil b}\end{tabular}",
            "study/tables/gain.tex: Overfull \\hbox",
        ),
        (r"\vbox to 2000pt{a\vfil b}", "Overfull \\vbox"),
    ],
)
def test_content_that_does_not_fit_on_its_page_fails_and_names_its_file(content, place, tmp_path):
    """Two pages of the supplement of study `recordings` once lost captions, a table and headings,
    while the log only said '2 warnings'."""
    (tmp_path / "paper/study/tables").mkdir(parents=True)
    (tmp_path / "paper/study/tables/gain.tex").write_text(content)
    text = r"\documentclass{article}\begin{document}a\par\input{\study/tables/gain}\par b\end{document}"
    (tmp_path / "paper/main.tex").write_text(text)
    done = compile_paper(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert place in done.stderr and not (tmp_path / "paper.pdf").exists()
