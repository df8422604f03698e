"""Scheduling of jobs on GPUs: properties of every schedule, bounds of list scheduling, and
totals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.planning import plans
from hardgrpo.planning.durations import Estimate
from hardgrpo.planning.plans import PlannedJob, Setting
from hardgrpo.runtime.errors import UserError

AROUND = plans.AROUND_SECONDS[True]


@st.composite
def studies(draw):
    """Jobs with random dependencies, and a setting that can run each job."""
    count = draw(st.integers(1, 14))
    gpus = draw(st.integers(1, 4))
    jobs = []
    for number in range(count):
        rule = draw(st.sampled_from(["probe", "train_grpo", "evaluate_run", "summarize"]))
        sizes = {name: draw(st.integers(0, 9)) for name in ("kept_bytes", "scratch_bytes")}
        job_gpus = draw(st.integers(0, gpus)) if rule != "summarize" else 0
        estimate = Estimate(draw(st.floats(1, 1000)), gpus=job_gpus, **sizes)
        needs = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        jobs.append(PlannedJob(number, "study", rule, {"model": "m"}, estimate, needs=needs))
    cluster = draw(st.booleans())
    return jobs, Setting(gpus=gpus, slots=draw(st.integers(1, 5)), cluster=cluster)


@given(studies())
def test_every_schedule_respects_dependencies_gpus_and_slots(drawn):
    jobs, setting = drawn
    plans.schedule(jobs, setting)
    for job in jobs:
        assert job.end >= job.start + job.estimate.seconds
        assert all(jobs[needed_job].end <= job.start for needed_job in job.needs), (
            "a job must not start before the jobs that it needs have ended"
        )
    for moment in {job.start for job in jobs}:
        running = [job for job in jobs if job.start <= moment < job.end]
        assert sum(job.estimate.gpus for job in running) <= setting.gpus
        placed = [job for job in running if not setting.cluster or job.stage != plans.LIGHT]
        assert len(placed) <= setting.slots
    sums = plans.totals(jobs, setting, 2.0)
    wall = sums["wall_hours"] * 3600
    assert wall >= sums["critical_path_hours"] * 3600 - 1e-6
    assert wall >= sums["gpu_hours"] * 3600 / setting.gpus - 1e-6
    assert sums["cost"] == 2 * sums["gpu_hours"]
    assert wall <= sum(job.end - job.start for job in jobs) + 1e-6, (
        "a schedule must not take longer than running all jobs in sequence"
    )


@given(studies())
def test_the_critical_path_is_the_longest_chain_of_jobs(drawn):
    jobs, setting = drawn
    path = plans.critical_path(jobs, setting)
    assert all(first.number in second.needs for first, second in zip(path, path[1:]))
    length = sum(plans._duration(job, setting) for job in path)
    unlimited = Setting(gpus=99, slots=99, cluster=setting.cluster)
    plans.schedule(jobs, unlimited)
    assert length == pytest.approx(max(job.end for job in jobs))


def job(number, seconds, gpus=1, needs=(), rule="train_grpo", model="m", **estimate):
    estimated = Estimate(seconds, gpus=gpus, **estimate)
    return PlannedJob(number, "s", rule, {"model": model}, estimated, needs=set(needs))


def test_the_longest_chain_of_jobs_starts_first():
    """Jobs 0, 1 and 2 are ready at the same time, and there are two GPUs. Job 3 needs job 2."""
    jobs = [job(0, 100), job(1, 100), job(2, 100), job(3, 200, needs=[2])]
    plans.schedule(jobs, Setting(gpus=2))
    assert (jobs[2].start, jobs[3].start) == (0, 100 + AROUND)
    assert max(j.end for j in jobs) == 300 + 2 * AROUND


def test_a_job_with_more_gpus_than_there_are_is_reported():
    with pytest.raises(UserError, match="needs 8 GPUs at once, and the plan has 2"):
        plans.schedule([job(0, 1, gpus=8)], Setting(gpus=2))


def test_disk_counts_what_is_kept_and_what_is_in_use():
    jobs = [job(0, 100, kept_bytes=5, scratch_bytes=20)]
    jobs.append(job(1, 100, needs=[0], kept_bytes=1, scratch_bytes=10))
    plans.schedule(jobs, Setting(gpus=1))
    # job 0 needs 20 bytes; during job 1, 5 bytes are kept and 10 more are in use
    assert plans.peak_disk(jobs) == 20
    jobs[1].estimate = Estimate(100, gpus=1, scratch_bytes=30)
    assert plans.peak_disk(jobs) == 35


def test_the_table_of_a_plan_has_rows_by_study_stage_and_model_that_add_up():
    jobs = [
        job(0, 3600, model="b"),
        job(1, 3600, gpus=2, model="a"),
        job(2, 60, gpus=0, rule="fetch_model"),
        job(3, 60, rule="probe"),
    ]
    rows = plans.table(jobs, ["s"], ["a", "b", "m"])
    assert [(row["stage"], row["model"], row["gpu_hours"]) for row in rows] == [
        ("probing", "m", 1 / 60), ("training", "a", 2.0), ("training", "b", 1.0), ("light", "", 0.0),
    ]  # fmt: skip
    assert sum(row["jobs"] for row in rows) == 4
