"""`hardgrpo worth`: one command from recordings before and after a training to the page "Was it
worth it?"."""

import csv
import json
import os
import subprocess
import sys

import pytest
import yaml

from conftest import World
from hardgrpo.runtime.errors import UserError
from hardgrpo.workflow import console, recorded_worth

PROMPTS, SAMPLES = 12, 4


def right(n):
    return f"{n} and {n} is \\boxed{{{2 * n}}}"


def rows_of(solved, samples=SAMPLES, prompts=PROMPTS, form=right):
    """Rows with one prompt each; prompt n is correct in `solved(n)` samples."""
    return [
        {
            "id": f"q{n}",
            "question": f"What is {n} + {n}?",
            "answer": str(2 * n),
            "completions": [form(n) if k < solved(n) else form(n + 1) for k in range(samples)],
        }
        for n in range(prompts)
    ]


def one_by_one(rows, **names):
    """Rows with one completion each, with other names of columns."""
    return [
        {names.get(key, key): value for key, value in row.items() if key != "completions"}
        | {names.get("completion", "completion"): text}
        for row in rows
        for text in row["completions"]
    ]


def without(rows, *keys):
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def write(path, rows):
    if path.suffix == ".csv":
        with open(path, "w", newline="") as stream:
            table = csv.DictWriter(stream, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def call(folder, before, after, *arguments, world=None):
    command = [sys.executable, "-m", "hardgrpo.workflow.console", "worth", before, after]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(world.folder / "src")},
    )  # fmt: skip


@pytest.mark.slow
def test_recordings_become_the_page_of_worth(tmp_path):
    world = World(tmp_path / "world")
    write(tmp_path / "base model.jsonl", rows_of(lambda n: n % 3))
    after = one_by_one(
        without(rows_of(lambda n: 2 + 2 * (n % 2)), "question", "answer"), id="prompt_id", completion="Response"
    )  # fmt: skip
    write(tmp_path / "trained.csv", after)
    done = call(tmp_path, "base model.jsonl", "trained.csv", world=world)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "12 prompts, 4 completions of each before and after, grader number_lenient" in done.stdout
    )
    page = done.stdout.strip().splitlines()[-1].removeprefix("open  ")
    assert page == str(world.folder / "paper/worth-base-model-trained/worth.html")
    text = open(page).read()
    # correct samples of four: 0, 1 or 2 before, 2 or 4 after
    assert "after: +50.0 points" in text and "from 25.0 to 75.0 %" in text
    config = world.folder / "results/choose/worth-base-model-trained.yaml"
    assert yaml.safe_load(config.read_text())["study"] == "worth-base-model-trained"

    # Another recording under the same name is another page.
    write(tmp_path / "trained.csv", one_by_one(without(rows_of(lambda n: (n + 1) % 3), "question")))
    done = call(tmp_path, "base model.jsonl", "trained.csv", world=world)
    assert done.returncode == 0, done.stdout + done.stderr
    text = open(page).read()
    assert ">not shown<" in text and "from 25.0 to 25.0 %" in text


@pytest.fixture
def read_problems(tmp_path, monkeypatch):
    """A function that reads two recordings as the command does: (problems, grader, before, after)."""
    monkeypatch.chdir(tmp_path)

    def read(before, after, *arguments, kind="jsonl", problems=None):
        for name, rows in (("before", before), ("after", after)):
            rows is None or write(tmp_path / f"{name}.{kind}", rows)
        if problems is not None:
            write(tmp_path / "problems.jsonl", problems)
            arguments = [*arguments, "--problems", "problems.jsonl"]
        args = console.build_parser().parse_args(
            ["worth", f"before.{kind}", f"after.{kind}", *arguments]
        )
        left, right = recorded_worth.read(args.before, args), recorded_worth.read(args.after, args)
        recorded_worth.compare(left, right)
        rows = recorded_worth.find_problems(left, right, args)
        grader = args.grader or recorded_worth.find_grader(rows, left, right)
        return rows, grader, left, right

    return read


ROWS = rows_of(lambda n: 2)
EXPECTED = without(ROWS, "completions")


def test_every_form_of_a_recording_is_read(read_problems):
    assert read_problems(ROWS, ROWS)[0] == EXPECTED
    # rows in any order, with one completion per row
    assert read_problems(one_by_one(ROWS), ROWS[::-1])[0] == EXPECTED
    renamed = one_by_one(
        ROWS, id="question_id", question="Problem", answer="Gold", completion="output"
    )
    assert read_problems(renamed, renamed, kind="csv")[0] == EXPECTED
    # answers in one of the recordings, or in a separate file
    assert read_problems(without(ROWS, "answer"), ROWS)[0] == EXPECTED
    alone = without(ROWS, "answer", "question")
    assert read_problems(alone, alone, problems=EXPECTED)[0] == EXPECTED
    # questions instead of ids
    rows = read_problems(without(ROWS, "id"), without(ROWS, "id"))[0]
    assert without(rows, "id") == without(EXPECTED, "id")
    renamed_rows = [row | {"texts": row["completions"], "n": row["id"]} for row in ROWS]
    renamed_rows = without(renamed_rows, "completions", "id")
    arguments = ["--completion", "texts", "--id", "n"]
    assert read_problems(renamed_rows, renamed_rows, *arguments)[0] == EXPECTED


def test_tokens_and_finish_reasons_are_kept_where_all_completions_have_them(read_problems):
    both = [row | {"tokens": [7] * 4, "finish_reasons": ["stop"] * 4} for row in ROWS]
    rows, _, before, after = read_problems(both, ROWS)
    row = recorded_worth.as_row(rows[0], before)
    assert row["tokens"] == [7] * 4 and row["finish_reasons"] == ["stop"] * 4
    assert recorded_worth.as_row(rows[0], after) == ROWS[0]
    rows_of_one = [row | {"tokens": "9", "finish_reason": "length"} for row in one_by_one(ROWS)]
    rows, _, before, _ = read_problems(rows_of_one, ROWS)
    row = recorded_worth.as_row(rows[0], before)
    assert row["tokens"] == [9] * 4 and row["finish_reasons"] == ["length"] * 4


@pytest.mark.parametrize(
    ("form", "grader"), [(right, "number_lenient"), (lambda n: f"so #### {2 * n}", "final_number")]
)
def test_the_grader_is_that_which_finds_the_answers(read_problems, form, grader):
    rows = rows_of(lambda n: 2, form=form)
    assert read_problems(rows, rows)[1] == grader


def changed(number, **fields):
    return [row | (fields if n == number else {}) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ROWS, None, "after.jsonl: no such file; expected JSON Lines, CSV or TSV"),
        (ROWS, ROWS[:-2], "after.jsonl: 2 of 12 prompts of before.jsonl are missing, the first is 'q10'"),
        (ROWS[1:], ROWS, "before.jsonl: 1 of 12 prompts of after.jsonl are missing, the first is 'q0'"),
        (ROWS, changed(3, id="x"), "after.jsonl: 1 of 12 prompts of before.jsonl are missing, the first is 'q3'"),
        (ROWS, rows_of(lambda n: 1, samples=3), "after.jsonl: 3 completions of each prompt, but 4 in before.jsonl"),
        (changed(2, completions=["a"]), ROWS, "before.jsonl: prompt 'q2' has 1 completions, others have 4"),
        (changed(2, completions=[]), ROWS, "before.jsonl, row 3: 'completions' is []"),
        (changed(2, completions=[1]), ROWS, "before.jsonl, row 3: 'completions' is [1]"),
        (changed(2, id=""), ROWS, "before.jsonl, row 3: 'id' is empty"),
        (without(ROWS, "completions"), ROWS, "before.jsonl: which column holds the completions? name it with --completion: id, question, answer"),
        (without(ROWS, "id", "question"), ROWS, "before.jsonl: which column holds the ids? name it with --id: answer, completions"),
        (changed(2, question="another"), ROWS, "after.jsonl: the question of prompt 'q2' differs from that in before.jsonl"),
        (changed(2, answer="5"), ROWS, "before.jsonl: the answer of prompt 'q2' is '5', elsewhere '4'"),
        (without(ROWS, "answer"), without(ROWS, "answer"), "before.jsonl: 12 of 12 prompts have no answer in before.jsonl, after.jsonl"),
        (changed(2, answer=None), without(ROWS, "answer"), "before.jsonl: 1 of 12 prompts have no answer in before.jsonl, after.jsonl, the first is 'q2'"),
        (rows_of(lambda n: 2, form=str), rows_of(lambda n: 2, form=str), "before.jsonl: no completion states its answer in a form that is known, expected \\boxed{ANSWER} or #### ANSWER"),
        ([row | {"answer": "x y z ?"} for row in ROWS], without(ROWS, "answer"), "before.jsonl: no grader reads the answers, such as 'x y z ?'"),
    ],
)  # fmt: skip
def test_a_wrong_recording_is_named(read_problems, before, after, words):
    with pytest.raises(UserError) as error:
        read_problems(before, after)
    assert str(error.value).startswith(words), error.value


def test_wrong_columns_and_files_of_answers_are_named(read_problems):
    with pytest.raises(
        UserError, match="before.jsonl: no column 'c'; the columns are id, question"
    ):
        read_problems(ROWS, ROWS, "--completion", "c")
    alone = without(ROWS, "answer")
    with pytest.raises(UserError, match="problems.jsonl: expected a column of ids or questions"):
        read_problems(alone, alone, problems=without(EXPECTED, "answer"))
    with pytest.raises(
        UserError, match="problems.jsonl: the answer of prompt 'q0' is '7', elsewhe"
    ):
        read_problems(ROWS, ROWS, problems=[EXPECTED[0] | {"answer": "7"}])
    with pytest.raises(
        UserError, match="11 of 12 prompts have no answer in problems.jsonl, before"
    ):
        read_problems(alone, alone, problems=EXPECTED[:1])
    with pytest.raises(UserError, match="12 of 12 prompts have no answer"):
        read_problems(ROWS, ROWS, "--answer", "glod")


def test_the_named_column_of_ids_is_also_that_of_the_file_of_answers(read_problems):
    renamed = [{"n": row["id"]} | without([row], "id")[0] for row in EXPECTED]
    alone = without(ROWS, "answer")
    rows = [{"n": row["id"]} | without([row], "id")[0] for row in alone]
    assert read_problems(rows, rows, "--id", "n", problems=renamed) == read_problems(
        alone, alone, problems=EXPECTED
    )


def test_a_wrong_call_gives_a_one_line_error_and_writes_nothing(tmp_path):
    world = World(tmp_path / "world")
    write(tmp_path / "before.jsonl", ROWS)
    done = call(tmp_path, "before.jsonl", "after.jsonl", world=world)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: after.jsonl: no such file")
    write(tmp_path / "after.jsonl", ROWS)
    done = call(tmp_path, "before.jsonl", "after.jsonl", "--completion-tokens", "0", world=world)
    assert done.returncode == 1 and "completion_tokens" in done.stderr, done.stderr
    assert not list(world.folder.glob("results/choose/*"))
