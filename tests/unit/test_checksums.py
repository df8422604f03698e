"""Checksums of the files of a study's runs, compared with a list of checksums."""

import gzip

import pytest

from hardgrpo.runtime import checksums

COMPARED = [
    "models/tiny/model.safetensors",
    "probe/tiny/swaps/shard0.jsonl.gz",
    "training/tiny/swaps/mini/hard/seed0/updates.csv",
    "training/tiny/swaps/mini/hard/seed0/checkpoints/step-2/model.safetensors",
    "evaluation/tiny/base/swaps.csv.gz",
]
NOT_COMPARED = ["models/tiny/provenance.json", "training/tiny/timing.csv"]


@pytest.fixture
def study(tmp_path):
    for name in COMPARED + NOT_COMPARED:
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "sums").write_text(checksums.lines(tmp_path))
    return tmp_path


def test_compared_files_are_listed_in_the_order_of_the_stages(study):
    names = [line.split("  ")[1] for line in checksums.lines(study).splitlines()]
    assert names == [f"results/{name}" for name in COMPARED]


def test_a_comparison_counts_the_different_files_and_names_the_first(study):
    assert checksums.compare(study / "sums", study) == checksums.EQUAL
    (study / "results" / COMPARED[4]).unlink()
    (study / "results" / COMPARED[2]).write_text("other")
    assert checksums.compare(study / "sums", study) == (
        f"2 of 5 files differ or are missing; the first: results/{COMPARED[2]} differs"
    )
    (study / "results" / COMPARED[0]).unlink()
    assert checksums.compare(study / "sums", study) == (
        f"3 of 5 files differ or are missing; the first: results/{COMPARED[0]} is missing"
    )


def test_compressed_files_are_compared_by_content(study):
    path = study / "results" / COMPARED[1]
    for level in (1, 9):
        path.write_bytes(gzip.compress(b"completions" * 99, level))
        (study / "sums").write_text(checksums.lines(study))
        path.write_bytes(gzip.compress(b"completions" * 99, 5))
        assert checksums.compare(study / "sums", study) == checksums.EQUAL
    path.write_bytes(gzip.compress(b"completions" * 99)[:-5])
    assert checksums.compare(study / "sums", study).endswith(f"results/{COMPARED[1]} differs")
