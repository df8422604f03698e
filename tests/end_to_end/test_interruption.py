"""A training that is killed or told to stop, and started again, ends with the files of an uninterrupted one."""

import hashlib
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
import yaml

from conftest import path_of

UPDATES, EVERY = 24, 8  # EVERY: of the runs that are told to stop between two checkpoints of the schedule


@pytest.fixture(scope="module")
def run(finished_world, tmp_path_factory):
    """A folder with the specification of a run of 24 updates and a checkpoint after every one, and its clean result; and the
    specification of the same run with a checkpoint after every eighth."""
    folder = tmp_path_factory.mktemp("interruption")
    (folder / "results").symlink_to(finished_world.folder / "results")
    spec = yaml.safe_load((folder / "results/training/tiny/swaps/mini/hard/seed0/spec.yaml").read_text())
    spec["training"] |= {"updates": UPDATES, "checkpoint_every": 1}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    spec["training"] |= {"checkpoint_every": EVERY}
    (folder / "sparse.yaml").write_text(yaml.safe_dump(spec))
    done = start(folder, "clean").wait()
    assert done == 0, (folder / "clean.log").read_text()
    return folder


def command(name: str, *arguments: str, spec: str = "spec.yaml") -> list[str]:
    program = [sys.executable, path_of("train_grpo")]
    return [*program, "--spec", spec, "--output", name, "--state", f"{name}.state", *arguments]


def start(folder: Path, name: str, *arguments: str, spec: str = "spec.yaml", **kwargs) -> subprocess.Popen:
    with open(folder / f"{name}.log", "a") as log:
        return subprocess.Popen(command(name, *arguments, spec=spec), cwd=folder, stderr=log, **{"stdout": log, **kwargs})


