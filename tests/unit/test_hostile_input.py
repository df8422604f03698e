"""Hostile files, configurations, arguments and messages that a property of test_properties.py once
found, or cannot find."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.data import completions, evaluations, row_files, spreadsheets
from hardgrpo.runtime import files, provenance
from hardgrpo.runtime.errors import LONGEST_MESSAGE, UserError, explain, printable
from in_process import run_program

# --- files


@pytest.mark.parametrize("line", ['{"id": ' + "9" * 5000 + "}", "[" * 100_000])
def test_content_that_is_too_large_is_refused(tmp_path, line):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match="too large for JSON"):
        files.read_jsonl(tmp_path / "x.jsonl", {"id": int})
    (tmp_path / "x.yaml").write_text("[" * 100_000)
    with pytest.raises(UserError, match="not valid YAML"):
        files.read_yaml(tmp_path / "x.yaml")


# Number of columns. Comparing all pairs of this many names would take minutes of processor time.
WIDTH = 60_000


def test_a_table_and_an_object_of_many_names_are_read_quickly(tmp_path):
    names = [f"c{number}" for number in range(WIDTH)]
    (tmp_path / "x.csv").write_text(f"id,{','.join(names)}\na{',1' * WIDTH}\n")
    began = time.process_time()
    assert files.read_rows(tmp_path / "x.csv", {"id": str}) == [{"id": "a"}]
    assert len(row_files.read_file(tmp_path / "x.csv").rows[0]) == WIDTH + 1
    (tmp_path / "x.jsonl").write_text(
        json.dumps(dict.fromkeys(names, 1))[:-1] + f', "{names[-1]}": 2}}\n'
    )
    with pytest.raises(UserError, match=f"'{names[-1]}' occurs twice in an object"):
        files.read_jsonl(tmp_path / "x.jsonl", {"id": str})
    assert time.process_time() - began < 20


def test_a_byte_order_mark_and_long_cells_are_read(tmp_path):
    (tmp_path / "x.csv").write_text("\ufeffid,rate\r\n" + "a" * 300_000 + ",1\r\n")
    assert files.read_rows(tmp_path / "x.csv", {"id": str, "rate": float}) == [
        {"id": "a" * 300_000, "rate": 1.0}
    ]


def test_a_carriage_return_in_a_completion_is_read_unchanged(tmp_path):
    problem, text = {"id": "a\rb", "answer": "7"}, "\\boxed{1\r2}"
    rows = [evaluations.grade("number_lenient", problem, 0, "sampled", 0, text)]
    evaluations.write(str(tmp_path / "e.csv.gz"), rows)
    read_rows = evaluations.read(str(tmp_path / "e.csv.gz"))
    assert (read_rows.id[0], read_rows.answer[0]) == ("a\rb", "1\r2")


@pytest.mark.parametrize("name", ["x.json", "inner/x.json"])
def test_a_manifest_with_a_link_to_a_file_outside_of_its_folder_is_refused(tmp_path, name):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.json").write_text("private")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name.split("/")[0]).symlink_to(
        tmp_path / "outside" / ("x.json" if "/" not in name else "")
    )
    listed = {name: {"bytes": 7, "sha256": files.sha256(tmp_path / "outside/x.json")}}
    (folder / "manifest.json").write_text(json.dumps({"files": listed}))
    with pytest.raises(UserError, match="outside of"):
        provenance.check_manifest(folder)
    (tmp_path / "linked").symlink_to(folder)
    (folder / name.split("/")[0]).unlink()
    (folder / "inner").mkdir()
    (folder / name).write_text("private")
    assert provenance.check_manifest(tmp_path / "linked")["files"] == listed, (
        "the path of the manifest's folder may be a link"
    )


@pytest.mark.parametrize("row", [{"tokens": [-1]}, {"tokens": ["3"]}, {"finish_reasons": [5]}])
def test_a_recording_with_malformed_numbers_is_refused(tmp_path, row):
    files.write_jsonl(tmp_path / "R.jsonl", [{"question": "q", "completions": ["x"]} | row])
    with pytest.raises(UserError, match="row 1: each value of '(tokens|finish_reasons)' must be"):
        completions.read_recording(str(tmp_path / "R.jsonl"), [{"id": "p", "question": "q"}])


# --- configuration, arguments, messages


@pytest.mark.parametrize("place", ["", ".", "P.jsonl/out", "x" * 300])
def test_an_output_that_cannot_be_written_is_reported(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "P.jsonl").write_text('{"id": "a", "question": "q", "answer": "1"}\n')
    with pytest.raises(UserError, match="cannot (be written|read or write)"):
        run_program("remove_answers", "--problems", "P.jsonl", "--output", place)


def test_links_at_the_paths_of_outputs_are_not_followed(tmp_path):
    """A program follows no link at the path of an output or of a temporary file."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/manifest.json").write_text("{}")
    for name in (".x.json.tmp", ".model.tmp", "model"):
        (tmp_path / name).symlink_to("elsewhere")
    files.write_json(tmp_path / "x.json", {"a": 1})
    with (
        pytest.raises(UserError, match="model: a link to a folder is in the way"),
        files.atomic(tmp_path / "model") as folder,
    ):
        folder.mkdir()
        (folder / "manifest.json").write_text('{"a": 1}')
    assert (tmp_path / "elsewhere/manifest.json").read_text() == "{}"
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", "model", "x.json"}


def test_messages_are_one_printable_line_of_readable_length():
    assert printable("a\x1b[31m\nb\u202ec\ud83d") == r"a\x1b[31m\nb\u202ec\ud83d"
    assert printable("café 日本 \\ '") == "café 日本 \\ '"
    assert len(printable("x" * 10**6)) < LONGEST_MESSAGE
    assert str(UserError("a\nb", "c")) == "a\\nb\nc"
    assert explain(MemoryError()).startswith("the program needs more memory than is available")
    for words in (
        "std::bad_alloc",
        "DefaultCPUAllocator: can't allocate memory",
        "can't start new thread",
    ):
        assert explain(RuntimeError(words)).startswith(
            "the program needs more memory than is available"
        ), words


def test_cells_that_a_spreadsheet_would_compute_are_made_inert():
    for cell in (
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        "=cmd|' /C calc'!A0",
        "'=1",
        "''-1",
    ):
        assert (
            spreadsheets.escape_formulas(cell) == "'" + cell
            and spreadsheets.unescape_formulas(spreadsheets.escape_formulas(cell)) == cell
        )
    for cell in ("", "-5", "+3.5", "a=b", "'quoted'", "5"):
        assert spreadsheets.escape_formulas(cell) == cell == spreadsheets.unescape_formulas(cell)


@given(st.text(alphabet="=+-@;'\"\t\n\r1a ,\uff1d", max_size=12))
def test_escaped_formulas_are_read_back_unchanged(cell):
    assert spreadsheets.unescape_formulas(spreadsheets.escape_formulas(cell)) == cell
