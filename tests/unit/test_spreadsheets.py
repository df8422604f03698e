"""Tables as people and spreadsheets save them, read by the programs."""

import csv
import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardgrpo.data import row_files, spreadsheets
from hardgrpo.runtime import files
from in_process import check_refusal, prepare_task

ROWS = [
    {"question": "What is 1,5 + 2; in words?", "answer": "3,5", "note": ""},
    {"question": 'Say "two";\nthen\tthree', "answer": "-0,25", "note": "a|b"},
    {"question": "Größe?", "answer": "1/2", "note": "x"},
]


def write_text(rows, delimiter=",", line_end="\r\n", quoting=csv.QUOTE_MINIMAL, before="") -> str:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(
        buffer, list(rows[0]), delimiter=delimiter, lineterminator=line_end, quoting=quoting
    )
    writer.writeheader()
    writer.writerows(rows)
    return before + buffer.getvalue()


def prepare(folder, *names, unlabelled=True):
    options = {"unlabelled": True} if unlabelled else {}
    return prepare_task(folder, *names, grader="final_word", **options)


# --- delimiters, encodings, line ends

NAMES = st.text("abcxyz ABC_-", min_size=1, max_size=6)
CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    st.lists(NAMES, min_size=2, max_size=4, unique=True),
    st.integers(1, 5),
    st.sampled_from([",", ";", "\t", "|", "^"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["", "sep={}", '"sep={}"', "SEP={}"]),
    st.data(),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cells_are_read_unchanged_with_every_delimiter_encoding_and_line_end(
    tmp_path, header, count, delimiter, encoding, line_end, quoting, separator_line, data
):
    """Cells may contain quotes, delimiters and line breaks. Excel may write a first line sep=;"""
    rows = [{name: data.draw(CELLS) for name in header} for _ in range(count)]
    if delimiter == "^":  # known only from the first line
        separator_line = "sep={}"
    before = separator_line.format(delimiter) + (line_end if separator_line else "")
    path = tmp_path / "mine.csv"
    path.write_bytes(write_text(rows, delimiter, line_end, quoting, before).encode(encoding))
    assert row_files.read_file(path).rows == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table_needs_no_quotes_around_cells_without_delimiters(tmp_path, delimiter):
    (tmp_path / "mine.csv").write_bytes(write_text(ROWS, delimiter).encode())
    assert row_files.read_file(tmp_path / "mine.csv").rows == ROWS


@pytest.mark.parametrize("name", ["mine.tsv", "mine.csv", "MINE.TSV", "Mine.CSV"])
def test_the_ending_of_a_table_may_be_in_upper_or_lower_case(tmp_path, name):
    (tmp_path / name).write_bytes(write_text(ROWS, "\t").encode())
    assert row_files.read_file(tmp_path / name).rows == ROWS


def test_excels_first_line_sep_is_skipped_if_another_spreadsheet_saved_it_as_a_row(tmp_path):
    (tmp_path / "mine.csv").write_bytes(write_text(ROWS, ",", before="sep=;,,\r\n").encode())
    assert row_files.read_file(tmp_path / "mine.csv").rows == ROWS


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("question\nHow; much?\nHow\tmany?\nA|B;C\n", ["question"]),
        ("question,answer\na; b; c,1\nd;e,2\n", ["question", "answer"]),
        ("question; in words,answer\na; b; c,1\nd,2\n", ["question; in words", "answer"]),
        ('"question;answer"\n"a;1"\n', ["question;answer"]),
        ("question,answer,P(A|B)\na,1,.5\n", ["question", "answer", "P(A|B)"]),
        (
            "question;answer;tier, 1 to 5\na, b;1;2\nc;2,5;3\n",
            ["question", "answer", "tier, 1 to 5"],
        ),
        ("question;answer\n", ["question", "answer"]),
    ],
)
def test_the_delimiter_splits_the_header_most(tmp_path, text, header):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    assert spreadsheets.read(path).header == header


# --- numbers of rows in messages


