"""A training that is killed or stopped and then started again ends with the files of an
uninterrupted training."""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import RUN
from interruptible_run import (
    EVERY,
    KILLS,
    UPDATES,
    WITHOUT_SERVER,
    command,
    complete_checkpoints,
    contents,
    kill,
    latest,
    scheduled_contents,
    start,
    states,
    wait_for,
)

nightly = pytest.mark.nightly
SPARSE = "sparse.yaml"


def log(run: Path, name: str) -> str:
    return (run / f"{name}.log").read_text()


def resumed_from(folder: Path) -> int:
    return json.loads((folder / "provenance.json").read_text())["resumed_from"]


def finish(run: Path, name: str, *arguments: str, spec: str = "spec.yaml") -> None:
    """Start the run again, until its end. Assert that it has the files of the uninterrupted run."""
    assert start(run, name, *arguments, spec=spec).wait() == 0, log(run, name)
    files_of = scheduled_contents if spec == SPARSE else contents
    assert files_of(run / name) == files_of(run / "clean")
    assert "Traceback" not in log(run, name)


def stop(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1


def test_weights_of_checkpoints_have_the_modes_that_the_umask_gives(run):
    """In a clone that a group shares, other accounts evaluate the checkpoints."""
    mask = os.umask(0o077)
    os.umask(mask)
    weights = [*(run / "clean").rglob("*.safetensors")]
    assert weights and {path.stat().st_mode & 0o777 for path in weights} == {0o666 & ~mask}


def test_a_training_killed_at_random_moments_writes_the_same_files(run):
    """Each kill comes a random time after the training has begun to write a new checkpoint."""
    rng = random.Random(0)
    for _ in range(KILLS):
        before = len(states(run, "random"))
        kill(start(run, "random"), lambda n=before: len(states(run, "random")) > n, rng.uniform(0, 0.1))  # fmt: skip
    finish(run, "random")
    weights = f"checkpoints/step-{UPDATES}/model.safetensors"
    assert {"updates.csv", weights} <= contents(run / "random").keys()


@nightly
def test_a_killed_training_loses_only_the_updates_since_the_last_save(run):
    """Slurm kills a cancelled training if an update takes longer than Slurm waits. With
    --save-minutes 0, states are also saved between scheduled checkpoints."""
    often = ("--save-minutes", "0")
    kill(start(run, "timed", *often, spec=SPARSE), lambda: latest(run, "timed") % EVERY)
    saved = latest(run, "timed")
    finish(run, "timed", *often, spec=SPARSE)
    assert resumed_from(run / "timed") == saved > 0


@nightly
@pytest.mark.parametrize("moment", [".checkpoints.tmp", "checkpoints", "updates.csv"])
def test_a_training_killed_while_its_results_are_put_in_place_writes_the_same_files(run, moment):
    name = f"late{moment}"
    process = start(run, name)
    wait_for(lambda: (run / name / moment).exists(), process)
    process.kill()
    process.wait()
    finish(run, name)


def test_half_written_checkpoints_are_recognised_and_thrown_away(run):
    process = start(run, "half")
    wait_for(lambda: len(states(run, "half")) >= 5, process)
    process.kill()
    process.wait()
    *others, newest = complete_checkpoints(run, "half")
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])  # a truncated file despite a complete manifest
    for path in set(states(run, "half")) - {newest, *others}:
        shutil.rmtree(path)
    unfinished = newest.with_name(f"checkpoint-{latest(run, 'half') + 1}")
    shutil.copytree(others[-1], unfinished, ignore=shutil.ignore_patterns("manifest.json"))
    finish(run, "half")
    assert resumed_from(run / "half") == int(others[-1].name.split("-")[1])


def test_a_second_process_on_the_same_run_is_refused(run):
    first = start(run, "locked", env=WITHOUT_SERVER)
    wait_for(lambda: states(run, "locked"), first)
    first.send_signal(signal.SIGSTOP)  # so that it has not ended when the second process starts
    second = subprocess.run(command("locked"), cwd=run, capture_output=True, text=True, check=False)
    first.send_signal(signal.SIGCONT)
    assert second.returncode != 0 and f"process {first.pid}" in second.stderr
    assert first.wait() == 0 and contents(run / "locked") == contents(run / "clean")


