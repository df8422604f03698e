"""A fault in a file is reported in one line with the place and the remedy, and earlier results stay
unchanged. Further faults: tests/refusals.yaml."""

import gzip
import json
import resource
import subprocess

import pytest

import in_process
from command_line import command
from hardgrpo.data import evaluations

PROBLEMS = [{"id": f"p{i}", "question": f"q{i}", "answer": "(A)", "tier": 1} for i in range(20)]
COMPLETIONS = [
    {"id": f"p{i}", "sample": k, "seed": 1, "completion": r"\boxed{(A)}", "tokens": 3, "finish_reason": "stop"}
    for i in range(20)
    for k in range(4)
]  # fmt: skip
OPTIONS = {"problems": "P.jsonl", "grader": "choice_letter", "output": "D.csv"}


def lines(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_inputs(folder, problems=PROBLEMS, **contents) -> None:
    (folder / "P.jsonl").write_bytes(lines(problems))
    (folder / "D.csv").write_text("an earlier result\n")
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_bytes(content)


COMPRESSED = gzip.compress(lines(COMPLETIONS))


@pytest.mark.parametrize(
    ("data", "words"),
    [(COMPRESSED[:-20], "truncated"), (COMPRESSED[:40] + b"xxxxxxxx" * 9, "damaged")],
)
def test_a_bad_file_leaves_the_earlier_result(tmp_path, data, words):
    write_inputs(tmp_path, C_jsonl_gz=data)
    done = in_process.run(tmp_path, "measure_difficulty", completions="C.jsonl.gz", **OPTIONS)
    in_process.check_refusal(done, "C.jsonl.gz", words)
    assert (tmp_path / "D.csv").read_text() == "an earlier result\n"
    assert not list(tmp_path.glob(".*tmp"))


def test_a_full_disk_leaves_no_half_written_file(tmp_path):
    """A limit on the size of files acts as a full disk."""
    long = lambda rows: [row | {"id": row["id"] * 200} for row in rows]
    write_inputs(tmp_path, long(PROBLEMS), C_jsonl=lines(long(COMPLETIONS)))
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        command("measure_difficulty", completions="C.jsonl", **OPTIONS),
        cwd=tmp_path, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip
    in_process.check_refusal(done, "the disk is full")
    assert (tmp_path / "D.csv").read_text() == "an earlier result\n"
    assert sorted(tmp_path.iterdir()) == before


def test_a_split_that_a_task_does_not_have_is_reported(world):
    output = world.fail("-n", "results/tasks/aime2025/train.jsonl")
    assert "config.yaml: tasks.aime2025.source.train" in output


def test_the_id_na_is_read_as_text(tmp_path):
    ids = ["NA", "null", "p1"]
    problems = [{"id": name, "answer": "x"} for name in ids]
    rows = [evaluations.grade("final_word", row, 0, "sampled", 0, "#### 7") for row in problems]
    evaluations.write(str(tmp_path / "e.csv.gz"), rows)
    frame = evaluations.read(str(tmp_path / "e.csv.gz"))
    assert list(frame.id) == ids and frame.tier.isna().all() and frame.tokens.isna().all()
