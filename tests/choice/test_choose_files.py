"""The forms of files and the layouts of columns that `hardgrpo choose` reads. The layouts are those
that the documentation of verl, TRL, verifiers, open-r1 and the cards of the datasets describe."""

import bz2
import csv
import gzip
import json
import lzma

import pyarrow as pa
import pytest

from choice_runs import (
    QUESTION,
    choose,
    folder,
    hardgrpo,
    read_lines,
    server,
    sum_rows,
    write_lines,
)

ROWS = sum_rows(12, note="kept")
RANDOM = ("--policy", "random")
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}]


def as_csv(rows, delimiter=","):
    lines = [delimiter.join(rows[0])]
    lines += [delimiter.join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def zstd(data):
    buffer = pa.BufferOutputStream()
    with pa.CompressedOutputStream(buffer, "zstd") as stream:
        stream.write(data)
    return buffer.getvalue().to_pybytes()


def write(folder, name, rows):
    path = folder / name
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    texts = {"json": json.dumps(rows), "csv": as_csv(rows), "tsv": as_csv(rows, "\t")}
    kind, _, compression = name.partition(".")[2].partition(".")
    if kind == "parquet":
        import datasets

        datasets.Dataset.from_list(rows).to_parquet(path)
    elif kind == "saved":
        import datasets

        datasets.Dataset.from_list(rows).save_to_disk(path)
    else:
        data = texts.get(kind, lines).encode()
        compress = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
        compress["zst"] = zstd
        path.write_bytes(compress.get(compression, bytes)(data))


def read(path):
    if path.endswith(".parquet"):  # with the columns that the file names for `datasets`
        import datasets

        return datasets.Dataset.from_parquet(path, cache_dir=f"{path}.cache").to_list()
    if path.endswith(".json"):
        return json.loads(open(path).read())
    if path.endswith("sv"):
        delimiter = "\t" if path.endswith(".tsv") else ","
        return list(csv.DictReader(open(path, encoding="utf-8-sig"), delimiter=delimiter))
    if path.endswith(".jsonl"):
        return read_lines(path)
    import datasets

    return datasets.load_from_disk(path).to_list()


@pytest.mark.parametrize(
    "name",
    ["s.jsonl", "s.json", "s.csv", "s.tsv", "s.parquet", "s.saved", "s.jsonl.gz", "s.csv.gz", "s.jsonl.bz2", "s.json.xz", "s.jsonl.zst", "s.csv.zst"],
)  # fmt: skip
def test_chosen_rows_have_the_form_of_the_file_with_all_columns(choose, folder, name):
    write(folder, name, ROWS)
    rows = read(choose(name, "--budget", 3, *RANDOM).path)
    assert len(rows) == 3 and {row["note"] for row in rows} == {"kept"}
    assert {row["chosen_because"] for row in rows} == {"random"}
    assert {row["question"] for row in rows} <= {row["question"] for row in ROWS}


@pytest.fixture
def plan(choose):
    """A function that returns the output of a dry-run, in which the first prompt is shown as the
    model gets it."""

    def plan(rows, *arguments) -> str:
        done = choose(rows, "--budget", 1, *RANDOM, "--dry-run", *arguments)
        assert done.status == 0, done.error
        return done.output

    return plan


def first_prompt(output):
    """[(role, text)] of the first prompt in a dry-run's output."""
    messages = []
    for line in output.splitlines():
        head, bar, text = line.partition("| ")
        if head.startswith("first "):
            messages.append([head.split()[1], text])
        elif bar and not head.strip():
            messages[-1][1] += f"\n{text}"
    return [tuple(message) for message in messages]


def answer_in(output):
    return next(line.partition("| ")[2] for line in output.splitlines() if line.startswith("its answer"))  # fmt: skip


LAYOUTS = {
    "verl": {"data_source": "d", "prompt": CHAT, "ability": "math", "reward_model": {"style": "rule", "ground_truth": "2"}, "extra_info": {"index": 3}},
    "TRL": {"prompt": "1 + 1?", "solution": "so $\\boxed{2}$"},
    "verifiers or prime-rl": {"prompt": CHAT, "answer": "2", "info": {"a": 1}},
    "open-r1 or DeepScaleR": {"problem": "1 + 1?", "solution": "so 2", "answer": "2"},
    "Big-Math": {"problem": "1 + 1?", "answer": "2", "source": "x", "llama8b_solve_rate": 0.5},
    "NuminaMath": {"source": "x", "problem": "1 + 1?", "solution": "so $\\boxed{2}$", "messages": []},
    "GSM8K": {"question": "1 + 1?", "answer": "1+1=<<1+1=2>>2\n#### 2"},
    "Alpaca": {"instruction": "Add.", "input": "1 + 1?", "output": "2"},
    "BIG-Bench Hard": {"input": "1 + 1?", "target": "2"},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_known_layouts_are_named_and_read(plan, layout):
    output = plan([LAYOUTS[layout]] * 2)
    assert f"layout {layout}" in output.splitlines()[0] and answer_in(output) == "2"
    assert "1 + 1?" in first_prompt(output)[-1][1]
    if layout in ("verl", "verifiers or prime-rl"):
        assert first_prompt(output)[0] == ("system", "Be brief.")
    if layout == "Alpaca":
        assert first_prompt(output)[0][1].startswith("Add.\n1 + 1?")


@pytest.mark.parametrize("name", ["expected_answer", "final_answer", "ground_truth", "answerKey", "Gold", "extra_info.answer"])  # fmt: skip
def test_usual_columns_of_answers_are_found(plan, name):
    outer, _, inner = name.partition(".")
    rows = [{"problem": "1 + 1?", outer: {inner: "2"} if inner else "2"}] * 2
    assert answer_in(plan(rows)) == "2"


@pytest.mark.parametrize(
    ("columns", "answer"),
    [
        ({"options": ["one", "two", "three"], "answer": "B", "answer_index": 1}, "B"),
        ({"options": ["one", "two", "three"], "answer": "two"}, "B"),
        ({"choices": ["one", "two", "three"], "subject": "s", "answer": 1}, "B"),
        ({"choices": {"text": ["one", "two", "three"], "label": ["1", "2", "3"]}, "answerKey": "2"}, "B"),
        ({"options": {"A": "one", "B": "two", "C": "three"}, "answer": "B"}, "B"),
        ({"A": "one", "B": "two", "C": "three", "answer": "B"}, "B"),
        ({"opa": "one", "opb": "two", "opc": "three", "cop": 1}, "B"),
    ],
)  # fmt: skip
def test_options_are_put_under_the_question(plan, columns, answer):
    output = plan([{"question": "1 + 1?"} | columns] * 12)
    text = first_prompt(output)[0][1]
    assert text.startswith("1 + 1?\nA. one\nB. two\nC. three\n") and "LETTER" in text
    assert answer_in(output) == answer and "choice_letter_lenient" in output


def test_options_with_numbers_from_1_are_recognised(plan):
    rows = [{"question": f"{n}?", "A": "x", "B": "y", "C": "z", "answer": n} for n in (1, 2, 3)]
    assert answer_in(plan(rows)) == "A"


def test_the_last_reply_of_a_chat_is_not_sent(plan):
    chat = [*CHAT, {"role": "assistant", "content": "so \\boxed{2}"}]
    output = plan([{"messages": chat}] * 2)
    assert [role for role, _ in first_prompt(output)] == ["system", "user"]
    assert answer_in(output) == "2" and "are not sent" in output
    shared = [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "so \\boxed{2}"}]
    assert first_prompt(plan([{"conversations": shared}]))[0][0] == "user"


def test_a_context_comes_before_the_question(plan):
    rows = [{"question": "Who?", "context": "It is Ann.", "answer": "Ann"}] * 2
    assert first_prompt(plan(rows))[0][1].startswith("It is Ann.\n\nWho?")


def test_template_and_system_message_are_shown_as_they_are_sent(plan):
    arguments = ("--prompt", "{note}: {question} In \\boxed{N}.", "--system", "Think.")
    output = plan(ROWS, *arguments)
    assert first_prompt(output) == [
        ("system", "Think."),
        ("user", f"kept: {QUESTION.format(1, 2)} In \\boxed{{N}}."),
    ]


def test_rows_without_a_readable_answer_are_named_and_left_out(plan):
    rows = sum_rows(12)
    rows[6]["answer"], rows[9]["answer"] = "", "no solution"
    output = plan(rows)
    assert (
        "grader number_lenient" in output and "10 of 12 rows are prompts with an answer" in output
    )
    assert "1 rows with no answer are left out: row 7" in output
    assert "cannot read are left out: row 10 ('no solution')" in output


def test_decimal_commas_of_a_table_with_semicolons_are_read(choose, folder):
    lines = "".join(f"Wie viel ist {n}?;{n},5\n" for n in range(9))
    (folder / "s.csv").write_text(f"question;answer\n{lines}")
    output = choose("s.csv", "--budget", 1, *RANDOM).output
    assert answer_in(output) == "0.5" and "number_lenient" in output


def test_repeated_prompts_are_asked_once(plan):
    assert "2 repeated prompts are left out" in plan([*ROWS, *ROWS[:2]])


def test_a_table_without_a_header_keeps_its_first_prompt(choose, folder):
    questions = [f"Is {n} a prime number?" for n in range(4)]
    for name in ("s.csv", "s.txt"):
        (folder / name).write_text("\n".join(questions) + "\n")
        rows = read(choose(name, "--budget", 4, "--output", name + ".out").path)
        assert {row["question"] for row in rows} == set(questions)
    lines = [f"{question},{n}\n" for n, question in enumerate(questions)]
    (folder / "t.csv").write_text("".join(lines))
    assert choose("t.csv", "--budget", 1).is_refused("names of columns")


@pytest.mark.parametrize("name", ["s.xlsx", "s.parquet", "s.jsonl.gz", "s.jsonl.zst", "s.json", "saved", ".", "owner/name"])  # fmt: skip
def test_an_unreadable_file_is_reported_in_one_line(choose, folder, name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if name == "saved":
        (folder / name).mkdir()
    elif "." in name[1:]:
        (folder / name).write_bytes(b"PAR1 and not more\x00\xff")
    assert choose(name, "--budget", 1).is_refused(name)


@pytest.mark.parametrize("form", ["columns", "index", "split", "list"])
def test_a_json_object_of_columns_is_refused_with_the_form_that_is_read(choose, folder, form):
    import pandas as pd

    table = pd.DataFrame(ROWS)
    content = table.to_dict("list") if form == "list" else json.loads(table.to_json(orient=form))
    (folder / "p.json").write_text(json.dumps(content))
    assert choose("p.json", "--budget", 1).is_refused("p.json", "orient='records'")


def test_a_split_of_several_is_named(choose):
    import datasets

    splits = {name: datasets.Dataset.from_list(ROWS) for name in ("train", "test")}
    datasets.DatasetDict(splits).save_to_disk("d")
    assert choose("d", "--budget", 1, *RANDOM).is_refused("--split: train, test")
    done = choose("d", "--budget", 1, *RANDOM, "--split", "test")
    assert done.status == 0, done.error


def test_a_file_of_lines_may_be_read_again_after_a_change(choose):
    """Ids follow from the question, so a row that moved keeps its id."""
    before = choose(ROWS, "--budget", 12, *RANDOM).rows
    new = {"question": "New?", "answer": "1"}
    after = choose([new, *ROWS[::-1][:-1]], "--budget", 12, *RANDOM).rows
    ids = {row["question"]: row["id"] for row in before}
    assert all(ids.get(row["question"], row["id"]) == row["id"] for row in after)
    assert len({row["id"] for row in [*before, *after]}) == 13


def test_rows_whose_question_no_longer_has_their_id_are_left_out(choose, folder):
    lines = [f"How many is {n} and 2?,{n + 2}\n" for n in range(6)]
    (folder / "p.csv").write_text("question,answer\n" + "".join(lines))
    rows = read(choose("p.csv", "--budget", 6, *RANDOM).path)
    questions = sorted(row["question"] for row in rows)
    moved = sum(row["question"] != question for row, question in zip(rows, questions))
    done = choose([row | {"question": q} for row, q in zip(rows, questions)], "--policy", "all")
    assert moved and f"{moved} rows have the id of another question" in done.output
    assert len(done.rows) == 6 - moved


@pytest.mark.parametrize(
    ("row", "text", "answer"),
    [
        ({"question": "3 + 4?", "A": "3", "B": "", "C": "7", "answer": "C"}, "A. 3\nC. 7", "C"),
        ({"question": "x?", "options": "['1' '7']", "answer": "7"}, "A. 1\nB. 7", "B"),
        ({"question": "x?", "options": [{"key": "A", "value": "1"}, {"key": "B", "value": "7"}], "answer": "B"}, "A. 1\nB. 7", "B"),
        ({"question": "x?", "option1": "1", "option2": "7", "answer": "7"}, "A. 1\nB. 7", "B"),
        ({"instruction": "Double it.", "input": 4, "output": "8"}, "Double it.\n4", "8"),
        ({"prompt": "[{'role': 'user', 'content': \"1 + 1?\"}]", "answer": "2"}, "1 + 1?", "2"),
        ({"question": "x?", "target": "3", "label": "math"}, "x?", "3"),
        ({"prompt": "x?", "solution": "We add and get three.", "answer": "3"}, "x?", "3"),
    ],
)  # fmt: skip
def test_what_belongs_to_a_row_is_sent_and_read(plan, row, text, answer):
    output = plan([row, *[row | {"n": 1}] * 2])
    assert text in first_prompt(output)[-1][1] and answer_in(output) == answer


def test_prompts_that_differ_in_their_system_message_are_different(plan):
    rows = [{"prompt": [{"role": "system", "content": f"Base {n}."}, {"role": "user", "content": "1?"}], "answer": n} for n in range(9)]  # fmt: skip
    assert "9 of 9 rows are prompts" in plan(rows)


@pytest.mark.parametrize("template", ["{question} {answer}", "{question} {subject}", "no place"])
def test_a_template_with_the_answer_or_an_unknown_column_is_refused(choose, template):
    done = choose(ROWS, "--budget", 1, *RANDOM, "--prompt", template)
    assert done.status == 1 and "--prompt" in done.error
