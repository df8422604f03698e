"""Reading of annotated answers from a file that a spreadsheet program has saved."""

import csv
import io

import pytest

import in_process
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from in_process import check_refusal, prepare_task

QUESTIONS = ["How much is 1,5 + 2; in words?", "=1+1, said Größe", 'Say "two",\nplease', "plain"]
IDS = ["0007", "b", "1E5", "12345678901234567"]
B = question_id(QUESTIONS[1])  # the prompt with id "b"


def write_annotation_file(folder, text: bytes, name="pool.csv", chosen=None) -> bytes:
    """Run the programs that write the file to annotate for a pool without answers, and return this
    file's content. `text` is the content of the pool's file."""
    (folder / name).write_bytes(text)
    done = prepare_task(folder, name, unlabelled=True)
    assert done.returncode == 0, done.stderr
    ids = chosen or [row["id"] for row in files.read_jsonl(folder / "P.jsonl", {"id": str})]
    ranks = [{"id": problem_id, "rank": rank} for rank, problem_id in enumerate(ids, start=1)]
    files.write_rows(folder / "S.csv", ["id", "rank"], ranks)
    facts = {"policy": {"rule": "random", "budget": 0.5}, "pool": len(ids), "prompts": len(ids)}
    files.write_json(folder / "S.json", facts)
    output = f"asked.{name.rpartition('.')[2]}"
    done = in_process.run(
        folder, "export_subset", subset="S.csv", facts="S.json", problems="P.jsonl", files=name,
        to_annotate="answer", output=output,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (folder / output).read_bytes()


def read_annotated(folder, data: bytes, name="back.csv", grader="math"):
    (folder / name).write_bytes(data)
    return in_process.run(
        folder, "read_annotated", problems="P.jsonl", annotated=name, column="answer",
        grader=grader, output="A.jsonl",
    )  # fmt: skip


def answers(folder) -> dict[str, str]:
    rows = files.read_jsonl(folder / "A.jsonl", {"id": str, "answer": str})
    return {row["id"]: row["answer"] for row in rows}


def table(header, rows, delimiter=",", line_end="\r\n") -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, lineterminator=line_end).writerows([header, *rows])
    return buffer.getvalue()


POOL = table(["id", "question"], zip(IDS, QUESTIONS))


def rows_of(data: bytes, delimiter=",") -> list[dict]:
    return list(
        csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter)
    )


# --- files for spreadsheets


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (b"id,question\na,plain\n", False),
        ("\ufeffid,question\na,plain\n".encode(), True),
        ("id,question\na,Größe\n".encode(), True),
        ("id,question\na,plain\n".encode("utf-16"), True),
    ],
)
def test_a_byte_order_mark_is_written_if_the_pool_has_a_mark_or_the_text_is_not_ascii(
    tmp_path, text, marked
):
    assert write_annotation_file(tmp_path, text).startswith("\ufeff".encode()) == marked


@pytest.mark.parametrize(
    ("name", "delimiter", "before"),
    [
        ("pool.csv", ",", ""),
        ("pool.csv", ";", ""),
        ("pool.tsv", "\t", ""),
        ("pool.csv", ";", "sep=;\n"),
    ],
)
def test_the_file_to_annotate_has_the_delimiter_and_the_sep_line_of_the_pool(
    tmp_path, name, delimiter, before
):
    pool = before + table(["id", "question"], zip("abcd", QUESTIONS), delimiter)
    annotation_file = write_annotation_file(tmp_path, pool.encode(), name)
    text = annotation_file.decode("utf-8-sig")
    columns = ["id", "question", "answer", "prompt_id", "chosen_because"]
    assert text.startswith(before + delimiter.join(columns) + "\n")
    exported_rows = rows_of(text.removeprefix(before).encode(), delimiter)
    assert [row["question"].removeprefix("'") for row in exported_rows] == QUESTIONS
    empty, filled = f"{delimiter}{delimiter}", f"{delimiter}7{delimiter}"
    done = read_annotated(tmp_path, annotation_file.replace(empty.encode(), filled.encode()))
    assert done.returncode == 0, done.stderr
    assert set(answers(tmp_path)) == set("abcd")


# --- ids and questions


def as_numbers(cell: str) -> str:
    """The text that a spreadsheet shows for a cell of IDS."""
    return {"0007": "7", "1E5": "1.00E+05", "12345678901234567": "1.23457E+16"}.get(cell, cell)


def by_excel(rows, delimiter=",", encoding="utf-8-sig", line_end="\r\n"):
    columns = [*rows[0], "", ""]
    cells = [[*map(as_numbers, row.values()), "", ""] for row in rows]
    return table(
        columns, [*cells, [""] * len(columns), [""] * len(columns)], delimiter, line_end
    ).encode(encoding)