@pytest.mark.parametrize(
    "then_killed",
    [
        pytest.param(False, id="not killed"),
        pytest.param(True, id="killed while it saves", marks=nightly),
    ],
)
def test_a_training_stopped_by_signals_at_random_moments_writes_the_same_files(run, then_killed):
    """The test stops the training three times at random moments. SIGTERM is followed by a second
    SIGTERM (for example, one signal from Slurm and one from a user) or, with `then_killed`, by
    SIGKILL soon after the training begins to save its state, or after 0.3 seconds without a save.
    """
    rng, name = random.Random(then_killed), f"told{then_killed}"
    # each attempt reports the number of finished updates just before it loads its state
    reports = lambda: len(re.findall(rf"seed0: \d+ of {UPDATES}", log(run, name)))
    for attempt in range(3):
        before = latest(run, name)
        process = start(run, name, spec=SPARSE)
        wait_for(lambda attempt=attempt: reports() > attempt, process)
        time.sleep(rng.uniform(0.05, 0.4))
        process.send_signal(signal.SIGTERM)
        if then_killed:
            is_saving = lambda: len(states(run, name)) > len(complete_checkpoints(run, name))
            wait_for(is_saving, process, seconds=0.3)
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
            process.wait()
            continue
        stop(process)
        last_line = log(run, name).strip().splitlines()[-1]
        assert last_line.startswith("error: stopped by SIGTERM")
        match = re.search(rf"after update (\d+) of {UPDATES}, state saved in (\S+);", last_line)
        if match is None:  # before the first update of this attempt
            assert latest(run, name) == before
            continue
        *older, newest = complete_checkpoints(run, name)
        assert int(match[1]) == latest(run, name) > before and newest == run / match[2]
        assert all((path / "optimizer.pt").exists() for path in [*older[-1:], newest])
        for path in older[:-1]:  # only scheduled ones, without the state of the optimiser
            assert int(path.name.split("-")[1]) % EVERY == 0
            names = {file.name for file in path.iterdir()}
            assert "model.safetensors" in names
            assert not names & {"optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"}  # fmt: skip
    finish(run, name, spec=SPARSE)
    assert then_killed or resumed_from(run / name) > 0


@nightly
def test_a_training_stopped_by_a_signal_while_loading_stops_immediately(run):
    process = start(run, "loading")
    wait_for(lambda: list((run / "loading.state").glob("*/lock")), process)
    stop(process)
    text = log(run, "loading")
    assert text.startswith("error: stopped by SIGTERM") and text.count("\n") == 1
    assert not states(run, "loading")


@nightly
def test_a_training_whose_output_is_closed_saves_at_a_signal_and_otherwise_ends(run):
    """Slurm's signal also ends the `tee` that reads the job's output."""
    process = start(run, "unread", stdout=subprocess.PIPE)
    wait_for(lambda: states(run, "unread"), process)
    process.stdout.close()
    stop(process)
    text = log(run, "unread")
    assert "error: stopped by SIGTERM after update" in text and latest(run, "unread") > 0
    assert "Traceback" not in text and "BrokenPipe" not in text
    process = start(run, "alone", spec=SPARSE, stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 0, log(run, "alone")
    assert scheduled_contents(run / "alone") == scheduled_contents(run / "clean")
    assert "24 updates, last reward" in log(run, "alone")


def test_a_job_stopped_by_a_signal_saves_and_its_retry_resumes(finished):
    """As Slurm does, the test signals all processes of a job: Snakemake, the shell, the program and
    `tee`."""
    finished.configure(
        lambda config: config["recipes"]["mini"].update(updates=40, checkpoint_every=4)
    )
    target = finished.folder / f"results/training/{RUN}/updates.csv"
    job_log = finished.folder / f"results/logs/train_grpo/{RUN}.log"
    job_log.unlink()
    name = str(target.relative_to(finished.folder))
    process = subprocess.Popen(
        ["nice", "-n", "19", sys.executable, "-m", "snakemake", "--profile", "laptop", name],
        cwd=finished.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: list((finished.folder / "results/state").glob("*/checkpoint-*")), process)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=600)
    assert process.returncode != 0, output
    assert "error: stopped by SIGTERM after update" in job_log.read_text()
    finished.run(name)
    assert resumed_from(target.parent) > 0


@nightly
def test_an_output_that_is_removed_after_the_run_is_written_again_without_training(run):
    """If Snakemake is killed but one of its jobs continues and finishes, the next call of Snakemake
    removes the job's output."""
    finish(run, "unseen", "--keep-finished")
    (finished_state,) = (run / "unseen.state").glob("*")
    assert finished_state.suffix == ".finished"
    assert not list(finished_state.rglob("optimizer*")), "files that only training needs were kept"
    weights = finished_state / f"checkpoint-{UPDATES}/model.safetensors"
    output = run / f"unseen/checkpoints/step-{UPDATES}/model.safetensors"
    assert os.path.samefile(weights, output), "the kept weights are a copy, not a hard link"
    for arguments in (("--keep-finished",), ()):
        shutil.rmtree(run / "unseen")
        (run / "unseen.log").unlink()
        finish(run, "unseen", *arguments)
        assert "of 24 updates" not in log(run, "unseen"), "the run was trained again"
    assert not list((run / "unseen.state").glob("*")), "without --keep-finished, no state remains"


def test_a_full_disk_gives_a_one_line_error_and_the_next_call_completes_the_run(run):
    """A limit on the size of files simulates the full disk: the training can write only half of the
    weights."""
    limit = (run / "clean/checkpoints/step-1/model.safetensors").stat().st_size // 2
    small_disk = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    process = start(run, "full", preexec_fn=small_disk, env=WITHOUT_SERVER)
    assert process.wait() == 1
    last_line = log(run, "full").strip().splitlines()[-1]
    assert last_line.startswith("error: the disk is full")
    assert "run the same command again" in last_line
    assert not (run / "full/updates.csv").exists() and not (run / "full/checkpoints").exists()
    finish(run, "full")
