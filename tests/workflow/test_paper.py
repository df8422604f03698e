"""The paper over all studies: numbers, conditions of sentences, examples, and the PDF."""

import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest

import project_config
from conftest import ROOT, World
from hardgrpo.report import paper, task_examples
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.arguments import Arguments
from origins import wrong_numbers

TEXT = (ROOT / "paper/main.tex.j2").read_text(encoding="utf-8")
BODY = TEXT[TEXT.index(r"\begin{document}") :]


def committed_design() -> str:
    config = project_config.config()
    return Arguments(
        Configuration.of(config), resolve_studies(config), None, None
    ).committed_design(None)


@pytest.fixture
def design(monkeypatch) -> dict:
    monkeypatch.chdir(ROOT)
    return files.as_object(committed_design())


@pytest.fixture
def committed(tmp_path):
    """A copy of the committed tables, which a test may change."""
    for part in ("results/reference", "src/hardgrpo/choice"):
        shutil.copytree(ROOT / part, tmp_path / part)
    return tmp_path


def filled(text: str, folder, design=None) -> str:
    path = folder / "text.j2"
    path.write_text(text)
    return paper.Paper(folder, design or {}).fill(path)


# --- numbers


def test_every_number_equals_the_cell_that_its_origin_names(design):
    tables = paper.Paper(ROOT, design)
    tables.fill(ROOT / "paper/main.tex.j2")
    assert len(tables.origins) > 100
    assert wrong_numbers(tables.origins, ROOT) == []


def test_no_number_of_a_result_is_typed_into_the_text():
    text = re.sub(r"<%.*?%>|<<.*?>>|(?<!\\)%.*", "", BODY)
    text = re.sub(r"\\(?:cite|ref|label|includegraphics)(?:\[[^]]*\])?\{[^}]*\}", "", text)
    text = re.sub(
        r"\\(?:findingfigure\{\w+\}\{\w+\}\{[^}]*\}|setlength\{[^}]*\}\{[^}]*\})", "", text
    )
    text = re.sub(r"\d*\.?\d+\\(?:linewidth|textheight)|\\itemsep0pt", "", text)
    text = re.sub(
        r"Qwen\d(?:\.\d)?(?:-Math|-Coder)?-[\d.]+B|Qwen\d|GSM8K|main.tex.j2", "", text
    )  # names, not results
    allowed = {
        "95": "the level of intervals",
        "30": "the definition of HE's hard prompts, in per cent",
        "0.05": "the level of tests",
        "1": "temperature, pass@1 and a sample per prompt",
        "4": "samples per prompt, as chosen in the text",
        "16": "samples per prompt, as chosen in the text",
    }
    assert set(re.findall(r"\d+(?:[.,]\d+)*", text)) <= allowed.keys()


def test_rows_with_several_values_are_an_error_that_names_the_table(design, tmp_path):
    text = '<< gain(rows("mini_reference/gains"), "gain") >>'
    path = tmp_path / "text.j2"
    path.write_text(f"first line\n{text}\n")
    with pytest.raises(UserError, match=r"text.j2:2: .*mini_reference/gains.csv: line 2.* values"):
        paper.Paper(ROOT, design).fill(path)


def test_numbers_conditions_and_empty_cells(tmp_path):
    table = tmp_path / "results/reference/mini/gains.csv"
    table.parent.mkdir(parents=True)
    table.write_text("budget,gain,gain_low,gain_high,base\n0.1,0.2,0.1,0.3,0.4\n0.5,,,,\n")
    row = 'rows("mini/gains", budget="0.1")'
    text = f'<< gain({row}, "gain") >> << points(rows("mini/gains"), "gain", "least") >>'
    assert filled(text, tmp_path) == "$+$20.0 [10.0, 30.0] 20.0"
    for condition, is_fulfilled in (
        (f'above({row}, "gain", 0)', True),
        (f'above({row}, "gain", 0.1)', False),
        (f'below({row}, "gain", 0.3)', False),
        (f'includes({row}, "gain", 0.1)', True),
        (f"{row}.gain / {row}.base >= 0.4", True),
        ('above(rows("mini/gains"), "gain", 0)', False),  # an empty cell
        ('(rows("mini/gains").gain > 0).sum() == 1', True),
        ('rows("mini/gains", budget="0.2").gain > 0', False),  # no row
        ('rows("mini/gains").loss > 0', False),  # no column
        ('rows("mini/gains", colour="red").gain > 0', False),
    ):
        if is_fulfilled:
            assert filled(f"<% do holds({condition}) %>", tmp_path) == ""
        else:
            with pytest.raises(UserError, match="text.j2:1: "):
                filled(f"<% do holds({condition}) %>", tmp_path)


# --- sentences


def change(folder, table: str, rows: dict, **cells) -> int:
    """Set `cells` in each row of a committed table that has the values in `rows`. Return the line
    number of the first of these rows."""
    path = folder / paths.committed_table(table)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    chosen = pd.Series(True, index=frame.index)
    for column, value in rows.items():
        chosen &= frame[column] == str(value)
    assert chosen.any()
    frame.loc[chosen, list(cells)] = [str(value) for value in cells.values()]
    frame.to_csv(path, index=False)
    return int(chosen.idxmax()) + 2


