"""A real Slurm with made-up GPUs. One training through whatever stops it: its files are those of a
run that nothing stopped, byte for byte. The small study: what is submitted, what it gives, what is
refused before anything is submitted.

One file, so that one worker has the cluster for itself."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import OnSlurm, World, assert_same, results, shrink, until

pytestmark = pytest.mark.slurm

RUN = "tiny/swaps/mini/random/seed0"
TARGET = f"results/training/{RUN}/updates.csv"
UPDATES = 240


def study(config: dict) -> None:
    """The small world with a model that solves some problems, trained long enough to be stopped on
    the way."""
    shrink(config)
    config["models"]["tiny"]["source"]["steps"] = 400
    config["recipes"]["mini"].update(updates=UPDATES, checkpoint_every=UPDATES // 6)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """All of that run, without Slurm and without a fault."""
    world = World(tmp_path_factory.mktemp("undisturbed") / "world")
    world.configure(study)
    world.clear()
    done = world.snakemake(TARGET)
    assert done.returncode == 0, done.stdout + done.stderr
    files = results(world.folder, "training")
    assert sum(path.endswith(".safetensors") for path in files) == 6
    assert files[TARGET].count(b"\n") == UPDATES + 1
    return world


@pytest.fixture
def run(undisturbed, slurm, tmp_path):
    """A world on Slurm in which everything before the training is there."""
    world = undisturbed.copy(tmp_path / "world")
    shutil.rmtree(world.folder / "results/training")
    shutil.rmtree(world.folder / "results/logs")
    run = OnSlurm(world, slurm)
    yield run
    run.stop()
    slurm.clear()


def jobs(run) -> list[dict]:
    """The Slurm jobs of this test, as far as the accounting database has heard of them."""
    return [job for job in run.cluster.jobs() if job["WorkDir"] == str(run.folder)]


def state_of_first(run) -> str:
    return next((job["State"] for job in jobs(run)), "")


def log(run) -> str:
    path = run.folder / f"results/logs/train_grpo/{RUN}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def under_way(run) -> str:
    """Wait until the training has left its first checkpoint behind; its job's id."""
    until(
        lambda: list(run.folder.glob("results/state/*/checkpoint-40")), what="the first checkpoint"
    )
    (job,) = run.cluster.running()
    return job


def process(run) -> int:
    """The training program, by what it wrote into its lock."""
    (lock,) = run.folder.glob("results/state/*/lock")
    return int(re.match(r"process (\d+)", lock.read_text())[1])


def check(run, undisturbed, attempts: int, state_suffix: str = "") -> None:
    """The files are those of the undisturbed run, and the last attempt did not start at the
    beginning."""
    assert_same(results(run.folder, "training"), results(undisturbed.folder, "training"))
    states = [job["State"].split()[0] for job in jobs(run)]
    assert len(states) == attempts and states[-1] == "COMPLETED", states
    facts = json.loads((run.folder / f"results/training/{RUN}/provenance.json").read_text())
    assert (facts["resumed_from"] > 0) == (attempts > 1), facts["resumed_from"]
    suffixes = [path.suffix for path in run.folder.glob("results/state/*")]
    assert suffixes in ([], [state_suffix]), "a finished run keeps no state"


def test_a_controller_that_is_gone_for_40_seconds(run, undisturbed, slurm):
    snakemake = run.start(TARGET)
    under_way(run)
    slurm.kill("slurmctld")
    time.sleep(40)
    assert snakemake.poll() is None
    slurm.start_controller()
    assert run.finish(snakemake) == 0, run.read_output()
    check(run, undisturbed, attempts=1)


def test_a_job_that_is_cancelled(run, undisturbed, slurm):
    snakemake = run.start(TARGET)
    slurm.call("scancel", under_way(run))
    assert run.finish(snakemake) == 0, run.read_output()
    assert "SIGTERM: training stops after this update and saves its state" in run.read_output()
    check(run, undisturbed, attempts=2)


def test_a_job_that_makes_room_for_a_more_urgent_one(run, undisturbed, slurm):
    snakemake = run.start(TARGET)
    under_way(run)
    urgent = slurm.call(
        "sbatch",
        "--parsable",
        "-p",
        "urgent",
        "-N",
        "2",
        "--exclusive",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 600",
    )
    until(lambda: state_of_first(run) == "PREEMPTED", what="preemption")
    slurm.call("scancel", urgent.strip())
    assert run.finish(snakemake) == 0, run.read_output()
    assert re.search(r"stopped by SIGTERM after update \d+ of", run.read_output())
    check(run, undisturbed, attempts=2)


