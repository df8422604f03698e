"""`hardgrpo worth`: one command makes the page "Was it worth it?" from recordings of completions
before and after a training."""

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


def boxed_sum(n):
    return f"{n} and {n} is \\boxed{{{2 * n}}}"


def rows_of(correct_samples, samples=SAMPLES, prompts=PROMPTS, form=boxed_sum):
    """Rows with one prompt each. Of prompt n, the first `correct_samples(n)` completions are
    correct."""
    return [
        {
            "id": f"q{n}",
            "question": f"What is {n} + {n}?",
            "answer": str(2 * n),
            "completions": [
                form(n) if k < correct_samples(n) else form(n + 1) for k in range(samples)
            ],
        }
        for n in range(prompts)
    ]


def split_rows(rows, **names):
    """Rows with one completion each. `names`: {column: new name}."""
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
    after = split_rows(
        without(rows_of(lambda n: 2 + 2 * (n % 2)), "question", "answer"), id="prompt_id", completion="Response"
    )  # fmt: skip
    write(tmp_path / "trained.csv", after)
    process = call(tmp_path, "base model.jsonl", "trained.csv", world=world)
    assert process.returncode == 0, process.stdout + process.stderr
    assert (
        "12 prompts, 4 completions of each before and after, grader number_lenient"
        in process.stdout
    )
    page = process.stdout.strip().splitlines()[-1].removeprefix("open  ")
    assert page == str(world.folder / "paper/worth-base-model-trained/worth.html")
    text = open(page).read()
    # correct samples of four: 0, 1 or 2 before, 2 or 4 after
    assert "after: +50.0 points" in text and "from 25.0 to 75.0 %" in text
    config = world.folder / "results/choose/worth-base-model-trained.yaml"
    assert yaml.safe_load(config.read_text())["study"] == "worth-base-model-trained"

    # A new recording in the same file replaces the page.
    write(tmp_path / "trained.csv", split_rows(without(rows_of(lambda n: (n + 1) % 3), "question")))
    process = call(tmp_path, "base model.jsonl", "trained.csv", world=world)
    assert process.returncode == 0, process.stdout + process.stderr
    text = open(page).read()
    assert ">not shown<" in text and "from 25.0 to 25.0 %" in text


@pytest.fixture
def read_recordings(tmp_path, monkeypatch):
    """A function that reads two recordings as the command does, and returns (problems, grader,
    recording before, recording after)."""
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
        recordings = [recorded_worth.read(path, args) for path in (args.before, args.after)]
        recorded_worth.check_comparable(*recordings)
        rows = recorded_worth.find_problems(*recordings, args)
        grader = args.grader or recorded_worth.find_grader(rows, *recordings)
        return rows, grader, *recordings

    return read


ROWS = rows_of(lambda n: 2)
PROBLEMS = without(ROWS, "completions")


def test_every_form_of_a_recording_is_read(read_recordings):
    assert read_recordings(ROWS, ROWS)[0] == PROBLEMS
    # one completion per row, and rows in another order
    assert read_recordings(split_rows(ROWS), ROWS[::-1])[0] == PROBLEMS
    csv_rows = split_rows(
        ROWS, id="question_id", question="Problem", answer="Gold", completion="output"
    )
    assert read_recordings(csv_rows, csv_rows, kind="csv")[0] == PROBLEMS
    # answers in one of the recordings, or in a separate file
    assert read_recordings(without(ROWS, "answer"), ROWS)[0] == PROBLEMS
    completions_only = without(ROWS, "answer", "question")
    assert read_recordings(completions_only, completions_only, problems=PROBLEMS)[0] == PROBLEMS
    # questions instead of ids
    rows = read_recordings(without(ROWS, "id"), without(ROWS, "id"))[0]
    assert without(rows, "id") == without(PROBLEMS, "id")
    renamed_rows = [row | {"texts": row["completions"], "n": row["id"]} for row in ROWS]
    renamed_rows = without(renamed_rows, "completions", "id")
    arguments = ["--completion", "texts", "--id", "n"]
    assert read_recordings(renamed_rows, renamed_rows, *arguments)[0] == PROBLEMS


def test_tokens_and_finish_reasons_are_kept_where_all_completions_have_them(read_recordings):
    rows_with_tokens = [row | {"tokens": [7] * 4, "finish_reasons": ["stop"] * 4} for row in ROWS]
    rows, _, before, after = read_recordings(rows_with_tokens, ROWS)
    row = recorded_worth.as_row(rows[0], before)
    assert row["tokens"] == [7] * 4 and row["finish_reasons"] == ["stop"] * 4
    assert recorded_worth.as_row(rows[0], after) == ROWS[0]
    single_rows = [row | {"tokens": "9", "finish_reason": "length"} for row in split_rows(ROWS)]
    rows, _, before, _ = read_recordings(single_rows, ROWS)
    row = recorded_worth.as_row(rows[0], before)
    assert row["tokens"] == [9] * 4 and row["finish_reasons"] == ["length"] * 4


@pytest.mark.parametrize(
    ("form", "grader"),
    [(boxed_sum, "number_lenient"), (lambda n: f"so #### {2 * n}", "final_number")],
)
def test_the_grader_that_finds_the_answers_is_chosen(read_recordings, form, grader):
    rows = rows_of(lambda n: 2, form=form)
    assert read_recordings(rows, rows)[1] == grader