SPREADSHEETS = {
    "Excel, CSV UTF-8": by_excel,
    "Excel where the comma is the decimal mark": lambda rows: by_excel(rows, ";"),
    "Excel, Unicode text": lambda rows: by_excel(rows, "\t", "utf-16"),
    "Excel for Mac": lambda rows: by_excel(rows, line_end="\r"),
    "LibreOffice": lambda rows: table([*rows[0]], [map(as_numbers, row.values()) for row in rows], line_end="\n").encode(),
    "Google Sheets": lambda rows: table([*rows[0]], [map(as_numbers, row.values()) for row in rows]).rstrip("\r\n").encode(),
    "sorted, other columns removed": lambda rows: table(["answer", "prompt_id"], [(row["answer"], row["prompt_id"]) for row in rows[::-1]]).encode(),
}  # fmt: skip


@pytest.mark.parametrize("spreadsheet", SPREADSHEETS)
def test_rows_that_a_spreadsheet_saved_are_matched_by_their_prompt_id(tmp_path, spreadsheet):
    rows = rows_of(write_annotation_file(tmp_path, POOL.encode()))
    filled = [row | {"answer": str(number)} for number, row in enumerate(rows)]
    done = read_annotated(tmp_path, SPREADSHEETS[spreadsheet](filled))
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path) == dict(zip(IDS, "0123"))
    assert "left out" not in done.stdout


SUMS = [f"How many is {n} and {n + 1}?" for n in range(8)]
EDITED = [SUMS[0].replace("0", "50"), *SUMS[1:]]


@pytest.mark.parametrize(
    ("own_ids", "pool", "lost"),
    [
        (False, ["How many is 50 and 60?", *SUMS], 0),  # inserted
        (False, SUMS[2:], 2),  # deleted
        (False, SUMS[::-1], 0),  # sorted
        (False, EDITED, 1),
        (True, EDITED, 1),
        (True, ["How many is 50 and 60?", *SUMS], 0),  # numbered again
        (True, [f"Other {n}?" for n in range(8)], 8),
    ],
)
def test_an_answer_stays_with_its_question_if_the_file_of_prompts_changes(
    tmp_path, own_ids, pool, lost
):
    rows = lambda questions: [
        (number if own_ids else "", question) for number, question in enumerate(questions)
    ]
    annotation_file = rows_of(
        write_annotation_file(tmp_path, table(["id", "question"], rows(SUMS)).encode())
    )
    answer_of = {question: str(2 * n + 1) for n, question in enumerate(SUMS)}
    filled = [row | {"answer": answer_of[row["question"]]} for row in annotation_file]
    write_annotation_file(tmp_path, table(["id", "question"], rows(pool)).encode())
    done = read_annotated(tmp_path, by_excel(filled))
    if lost > 4:
        assert check_refusal(done, f"{lost} of 8 answers", "the file belongs to other prompts")
        return
    assert done.returncode == 0, done.stderr
    problems = files.read_jsonl(tmp_path / "A.jsonl", {"question": str, "answer": str})
    assert len(problems) == 8 - lost
    assert all(row["answer"] == answer_of[row["question"]] for row in problems)
    assert ("row 2" in done.stdout and "no longer in the pool" in done.stdout) == bool(lost)


# --- answers that a spreadsheet changes


def test_all_wrong_rows_are_counted(tmp_path):
    write_annotation_file(
        tmp_path, table(["id", "question"], [(f"p{n}", f"q{n}") for n in range(9)]).encode()
    )
    rows = [
        (question_id(f"q{n}"), answer)
        for n, answer in ((1, "lots of"), (2, "1"), (2, "2"), (3, "1"), (4, "none"))
    ]
    data = table(["prompt_id", "answer"], rows).encode()
    done = read_annotated(tmp_path, data, grader="number_lenient")
    assert check_refusal(done, "row 2: grader", "3 rows are wrong: row 2, row 4 (prompt", "row 6")
    assert not (tmp_path / "A.jsonl").exists()


def test_a_date_is_accepted_if_answers_are_words(tmp_path):
    write_annotation_file(tmp_path, POOL.encode())
    done = read_annotated(tmp_path, f"prompt_id,answer\n{B},01-Feb\n".encode(), grader="final_word")
    assert done.returncode == 0 and answers(tmp_path) == {"b": "01-Feb"}
    assert check_refusal(
        read_annotated(tmp_path, f"prompt_id,answer\n{B},#NAME?\n".encode(), grader="final_word"),
        "is an error value",
    )


@pytest.mark.parametrize("answer", ["1/2", "0.5", "7", "-3", "12", "1,000", "2.5E+10"])
def test_answers_that_no_spreadsheet_changed_are_read_unchanged(tmp_path, answer):
    write_annotation_file(tmp_path, POOL.encode())
    done = read_annotated(tmp_path, f'prompt_id,answer\n{B},"{answer}"\n'.encode())
    assert (
        done.returncode == 0 and answers(tmp_path) == {"b": answer} and "warning" not in done.stdout
    ), done.stdout