def test_the_time_limit(run, undisturbed, slurm):
    """The program hangs until Slurm ends it at the limit, here of a minute; it saves in the seconds
    between SIGTERM and SIGKILL."""
    snakemake = run.start(
        TARGET,
        "--set-resources",
        "train_grpo:runtime=1 if attempt == 1 else 10",
        "train_grpo:slurm_extra=''",
    )
    under_way(run)
    os.kill(process(run), signal.SIGSTOP)
    assert run.finish(snakemake) == 0, run.read_output()
    assert jobs(run)[0]["State"] == "TIMEOUT"
    assert re.search(r"stopped by SIGTERM after update \d+ of", run.read_output())
    check(run, undisturbed, attempts=2)


def test_the_warning_before_the_time_limit(run, undisturbed, slurm):
    """SIGTERM comes early, to every process of the job; the job ends by itself with its state
    saved, and its retry goes on.

    Slurm sends it up to a minute earlier than it is told to: here one to two minutes after the
    start.
    """
    warned = "train_grpo:slurm_extra='--signal=TERM@60' if attempt == 1 else ''"
    snakemake = run.start(
        TARGET, "--set-resources", "train_grpo:runtime=3 if attempt == 1 else 10", warned
    )
    under_way(run)
    os.kill(process(run), signal.SIGSTOP)
    program = process(run)
    until(lambda: warned_or_gone(program), what="the warning")
    if os.path.exists(f"/proc/{program}"):
        os.kill(program, signal.SIGCONT)
    assert run.finish(snakemake) == 0, run.read_output()
    assert jobs(run)[0]["State"] == "FAILED", "not TIMEOUT"
    assert re.search(r"stopped by SIGTERM after update \d+ of", run.read_output())
    check(run, undisturbed, attempts=2)


def warned_or_gone(pid: int) -> bool:
    """Whether SIGTERM waits for a stopped process, or the process has been woken, too, and is
    done."""
    try:
        status = open(f"/proc/{pid}/status").read()
    except FileNotFoundError:
        return True
    return any(
        int(mask, 16) >> (signal.SIGTERM - 1) & 1
        for mask in re.findall(r"(?:ShdPnd|SigPnd):\s*(\w+)", status)
    )


def test_a_node_that_fails(run, undisturbed, slurm):
    """Its slurmd dies and the job's processes live on, unseen: the job is submitted again, to the
    other node, and takes over."""
    snakemake = run.start(TARGET)
    under_way(run)
    node = until(lambda: jobs(run) and jobs(run)[0]["NodeList"])
    os.kill(process(run), signal.SIGSTOP)  # it must not finish before Slurm has noticed
    orphan = process(run)
    slurm.kill(node)
    try:
        until(lambda: "NODE_FAIL" in state_of_first(run), what="Slurm's notice")
        os.kill(orphan, signal.SIGCONT)
        assert run.finish(snakemake) == 0, run.read_output()
    finally:
        slurm.start_node(node)
    assert jobs(run)[1]["NodeList"] != node
    check(run, undisturbed, attempts=2)


def test_ctrl_c_cancels_the_jobs_and_the_next_start_goes_on(run, undisturbed, slurm):
    snakemake = run.start(TARGET)
    under_way(run)
    snakemake.send_signal(signal.SIGINT)
    assert run.finish(snakemake) != 0
    until(lambda: not slurm.running(), what="the end of the job")
    assert jobs(run)[0]["State"].startswith("CANCELLED")
    assert run.run(TARGET) == 0, run.read_output()
    check(run, undisturbed, attempts=2)


