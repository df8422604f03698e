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
    latest,
    scheduled_contents,
    start,
    states,
    wait_for,
)


def test_weights_of_checkpoints_have_the_modes_that_the_umask_gives(run):
    """In a clone that a group shares, other accounts evaluate the checkpoints."""
    mask = os.umask(0o077)
    os.umask(mask)
    weights = [*(run / "clean").rglob("*.safetensors")]
    assert weights and {path.stat().st_mode & 0o777 for path in weights} == {0o666 & ~mask}


@pytest.mark.parametrize("part", range(KILLS // 5 or 1))
def test_a_training_killed_at_random_moments_writes_the_same_files(run, part):
    """Each kill comes a random time after the training has begun to write a new checkpoint."""
    rng, name = random.Random(part), f"random{part}"
    for _ in range(min(5, KILLS)):
        process = start(run, name)
        before = len(states(run, name))
        wait_for(lambda before=before: len(states(run, name)) > before, process)
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"
    assert start(run, name).wait() == 0, (run / f"{name}.log").read_text()
    assert contents(run / name) == contents(run / "clean")
    assert {"updates.csv", f"checkpoints/step-{UPDATES}/model.safetensors"} <= contents(
        run / name
    ).keys()


@pytest.mark.nightly
def test_a_killed_training_loses_only_the_updates_since_the_last_save(run):
    """Slurm kills a cancelled training if an update takes longer than Slurm waits. With
    --save-minutes 0, states are also saved between scheduled checkpoints."""
    name, often = "timed", ("--save-minutes", "0")
    process = start(run, name, *often, spec="sparse.yaml")
    wait_for(lambda: latest(run, name) % EVERY, process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the training ended before it could be killed"
    saved = latest(run, name)
    assert start(run, name, *often, spec="sparse.yaml").wait() == 0, (
        run / f"{name}.log"
    ).read_text()
    assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] == saved > 0
    assert scheduled_contents(run / name) == scheduled_contents(run / "clean")


@pytest.mark.nightly
@pytest.mark.parametrize("moment", [".checkpoints.tmp", "checkpoints", "updates.csv"])
def test_a_training_killed_while_its_results_are_put_in_place_writes_the_same_files(run, moment):
    name = f"late{moment}"
    process = start(run, name)
    wait_for(lambda: (run / name / moment).exists(), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert start(run, name).wait() == 0, (run / f"{name}.log").read_text()
    assert contents(run / name) == contents(run / "clean")


def test_half_written_checkpoints_are_recognised_and_thrown_away(run):
    name = "half"
    process = start(run, name)
    wait_for(lambda: len(states(run, name)) >= 5, process)
    process.kill()
    process.wait()
    ordered = sorted(states(run, name), key=lambda path: int(path.name.split("-")[1]))
    newest = [path for path in ordered if (path / "manifest.json").exists()][-1]
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])  # a truncated file despite a complete manifest
    (ordered[3] / "manifest.json").unlink()  # an unfinished checkpoint
    assert start(run, name).wait() == 0, (run / "half.log").read_text()
    assert contents(run / name) == contents(run / "clean")


def test_a_second_process_on_the_same_run_is_refused(run):
    first = start(run, "locked", env=WITHOUT_SERVER)
    wait_for(lambda: states(run, "locked"), first)
    first.send_signal(signal.SIGSTOP)  # so that it has not ended when the second process starts
    second = subprocess.run(command("locked"), cwd=run, capture_output=True, text=True, check=False)
    first.send_signal(signal.SIGCONT)
    assert second.returncode != 0
    assert f"process {first.pid}" in second.stderr
    assert first.wait() == 0
    assert contents(run / "locked") == contents(run / "clean")


def count_reports(log: Path) -> int:
    """The number of lines of a log in which an attempt reports, at its start, how many updates are
    finished. All attempts of a run write to one log."""
    return len(re.findall(rf"seed0: \d+ of {UPDATES}", log.read_text())) if log.exists() else 0


@pytest.mark.parametrize(
    "then_killed",
    [
        pytest.param(False, id="not killed"),
        pytest.param(True, id="killed while it saves", marks=pytest.mark.nightly),
    ],
)
def test_a_training_stopped_by_signals_at_random_moments_writes_the_same_files(run, then_killed):
    """The test stops the training three times at random moments. SIGTERM is followed by a second
    SIGTERM (for example, one signal from Slurm and one from a user) or, with `then_killed`, by
    SIGKILL soon after the training begins to save its state, or after 0.3 seconds without a save.
    """
    rng, name = random.Random(then_killed), f"told{then_killed}"
    for _ in range(3):
        before, log = latest(run, name), run / f"{name}.log"
        report_count = count_reports(log)
        process = start(run, name, spec="sparse.yaml")
        # The program reports the number of finished updates just before it loads its state.
        wait_for(
            lambda log=log, report_count=report_count: count_reports(log) > report_count, process
        )
        time.sleep(rng.uniform(0.05, 0.4))
        process.send_signal(signal.SIGTERM)
        if then_killed:
            wait_for(
                lambda before=before: len(states(run, name)) > len(complete_checkpoints(run, name)),
                process,
                seconds=0.3,
            )
            time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            process.wait()
            continue
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1, (run / f"{name}.log").read_text()
        last_line = (run / f"{name}.log").read_text().strip().splitlines()[-1]
        assert last_line.startswith("error: stopped by SIGTERM")
        match = re.search(rf"after update (\d+) of {UPDATES}, state saved in (\S+);", last_line)
        if match is None:  # before the first update of this attempt
            assert latest(run, name) == before
            continue
        assert int(match[1]) == latest(run, name) > before
        assert complete_checkpoints(run, name)[-1] == run / match[2]
        for path in complete_checkpoints(run, name)[-2:]:
            assert (path / "optimizer.pt").exists()
        for path in complete_checkpoints(run, name)[:-2]:
            assert int(path.name.split("-")[1]) % EVERY == 0, (
                "an older checkpoint outside the schedule was kept"
            )
            names = {file.name for file in path.iterdir()}
            assert "model.safetensors" in names and not names & {
                "optimizer.pt",
                "scheduler.pt",
                "rng_state.pth",
                "trainer_state.json",
            }
    assert start(run, name, spec="sparse.yaml").wait() == 0, (run / f"{name}.log").read_text()
    assert scheduled_contents(run / name) == scheduled_contents(run / "clean")
    assert "Traceback" not in (run / f"{name}.log").read_text()
    if not then_killed:
        assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] > 0


@pytest.mark.nightly
def test_a_training_stopped_by_a_signal_while_loading_stops_immediately(run):
    process = start(run, "loading")
    wait_for(lambda: list((run / "loading.state").glob("*/lock")), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    assert (run / "loading.log").read_text().startswith("error: stopped by SIGTERM") and not states(
        run, "loading"
    )
    assert (run / "loading.log").read_text().count("\n") == 1


@pytest.mark.nightly
def test_a_training_stopped_by_a_signal_saves_even_if_its_output_is_closed(run):
    """Slurm's signal also ends the `tee` that reads the job's output."""
    process = start(run, "unread", stdout=subprocess.PIPE)
    wait_for(lambda: states(run, "unread"), process)
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    log = (run / "unread.log").read_text()
    assert (
        "error: stopped by SIGTERM after update" in log
        and "Traceback" not in log
        and "BrokenPipe" not in log
    )
    assert latest(run, "unread") > 0


@pytest.mark.nightly
def test_a_training_continues_after_the_reader_of_its_output_has_ended(run):
    process = start(run, "alone", spec="sparse.yaml", stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 0, (run / "alone.log").read_text()
    assert scheduled_contents(run / "alone") == scheduled_contents(run / "clean")
    assert "24 updates, last reward" in (run / "alone.log").read_text()


@pytest.mark.nightly
def test_a_training_with_a_damaged_newest_checkpoint_resumes_from_the_previous_checkpoint(run):
    name = "fallback"
    process = start(run, name)
    wait_for(lambda: len(complete_checkpoints(run, name)) >= 6, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    *_, second, newest = complete_checkpoints(run, name)
    (newest / "optimizer.pt").write_bytes(b"")
    assert start(run, name).wait() == 0, (run / f"{name}.log").read_text()
    assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] == int(
        second.name.split("-")[1]
    )
    assert contents(run / name) == contents(run / "clean")


def test_a_job_stopped_by_a_signal_saves_and_its_retry_resumes(finished):
    """As Slurm does, the test signals all processes of a job: Snakemake, the shell, the program and
    `tee`."""
    finished.configure(
        lambda config: config["recipes"]["mini"].update(updates=40, checkpoint_every=4)
    )
    target = f"results/training/{RUN}/updates.csv"
    log = finished.folder / f"results/logs/train_grpo/{RUN}.log"
    log.unlink()
    job = ["nice", "-n", "19", sys.executable, "-m", "snakemake", "--profile", "laptop", target]
    process = subprocess.Popen(
        job,
        cwd=finished.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: list((finished.folder / "results/state").glob("*/checkpoint-*")), process)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=600)
    assert (
        process.returncode != 0 and "error: stopped by SIGTERM after update" in log.read_text()
    ), output + log.read_text()
    finished.run(target)
    assert (
        json.loads((finished.folder / target).with_name("provenance.json").read_text())[
            "resumed_from"
        ]
        > 0
    )


@pytest.mark.nightly
def test_an_output_that_is_removed_after_the_run_is_written_again_without_training(run):
    """If Snakemake is killed but one of its jobs continues and finishes, the next call of Snakemake
    removes the job's output."""
    name = "unseen"
    assert start(run, name, "--keep-finished").wait() == 0
    (finished_state,) = (run / f"{name}.state").glob("*")
    assert finished_state.suffix == ".finished"
    assert not list(finished_state.rglob("optimizer*")), "files that only training needs were kept"
    weights = f"step-{UPDATES}/model.safetensors"
    assert os.path.samefile(
        finished_state / f"checkpoint-{UPDATES}/model.safetensors",
        run / name / "checkpoints" / weights,
    ), "the kept weights are a copy, not a hard link"
    shutil.rmtree(run / name)
    log = run / f"{name}.log"
    log.unlink()
    assert start(run, name, "--keep-finished").wait() == 0, log.read_text()
    assert "of 24 updates" not in log.read_text(), "the run was trained again"
    assert contents(run / name) == contents(run / "clean")
    shutil.rmtree(run / name)
    assert start(run, name).wait() == 0
    assert contents(run / name) == contents(run / "clean")
    assert not list((run / f"{name}.state").glob("*")), (
        "without --keep-finished the state must be removed"
    )


def test_a_full_disk_gives_a_one_line_error_and_the_next_call_completes_the_run(run):
    """A limit on the size of files simulates the full disk: the training can write only half of the
    weights."""
    name = "full"
    limit = (run / "clean/checkpoints/step-1/model.safetensors").stat().st_size // 2

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(run, name, preexec_fn=small_disk, env=WITHOUT_SERVER)
    assert process.wait() == 1
    last_line = (run / "full.log").read_text().strip().splitlines()[-1]
    assert (
        last_line.startswith("error: the disk is full")
        and "run the same command again" in last_line
    )
    assert "Traceback" not in (run / "full.log").read_text()
    assert not (run / name / "updates.csv").exists() and not (run / name / "checkpoints").exists()
    assert start(run, name).wait() == 0
    assert contents(run / name) == contents(run / "clean")