def change_row(number, **fields):
    return [row | (fields if n == number else {}) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ROWS, None, "after.jsonl: no such file; expected JSON Lines, CSV or TSV"),
        (ROWS, ROWS[:-2], "after.jsonl: 2 of 12 prompts of before.jsonl are missing, the first is 'q10'"),
        (ROWS[1:], ROWS, "before.jsonl: 1 of 12 prompts of after.jsonl are missing, the first is 'q0'"),
        (ROWS, change_row(3, id="x"), "after.jsonl: 1 of 12 prompts of before.jsonl are missing, the first is 'q3'"),
        (ROWS, rows_of(lambda n: 1, samples=3), "after.jsonl: 3 completions of each prompt, but 4 in before.jsonl"),
        (change_row(2, completions=["a"]), ROWS, "before.jsonl: prompt 'q2' has 1 completions, other prompts have 4"),
        (change_row(2, completions=[]), ROWS, "before.jsonl, row 3: 'completions' is []"),
        (change_row(2, completions=[1]), ROWS, "before.jsonl, row 3: 'completions' is [1]"),
        (change_row(2, id=""), ROWS, "before.jsonl, row 3: 'id' is empty"),
        (without(ROWS, "completions"), ROWS, "before.jsonl: which column holds the completions? name it with --completion; the columns are id, question, answer"),
        (without(ROWS, "id", "question"), ROWS, "before.jsonl: which column holds the ids? name it with --id; the columns are answer, completions"),
        (change_row(2, question="another"), ROWS, "after.jsonl: the question of prompt 'q2' differs from that in before.jsonl"),
        (change_row(2, answer="5"), ROWS, "before.jsonl: the answer of prompt 'q2' is '5', elsewhere '4'"),
        (without(ROWS, "answer"), without(ROWS, "answer"), "before.jsonl: 12 of 12 prompts have no answer in before.jsonl, after.jsonl"),
        (change_row(2, answer=None), without(ROWS, "answer"), "before.jsonl: 1 of 12 prompts have no answer in before.jsonl, after.jsonl, the first is 'q2'"),
        (rows_of(lambda n: 2, form=str), rows_of(lambda n: 2, form=str), "before.jsonl, after.jsonl: none of 24 completions states an answer in a form that a grader knows; expected \\boxed{ANSWER} or #### ANSWER"),
        ([row | {"answer": "x y z ?"} for row in ROWS], without(ROWS, "answer"), "before.jsonl: no grader fits the answers (tried: choice_letter, number_lenient, final_word for single words, math if installed); the first answer is 'x y z ?'"),
    ],
)  # fmt: skip
def test_a_wrong_recording_is_reported(read_recordings, before, after, words):
    with pytest.raises(UserError) as error:
        read_recordings(before, after)
    assert str(error.value).startswith(words), error.value


def test_wrong_columns_and_files_of_answers_are_reported(read_recordings):
    with pytest.raises(
        UserError, match="before.jsonl: no column 'c'; the columns are id, question"
    ):
        read_recordings(ROWS, ROWS, "--completion", "c")
    no_answers = without(ROWS, "answer")
    with pytest.raises(UserError, match="problems.jsonl: expected a column of ids or questions"):
        read_recordings(no_answers, no_answers, problems=without(PROBLEMS, "answer"))
    with pytest.raises(
        UserError, match="problems.jsonl: the answer of prompt 'q0' is '7', elsewhe"
    ):
        read_recordings(ROWS, ROWS, problems=[PROBLEMS[0] | {"answer": "7"}])
    with pytest.raises(
        UserError, match="11 of 12 prompts have no answer in problems.jsonl, before"
    ):
        read_recordings(no_answers, no_answers, problems=PROBLEMS[:1])
    with pytest.raises(UserError, match="12 of 12 prompts have no answer"):
        read_recordings(ROWS, ROWS, "--answer", "glod")


def test_the_option_id_also_names_the_column_of_the_file_of_problems(read_recordings):
    problems = [{"n": row["id"]} | without([row], "id")[0] for row in PROBLEMS]
    no_answers = without(ROWS, "answer")
    rows = [{"n": row["id"]} | without([row], "id")[0] for row in no_answers]
    assert read_recordings(rows, rows, "--id", "n", problems=problems) == read_recordings(
        no_answers, no_answers, problems=PROBLEMS
    )


def test_a_wrong_call_gives_a_one_line_error_and_writes_nothing(tmp_path):
    world = World(tmp_path / "world")
    write(tmp_path / "before.jsonl", ROWS)
    process = call(tmp_path, "before.jsonl", "after.jsonl", world=world)
    assert process.returncode == 1 and process.stderr.count("\n") == 1, process.stderr
    assert process.stderr.startswith("error: after.jsonl: no such file")
    write(tmp_path / "after.jsonl", ROWS)
    process = call(tmp_path, "before.jsonl", "after.jsonl", "--completion-tokens", "0", world=world)
    assert process.returncode == 1 and "completion_tokens" in process.stderr, process.stderr
    assert not list(world.folder.glob("results/choose/*"))