def contents(folder: Path) -> dict[str, str]:
    """Checksums of all that a run leaves, but for the files that tell times."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("provenance.json", "timing.csv")
    }


def scheduled(run: Path) -> dict[str, str]:
    """Of the contents of a run, what one with a checkpoint after every eighth update leaves as well."""
    kept = {"updates.csv", *(f"step-{step}" for step in range(EVERY, UPDATES + 1, EVERY))}
    return {name: checksum for name, checksum in contents(run).items() if kept & set(name.split("/"))}


def states(folder: Path, name: str) -> list[Path]:
    return list((folder / f"{name}.state").glob("*/checkpoint-*"))


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def test_the_same_run_twice_gives_the_same_files(run):
    assert start(run, "again").wait() == 0
    assert contents(run / "again") == contents(run / "clean")
    assert "updates.csv" in contents(run / "clean") and f"checkpoints/step-{UPDATES}/model.safetensors" in contents(run / "clean")


@pytest.mark.parametrize("part", range(2))
def test_killed_at_random_moments_it_ends_the_same(run, part):
    """Ten kills in all, each a random while after a new checkpoint has begun to be written."""
    rng, name = random.Random(part), f"random{part}"
    for _ in range(5):
        process = start(run, name)
        before = len(states(run, name))
        wait_for(lambda before=before: len(states(run, name)) > before, process)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it was done before it could be killed"
    assert start(run, name).wait() == 0, (run / f"{name}.log").read_text()
    assert contents(run / name) == contents(run / "clean")


@pytest.mark.parametrize("moment", [".checkpoints.tmp", "checkpoints", "updates.csv"])
def test_killed_while_its_results_are_put_in_place_it_ends_the_same(run, moment):
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
    weights.write_bytes(weights.read_bytes()[:-100])  # cut off although its manifest was written
    (ordered[3] / "manifest.json").unlink()  # never finished
    assert start(run, name).wait() == 0, (run / "half.log").read_text()
    assert contents(run / name) == contents(run / "clean")


def test_a_second_process_on_the_same_run_is_turned_away(run):
    first = start(run, "locked")
    wait_for(lambda: states(run, "locked"), first)
    first.send_signal(signal.SIGSTOP)  # so that it is not done before the second has started
    second = subprocess.run(command("locked"), cwd=run, capture_output=True, text=True, check=False)
    first.send_signal(signal.SIGCONT)
    assert second.returncode != 0
    assert f"process {first.pid}" in second.stderr
    assert first.wait() == 0
    assert contents(run / "locked") == contents(run / "clean")


def whole(folder: Path, name: str) -> list[Path]:
    """Checkpoints in the state of a run, the oldest first."""
    found = [path for path in states(folder, name) if (path / "manifest.json").exists()]
    return sorted(found, key=lambda path: int(path.name.split("-")[1]))


def latest(folder: Path, name: str) -> int:
    return max((int(path.name.split("-")[1]) for path in whole(folder, name)), default=0)


@pytest.mark.parametrize("then_killed", [False, True], ids=["saves", "killed while it saves"])
def test_told_to_stop_at_random_moments_it_ends_the_same(run, then_killed):
    """SIGTERM between two checkpoints of the schedule, again and again; twice, as Slurm and a user may send it."""
    rng, name = random.Random(then_killed), f"told{then_killed}"
    for _ in range(3):
        before = latest(run, name)
        process = start(run, name, spec="sparse.yaml")
        # It says so just before it loads its state.
        wait_for(lambda before=before: f"seed0: {before} of {UPDATES}" in (run / f"{name}.log").read_text(), process)
        time.sleep(rng.uniform(0.1, 0.8))
        process.send_signal(signal.SIGTERM)
        if then_killed:
            wait_for(lambda before=before: len(states(run, name)) > len(whole(run, name)), process, seconds=0.3)
            time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            process.wait()
            continue
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1, (run / f"{name}.log").read_text()
        said = (run / f"{name}.log").read_text().strip().splitlines()[-1]
        assert said.startswith("error: stopped by SIGTERM")
        found = re.search(rf"after update (\d+) of {UPDATES}, state saved in (\S+);", said)
        if found is None:  # before it had begun an update
            assert latest(run, name) == before
            continue
        assert int(found[1]) == latest(run, name) > before
        assert whole(run, name)[-1] == run / found[2]
        for path in whole(run, name)[-2:]:
            assert (path / "optimizer.pt").exists()
        for path in whole(run, name)[:-2]:
            assert int(path.name.split("-")[1]) % EVERY == 0, "an older one off the schedule is of no use"
            left = {file.name for file in path.iterdir()}
            assert "model.safetensors" in left and not left & {
                "optimizer.pt",
                "scheduler.pt",
                "rng_state.pth",
                "trainer_state.json",
            }
    assert start(run, name, spec="sparse.yaml").wait() == 0, (run / f"{name}.log").read_text()
    assert scheduled(run / name) == scheduled(run / "clean")
    assert "Traceback" not in (run / f"{name}.log").read_text()
    if not then_killed:
        assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] > 0


def test_told_to_stop_while_it_loads_it_stops_at_once(run):
    process = start(run, "loading")
    wait_for(lambda: list((run / "loading.state").glob("*/lock")), process)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait() == 1 and time.monotonic() - began < 2
    assert (run / "loading.log").read_text().startswith("error: stopped by SIGTERM") and not states(run, "loading")
    assert (run / "loading.log").read_text().count("\n") == 1


def test_told_to_stop_it_saves_although_nobody_reads_what_it_says(run):
    """Slurm's signal also ends the `tee` that the job writes to."""
    process = start(run, "unread", stdout=subprocess.PIPE)
    wait_for(lambda: states(run, "unread"), process)
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    log = (run / "unread.log").read_text()
    assert "error: stopped by SIGTERM after update" in log and "Traceback" not in log and "BrokenPipe" not in log
    assert latest(run, "unread") > 0


