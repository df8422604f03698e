"""Files of the workflow are verified when they are read: a changed byte causes a one-line error or,
in a probe's store, new sampling, but never a wrong result."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import check_intact
import write_pages
from conftest import ROOT
from hardgrpo.runtime import errors, files, provenance, seals, states
from hardgrpo.runtime.errors import UserError
from hardgrpo.training import outputs


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results/summaries/mini/gains.csv"
    path.parent.mkdir(parents=True)
    files.write_rows(path.relative_to(tmp_path), ["gain"], [{"gain": 0.25}])
    return path.relative_to(tmp_path)


def test_an_unchanged_file_is_read(table):
    assert seals.seal_path(table).is_file() and files.read_text(table) == "gain\n0.25\n"


@pytest.mark.parametrize("kind", ["changed", "cut", "longer"])
def test_a_file_that_was_changed_after_its_seal_is_reported(table, kind):
    content = table.read_bytes()
    table.write_bytes(
        {"changed": content.replace(b"2", b"3"), "cut": content[:-1], "longer": content + b"0.5\n"}[
            kind
        ]
    )
    with pytest.raises(
        UserError,
        match=r"gains\.csv: the content is not what was written .*delete it and run again",
    ):
        files.read_text(table)
    with pytest.raises(UserError, match=r"gains\.csv: the content is not what was written"):
        seals.check_folder(table.parent)


def test_a_file_that_is_written_again_has_a_new_seal(table):
    files.write_rows(table, ["gain"], [{"gain": 0.5}])
    assert files.read_text(table) == "gain\n0.5\n"


def test_an_edited_file_is_read_after_its_seal_was_deleted(table):
    table.write_text("gain\n1\n")
    seals.seal_path(table).unlink()
    assert files.read_text(table) == "gain\n1\n"


def test_a_damaged_seal_is_reported_instead_of_its_file(table):
    seals.seal_path(table).write_text(
        seals.seal_path(table).read_text().replace(seals.seal_path(table).read_text()[3], "x")
    )
    with pytest.raises(
        UserError,
        match=r"^\S*\.seals/gains\.csv: not the checksum of gains\.csv: .* delete it and run again",
    ):
        files.read_text(table)


def test_a_write_leaves_the_old_file_if_its_seal_cannot_be_moved(table, monkeypatch):
    rename = seals.os.replace

    def refused(source, target):
        if source == seals.seal_path(table):
            raise PermissionError(13, "Permission denied", str(source))
        rename(source, target)

    with monkeypatch.context() as patched, pytest.raises(PermissionError):
        patched.setattr(seals.os, "replace", refused)
        files.write_rows(table, ["gain"], [{"gain": 0.5}])
    assert files.read_text(table) == "gain\n0.25\n"


def test_a_write_that_fails_leaves_the_old_file_and_its_seal(table):
    with pytest.raises(RuntimeError), files.atomic(table) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert files.read_text(table) == "gain\n0.25\n"


def test_only_files_of_the_workflow_are_sealed_and_in_folders_of_weights_only_the_manifest(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts").mkdir()
    files.write_rows("prompts/mine.csv", ["gain"], [{"gain": 1}])
    assert not list(tmp_path.rglob(".seals"))
    with files.atomic("results/models/tiny") as folder:
        folder.mkdir(parents=True)
        files.write_json(folder / "provenance.json", {})
    assert not list(tmp_path.rglob(".seals")), (
        "a folder of weights without a manifest must have no seals"
    )
    with files.atomic("results/models/tiny") as folder:
        folder.mkdir(parents=True)
        files.write_json(folder / "provenance.json", {})
        provenance.write_manifest(folder)
    assert [path.parent.parent for path in tmp_path.rglob(".seals/*")] == [
        tmp_path / "results/models/tiny"
    ]


def test_seals_within_a_checkpoint_do_not_belong_to_the_checkpoint(tmp_path, monkeypatch):
    """Removing all seals, or copying the folder of a run without its hidden folders, damages no
    checkpoint. After
    a checkpoint has been reduced to its model, only the manifest has a seal."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results/state/run/checkpoint-2"
    folder.mkdir(parents=True)
    files.write_json("results/state/run/checkpoint-2/selector.json", {"taken": 8})
    (folder / "model.safetensors").write_text("weights")
    provenance.write_manifest("results/state/run/checkpoint-2")
    assert sorted(path.name for path in folder.glob(".seals/*")) == [
        "manifest.json",
        "selector.json",
    ]
    states._keep_model(Path("results/state/run/checkpoint-2"))
    assert [path.name for path in folder.glob(".seals/*")] == ["manifest.json"]
    assert sorted(path.name for path in folder.glob("*")) == [
        ".seals",
        "manifest.json",
        "model.safetensors",
    ]
    for seal in folder.glob(".seals/*"):
        seal.unlink()
    provenance.check_manifest("results/state/run/checkpoint-2")


