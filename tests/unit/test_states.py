"""What a training resumes from: nothing that cannot be trusted, and nothing is thrown away that may be whole."""

import errno
import json
import os
from pathlib import Path

import pytest

from hardgrpo.runtime import errors, files, provenance, seals, states


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


def test_a_damaged_checkpoint_is_removed_and_named(state, capsys):
    (states.checkpoint(state, 6) / "model.safetensors").write_bytes(b"\1" * 6)
    assert states.resume_point(state, 2) == 4
    assert "checkpoint-6/model.safetensors: the content is not what was written" in capsys.readouterr().out
    assert not states.checkpoint(state, 6).exists()


def test_one_that_was_never_finished_is_removed_without_a_word(state, capsys):
    (states.checkpoint(state, 6) / "manifest.json").unlink()
    assert states.resume_point(state, 2) == 4 and capsys.readouterr().out == ""


@pytest.mark.parametrize(("there", "here"), [(None, "in float32"), ("in float32", None), ("in float32", "otherwise")])
def test_a_state_of_another_arithmetic_is_refused_with_the_reason(state, there, here):
    facts = {"arithmetic": there} if there else {}
    for step in (2, 4, 6):
        provenance.write_manifest(states.checkpoint(state, step), **facts)
    states.thin(state, 2)  # keeps the model alone of the oldest
    with pytest.raises(errors.UserError) as refused:
        states.resume_point(state, 2, here)
    for words in ("checkpoint-2: ", here or "as the first version", there or "as the first version", f"delete {state} to train"):
        assert words in str(refused.value)
    assert states.resume_point(state, 2, there) == 6, "nothing is removed"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_what_cannot_be_read_now_stops_the_run_and_nothing_is_removed(state, monkeypatch, capsys, name, number):
    unreadable = states.checkpoint(state, 2) / name

    def sick(read):
        def reading(path, *arguments):
            if Path(path) == unreadable:
                raise OSError(number, os.strerror(number), str(path))
            return read(path, *arguments)

        return reading

    with monkeypatch.context() as patched:
        patched.setattr(seals, "read", sick(seals.read))
        patched.setattr(files, "sha256", sick(files.sha256))
        with pytest.raises(SystemExit) as end:
            errors.run(lambda: states.resume_point(state, 2))
    assert str(unreadable) in end.value.code and os.strerror(number) in end.value.code and "delete" not in end.value.code
    assert states.resume_point(state, 2) == 6 and capsys.readouterr().out == ""


def test_what_finished_runs_keep_is_forgotten_for_those_that_snakemake_has_seen_end(state):
    run = Path("results/training/run/provenance.json")
    files.write_json(run, {"state": "abc"})
    states.finish(state, 6, 2, keep=True)
    other = state.with_name("other.finished")
    other.mkdir()
    damaged = run.with_name("damaged.json")
    damaged.write_text(json.dumps({"state": ["abc"]})[:-1])
    states.forget([damaged, run.with_name("missing.json")], state.parent)
    assert len(list(state.parent.glob("*.finished"))) == 2
    states.forget([damaged, run], state.parent)
    assert list(state.parent.iterdir()) == [other]


def test_what_an_earlier_attempt_left_is_replaced(state):
    (state.with_suffix(".finished") / "checkpoint-2").mkdir(parents=True)
    states.finish(state, 6, 2, keep=True)
    with states.locked(state):
        states.restore(state)
        assert states.resume_point(state, 2) == 6