def test_a_killed_snakemake_and_its_orphan(run, undisturbed, slurm):
    """The job runs on without a Snakemake. The next one, after --unlock, starts its own, which asks
    the orphan to save and stop."""
    snakemake = run.start(TARGET)
    under_way(run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    os.kill(process(run), signal.SIGSTOP)  # it must not finish before the second job is there
    orphan = process(run)
    assert run.run(TARGET) != 0 and "--unlock" in run.read_output()
    assert run.run("--unlock") == 0
    second_snakemake = run.start(TARGET)
    until(lambda: "asked it to stop (SIGTERM)" in log(run), what="the second job")
    assert not [line for line in log(run).splitlines() if line.startswith("error")]
    os.kill(orphan, signal.SIGCONT)
    assert run.finish(second_snakemake) == 0, run.read_output()
    assert sorted(job["State"] for job in jobs(run)) == ["COMPLETED", "FAILED"]
    check(run, undisturbed, attempts=2)


def test_a_job_that_finishes_after_its_snakemake_was_killed(run, undisturbed, slurm):
    """The Snakemake within the job has marked its files as whole: the next one takes them as they
    are."""
    snakemake = run.start(TARGET)
    under_way(run)
    os.killpg(snakemake.pid, signal.SIGKILL)
    until(lambda: not slurm.running(), what="the end of the job")
    assert (run.folder / TARGET).exists()
    assert run.run("--unlock") == 0
    assert run.run(TARGET) == 0, run.read_output()
    # until a Snakemake that has something to do removes it
    check(run, undisturbed, attempts=1, state_suffix=".finished")


def test_a_full_disk(run, undisturbed, slurm):
    """The state is on a disk of its own that becomes full; with room again, the same command goes
    on."""
    state = run.folder / "results/state"
    state.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", state], check=True)
    try:
        assert run.run(TARGET, "--retries", "0") != 0
        errors = [line for line in log(run).splitlines() if line.startswith("error")]
        assert len(errors) == 1 and re.match(
            "error: the disk is full.*: free some space and run the same command again", errors[0]
        ), log(run)
        assert "Traceback" not in log(run)
        subprocess.run(["mount", "-o", "remount,size=100M", state], check=True)
        assert run.run(TARGET) == 0, run.read_output()
        check(run, undisturbed, attempts=2)
    finally:
        slurm.clear()
        subprocess.run(["umount", "-l", state], check=True)


# --- the small study, and what is refused
# ---------------------------------------------------------------------------


@pytest.fixture
def on_slurm(world, slurm):
    world.configure(shrink)
    yield OnSlurm(world, slurm)
    slurm.clear()


def test_the_miniature_through_slurm_gives_what_this_machine_gives_without_it(
    on_slurm, finished_world
):
    on_slurm.world.clear()
    assert on_slurm.run() == 0, on_slurm.read_output()
    assert_same(results(on_slurm.folder, "summaries"), results(finished_world.folder, "summaries"))
    for part in ("probe", "difficulty", "subsets", "evaluation", "training", "tasks"):
        assert_same(results(on_slurm.folder, part), results(finished_world.folder, part))
    by_rule = {}
    for job in jobs(on_slurm):
        by_rule.setdefault(re.match(r"rule_(.*?)(_wildcards|$)", job["Comment"])[1], []).append(job)
    assert {rule: len(rule_jobs) for rule, rule_jobs in by_rule.items()} == {
        "pretrain_model": 1, "probe": 2, "evaluate_base": 2, "sample_reach": 2, "train_grpo": 2, "evaluate_run": 4,
    }  # fmt: skip
    for rule, rule_jobs in by_rule.items():
        for job in rule_jobs:
            assert job["State"] == "COMPLETED"
            gpu = rule != "pretrain_model"
            assert job["Partition"] == ("gpu" if gpu else "cpu")
            assert ("gres/gpu=1" in job["AllocTRES"]) == gpu, job
    log = next((on_slurm.folder / "results/logs/train_grpo").rglob("*.log")).read_text()
    assert "rehearsal: 1 GPUs granted, the CPU does the work" in log


REFUSED = {  # how the world is made impossible: the site's entries, arguments; what is said of it
    "more GPUs than a node has": ({}, ["--set-resources", "train_grpo:gpu=3"],
        r"rule train_grpo: gpu: 3 nvidia_fake-sxm4-80gb GPUs requested on one node, at most 1 in partition gpu; .*kinds there: nvidia_fake-sxm4-80gb"),
    "another kind of GPU": ({"gpu_name": "h100"}, [],
        r"rule probe: gpu: 1 h100 GPUs requested on one node, at most 0 in partition gpu; correct gpu_partition or gpu_name"),
    "more memory": ({}, ["--set-resources", "evaluate_run:mem_mb=999999"],
        r"rule evaluate_run: mem_mb: 999999 MB requested on one node, at most 128000 in partition gpu"),
    "more CPUs": ({}, ["--set-resources", "pretrain_model:cpus_per_task=64"],
        r"rule pretrain_model: cpus_per_task: 64 CPUs requested on one node, at most 6 in partition cpu"),
    "longer than allowed": ({}, ["--set-resources", "train_grpo:runtime=9999"],
        r"rule train_grpo: runtime: 9999 min requested, at most 1440 allowed in partition gpu; set longest_runtime: 1440"),
    "a partition that is not there": ({"gpu_partition": "gpus"}, [],
        r"rule train_grpo: slurm_partition: the cluster has no 'gpus'; correct gpu_partition .*\(partitions: cpu, gpu, urgent\)"),
    "an account of nobody": ({"slurm_account": "stduy"}, [],
        r"rule train_grpo: slurm_account: 'stduy' is not among your accounts \(root, study\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_cluster_cannot_give_is_said_before_anything_is_submitted(case, on_slurm, slurm):
    site, arguments, expected = REFUSED[case]
    on_slurm.site(**site)
    before = len(slurm.jobs())
    assert on_slurm.run(*arguments) != 0
    output = on_slurm.read_output()
    assert re.search(f"^{expected}", output, re.MULTILINE), output
    assert "Traceback" not in output and "has been submitted" not in output
    assert len(slurm.jobs()) == before and not slurm.running()
    assert not list((on_slurm.folder / "results/tasks").glob("*")), "no local job either"


def test_without_slurm_one_line_says_so(on_slurm, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "which", "uname"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    assert on_slurm.run(PATH=str(tools)) != 0
    assert (
        "profile slurm: Slurm is not on this machine (no scontrol, no sbatch); run on a login node"
        in on_slurm.read_output()
    )