def test_a_file_that_is_replaced_between_the_reads_of_file_and_seal_does_not_count_as_damaged(
    table, monkeypatch
):
    # at the second read of the seal, the writer has renamed the file, but not yet written its seal
    reads = iter([seals._expected_checksum(table), None])
    monkeypatch.setattr(seals, "_expected_checksum", lambda path: next(reads))
    table.write_bytes(b"gain\n2\n")
    seals.check(table)


def full_at(path):
    """A rename that fails if its target is `path`."""
    rename = files.os.replace

    def full(source, target):
        if target == path:
            raise OSError(28, "No space left on device")
        rename(source, target)

    return full


def test_a_rename_that_fails_leaves_the_old_file_and_its_seal(table, monkeypatch):
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(files.os, "replace", full_at(table))
        files.write_rows(table, ["gain"], [{"gain": 0.5}])
    assert seals.seal_path(table).is_file() and files.read_text(table) == "gain\n0.25\n"


def test_ctrl_c_just_after_the_rename_leaves_no_old_seal(table, monkeypatch):
    rename = files.os.replace

    def interrupted(source, target):
        rename(source, target)
        if target == table:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(files.os, "replace", interrupted)
        files.write_rows(table, ["gain"], [{"gain": 0.5}])
    assert (
        not list(seals.seal_path(table).parent.iterdir())
        and files.read_text(table) == "gain\n0.5\n"
    )


def test_a_write_removes_the_backup_of_a_seal_that_a_killed_write_left(table, monkeypatch):
    seals.seal_path(table).rename(seals.seal_path(table).with_name(f".{table.name}.before"))
    table.write_text("gain\n0.5\n")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr(files.os, "replace", full_at(table))
        files.write_rows(table, ["gain"], [{"gain": 0.75}])
    assert files.read_text(table) == "gain\n0.5\n" and not list(
        seals.seal_path(table).parent.iterdir()
    )


def test_every_damaged_file_is_listed_also_beside_a_damaged_manifest(table, monkeypatch, capsys):
    """A manifest that is empty and has no seal is listed, too. States of unfinished runs are not checked, because they may
    change during the check. A run checks its own state."""
    for folder in (
        "results/models/tiny",
        "results/models/emptied",
        "results/state/abc/checkpoint-2",
    ):
        weights = Path(folder, "model.safetensors")
        weights.parent.mkdir(parents=True)
        weights.write_bytes(b"weights")
        provenance.write_manifest(weights.parent)
    for path in (
        table,
        Path("results/models/tiny/manifest.json"),
        Path("results/state/abc/checkpoint-2/manifest.json"),
    ):
        content = bytearray(path.read_bytes())
        content[-4] ^= 4
        path.write_bytes(content)
    emptied = Path("results/models/emptied/manifest.json")
    emptied.write_bytes(b"")
    seals.seal_path(emptied).unlink()
    damaged = {str(table), "results/models/tiny/manifest.json", str(emptied)}
    for folder in ("results", str(Path("results").resolve())):
        monkeypatch.setattr(sys, "argv", ["check_intact.py", folder])
        with pytest.raises(SystemExit) as end:
            errors.run(check_intact.main)
        names = [line.partition(": ")[0] for line in end.value.code.splitlines()[1:]]
        assert {os.path.relpath(name) for name in names} == damaged


@pytest.mark.parametrize("content", [b"", bytes(65)])
def test_an_empty_seal_after_a_power_cut_counts_as_no_seal(table, content):
    seals.seal_path(table).write_bytes(content)
    assert files.read_text(table) == "gain\n0.25\n"