def test_a_reader_that_is_gone_does_not_stop_a_training(run):
    process = start(run, "alone", spec="sparse.yaml", stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 0, (run / "alone.log").read_text()
    assert scheduled(run / "alone") == scheduled(run / "clean")
    assert "24 updates, last reward" in (run / "alone.log").read_text()


def test_where_the_newest_checkpoint_is_damaged_it_goes_on_from_the_one_before(run):
    name = "fallback"
    process = start(run, name)
    wait_for(lambda: len(whole(run, name)) >= 6, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 1
    *_, second, newest = whole(run, name)
    (newest / "optimizer.pt").write_bytes(b"")
    assert start(run, name).wait() == 0, (run / f"{name}.log").read_text()
    assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] == int(second.name.split("-")[1])
    assert contents(run / name) == contents(run / "clean")


def test_a_run_is_taken_over_from_a_process_that_nobody_waits_for(run):
    orphan = start(run, "taken")
    wait_for(lambda: states(run, "taken"), orphan)
    done = take_over(run, "taken")
    assert done.returncode == 0, done.stderr
    assert orphan.wait() == 1
    assert f"process {orphan.pid} on {os.uname().nodename} is training this run, but this job is the one" in done.stdout
    assert json.loads((run / "taken/provenance.json").read_text())["resumed_from"] > 0
    assert contents(run / "taken") == contents(run / "clean")


# A process that holds the lock on a state, under any name, and at SIGTERM does what it was told.
HOLDER = """
import fcntl, os, shutil, signal, sys, time
state, text, flock, at_sigterm = sys.argv[1:]
os.makedirs(state)
lock = open(f"{state}/lock", "w")
if flock == "flock":
    fcntl.flock(lock, fcntl.LOCK_EX)
lock.write(text.replace("SELF", str(os.getpid())))
lock.flush()
def stop(*_):
    exec(at_sigterm)
signal.signal(signal.SIGTERM, stop)
print("holds", flush=True)
while True:
    time.sleep(0.05)
"""
FINISH = "time.sleep(0.3); shutil.copytree('clean', state.split('.state')[0]); shutil.rmtree(state); sys.exit(0)"


@pytest.fixture
def held(run):
    """Start a process that holds the state of a run called `name`; it is ended after the test."""
    digest, started = json.loads((run / "clean/provenance.json").read_text())["state"], []

    def hold(name: str, text: str, at_sigterm: str, flock: str = "flock") -> subprocess.Popen:
        arguments = [f"{name}.state/{digest}", text, flock, at_sigterm]
        process = subprocess.Popen([sys.executable, "-c", HOLDER, *arguments], cwd=run, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "holds\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def take_over(run, name: str, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess:
    env = os.environ | ({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})
    return subprocess.run(
        command(name, "--take-over", *arguments), cwd=run, capture_output=True, text=True, env=env, timeout=120, check=False
    )


def test_a_run_that_its_holder_finishes_meanwhile_is_not_trained_again(run, held):
    held("meanwhile", f"process SELF on {os.uname().nodename}, Slurm job 7", FINISH)
    done = take_over(run, "meanwhile")
    assert done.returncode == 0 and "another process has finished this run" in done.stdout, done.stderr
    assert contents(run / "meanwhile") == contents(run / "clean") and not list((run / "meanwhile.state").glob("*/lock"))


def test_a_holder_that_does_not_let_go_is_an_error(run, held):
    held("stubborn", f"process SELF on {os.uname().nodename}", "pass")
    done = take_over(run, "stubborn", "--take-over-minutes", "0.01")
    assert done.returncode == 1 and "did not let go of this run within 0.01 minutes" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_holder_elsewhere_that_slurm_does_not_know_is_an_error(run, held):
    held("far", "process 1 on elsewhere", "pass")
    done = take_over(run, "far")
    assert done.returncode == 1 and "process 1 on elsewhere" in done.stderr and "stop it by hand" in done.stderr


def slurm(folder: Path, process: int, state: str) -> Path:
    """A folder with a squeue that tells a state of job 77, and a scancel that signals the process that stands for it."""
    folder.mkdir()
    (folder / "squeue").write_text(f'#!/bin/sh\necho "squeue $*" >> {folder}/calls\n[ "$*" = "-h -j 77 -o %T" ] && echo {state}\n')
    (folder / "scancel").write_text(f'#!/bin/sh\necho "scancel $*" >> {folder}/calls\nkill -TERM {process}\n')
    for program in ("squeue", "scancel"):
        (folder / program).chmod(0o755)
    return folder


@pytest.mark.parametrize("flock", ["flock", "unseen"])
def test_a_job_on_another_node_is_asked_through_slurm(run, held, tmp_path, flock):
    """Also where the file system does not carry its lock to this node, and only the lock file's text tells of it."""
    name = f"job-{flock}"
    holder = held(name, "process 1 on elsewhere, Slurm job 77", FINISH, flock)
    done = take_over(run, name, path=slurm(tmp_path / "slurm", holder.pid, "RUNNING"))
    assert done.returncode == 0, done.stderr
    assert "process 1 on elsewhere, Slurm job 77 is training this run" in done.stdout
    assert "scancel --signal=TERM 77\n" in (tmp_path / "slurm/calls").read_text()
    assert "another process has finished this run" in done.stdout


def test_a_lock_file_of_a_job_that_is_over_is_no_lock(run, held, tmp_path):
    holder = held("stale", "process 1 on elsewhere, Slurm job 77", "pass", "unseen")
    shutil.copytree(run / "clean", run / "stale")  # so that nothing is left to train
    done = take_over(run, "stale", path=slurm(tmp_path / "slurm", holder.pid, "COMPLETED"))
    assert done.returncode == 0 and "is training" not in done.stdout + done.stderr
    assert "scancel" not in (tmp_path / "slurm/calls").read_text()


def test_a_whole_job_told_to_stop_saves_and_its_retry_goes_on(finished):
    """The signal reaches all processes of a job, as Slurm sends it: Snakemake, the shell, the program and `tee`."""
    finished.configure(lambda config: config["recipes"]["mini"].update(updates=40, checkpoint_every=4))
    target = "results/training/tiny/swaps/mini/hard/seed0/updates.csv"
    log = finished.folder / "results/logs/train_grpo/tiny/swaps/mini/hard/seed0.log"
    log.unlink()
    job = [sys.executable, "-m", "snakemake", "--profile", "laptop", target]
    process = subprocess.Popen(
        job, cwd=finished.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    wait_for(lambda: list((finished.folder / "results/state").glob("*/checkpoint-*")), process)
    os.killpg(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert process.returncode != 0 and "error: stopped by SIGTERM after update" in log.read_text(), said + log.read_text()
    done = finished.snakemake(target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((finished.folder / target).with_name("provenance.json").read_text())["resumed_from"] > 0


def test_an_output_that_is_removed_after_the_run_is_written_again_without_training(run):
    """Snakemake does so where it was killed while the job went on and finished."""
    name = "unseen"
    assert start(run, name, "--keep-finished").wait() == 0
    (kept,) = (run / f"{name}.state").glob("*")
    assert kept.suffix == ".finished"
    assert not list(kept.rglob("optimizer*")), "what training alone needs is gone"
    weights = f"step-{UPDATES}/model.safetensors"
    assert os.path.samefile(kept / f"checkpoint-{UPDATES}/model.safetensors", run / name / "checkpoints" / weights), "no room taken"
    shutil.rmtree(run / name)
    log = run / f"{name}.log"
    log.unlink()
    assert start(run, name, "--keep-finished").wait() == 0, log.read_text()
    assert "of 24 updates" not in log.read_text(), "nothing was trained"
    assert contents(run / name) == contents(run / "clean")
    shutil.rmtree(run / name)
    assert start(run, name).wait() == 0
    assert contents(run / name) == contents(run / "clean")
    assert not list((run / f"{name}.state").glob("*")), "by hand nothing is kept"


def test_a_disk_that_fills_up_is_one_clear_line_and_loses_nothing(run):
    """A limit on the size of files stands for the full disk: writing the weights fails in the middle."""
    name = "full"
    limit = (run / "clean/checkpoints/step-1/model.safetensors").stat().st_size // 2

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(run, name, preexec_fn=small_disk)
    assert process.wait() == 1
    last = (run / "full.log").read_text().strip().splitlines()[-1]
    assert last.startswith("error: the disk is full") and "run the same command again" in last
    assert "Traceback" not in (run / "full.log").read_text()
    assert not (run / name / "updates.csv").exists() and not (run / name / "checkpoints").exists()
    assert start(run, name).wait() == 0
    assert contents(run / name) == contents(run / "clean")


def evaluate(run, source, output):
    command = [sys.executable, path_of("evaluate"), *source, "--problems", str(run / "results/tasks/swaps/test.jsonl")]
    command += ["--prompt", "{question}", "--grader", "final_word", "--samples", "1", "--completion-tokens", "8", "--seed", "0"]
    command += ["--output", f"{output}.csv.gz", "--completions", f"{output}.jsonl.gz"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_evaluation_twice_gives_the_same_files(run, tmp_path):
    for name in ("one", "two"):
        assert evaluate(run, ["--model", str(run / "results/models/tiny")], tmp_path / name).returncode == 0
    for kind in ("csv.gz", "jsonl.gz"):
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


@pytest.mark.parametrize("kind", ["model", "checkpoints"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_a_damaged_folder_of_weights_is_named(run, tmp_path, kind, damage):
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
    base = [] if kind == "model" else ["--model", str(run / "results/models/tiny")]
    done = evaluate(run, [*base, f"--{kind}", str(folder)], tmp_path / "out")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: {weights}: ")
    assert not list(tmp_path.glob("out*"))


def test_a_model_is_made_again_in_the_place_of_the_old_one(finished):
    """Snakemake removes the declared output, the manifest, before it runs the rule; the rest of the folder is still there."""
    finished.configure(lambda config: config["models"]["tiny"]["source"].update(steps=2))
    done = finished.snakemake("results/models/tiny/manifest.json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "2 steps" in done.stdout


def test_a_recipe_with_other_checkpoints_replaces_the_old_ones(finished):
    finished.configure(lambda config: config["recipes"]["mini"].update(updates=3, checkpoint_every=3))
    folder = "results/training/tiny/swaps/mini/hard/seed0"
    done = finished.snakemake(f"{folder}/checkpoints/manifest.json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [path.name for path in (finished.folder / folder / "checkpoints").glob("step-*")] == ["step-3"]
