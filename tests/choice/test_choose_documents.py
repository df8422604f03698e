"""The commands of docs/own-prompts.md work as they are written, and so does the package without a
clone."""

import json
import os
import re
import shlex
import subprocess
import sys
import venv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from choice_runs import folder, hardgrpo, server, sum_rows, sums, write_lines
from conftest import ROOT

COMMANDS = re.findall(r"^    hardgrpo (.+)$", (ROOT / "docs/own-prompts.md").read_text(), re.MULTILINE)  # fmt: skip


def write_files(folder):
    """The files that the commands name."""
    rows = sum_rows(600)
    answers = [[f"\\boxed{{{2 * i + 1 + k}}}" for k in range(1 + i % 3)] for i in range(1, 601)]
    (folder / "tickets.csv").write_text(
        "question,answer\n" + "".join(f"{row['question']},{row['answer']}\n" for row in rows)
    )
    questions = "".join(f"{row['question']}\n" for row in rows)
    (folder / "questions.csv").write_text(f"question\n{questions}")
    rates = [row | {"llama8b_solve_rate": i % 65 / 64} for i, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(rates), folder / "prompts.parquet")
    generations = [row | {"generations": texts} for row, texts in zip(rows, answers)]
    pq.write_table(pa.Table.from_pylist(generations), folder / "openr1.parquet")
    write_lines(folder / "prompts.jsonl", rows)
    logs = [
        {"doc_id": i, "doc": row, "target": row["answer"], "resps": [texts], "filter": "none"}
        for i, (row, texts) in enumerate(zip(rows, answers))
    ]
    write_lines(folder / "samples_gsm8k.jsonl", logs)
    for name, texts in (("before", "\\boxed{0}"), ("after", "\\boxed{%s}")):
        completions = [row | {"completions": [texts.replace("%s", row["answer"])]} for row in rows[:30]]  # fmt: skip
        write_lines(folder / f"{name}.jsonl", completions)


def test_the_commands_of_the_page_run_in_their_order(hardgrpo, server, folder):
    assert len(COMMANDS) >= 7
    write_files(folder)
    for number, command in enumerate(COMMANDS):
        arguments = shlex.split(command.replace("http://127.0.0.1:8000/v1", server.url))
        if "output.jsonl" in arguments:
            requests = [json.loads(line) for line in open("requests.jsonl")]
            answers = [
                {"custom_id": r["custom_id"], "response": {"status_code": 200, "body": sums(r["body"])}}
                for r in requests
            ]  # fmt: skip
            write_lines(folder / "output.jsonl", answers)
        done = hardgrpo(
            *arguments, *(["--output", f"out{number}"] if arguments[0] == "choose" else [])
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment_and_folder(tmp_path):
    # without PYTHONPATH, through which pip would find the package in this clone already installed
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", tmp_path, ROOT], check=True, cwd=tmp_path, env=variables)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True, env=variables)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/p.csv").write_text("question,answer\nWhat is x?,\\frac{1}{2}\nAnd y?,2x\n")
    done = subprocess.run(
        [tmp_path / "env/bin/hardgrpo", "choose", "p.csv", "--budget", "1", "--policy", "random"],
        cwd=tmp_path / "empty", env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "grader math" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "empty/p.choice/choice.html").is_file()
    packages = subprocess.run(
        [python, "-m", "pip", "list"], capture_output=True, text=True, check=True
    )
    assert "torch" not in packages.stdout and "snakemake" not in packages.stdout
