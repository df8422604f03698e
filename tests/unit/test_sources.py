"""Rows of files and datasets, and the conversion of a row of each format into a problem."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.data import row_files, sources
from hardgrpo.runtime.errors import UserError

CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def problem(row, format="columns", columns=None, needs_answer=True):
    return sources.as_problem(row, format, columns or {}, needs_answer, "mine.jsonl", "row 1")


# --- files


def test_json_lines_may_be_compressed_and_have_blank_lines(tmp_path):
    rows = [{"question": "a\u2028b", "answer": 1}, {"question": "c", "more": [1, {"d": None}]}]
    text = "\n" + "\r\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n"
    (tmp_path / "mine.jsonl").write_bytes(text.encode())
    (tmp_path / "mine.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("mine.jsonl", "mine.jsonl.gz"):
        assert row_files.read_file(tmp_path / name).rows == rows


def test_a_file_that_is_not_there_is_reported(tmp_path):
    for name in ("mine.csv", "mine.json", "mine.jsonl", "mine.jsonl.gz"):
        with pytest.raises(UserError, match=f"{name}: no such file"):
            row_files.read_file(tmp_path / name)


def test_big_bench_hard_is_read_in_its_form(tmp_path):
    examples = [
        {"input": "Which?\nOptions:\n(A) a\n(B) b", "target": "(B)"},
        {"input": 7, "target": 8},
    ]
    (tmp_path / "task.json").write_text(json.dumps({"canary": "x", "examples": examples}))
    rows = row_files.read_file(tmp_path / "task.json").rows
    assert rows == examples
    problems = [problem(row, "choices") for row in rows]
    assert [(row["question"], row["tier"]) for row in problems] == [
        (examples[0]["input"], 2),
        ("7", 0),
    ]


# --- Parquet


def test_rows_of_a_parquet_file_are_read(tmp_path):
    rows = [{"question": f"{number}: {'a' * 90}", "answer": str(number)} for number in range(5000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    assert row_files.read_file(tmp_path / "train.parquet").rows == rows


@pytest.mark.parametrize("content", [b"not parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_damaged_parquet_file_gives_a_one_line_error(tmp_path, content):
    (tmp_path / "train.parquet").write_bytes(content)
    with pytest.raises(UserError, match="train.parquet: not a Parquet file"):
        row_files.read_file(tmp_path / "train.parquet")


# --- which rows


@given(st.integers(1, 40), st.integers(1, 6), st.data())
def test_each_row_is_in_exactly_one_of_the_choices_that_part_a_file(count, every, data):
    rows = [{"question": f"q{n}"} for n in range(count)]
    choose = lambda **keys: sources.choose_rows(rows, keys, "f")
    numbers = data.draw(st.lists(st.integers(0, count - 1), max_size=count))
    assert {n for n, _ in choose(only=numbers)} == set(numbers)
    parts = [choose(every=every, first=first) for first in range(every)]
    for first, part in enumerate(parts):
        assert [n for n, _ in part] == list(range(first, count, every))
    for chosen in (choose(only=numbers) + choose(**{"except": numbers}), sum(parts, [])):
        assert sorted(chosen, key=lambda pair: pair[0]) == list(enumerate(rows))


@given(st.integers(1, 40), st.integers(0, 9), st.data())
def test_drawn_rows_depend_only_on_the_seed_and_keep_the_order_of_the_file(count, seed, data):
    rows, size = [{"question": f"q{n}"} for n in range(count)], data.draw(st.integers(1, count))
    first, second = (sources.choose_rows(rows, {"draw": size, "seed": seed}, "f") for _ in range(2))
    numbers = sorted({n for n, _ in first})
    assert first == second == [(n, rows[n]) for n in numbers] and len(numbers) == size


def test_a_draw_takes_every_row_equally_often_and_only_rows_that_the_other_keys_leave():
    rows = [{"question": letter} for letter in "abcdefgh"]
    choose = lambda **keys: sources.choose_rows(rows, {"except": [7]} | keys, "f")
    draws = [{n for n, _ in choose(draw=3, seed=seed)} for seed in range(700)]
    counts = [sum(n in draw for draw in draws) for n in range(8)]
    # a row is drawn 300 times on average, with a standard deviation of 13
    assert counts[7] == 0 and all(240 < count < 360 for count in counts[:7])
    with pytest.raises(UserError, match="^f: 8 rows are to be drawn, but there are only 7; lower"):
        choose(draw=8, seed=1)


def test_rows_keep_their_numbers_and_without_a_choice_all_rows_are_read():
    rows = [{"question": letter} for letter in "abcdef"]
    numbers = lambda chosen: [n for n, _ in sources.choose_rows(rows, chosen, "f")]
    assert numbers(None) == numbers({}) == [0, 1, 2, 3, 4, 5]
    assert numbers({"first": 4}) == [4, 5]
    assert numbers({"every": 2, "except": [2]}) == [0, 4]
    assert numbers({"only": [5, 1], "except": [1]}) == [5]


# --- formats


@pytest.mark.parametrize(
    ("solution", "answer", "tier"),
    [
        ("2 + 3 = <<2+3=5>>5\n5 * 2 = <<5*2=10>>10\n#### 10", "10", 2),
        ("It costs #### 3 first, then\n#### 1,080 ", "1,080", 0),
        ("<<a>><<b>><<c>>#### -2", "-2", 3),
    ],
)
def test_format_gsm8k_reads_the_answer_after_the_last_mark_and_takes_the_number_of_steps_as_tier(
    solution, answer, tier
):
    row = {"question": "How many?", "answer": solution}
    assert problem(row, "gsm8k") == {"question": "How many?", "answer": answer, "tier": tier}


def test_format_choices_takes_the_number_of_options_as_tier():
    text = "Alice (A) and Bob.\nOptions:\n(A) red\n(B) blue\n(C) (D) green"
    expected = {"question": text, "answer": "(B)", "tier": 3}
    assert problem({"input": text, "target": "(B)"}, "choices") == expected


HALF = r"first \boxed{1}, then $\boxed{\frac{1}{2}}$."


@pytest.mark.parametrize(
    ("row", "answer", "tier"),
    [
        ({"solution": HALF, "level": "Level 5"}, r"\frac{1}{2}", 5),
        ({"solution": r"\boxed{1}", "answer": "2", "level": 3}, "2", 3),
        ({"solution": r"\boxed{1}", "answer": None, "level": "Level ?"}, "1", None),
        ({"answer": "7", "level": None}, "7", None),
        ({"solution": r"so $\boxed 2$.", "level": None}, "2", None),
        ({"solution": r"so \fbox{9} is it", "level": None}, "9", None),
    ],
)
def test_format_math_reads_the_answer_from_a_column_or_the_last_box_and_takes_the_level_as_tier(
    row, answer, tier
):
    expected = {"question": "x?", "answer": answer, "tier": tier}
    assert problem({"problem": "x?"} | row, "math") == expected


def test_columns_have_default_names_that_the_task_may_replace():
    keys = ("id", "question", "answer", "tier")
    row = dict(zip(keys, ("a7", "q", 4, 2)))
    others = {"key": "k", "prompt": "p", "gold": "g", "grade": "easy"}
    assert problem(row | others) == row
    columns = dict(zip(keys, others))
    assert problem(row | others, columns=columns) == dict(zip(keys, others.values()))
    expected = {"id": None, "question": "q", "answer": "a", "tier": None}
    assert problem({"question": "q", "answer": "a"}) == expected
    assert problem({"question": "q"}, needs_answer=False)["answer"] is None
    assert problem({"question": "q", "answer": 0})["answer"] == 0, "the number 0 is an answer"