BREAKS = {  # {what the changed table says: (table, rows, new cells)}
    "the hardest tenth leads after all": (
        "all/claims", {"study": "mini_confirm", "id": "hard_over_random", "task": "swaps"}, {"verdict": "supported"}),
    "the hardest tenth is as good on arithmetic": (
        "all/claims", {"study": "mini_confirm", "id": "hard_over_random", "task": "arithmetic"}, {"high": 0.01}),
    "an interval that excludes zero": (
        "all/claims", {"study": "mini_reference", "id": "hard_over_random", "task": "swaps"}, {"low": 0.01}),
    "a gain with almost no finishing": (
        "mini_truncation/parts", {"task": "swaps_tight", "eval_task": "swaps_tight", "policy": "hard"},
        {"finishing": 0.01, "finishing_low": -0.01}),
    "a greedy accuracy that may have risen": (
        "mini_reference/gains", {"task": "arithmetic", "eval_task": "arithmetic", "decoding": "greedy", "policy": "easy"},
        {"gain_high": 0.02}),
    "a real model for which hard prompts may be better": (
        "recordings/recorded_runs",
        {"model": "qwen3-4b-recorded", "task": "shuffled_objects_seven", "policy": "hard30", "minus": "all", "grading": "task",
         "questions": "all", "measure": "accuracy"},
        {"difference_high": 0.001}),
    "a recorded run with learnable hard prompts": (
        "trajectories/trajectories", {"policy": "hard", "stretch": ""}, {"mixed_high": 0.5}),
    "more samples that do not help": (
        "probing/probe_sizes", {"file": "all", "rule": "nearest_half", "samples": 16}, {"mixed": 0.4}),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_table_that_contradicts_a_sentence_is_an_error_that_names_both(name, committed, design):
    table, rows, cells = BREAKS[name]
    line = change(committed, table, rows, **cells)
    with pytest.raises(UserError) as error:
        paper.Paper(committed, design).fill(ROOT / "paper/main.tex.j2")
    place, path = str(error.value), paths.committed_table(table)
    assert re.search(r"main.tex.j2:\d+: ", place) and f"{path}: line {line}" in place
    number = int(re.search(r"main.tex.j2:(\d+):", place)[1])
    assert "holds(" in TEXT.splitlines()[number - 1]


def test_shares_and_numbers_of_rows_are_conditions_too(committed, design):
    change(committed, "all/which-prompts", {"verdict": "no difference shown"}, verdict="better")
    with pytest.raises(UserError, match="do not support this sentence"):
        paper.Paper(committed, design).fill(ROOT / "paper/main.tex.j2")


# --- examples


def test_the_wrong_example_has_the_wrong_answer_and_the_right_one_the_right_answer():
    answer = lambda text: text.rpartition("#### ")[2]
    examples = task_examples.examples()
    assert list(examples) == ["swaps", "arithmetic"]
    for task, (question, right, wrong) in examples.items():
        solved = getattr(task_examples.generated, f"read_{task}")(question).answer
        assert answer(right) == solved != answer(wrong)


# --- the target


def test_the_paper_needs_no_study_and_no_run(world):
    studies = len(set(re.findall(r"\\findingfigure\{(\w+)\}", BODY)))
    for study in ([], ["--config", "study=mini_online"]):
        plan = world.plan("paper", *study)
        plan.pop("compile_paper", None)  # the PDF is planned only if TeX is installed
        assert plan == {
            "write_paper": 1, "draw_for_paper": studies, "paper": 1
        }  # fmt: skip


@pytest.mark.tex
def test_the_paper_is_compiled_and_a_table_that_contradicts_it_is_an_error(tmp_path):
    world = World(tmp_path / "world")
    world.run("paper")
    log = (world.folder / "results/logs/compile_paper/paper.log").read_text()
    assert "paper/paper.pdf: 0 warnings" in log
    if shutil.which("pdfinfo"):
        process = subprocess.run(
            ["pdfinfo", world.folder / "paper/paper.pdf"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(re.search(r"Pages: +(\d+)", process.stdout)[1]) <= 10
    before = (world.folder / "paper/main.tex").read_bytes()
    table, rows, cells = BREAKS["a greedy accuracy that may have risen"]
    line = change(world.folder, table, rows, **cells)
    done = world.snakemake("paper")
    output = done.stdout + done.stderr
    assert done.returncode == 1 and "paper/main.tex.j2:" in output
    assert f"gains.csv: line {line}: " in output
    text = world.folder / "paper/main.tex"
    assert not text.exists() or text.read_bytes() == before


def test_the_paper_is_written_without_torch(design, tmp_path):
    program = ROOT / "scripts/paper/write_paper.py"
    code = (
        "import sys, runpy; sys.modules['torch'] = None; sys.modules['trl'] = None;"
        f" sys.argv = sys.argv[1:]; runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "write_paper.py", "--text", "paper/main.tex.j2"]
    command += ["--design", committed_design(), "--output", tmp_path / "main.tex"]
    command += ["--origins", tmp_path / "numbers.csv", "--figure", tmp_path / "ways.pdf"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "main.tex").exists() and (tmp_path / "numbers.csv").exists()
