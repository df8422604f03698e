"""Errors name damaged weights. Models and checkpoints of an earlier configuration are replaced.
Checkpoints of another run are refused."""

import os
import shutil

import pytest

import command_line


@pytest.mark.parametrize("kind", ["model", "checkpoints"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_a_damaged_folder_of_weights_is_reported(run, tmp_path, kind, damage):
    source = {"model": run / "results/models/tiny", "checkpoints": run / "clean/checkpoints"}[kind]
    folder = tmp_path / kind
    shutil.copytree(source, folder)
    weights = folder / ("step-3" if kind == "checkpoints" else "") / "model.safetensors"
    if damage == "missing":
        weights.unlink()
    elif damage == "truncated":
        os.truncate(weights, 1000)
    else:
        weights.write_bytes(bytes([weights.read_bytes()[0] ^ 255]) + weights.read_bytes()[1:])
    sources = {"model": run / "results/models/tiny"} | {kind: folder}
    done = command_line.run(
        run, "evaluate", **sources, problems="results/tasks/swaps/test.jsonl", prompt="{question}",
        grader="final_word", samples=1, completion_tokens=8, seed=0, output=tmp_path / "out.csv.gz",
        completions=tmp_path / "out.jsonl.gz",
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: {weights}: ")
    assert not list(tmp_path.glob("out*"))


def test_a_model_with_changed_settings_is_pretrained_among_the_files_of_the_old_model(finished):
    """Before Snakemake runs the rule, it removes only the declared output, the manifest. The other
    files of the folder remain."""
    finished.configure(lambda config: config["models"]["tiny"]["source"].update(steps=2))
    done = finished.snakemake("results/models/tiny/manifest.json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "2 steps" in done.stdout


def test_a_recipe_with_other_checkpoints_replaces_the_old_checkpoints(finished):
    finished.configure(
        lambda config: config["recipes"]["mini"].update(updates=3, checkpoint_every=3)
    )
    folder = "results/training/tiny/swaps/mini/hard/seed0"
    finished.run(f"{folder}/checkpoints/manifest.json")
    assert [path.name for path in (finished.folder / folder / "checkpoints").glob("step-*")] == [
        "step-3"
    ]


@pytest.mark.parametrize("what", ["checkpoints", "checkpoints/step-4"])
def test_checkpoints_of_another_run_are_refused(finished, what):
    """Manifests and checksums of these checkpoints are valid. Only the recorded specification shows
    that they belong to another run."""
    runs = finished.folder / "results/training/tiny/swaps/mini"
    checkpoints, other_checkpoints = runs / "hard/seed0/checkpoints", runs / "random/seed0" / what
    folder = checkpoints.parent / what
    shutil.rmtree(folder)
    shutil.copytree(other_checkpoints, folder)
    grades = finished.folder / "results/evaluation/tiny/swaps/mini/hard/seed0/swaps.csv.gz"
    grades.unlink()
    completed = finished.snakemake(str(grades.relative_to(finished.folder)))
    assert completed.returncode == 1 and "Traceback" not in completed.stderr
    relative = folder.relative_to(finished.folder)
    assert (
        f"{relative}/manifest.json: the checkpoints were trained with another" in completed.stderr
    )
    shutil.rmtree(checkpoints)  # as the message says
    finished.run(str(grades.relative_to(finished.folder)))
