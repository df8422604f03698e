"""Checksums of the files of a study's runs, compared with those of its reference."""

import gzip

import pytest

from hardgrpo.runtime import checksums
from hardgrpo.runtime.errors import UserError

RUN = [
    "models/tiny/model.safetensors",
    "probe/tiny/swaps/shard0.jsonl.gz",
    "training/tiny/swaps/mini/hard/seed0/updates.csv",
    "training/tiny/swaps/mini/hard/seed0/checkpoints/step-2/model.safetensors",
    "evaluation/tiny/base/swaps.csv.gz",
]
NOT_COMPARED = [
    "models/tiny/provenance.json",
    "training/tiny/timing.csv",
    "probe/x/.seals/a.jsonl.gz",
]


@pytest.fixture
def study(tmp_path):
    for name in RUN + NOT_COMPARED:
        path = tmp_path / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "sums").write_text(checksums.lines(tmp_path))
    return tmp_path


def test_files_are_listed_by_stage_without_those_that_hold_times(study):
    names = [line.split("  ")[1] for line in checksums.lines(study).splitlines()]
    assert names == [f"results/{name}" for name in RUN]


def test_equal_files_are_equal_and_the_first_that_differs_is_named(study):
    assert checksums.compare(study / "sums", study) == checksums.EQUAL
    (study / "results" / RUN[4]).unlink()
    (study / "results" / RUN[2]).write_text("other")
    assert checksums.compare(study / "sums", study) == (
        f"results/{RUN[2]} differs, the first of 2 among 5 files"
    )
    (study / "results" / RUN[0]).unlink()
    assert checksums.compare(study / "sums", study) == (
        f"results/{RUN[0]} is missing, the first of 3 among 5 files"
    )


def test_the_content_of_a_compressed_file_counts(study):
    path = study / "results" / RUN[1]
    for level in (1, 9):
        path.write_bytes(gzip.compress(b"completions" * 99, level))
        (study / "sums").write_text(checksums.lines(study))
        path.write_bytes(gzip.compress(b"completions" * 99, 5))
        assert checksums.compare(study / "sums", study) == checksums.EQUAL
    path.write_bytes(gzip.compress(b"completions" * 99)[:-5])
    assert checksums.compare(study / "sums", study).startswith(f"results/{RUN[1]} differs")


@pytest.mark.parametrize(
    "text", ["", "12  results/a\n", f"{'a' * 64}  /etc/passwd\n", f"{'a' * 64}  results/../../x\n"]
)
def test_a_list_that_is_no_list_of_checksums_is_refused(study, text):
    (study / "sums").write_text(text)
    with pytest.raises(UserError, match="from git again"):
        checksums.compare(study / "sums", study)
