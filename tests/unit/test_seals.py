"""What the workflow has written is checked when it is read: a changed byte is one line, never another number."""

import pytest

from hardgrpo.runtime import files, seals
from hardgrpo.runtime.errors import UserError


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results/summaries/mini/gains.csv"
    path.parent.mkdir(parents=True)
    files.write_rows(path.relative_to(tmp_path), ["gain"], [{"gain": 0.25}])
    return path.relative_to(tmp_path)


def test_what_is_as_it_was_written_is_read(table):
    assert seals.of(table).is_file() and files.read_text(table) == "gain\n0.25\n"


@pytest.mark.parametrize("kind", ["changed", "cut", "longer"])
def test_what_was_changed_since_is_named(table, kind):
    content = table.read_bytes()
    table.write_bytes({"changed": content.replace(b"2", b"3"), "cut": content[:-1], "longer": content + b"0.5\n"}[kind])
    with pytest.raises(UserError, match=r"gains\.csv: the content is not what was written .*delete it and run again"):
        files.read_text(table)
    with pytest.raises(UserError, match=r"gains\.csv: the content is not what was written"):
        seals.check_below(table.parent)


def test_what_is_written_again_has_a_new_seal(table):
    files.write_rows(table, ["gain"], [{"gain": 0.5}])
    assert files.read_text(table) == "gain\n0.5\n"


def test_what_a_person_changed_is_read_once_its_seal_is_gone(table):
    table.write_text("gain\n1\n")
    seals.of(table).unlink()
    assert files.read_text(table) == "gain\n1\n"


def test_a_damaged_seal_speaks_for_no_file(table):
    seals.of(table).write_text("no checksum\n")
    with pytest.raises(UserError, match="checksum differs"):
        files.read_text(table)


def test_a_write_that_fails_leaves_the_old_file_and_its_seal(table):
    with pytest.raises(RuntimeError), files.atomic(table) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert files.read_text(table) == "gain\n0.25\n"


def test_only_what_the_workflow_makes_is_sealed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").mkdir()
    files.write_rows("prompts/mine.csv", ["gain"], [{"gain": 1}])
    assert not list(tmp_path.rglob(".seals"))
    with files.atomic("results/models/tiny") as folder:
        folder.mkdir(parents=True)
        files.write_json(folder / "provenance.json", {})
    assert not list(tmp_path.rglob(".seals")), "a folder of weights has its manifest"
