"""The chosen prompts in the formats of trainers, read by `datasets` and by the installed
trainers."""

import datasets
import pytest

from hardgrpo.data import tasks
from hardgrpo.runtime import files
from hardgrpo.selection import trainer_rows
from in_process import run

QUESTIONS = [
    "What is 1 + 1?",
    "Wie heißt 東京? {braces} \\boxed{}",
    'Line one\nline two, "quoted"',
    "half \ud83d",
]
CHOSEN = (2, 0, 1, 3)
TEMPLATE = "{question}\nPut your final answer within \\boxed{}."


def loaded(folder, trainer):
    problems = [
        {"id": f"p{n}", "question": text, "answer": str(n)} for n, text in enumerate(QUESTIONS)
    ]
    files.write_jsonl(folder / "P.jsonl", problems)
    ranked = [{"id": f"p{n}", "rank": rank} for rank, n in enumerate(CHOSEN, start=1)]
    files.write_rows(folder / "S.csv", ["id", "rank"], ranked)
    kind = trainer_rows.FILES[trainer]
    options = {"subset": "S.csv", "problems": "P.jsonl", "prompt": TEMPLATE, "task": "mine"}
    done = run(folder, "format_subset", format=trainer, output=f"out.{kind}", **options)
    assert done.returncode == 0, done.stderr
    kind, path = {"jsonl": "json"}.get(kind, kind), str(folder / f"out.{kind}")
    cache = str(folder / "cache")
    return datasets.load_dataset(kind, data_files=path, split="train", cache_dir=cache).to_list()


def messages(number):
    question = QUESTIONS[number].replace("\ud83d", "?")
    return tasks.messages(TEMPLATE, question)


def test_rows_of_trl_are_conversational_prompts_with_answers(tmp_path):
    from trl.data_utils import is_conversational

    rows = loaded(tmp_path, "trl")
    assert [(row["prompt"], row["solution"]) for row in rows] == [
        (messages(n), str(n)) for n in CHOSEN
    ]
    assert all(map(is_conversational, rows))


def test_rows_of_verl_have_its_five_columns(tmp_path):
    rows = loaded(tmp_path, "verl")
    assert [set(row) for row in rows] == [
        {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    ] * 4
    assert [row["reward_model"] for row in rows] == [
        {"style": "rule", "ground_truth": str(n)} for n in CHOSEN
    ]
    assert [row["prompt"] for row in rows] == [messages(n) for n in CHOSEN]
    assert [row["extra_info"]["index"] for row in rows] == [0, 1, 2, 3] and {
        row["data_source"] for row in rows
    } == {"mine"}


def test_rows_of_verifiers_have_prompt_answer_task_and_info(tmp_path):
    rows = loaded(tmp_path, "prime-rl")
    assert [(row["prompt"], row["answer"], row["task"]) for row in rows] == [
        (messages(n), str(n), "mine") for n in CHOSEN
    ]
    assert [row["info"] for row in rows] == [{"id": f"p{n}"} for n in CHOSEN]


def test_verifiers_makes_an_environment_of_the_rows(tmp_path):
    verifiers = pytest.importorskip("verifiers")
    dataset = datasets.Dataset.from_list(loaded(tmp_path, "prime-rl"))
    environment = verifiers.SingleTurnEnv(
        dataset=dataset, rubric=verifiers.Rubric(funcs=[lambda completion, answer: 0.0])
    )
    assert len(environment.get_dataset()) == 4
