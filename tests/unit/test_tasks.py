"""Problems of a task are read from files and datasets, get ids, and are checked with the grader."""

import csv
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardgrpo.data import tasks
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from in_process import prepare_task, run

FILES = {"kind": "files", "train": "mine", "test": "mine"}
REVISION = "0" * 40


def prepare(folder, source, *paths, **options):
    return prepare_task(folder, *paths, source=source, **options)


def table(path, header, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def part(local, rows=None, **keys):
    return (
        {"dataset": "someone/maths", "revision": REVISION, "file": "test.jsonl", "local": local}
        | keys
        | ({"rows": rows} if rows else {})
    )


# --- files


def test_rows_of_a_table_become_problems_in_the_same_order(tmp_path):
    rows = [
        ("a7", 'Say "two",\nplease', "2", "1"),
        ("b3", "Three, and {braces}?", " 3.0 ", ""),
        ("c1", "Vier? ü", "4", "hard"),
    ]
    table(tmp_path / "mine.csv", ["name", "prompt", "gold", "level"], rows)
    columns = {"question": "prompt", "answer": "gold", "tier": "level", "id": "name"}
    done = prepare(tmp_path, FILES | {"columns": columns}, "mine.csv", grader="number_lenient")
    assert done.returncode == 0, done.stderr
    keys = ("id", "question", "answer", "tier", "row")
    expected = [
        ("a7", 'Say "two",\nplease', "2", "1", 0),
        ("b3", "Three, and {braces}?", " 3.0 ", None, 1),
        ("c1", "Vier? ü", "4", "hard", 2),
    ]
    assert files.read_jsonl(tmp_path / "P.jsonl", {}) == [
        dict(zip(keys, values)) | {"source": "mine.csv"} for values in expected
    ]


def test_the_id_of_a_row_without_an_id_follows_from_its_question(tmp_path):
    table(
        tmp_path / "mine.csv",
        ["id", "question", "answer"],
        [("x", "a?", 1), ("", "b  c?", 2), ("", "a?", 3), (0, "d?", 4), ("", " b c?", 5)],
    )
    problems, _ = tasks.prepare("mine", FILES, "test", [str(tmp_path / "mine.csv")])
    ids = ["x", question_id("b c?"), question_id("a?"), "0", question_id("b c?") + "-2"]
    assert [problem["id"] for problem in problems] == ids


# --- datasets


@pytest.fixture
def data(tmp_path):
    """Two files of a dataset. Every fourth answer is not a number."""
    for name, count in (("one", 10), ("two", 6)):
        answers = [f"{n}" if n % 4 else r"\pi" for n in range(count)]
        rows = [
            {"problem": f"{name} {n}?", "answer": answer, "level": f"Level {n % 5 + 1}"}
            for n, answer in enumerate(answers)
        ]
        lines(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


MATHS = {"kind": "hub", "format": "math"}


def problems_of(data, source, task="mine", split="train"):
    paths = [str(data / entry["local"]) for entry in source[split]]
    return tasks.prepare(task, source, split, paths)[0]


def test_parts_are_concatenated_and_every_problem_records_its_origin(data):
    source = MATHS | {
        "train": [
            part("two.jsonl", file="algebra/test.jsonl"),
            part("one.jsonl", {"only": [9, 0]}),
        ],
        "problems": 8,
    }
    problems = problems_of(data, source)
    expected = [*(f"two {n}?" for n in range(6)), "one 0?", "one 9?"]
    assert [p["question"] for p in problems] == expected
    assert [p["id"] for p in problems] == [f"maths-train-{n:04d}" for n in range(8)]
    assert [p["row"] for p in problems] == [0, 1, 2, 3, 4, 5, 0, 9]
    assert [p["source"] for p in problems] == ["someone/maths/algebra/test.jsonl"] * 6 + [
        "someone/maths/test.jsonl"
    ] * 2
    assert [p["tier"] for p in problems] == [1, 2, 3, 4, 5, 1, 1, 5]


def test_keep_numeric_changes_no_id_and_is_applied_after_the_problems_are_counted(data):
    source = MATHS | {"train": [part("one.jsonl")], "problems": 10}
    numeric, everything = problems_of(data, source | {"keep": "numeric"}), problems_of(data, source)
    assert numeric == [p for p in everything if p["answer"] != r"\pi"] and len(numeric) == 7
    with pytest.raises(
        UserError,
        match="no problems are left in the train split; check the files, and `rows` and `keep`",
    ):
        problems_of(data, MATHS | {"keep": "numeric", "train": [part("one.jsonl", {"every": 4})]})


# --- reference answers that the grader cannot read


def make_problems(count, unreadable):
    answers = ["none" if n in unreadable else str(n) for n in range(count)]
    return [
        {"id": f"p{n}", "question": f"q{n}", "answer": answer, "tier": None}
        for n, answer in enumerate(answers)
    ]


@given(st.integers(1, 400), st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_up_to_one_in_a_hundred_unreadable_answers_are_left_out_and_more_are_refused(
    capsys, count, data
):
    unreadable = data.draw(st.sets(st.integers(0, count - 1), max_size=8))
    problems = make_problems(count, unreadable)
    capsys.readouterr()
    if 100 * len(unreadable) > count:
        with pytest.raises(
            UserError,
            match=f"cannot read the reference answer of {len(unreadable)} of {count} problems.*another grader",
        ):
            tasks.readable_problems(problems, "number_lenient", "P.jsonl")
        return
    readable = tasks.readable_problems(problems, "number_lenient", "P.jsonl")
    assert readable == [problem for n, problem in enumerate(problems) if n not in unreadable]
    output = capsys.readouterr().out
    assert (
        "warning: P.jsonl: grader 'number_lenient' cannot read" in output
        and "leave these problems out" in output
    ) == bool(unreadable)


def test_a_problem_with_an_unreadable_answer_is_neither_measured_nor_evaluated(tmp_path):
    rows = [{"question": f"q{n}", "answer": "none" if n == 42 else str(n)} for n in range(200)]
    lines(tmp_path / "mine.jsonl", rows)
    done = prepare(tmp_path, FILES, "mine.jsonl", grader="number_lenient")
    assert len(files.read_jsonl(tmp_path / "P.jsonl", {})) == 200
    expected = {question_id(f"q{n}") for n in range(200)} - {question_id("q42")}
    message = f"1 of 200 problems: '{question_id('q42')}' (none); pass rates, subsets"
    assert message in done.stdout
    answered = [{"question": row["question"], "completions": ["1", "?"]} for row in rows]
    lines(tmp_path / "R.jsonl", answered)
    common = {"problems": "P.jsonl", "grader": "number_lenient"}
    recorded = {"recording": "R.jsonl", "problems": "P.jsonl", "output": "C.jsonl"}
    assert run(tmp_path, "import_recording", **recorded).returncode == 0
    run(tmp_path, "measure_difficulty", completions="C.jsonl", output="D.csv", **common)
    outputs = {"output": "E.csv", "completions": "E.jsonl.gz"}
    run(tmp_path, "grade_recording", recordings="R.jsonl", steps="0", **outputs, **common)
    for table in ("D.csv", "E.csv"):
        assert {row["id"] for row in files.read_rows(tmp_path / table, {"id": str})} == expected


# --- reading prepared problems


def test_prepared_problems_are_read_as_they_were_written(tmp_path):
    rows = [
        {"question": "q\u2028\n\"'", "answer": 7, "tier": 2},
        {"question": "{question}", "answer": "x\r", "tier": None},
    ]
    written, _ = tasks.prepare("mine", FILES, "train", [str(lines(tmp_path / "mine.jsonl", rows))])
    files.write_jsonl(tmp_path / "P.jsonl", written)
    assert tasks.read_problems(tmp_path / "P.jsonl") == written
    assert [p["answer"] for p in written] == ["7", "x\r"]


def test_a_question_may_contain_braces_and_a_template_may_contain_the_question_twice():
    text = "{a} {question}. Again: {a} {question} \\boxed{(X)}"
    template = "{question}. Again: {question} \\boxed{(X)}"
    assert tasks.messages(template, "{a} {question}") == [{"role": "user", "content": text}]


def test_control_characters_in_a_warning_are_escaped(capsys):
    problems = [{"id": f"p{n}", "question": "q", "answer": str(n)} for n in range(200)]
    problems[5] |= {"id": "p5\x1b[2J", "answer": "\x1b]0;pwned\x07 \u202e"}
    assert len(tasks.readable_problems(problems, "number_lenient", "P.jsonl")) == 199
    output = capsys.readouterr().out.rstrip("\n")
    assert output.startswith("warning: P.jsonl") and output.isprintable() and r"p5\x1b[2J" in output
