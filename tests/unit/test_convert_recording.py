"""Published files in their authors' formats become recordings, tables of accuracies and
trajectories."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

import in_process
from hardgrpo.data import completions, inputs, recorded_accuracies, trajectory_files

QUESTIONS = [
    {"question": f"Who is an assistant of user {n}?", "answer": f"so <<1+{n}>>\n#### {n}"}
    for n in range(3)
]
COMMIT, OTHER_COMMIT = "0123456789abcdef" * 2 + "01234567", "f" * 40
TEMPLATES = {  # chats of these models, decoded without special tokens
    "qwen": "user\n{}\nassistant\n<think>\n\n</think>\n\nIt is {}.",
    "llama": "system\n\nCutting Knowledge Date: December 2023\n\nuser\n\n{}assistant\n\nIt is {}.",
    "phi": "user{}assistantIt is {}.",
}


def prompt(question: str) -> str:
    return f"You are an expert.{question}.\nPut your final answer within \\boxed{{}}."


def write(
    folder: Path, template: str = "qwen", questions: list[dict] = QUESTIONS, samples: int = 2
) -> None:
    """Write original.json (the answer of sample k to question n is n + k), questions.json and
    scores.json."""
    texts = [
        [TEMPLATES[template].format(prompt(row["question"]), n + k) for k in range(samples)]
        for n, row in enumerate(questions)
    ]
    (folder / "original.json").write_text(json.dumps(texts))
    (folder / "questions.json").write_text("".join(json.dumps(row) + "\n" for row in questions))
    (folder / "scores.json").write_text(json.dumps([n / 10 for n in range(len(questions))]))


def convert(folder: Path, form: str = "responses", *options: str) -> subprocess.CompletedProcess:
    if form == "responses" and "--questions" not in options:
        options = ("--questions", "questions.json", *options)
    return in_process.run(
        folder,
        "convert_recording",
        *options,
        format=form,
        original="original.json",
        output="out.jsonl.gz",
    )


def run_program(folder: Path, form: str, **options: object) -> None:
    options |= {"format": form, "original": "original.json", "output": "out.csv"}
    assert in_process.run(folder, "convert_recording", **options).returncode == 0


def output(folder: Path) -> list[dict]:
    with gzip.open(folder / "out.jsonl.gz", "rt") as stream:
        return [json.loads(line) for line in stream]


@pytest.mark.parametrize("template", TEMPLATES)
def test_completions_are_separated_from_prompts_of_every_chat_template(tmp_path, template):
    write(tmp_path, template)
    assert convert(tmp_path, "responses", "--scores", "scores.json").returncode == 0
    thinking = "<think>\n\n</think>\n\n" if template == "qwen" else ""
    assert output(tmp_path) == [
        {
            "question": row["question"],
            "answer": str(n),
            "prompt": prompt(row["question"]),
            "completions": [f"{thinking}It is {n}.", f"{thinking}It is {n + 1}."],
            "published_pass_rate": n / 10,
        }
        for n, row in enumerate(QUESTIONS)
    ]


def test_without_questions_the_prompts_are_the_questions_and_may_repeat(tmp_path):
    write(tmp_path, questions=[QUESTIONS[0], QUESTIONS[1], QUESTIONS[0]])
    (tmp_path / "questions.json").write_text(
        json.dumps({"responses": ["x"] * 3, "answer": ["a", "b", "c"]})
    )
    assert convert(tmp_path).returncode == 0
    rows = output(tmp_path)
    prompts = [prompt(QUESTIONS[n]["question"]) for n in (0, 1, 0)]
    assert [(row["id"], row["question"], row["answer"]) for row in rows] == list(
        zip(("0000", "0001", "0002"), prompts, "abc")
    )
    problems = [{"id": row["id"], "question": row["question"]} for row in rows]
    by_problem = completions.read_recording(tmp_path / "out.jsonl.gz", problems)
    assert [by_problem[row["id"]][0]["completion"] for row in rows] == [
        row["completions"][0] for row in rows
    ]


def test_accuracies_are_read_for_all_and_for_hard_questions(tmp_path):
    content = {
        "checkpoint": [100, 200],
        "accuracy": [0.5, 0.6],
        "30 accuracy": [0, 1],
        "pass@3": [0.7, 0.8],
        "base accuracy": 0.4,
    }
    (tmp_path / "original.json").write_text(json.dumps(content | {"notes": "any"}))
    (tmp_path / "scores.json").write_text("[0, 0.3, 0.30000000000000004, 1]")
    run_program(tmp_path, "accuracies", scores="scores.json")
    rows = recorded_accuracies.read(tmp_path / "out.csv")
    assert [tuple(row.values()) for row in rows] == [
        (100, "accuracy", 100, 0.5, 0.4, 4), (200, "accuracy", 100, 0.6, 0.4, 4), (100, "accuracy", 30, 0, None, 3),
        (200, "accuracy", 30, 1, None, 3), (100, "pass@3", 100, 0.7, None, 4), (200, "pass@3", 100, 0.8, None, 4),
    ]  # fmt: skip


def test_shares_become_a_trajectory(tmp_path):
    (tmp_path / "original.json").write_text(json.dumps({"10": [0.25, 1.0], "9": [0]}))
    run_program(tmp_path, "shares", rollouts=8)
    trajectory = trajectory_files.read(tmp_path / "out.csv").items()
    counts = {name: [row["correct"] for row in rows] for name, rows in trajectory}
    assert counts == {"9": [0], "10": [2, 8]}


# --- pinned files


def convert_pinned(folder: Path, commit: str = COMMIT, *options: str):
    names = ["--names", "runs/test.json", "dset/test.json"]
    pinned = ["--repository", "someone/runs", "--commit", commit, *names]
    return convert(folder, "responses", *pinned, *options)


def test_originals_are_pinned_by_repository_commit_and_path(tmp_path):
    write(tmp_path)
    assert convert_pinned(tmp_path).returncode == 0
    entry = inputs.read_lock(tmp_path / "inputs.lock")["repositories"][f"someone/runs@{COMMIT}"]
    assert set(entry) == {"runs/test.json", "dset/test.json"}
    lock = (tmp_path / "inputs.lock").read_text()
    assert (
        convert_pinned(tmp_path).returncode == 0 and (tmp_path / "inputs.lock").read_text() == lock
    )

    (tmp_path / "out.jsonl.gz").unlink()
    done = convert_pinned(tmp_path, OTHER_COMMIT)
    in_process.check_refusal(done, COMMIT, OTHER_COMMIT, "--update-inputs")
    write(tmp_path, samples=3)
    done = convert_pinned(tmp_path)
    in_process.check_refusal(done, "error: original.json: ", "runs/test.json", "inputs.lock")
    assert (tmp_path / "inputs.lock").read_text() == lock
    assert not (tmp_path / "out.jsonl.gz").exists()
    assert convert_pinned(tmp_path, COMMIT, "--update-inputs").returncode == 0
    assert (tmp_path / "inputs.lock").read_text() != lock
