"""The paper over all studies: numbers, conditions of sentences, examples, and the PDF."""

import csv
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest

import project_config
from conftest import ROOT, World
from hardgrpo.report import findings, latex, task_examples
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.arguments import Arguments

ENTRIES = files.read_yaml(ROOT / "paper/findings.yaml")
TEXT = (ROOT / "paper/main.tex").read_text(encoding="utf-8")
BODY = re.sub(r"(?<!\\)%.*", "", TEXT[TEXT.index(r"\begin{document}") :])
TITLE = TEXT[TEXT.index(r"\title{") : TEXT.index(r"\begin{document}")]


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
    shutil.copytree(ROOT / "results/reference", tmp_path / "results/reference")
    return tmp_path


def check(folder, design, entries=ENTRIES["claims"], text=TEXT) -> int:
    return findings.check(findings.Committed(folder, design), entries, text, "paper/main.tex")


def arguments_of(command: str) -> list[str]:
    r"""The second argument of each \command{first}{second} in the paper; it may hold braces."""
    texts = []
    for match in re.finditer(rf"\\{command}\{{[^}}]*\}}\{{", TITLE + BODY):
        depth, place = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get((TITLE + BODY)[place], 0)
            place += 1
        texts.append((TITLE + BODY)[match.end() : place - 1])
    return texts


# --- numbers


def test_every_number_equals_the_cell_that_its_name_refers_to(design):
    tables = findings.Committed(ROOT, design)
    rows = findings.macros(tables, ENTRIES["numbers"])
    assert len(rows) == len(ENTRIES["numbers"]) > 100
    for row in rows:
        if row["file"] == "design":
            continue
        with open(ROOT / row["file"], encoding="utf-8", newline="") as stream:
            table = list(csv.DictReader(stream))
        cells = [table[int(line) - 2] for line in row["lines"].split()]
        if row["show"] == "count of rows":
            assert row["text"] == str(len(cells))
            continue
        suffixes, format_value = findings.FORMATS[row["show"]]
        for cell in cells:
            values = [
                findings.as_number(cell.get(f"{row['column']}{end}", cell.get(end.strip("_"))))
                for end in suffixes
            ]
            text = format_value(*values)
            text = latex.escape(text) if row["show"] == "text" else latex.number(text)
            assert row["text"] == text, row


def test_a_number_whose_rows_differ_is_an_error_that_names_the_table(design):
    entry = {"table": "mini_reference/gains", "column": "gain", "show": "gain"}
    with pytest.raises(UserError, match=r"number x: results/reference/mini_reference/gains.csv"):
        findings.macros(findings.Committed(ROOT, design), {"x": entry})


def test_names_of_macros_are_letters_and_each_macro_is_used():
    assert all(re.fullmatch("[A-Za-z]+", name) for name in ENTRIES["numbers"])
    used = set(re.findall(r"\\([A-Za-z]+)", BODY))
    assert set(ENTRIES["numbers"]) - used == set()


def test_no_number_of_a_result_is_typed_into_the_text():
    text = re.sub(r"\\(?:cite|ref|label|includegraphics|claim)(?:\[[^]]*\])?\{[^}]*\}", "", BODY)
    text = re.sub(
        r"\\(?:findingfigure\{\w+\}\{\w+\}\{[^}]*\}|setlength\{[^}]*\}\{[^}]*\})", "", text
    )
    text = re.sub(r"\d*\.?\d+\\(?:linewidth|textheight)|\\itemsep0pt", "", text)
    text = re.sub(
        r"Qwen\d(?:\.\d)?(?:-Math|-Coder)?-[\d.]+B|Qwen\d|GSM8K", "", text
    )  # names, not results
    allowed = {
        "95": "the level of intervals",
        "30": "the definition of HE's hard prompts, in per cent",
        "0.05": "the level of tests",
        "1": "temperature, pass@1 and a sample per prompt",
        "4": "samples per prompt, as chosen in findings.yaml",
        "16": "samples per prompt, as chosen in findings.yaml",
    }
    assert set(re.findall(r"\d+(?:[.,]\d+)*", text)) <= allowed.keys()


# --- sentences


def test_all_sentences_hold_in_the_committed_tables(design):
    assert check(ROOT, design) > len(findings.claim_lines(TEXT)) > 30


