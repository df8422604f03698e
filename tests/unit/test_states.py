"""A training resumes only from a trustworthy checkpoint, and no checkpoint that may be intact is
removed."""

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from hardgrpo.runtime import errors, files, provenance, states
from hardgrpo.runtime.errors import UserError
from hardgrpo.training import outputs


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    """The state of a run with checkpoints after 2, 4 and 6 updates."""
    monkeypatch.chdir(tmp_path)
    state = Path("results/state/abc")
    for step in (2, 4, 6):
        folder = states.checkpoint(state, step)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(step))
        (folder / states.TRAINING_FILE).write_text("{}")
        provenance.write_manifest(folder)
    return state


def damage(state: Path, step: int) -> str:
    """Change the weights of a checkpoint. Return the words that report it."""
    (states.checkpoint(state, step) / "model.safetensors").write_bytes(b"\1" * step)
    return f"checkpoint-{step}/model.safetensors: the content is not what was written"


def test_a_damaged_checkpoint_is_removed_and_reported(state, capsys):
    words = damage(state, 6)
    assert states.resume_point(state, 2) == 4 and words in capsys.readouterr().out
    assert not states.checkpoint(state, 6).exists()


def test_a_checkpoint_that_was_damaged_while_training_went_on_is_no_result(state, tmp_path):
    words = damage(state, 4)
    spec = SimpleNamespace(training={"checkpoint_every": 2, "updates": 6}, continues=None)
    with pytest.raises(UserError, match=words):
        outputs.export(spec, state, tmp_path / "run", started=0, resumed_from=0, hardware=None)
    assert not (tmp_path / "run").exists()


def test_a_copy_of_a_checkpoint_is_no_checkpoint(state):
    shutil.copytree(states.checkpoint(state, 6), state / "checkpoint-6.old")
    assert states.newest(state) == states.resume_point(state, 2) == 6


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_an_unreadable_checkpoint_stops_the_run_and_nothing_is_removed(
    state, monkeypatch, capsys, name
):
    unreadable = states.checkpoint(state, 2) / name

    def failing(read):
        def read_or_fail(path, *arguments):
            if Path(path) == unreadable:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return read(path, *arguments)

        return read_or_fail

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as end:
        patched.setattr(Path, "read_bytes", failing(Path.read_bytes))
        patched.setattr(files, "sha256", failing(files.sha256))
        errors.run(lambda: states.resume_point(state, 2))
    assert str(unreadable) in end.value.code and os.strerror(errno.EIO) in end.value.code
    assert "delete" not in end.value.code
    assert states.resume_point(state, 2) == 6 and capsys.readouterr().out == ""


def test_states_of_finished_runs_are_removed_once_snakemake_has_recorded_their_end(state):
    run = Path("results/training/run/provenance.json")
    files.write_json(run, {"state": "abc"})
    states.finish(state, 6, 2, keep=True)
    other_state = state.with_name("other.finished")
    other_state.mkdir()
    damaged = run.with_name("damaged.json")
    damaged.write_text(json.dumps({"state": ["abc"]})[:-1])
    states.forget([damaged, run.with_name("missing.json")], state.parent)
    assert len(list(state.parent.glob("*.finished"))) == 2
    files.write_json("results/training/other/provenance.json", {"state": ["abc"]})
    states.forget([damaged, run, "results/training/other/provenance.json"], state.parent)
    assert list(state.parent.iterdir()) == [other_state]


def test_files_of_an_earlier_attempt_are_replaced(state):
    (state.with_suffix(".finished") / "checkpoint-2").mkdir(parents=True)
    states.finish(state, 6, 2, keep=True)
    with states.hold_lock(state):
        states.restore(state)
        assert states.resume_point(state, 2) == 6
