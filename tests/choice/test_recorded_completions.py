"""Completions of every form are read, and unusable files are reported in one line."""

import json
import zipfile

import pytest

from hardgrpo.choice import recordings
from hardgrpo.choice.recordings import Columns
from hardgrpo.data.reference_answers import reference_of
from hardgrpo.runtime.errors import UserError

TEXTS = ["it is \\boxed{2}", "it is \\boxed{3}"]
ROWS = [
    {"id": f"q{n}", "question": f"What is {n}+1?", "answer": str(n + 1), "completions": TEXTS}
    for n in range(3)
]
EXPECTED = [tuple(row.values()) for row in ROWS]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def prompts_of(path, **columns):
    """[(id, question, answer, completions)] of a file."""
    return [
        (p.id, p.question, p.answer, p.completions)
        for p in recordings.read(str(path), Columns(**columns)).prompts
    ]


def test_the_answer_of_a_cell_or_a_worked_solution():
    for value, answer in (
        ("4+3=7\n#### 7", "7"),
        ("#### Step 1\nso \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        (72.0, "72"),
        (["3"], "3"),
        (float("nan"), None),
    ):
        assert reference_of(value) == answer


def test_own_rows_hold_one_completion_or_a_list(tmp_path):
    single = [row | {"completion": text} for row in ROWS for text in TEXTS]
    for row in single:
        del row["completions"]
    assert prompts_of(write(tmp_path / "a.jsonl", ROWS)) == EXPECTED
    assert prompts_of(write(tmp_path / "b.jsonl", single)) == EXPECTED
    messages = [[{"role": "assistant", "content": text} for text in TEXTS]] * 3
    rows = [row | {"completions": m} for row, m in zip(ROWS, messages)]
    assert prompts_of(write(tmp_path / "m.jsonl", rows)) == EXPECTED
    as_json = [row | {"completions": json.dumps(TEXTS)} for row in ROWS]  # as in a table
    assert prompts_of(write(tmp_path / "c.jsonl", as_json)) == EXPECTED
    # ids that number the completions are no ids of prompts
    numbered = [row | {"id": number} for number, row in enumerate(single)]
    ids = [(None, *prompt[1:]) for prompt in EXPECTED]
    assert prompts_of(write(tmp_path / "d.jsonl", numbered)) == ids
    names = {"id": "n", "question": "q", "answer": "gold", "completion": "texts"}
    renamed = [dict(zip(names.values(), row.values())) for row in ROWS]
    assert prompts_of(write(tmp_path / "e.jsonl", renamed), **names) == EXPECTED


def test_verdicts_finish_reasons_and_tokens_of_own_rows(tmp_path):
    row = {"problem": "1+1?", "answer": "2", "generations": TEXTS, "correctness_llama": None}
    row |= {"correctness_math_verify": [True, False], "is_reasoning_complete": [True, False]}
    (prompt,) = recordings.read(write(tmp_path / "a.jsonl", [row | {"tokens": [7, "9"]}])).prompts
    assert (prompt.correct, prompt.tokens) == ([True, False], [7, 9])
    assert prompt.finish_reasons == ["", "length"]


def test_sample_logs_of_lm_evaluation_harness_count_each_doc_once(tmp_path):
    rows = [
        {"doc_id": n, "doc": {"problem": "?"}, "target": target, "resps": [TEXTS], "filter": name}
        for name in ("strict-match", "flexible-extract")
        for n, target in enumerate(["so\n#### 2", 3])
    ]
    path = write(tmp_path / "a.jsonl", rows)
    assert prompts_of(path) == [("doc 0", "?", "2", TEXTS), ("doc 1", "?", "3", TEXTS)]
    rows[0] |= {"target": "1", "doc": {"question": "?", "choices": ["x", "y"]}}
    assert prompts_of(write(tmp_path / "b.jsonl", rows[:1])) == [("doc 0", "?", "B", TEXTS)]


def test_logs_of_inspect_ai(tmp_path):
    def sample(epoch, content, stop_reason, **fields):
        choice = {"message": {"content": content}, "stop_reason": stop_reason}
        output = {"model": "m", "choices": [choice], "usage": {"output_tokens": 5}}
        chat = [{"role": "system", "content": "Hi."}, {"role": "user", "content": "1+1?"}]
        return {"id": 1, "epoch": epoch, "input": chat, "target": ["2"], "output": output} | fields

    parts = [{"type": "reasoning", "reasoning": "\\boxed{9}"}, {"type": "text", "text": "two"}]
    samples = [
        sample(1, parts, "stop", scores={"match": {"value": "C"}}),
        sample(2, parts[:1], "max_tokens", scores={"match": {"value": "I"}}),
        sample(3, "", "stop", error={"message": "connection lost"}),
    ]
    log = {"version": 2, "eval": {"model": "m"}, "samples": samples, "reductions": [{}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        for entry in samples:
            archive.writestr(f"samples/1_epoch_{entry['epoch']}.json", json.dumps(entry))
    for name in ("log.json", "log.eval"):
        recording = recordings.read(str(tmp_path / name))
        (prompt,) = recording.prompts
        assert (prompt.id, prompt.question, prompt.answer) == ("1", "1+1?", "2")
        assert prompt.completions == ["two", "<think>\\boxed{9}"]
        assert (prompt.finish_reasons, prompt.correct) == (["stop", "length"], [True, False])
        assert "sample 1, epoch 3: connection lost" in recording.notes[0]


def test_outputs_of_batches(tmp_path):
    def row(key, **choice):
        body = {"model": "m", "choices": [choice], "usage": {"completion_tokens": 4}}
        return {"custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}

    failed = {"custom_id": "c#0", "response": None, "error": {"message": "slow down"}}
    rows = [row("a#0", message={"content": "x"}), row("a#1", text="y"), row("b#0", text=""), failed]
    recording = recordings.read(write(tmp_path / "a.jsonl", rows))
    prompts = [(p.id, p.completions, p.tokens) for p in recording.prompts]
    assert prompts == [("a", ["x", "y"], [4, 4]), ("b", [""], [4])]
    assert recording.notes[0].startswith("1 of 4 rows have no completion; the first is c#0: slow")
    # ids that end in a number are no samples of a single prompt
    path = write(tmp_path / "b.jsonl", [row("gsm8k#1", text="x"), row("gsm8k#2", text="y")])
    assert len(recordings.read(path).prompts) == 2


def test_unusable_files_and_rows_are_named(tmp_path):
    for change, words in (
        ({"completions": []}, "'completions' is [], expected text or texts"),
        ({"id": "", "question": ""}, "the id and the question are empty"),
        ({"id": "q0"}, "the question of prompt 'q0' differs from that of row 1; correct the ids"),
    ):
        path = write(tmp_path / "a.jsonl", [ROWS[0], ROWS[1] | change, ROWS[2]])
        with pytest.raises(UserError) as error:
            recordings.read(path)
        assert str(error.value).startswith(f"{path}: row 2: {words}")
    for name, content, words in (
        ("a.eval", "PK", "not a readable log of inspect_ai"),
        (
            "c.jsonl",
            '{"id": 1, "question": "x"}',
            "which column holds the completions\\? rename it",
        ),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(UserError, match=words):
            recordings.read(str(tmp_path / name))