def test_every_estimate_stands_in_a_sentence_with_conditions_or_in_a_table():
    guarded = " ".join(arguments_of("claim"))
    guarded += " ".join(re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", BODY, re.DOTALL))
    estimates = [
        name for name, entry in ENTRIES["numbers"].items() if entry.get("show") in ("gain", "share")
    ]
    outside = [
        name
        for name in estimates
        if len(re.findall(rf"\\{name}\b", BODY)) != len(re.findall(rf"\\{name}\b", guarded))
    ]
    assert outside == []


def change(folder, table: str, rows: dict, **cells) -> int:
    """Set `cells` in each row of a committed table that has the values in `rows`. Return the line
    number of the first of these rows."""
    path = folder / findings.Committed(folder, {}).path(table)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    chosen = pd.Series(True, index=frame.index)
    for column, value in rows.items():
        chosen &= frame[column] == str(value)
    assert chosen.any()
    frame.loc[chosen, list(cells)] = [str(value) for value in cells.values()]
    frame.to_csv(path, index=False)
    return int(chosen.idxmax()) + 2


BREAKS = {  # {what the changed table says: (contradicted sentence, table, rows, new cells)}
    "the hardest tenth leads after all": (
        "abstract_hardest", "all/claims", {"study": "mini_confirm", "id": "hard_over_random", "task": "swaps"},
        {"verdict": "supported"}),
    "the hardest tenth is as good on arithmetic": (
        "hard_confirmed", "all/claims", {"study": "mini_confirm", "id": "hard_over_random", "task": "arithmetic"},
        {"high": 0.01}),
    "an interval that excludes zero": (
        "hard_undecided", "all/claims", {"study": "mini_reference", "id": "hard_over_random", "task": "swaps"},
        {"low": 0.01}),
    "a gain with almost no finishing": (
        "limit_alone", "mini_truncation/parts", {"task": "swaps_tight", "eval_task": "swaps_tight", "policy": "hard"},
        {"finishing": 0.01, "finishing_low": -0.01}),
    "a greedy accuracy that may have risen": (
        "greedy_falls", "mini_reference/gains", {"task": "arithmetic", "eval_task": "arithmetic", "decoding": "greedy", "policy": "easy"},
        {"gain_high": 0.02}),
    "a real model for which hard prompts may be better": (
        "recorded_less_all", "recordings/recorded_runs", ENTRIES["claims"]["recorded_less_all"][0]["rows"],
        {"difference_high": 0.001}),
    "a recorded run with learnable hard prompts": (
        "followed_groups", "trajectories/trajectories", {"policy": "hard", "stretch": ""}, {"mixed_high": 0.5}),
    "more samples that do not help": (
        "probe_half", "probing/probe_sizes", {"file": "all", "rule": "nearest_half", "samples": 16}, {"mixed": 0.4}),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_table_that_contradicts_a_sentence_is_an_error_that_names_both(name, committed, design):
    label, table, rows, cells = BREAKS[name]
    line = change(committed, table, rows, **cells)
    entries = {label: ENTRIES["claims"][label]}
    text = f"\\claim{{{label}}}{{...}}"
    check(ROOT, design, entries, text)
    with pytest.raises(UserError) as error:
        check(committed, design, entries, f"first line\n{text}")
    path = findings.Committed(committed, {}).path(table)
    assert f"paper/main.tex:2: sentence {label} is not supported: {path}: line {line}: " in str(
        error.value
    )


def test_shares_and_numbers_of_rows_are_conditions_too(committed, design):
    change(committed, "all/which-prompts", {"verdict": "no difference shown"}, verdict="better")
    with pytest.raises(
        UserError, match=r"sentence title is not supported: results/reference/all/which-prompts.csv"
    ):
        check(committed, design, {"title": ENTRIES["claims"]["title"]}, r"\claim{title}{...}")
    with pytest.raises(UserError, match=r"sentence prime_lead .*: .* rows with way nearest_half"):
        entries = {"prime_lead": ENTRIES["claims"]["prime_lead"]}
        check(committed, design, entries, r"\claim{prime_lead}{...}")


def test_a_condition_that_finds_no_row_or_column_or_tests_nothing_is_an_error(design):
    entry = {"table": "mini_reference/gains", "rows": {"policy": "nobody"}, "column": "gain"}
    for change_of_entry, problem in (
        ({"above": 0}, "has no row with policy nobody"),
        ({"rows": {"colour": "red"}, "above": 0}, "has no column colour"),
        ({"rows": {}, "column": "loss", "above": 0}, "has no column loss"),
        ({"rows": {}, "abov": 0}, "has unknown keys: abov"),
        ({"rows": {}}, "tests nothing"),
        ({"above": 0, "count": [0, 0]}, "policy nobody tests nothing"),
    ):
        with pytest.raises(UserError, match=problem):
            check(ROOT, design, {"a": [entry | change_of_entry]}, r"\claim{a}{...}")


def test_a_sentence_without_condition_and_a_condition_without_sentence_are_errors(design):
    with pytest.raises(UserError, match=r"paper/main.tex:1: sentence b has no condition"):
        check(ROOT, design, {}, r"\claim{b}{...}")
    with pytest.raises(UserError, match=r"claim b: paper/main.tex has no sentence"):
        check(ROOT, design, {"b": [{}]}, "")


# --- examples


def test_the_wrong_example_has_the_wrong_answer_and_the_right_one_the_right_answer():
    answer = lambda text: text.rpartition("#### ")[2]
    examples = task_examples.examples()
    assert [example.task for example in examples] == ["swaps", "arithmetic"]
    for example in examples:
        solved = getattr(task_examples.generated, f"read_{example.task}")(example.question).answer
        assert answer(example.right) == solved != answer(example.wrong)


# --- the target


def test_the_paper_needs_no_study_and_no_run(world):
    figures = len(re.findall(r"\\findingfigure\{", BODY))
    for study in ([], ["--config", "study=mini_online"]):
        plan = world.plan("paper", *study)
        plan.pop("compile_paper", None)  # the PDF is planned only if TeX is installed
        assert plan == {
            "write_findings": 1, "draw_ways": 1, "draw_for_paper": figures, "paper": 1
        }  # fmt: skip


@pytest.mark.tex
def test_the_paper_is_compiled_and_a_table_that_contradicts_it_is_an_error(tmp_path):
    world = World(tmp_path / "world")
    done = world.snakemake("paper")
    assert done.returncode == 0, done.stdout + done.stderr
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
    before = (world.folder / "paper/findings/numbers.tex").read_bytes()
    label, table, rows, cells = BREAKS["a greedy accuracy that may have risen"]
    line = change(world.folder, table, rows, **cells)
    done = world.snakemake("paper")
    output = done.stdout + done.stderr
    place = f"paper/main.tex:{findings.claim_lines(TEXT)[label]}: sentence {label}"
    assert done.returncode == 1 and place in output and f"gains.csv: line {line}: gain" in output
    assert not (world.folder / "paper/findings/numbers.tex").exists() or (
        before == (world.folder / "paper/findings/numbers.tex").read_bytes()
    )


def test_the_paper_is_written_without_torch(design, tmp_path):
    program = ROOT / "scripts/paper/write_findings.py"
    code = (
        "import sys, runpy; sys.modules['torch'] = None; sys.modules['trl'] = None;"
        f" sys.argv = sys.argv[1:]; runpy.run_path({str(program)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "write_findings.py", "--text", "paper/main.tex"]
    command += ["--findings", "paper/findings.yaml", "--design", committed_design()]
    command += ["--output", tmp_path / "numbers.tex", "--examples", tmp_path / "examples.tex"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "numbers.tex").exists() and (tmp_path / "examples.tex").exists()


@pytest.mark.parametrize(
    "entry, words",
    [
        (
            {"at": "least", "column": "gain", "show": "points"},
            "has no number in column gain, line 3",
        ),
        ({"count": "rows"}, None),
    ],
)
def test_a_number_is_not_taken_from_an_empty_cell(entry, words, tmp_path):
    table = tmp_path / "results/reference/mini/gains.csv"
    table.parent.mkdir(parents=True)
    table.write_text("policy,gain\nhard,0.1\nrandom,\n" + "easy,0.2\n" * 998)
    tables = findings.Committed(tmp_path, {})
    entry = {"table": "mini/gains"} | entry
    if words:
        with pytest.raises(UserError, match=words):
            findings.define(tables, "least", entry)
    else:
        assert findings.define(tables, "rows", entry)["text"] == r"1\,000"


@pytest.mark.parametrize(
    "condition, holds",
    [
        ({"column": "budget", "equals": "0.1"}, True),
        ({"column": "budget", "equals": 0.1}, True),
        ({"column": "budget", "equals": "0.2"}, False),
        ({"column": "gain", "over": "base", "at_least": 0.4}, True),
        ({"column": "gain", "over": "base", "above": 0}, "its interval"),
    ],
)
def test_conditions_compare_text_and_shares(condition, holds, tmp_path):
    table = tmp_path / "results/reference/mini/gains.csv"
    table.parent.mkdir(parents=True)
    table.write_text("budget,gain,gain_low,gain_high,base\n0.1,0.2,0.1,0.3,0.4\n")
    check_entry = lambda: findings.check_entry(
        findings.Committed(tmp_path, {}), {"table": "mini/gains"} | condition, "place"
    )
    if holds is True:
        check_entry()
    else:
        with pytest.raises(UserError, match=holds or "expected 0.2"):
            check_entry()