def test_json_lines_may_start_with_a_byte_order_mark_and_rows_are_numbered_as_in_an_editor(
    tmp_path,
):
    text = '\ufeff\n{"question": "a"}\n\n\n{"question": "b"}\n   \n{"question": " "}\n'
    (tmp_path / "mine.jsonl").write_text(text)
    assert row_files.read_file(tmp_path / "mine.jsonl").places == ["row 2", "row 5", "row 7"]
    check_refusal(prepare(tmp_path, "mine.jsonl"), "mine.jsonl: row 7: the question is empty")
    (tmp_path / "mine.jsonl").write_bytes(text.replace('" "', '"c"').encode("utf-16"))
    rows = row_files.read_file(tmp_path / "mine.jsonl").rows
    assert [row["question"] for row in rows] == ["a", "b", "c"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_messages_give_the_row_number_of_a_spreadsheet_and_the_line_number_of_an_editor(
    tmp_path, line_end
):
    lines = ["question;answer", '"a', "b", 'c";1', "", "d;2", "", "", ";3"]
    (tmp_path / "mine.csv").write_bytes(line_end.join(lines).encode())
    places = spreadsheets.read(tmp_path / "mine.csv").places
    assert places == ["row 2", "row 4 (line 6)", "row 7 (line 9)"]
    check_refusal(prepare(tmp_path, "mine.csv"), "mine.csv: row 7 (line 9): the question is empty")
    (tmp_path / "mine.csv").write_bytes(line_end.join(["sep=;", *lines]).encode())
    check_refusal(prepare(tmp_path, "mine.csv"), "mine.csv: row 7 (line 10): the question is empty")
    (tmp_path / "mine.csv").write_bytes(line_end.join([*lines[:5], 'e;"f" g']).encode())
    check_refusal(prepare(tmp_path, "mine.csv"), "mine.csv: line 6: not valid CSV")


@pytest.mark.parametrize("bad, place", [("[1]", "line"), ('{"question": ""}', "row")])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_the_number_of_wrong_lines_and_the_first_five_are_reported(tmp_path, bad, place, count):
    lines = ['{"question": "q", "answer": 1}', bad, ""] * count
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    message = check_refusal(prepare(tmp_path, "mine.jsonl"), f"mine.jsonl: {place} 2")
    _, mark, listing = message.partition(f"{count} rows are wrong: ")
    assert bool(mark) == (count > 1)
    numbers = [2 + 3 * number for number in range(min(count, 5))] if mark else []
    assert [int(number) for number in re.findall(rf"{place} (\d+)", listing)] == numbers


# --- empty cells that a spreadsheet writes


@pytest.mark.parametrize(
    "text",
    [
        "id,question\na,q\nb,r\n,\n,\n",
        "id,question,,\na,q,,\nb,r,,\n",
        "id,question\na,q,,\nb,r\n,,,\n",
        "id,question,,\na,q\nb,r\n\n,,,\n",
        "id,,question,\na,,q,\nb,,r,\n , ,,\n",
        "id;question;;\r\na;q;;\r\nb;r;;\r\n;;;\r\n",
    ],
)
def test_empty_rows_and_nameless_empty_columns_are_left_out(tmp_path, text):
    (tmp_path / "mine.csv").write_text(text)
    done = prepare(tmp_path, "mine.csv")
    assert done.returncode == 0, done.stderr
    rows = files.read_jsonl(tmp_path / "P.jsonl", {})
    assert [(row["id"], row["question"]) for row in rows] == [("a", "q"), ("b", "r")]


@pytest.mark.parametrize(
    ("text", "is_header"),
    [
        ("No.,Frage,Größe in cm,\n1,Warum?,3,\n", True),
        ("Count to ten\nCount to ten\nCount to six\n", False),
        ("Say what this word is\nWhy?\n", False),
        ("その数は何ですか？\n答えは？\n", False),
        ("Why,3\nHow,4\n", False),
        ('"a\nb",-0.5\nc,2\n', False),
        ("x" * 61 + "\nx\n", False),
    ],
)
def test_a_first_row_that_looks_like_data_is_not_a_header(tmp_path, text, is_header):
    (tmp_path / "mine.csv").write_text(text)
    table = spreadsheets.read(tmp_path / "mine.csv")
    assert spreadsheets.looks_like_header(table.header, table.cells) == is_header


# --- several files