@pytest.mark.parametrize("first_bytes", [b"gain\n0.25\n", b"gain\n"])
def test_a_file_is_read_again_after_a_concurrent_write_or_a_wrong_read(
    table, monkeypatch, first_bytes
):
    files.write_rows(table, ["gain"], [{"gain": 0.5}])
    reads = iter([first_bytes, table.read_bytes()])
    monkeypatch.setattr(seals.Path, "read_bytes", lambda path: next(reads))
    assert files.read_text(table) == "gain\n0.5\n"


def test_a_folder_that_was_emptied_is_filled_again(tmp_path, monkeypatch):
    """The folder still has its seals, hidden files that a person does not see."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with files.atomic("results/models/tiny") as folder:
            folder.mkdir(parents=True)
            files.write_json(folder / "provenance.json", {})
            provenance.write_manifest(folder)
        assert sorted(path.name for path in (tmp_path / "results/models/tiny").iterdir()) == [
            ".seals",
            "manifest.json",
            "provenance.json",
        ]
        for path in (tmp_path / "results/models/tiny").glob("*.json"):
            path.unlink()


def test_a_seal_that_cannot_be_read_is_reported(table):
    seals.seal_path(table).unlink()
    seals.seal_path(table).mkdir()
    with pytest.raises(UserError, match=r"\.seals/gains\.csv: cannot be read"):
        files.read_text(table)


def test_committed_results_have_committed_checksums_and_no_seals(table):
    """A seal would report damage after a `git pull` has replaced the file."""
    reference = table.parents[3] / "results/reference/mini/gains.csv"
    files.write_text(reference, "gain\n1\n")
    assert not seals.seal_path(reference).exists()
    seals.seal_path(reference).parent.mkdir()
    seals.seal_path(reference).write_text("0" * 64)
    assert files.read_text(reference) == "gain\n1\n", (
        "a file without a committed checksum is not verified"
    )
    (reference.parent / seals.CHECKSUM_FILE).write_text(seals.checksum_lines(reference.parent))
    assert files.read_text(reference) == "gain\n1\n"
    reference.write_text("gain\n3\n")
    with pytest.raises(
        UserError,
        match=r"gains\.csv: the content is not what was committed .* git checkout -- results/reference/mini/gains",
    ):
        files.read_text(reference)


@pytest.mark.parametrize(
    "folder", write_pages.committed_folders(ROOT), ids=lambda folder: folder.name
)
def test_the_committed_checksums_match_the_committed_tables(folder):
    assert (folder / seals.CHECKSUM_FILE).read_text() == seals.checksum_lines(folder), (
        "the checksums are outdated; run scripts/maintenance/write_pages.py"
    )


# --- checkpoints and stores


def test_a_damaged_list_of_checkpoints_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path.relative_to(tmp_path) / "results/training/run/checkpoints"
    with files.atomic(folder) as temporary:
        temporary.mkdir(parents=True)
        files.write_text(temporary / "manifest.json", '{"steps": [10, 20]}\n')
    assert list(provenance.checkpoints(folder)) == [10, 20]
    (folder / "manifest.json").write_text('{"steps": [10, 30]}\n')
    with pytest.raises(
        UserError, match=r"checkpoints/manifest\.json: the content is not what was written"
    ):
        provenance.checkpoints(folder)
    seals.seal_path(folder / "manifest.json").unlink()
    (folder / "manifest.json").write_text('{"steps": [10, 10]}\n')
    with pytest.raises(UserError, match="not a list of checkpoints"):
        provenance.checkpoints(folder)


def test_a_checkpoint_that_was_damaged_while_training_went_on_is_no_result(tmp_path):
    state = tmp_path / "state"
    for step in (1, 2):
        folder = states.checkpoint(state, step)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"weights")
        provenance.write_manifest(folder)
    (states.checkpoint(state, 1) / "model.safetensors").write_bytes(b"Weights")
    spec = SimpleNamespace(training={"checkpoint_every": 1, "updates": 2}, continues=None)
    with pytest.raises(
        UserError, match=r"checkpoint-1/model\.safetensors: the content is not what was written"
    ):
        outputs.export(spec, state, tmp_path / "run", started=0, resumed_from=0, hardware=None)
    assert not (tmp_path / "run").exists()
