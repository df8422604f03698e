"""A fault in a file is reported in one line with the place and the remedy. The exit status is not
0, and earlier results stay unchanged."""

import gzip
import json
import subprocess
import sys

import pytest

import in_process
from conftest import path_of
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

PROBLEMS = [
    {"id": f"p{i}", "question": f"q{i}", "answer": "(A)", "tier": 1, "source": "test"}
    for i in range(20)
]
COMPLETIONS = [
    {
        "id": f"p{i}",
        "sample": k,
        "seed": 1,
        "completion": r"\boxed{(A)}",
        "tokens": 3,
        "finish_reason": "stop",
    }
    for i in range(20)
    for k in range(4)
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def measure(folder, *options, completions=COMPLETIONS, name="C.jsonl"):
    """Run measure_difficulty.py on rows or bytes of completions. An earlier output file exists."""
    (folder / "P.jsonl").write_text(lines(PROBLEMS))
    data = completions if isinstance(completions, bytes) else lines(completions).encode()
    (folder / name).write_bytes(data)
    (folder / "D.csv").write_text("an earlier result\n")
    return in_process.run(
        folder,
        "measure_difficulty",
        *options,
        problems="P.jsonl",
        completions=name,
        grader="choice_letter",
        output="D.csv",
    )


def pass_rates(folder) -> set[float]:
    return {row["pass_rate"] for row in files.read_rows(folder / "D.csv", {"pass_rate": float})}


COMPRESSED = gzip.compress(lines(COMPLETIONS).encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (COMPRESSED[:-20], "truncated"),
        (COMPRESSED[:40] + b"xxxxxxxx" * 9, "damaged"),
    ],
)
def test_a_bad_file_leaves_the_earlier_result(tmp_path, data, words):
    """Other bad files: group `completions` of tests/refusals.yaml."""
    done = measure(tmp_path, completions=data, name="C.jsonl.gz")
    in_process.check_refusal(done, "C.jsonl.gz", words)
    assert (tmp_path / "D.csv").read_text() == "an earlier result\n"
    assert not list(tmp_path.glob(".*tmp"))


def test_good_files_are_measured(tmp_path):
    done = measure(tmp_path)
    assert done.returncode == 0, done.stderr
    table = files.read_rows(tmp_path / "D.csv", {"id": str, "pass_rate": float, "samples": int})
    assert [row["pass_rate"] for row in table] == [1.0] * 20 and table[0]["samples"] == 4


def test_a_full_disk_leaves_no_half_written_file(tmp_path):
    """A limit on the size of files acts as a full disk: the program ends with one line, keeps the
    earlier result, and leaves no temporary file."""
    import resource

    rows = [row | {"id": f"p{i % 20}", "sample": i} for i, row in enumerate(COMPLETIONS * 50)]
    (tmp_path / "P.jsonl").write_text(lines([p | {"id": p["id"] * 200} for p in PROBLEMS]))
    (tmp_path / "C.jsonl").write_text(lines([row | {"id": row["id"] * 200} for row in rows]))
    (tmp_path / "D.csv").write_text("an earlier result\n")
    command = [
        sys.executable,
        path_of("measure_difficulty"),
        "--problems",
        "P.jsonl",
        "--completions",
        "C.jsonl",
    ]
    command += ["--grader", "choice_letter", "--output", "D.csv"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: the disk is full") and done.stderr.count("\n") == 1
    assert (tmp_path / "D.csv").read_text() == "an earlier result\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["C.jsonl", "D.csv", "P.jsonl"]


def test_runs_with_different_numbers_of_updates_stop_the_summary(finished):
    """The error states the two numbers that should be equal."""
    path = "results/training/tiny/swaps/mini/random/seed0/updates.csv"
    finished.edit(path, lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    done = finished.snakemake("results/summaries/mini/spent.csv")
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "holds updates constant, but mini/hard/seed0 has 4 and mini/random/seed0 has 3" in output


def test_a_split_that_a_task_does_not_have_is_reported(world):
    done = world.snakemake("-n", "results/tasks/aime2025/train.jsonl")
    output = done.stdout + done.stderr
    assert (
        done.returncode != 0
        and "config.yaml: tasks.aime2025.source.train" in output
        and "Traceback" not in output
    )


def test_the_id_na_is_read_as_text(tmp_path):
    from hardgrpo.data import evaluations

    rows = [
        evaluations.grade("final_word", {"id": name, "answer": "x"}, 0, "sampled", 0, "#### 7")
        for name in ("NA", "null", "p1")
    ]
    evaluations.write(str(tmp_path / "e.csv.gz"), rows)
    frame = evaluations.read(str(tmp_path / "e.csv.gz"))
    assert (
        list(frame.id) == ["NA", "null", "p1"]
        and frame.tier.isna().all()
        and frame.tokens.isna().all()
    )


def test_an_output_that_is_a_folder_is_left_alone(tmp_path):
    (tmp_path / "D.csv").mkdir()
    (tmp_path / "D.csv/precious.txt").write_text("kept")
    with pytest.raises(UserError, match="a folder with other content is in the way"):
        files.write_text(tmp_path / "D.csv", "text")
    assert (tmp_path / "D.csv/precious.txt").read_text() == "kept"


def test_a_subset_that_would_be_empty_stops_its_rule(finished):
    finished.configure(lambda config: config["policies"]["hard"].update(budget=0.01))
    done = finished.snakemake()
    assert done.returncode != 0
    assert (
        "the subset would be empty (the budget, 0.01 of the pool, pays for none of the 24 prompts); raise the budget"
        in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr
