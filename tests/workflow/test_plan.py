"""`scripts/plan/plan.py` and `snakemake plan`: a study's costs, estimated before its first run."""

import csv
import json
import os
import re
import shutil
import statistics

import pytest

import fork_server
from command_line import assert_refused, run, run_well
from conftest import World


def plan(world: World, *arguments: str, fails: bool = False) -> dict:
    """The tables that `scripts/plan/plan.py` writes in a world: `jobs`, `table`, `totals`, and the
    printed `text`. If the program must fail (`fails`), {"error": what it writes to stderr}."""
    # the program must import the package of the world, not that of this repository
    environment = os.environ | {"PYTHONPATH": str(world.folder / "src")}
    done = fork_server.run("scripts/plan/plan.py", arguments, world.folder, environment)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    if fails:
        assert "Traceback" not in done.stderr
        return {"error": done.stderr.strip()}
    return read_plan(world) | {"text": done.stdout}


def what_if(world: World, text: str) -> list[str]:
    """Arguments that plan with the configuration `text` (YAML) over that of the world."""
    (world.folder / "what_if.yaml").write_text(text)
    return ["--configfile", "what_if.yaml"]


def read_plan(world: World) -> dict:
    """The tables of a plan. Cells that are numbers are converted, except seeds."""
    tables = {}
    for name in ("jobs", "plan", "totals"):
        with open(world.folder / f"results/plan/{name}.csv") as stream:
            tables[name] = [
                {key: cell if key == "seed" else number(cell) for key, cell in row.items()}
                for row in csv.DictReader(stream)
            ]
    return {"jobs": tables["jobs"], "table": tables["plan"], "totals": tables["totals"][0]}


def number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


@pytest.fixture(scope="module")
def process_rewards(tmp_path_factory):
    """The plan of study process_rewards."""
    return plan(World(tmp_path_factory.mktemp("plan") / "world"), "--study", "process_rewards")


def by_stage(bill: dict) -> dict:
    return {
        (row["stage"], row["model"]): row["jobs"]
        for row in bill["table"]
        if row["stage"] != "light"
    }


def test_the_bill_of_the_paper_counts_every_job_of_the_dry_run(world, plan_of):
    bill = plan(world, "--study", "paper")
    assert by_stage(bill) == {
        ("probing", "qwen3-4b"): 5, ("probing", "qwen3-14b"): 5, ("probing", "phi-4"): 5, ("probing", "llama-3.1-8b-instruct"): 4,
        ("training", "qwen3-4b"): 24, ("training", "qwen3-14b"): 24, ("training", "phi-4"): 24, ("training", "llama-3.1-8b-instruct"): 12,
        ("evaluation", "qwen3-4b"): 39, ("evaluation", "qwen3-14b"): 26, ("evaluation", "phi-4"): 26,
        ("evaluation", "llama-3.1-8b-instruct"): 13,
    }  # fmt: skip
    planned = sum(plan_of("paper", profile="slurm").values())
    assert bill["totals"]["jobs"] == planned - 1, (
        "the plan must count every job except the target itself"
    )
    assert bill["totals"]["gpu_hours"] == pytest.approx(
        sum(job["gpu_hours"] for job in bill["jobs"])
    )
    assert bill["totals"]["cost"] == pytest.approx(2.5 * bill["totals"]["gpu_hours"])
    assert bill["totals"]["wall_hours"] >= bill["totals"]["gpu_hours"] / 8
    path = bill["text"].partition("Critical path:\n")[2].partition("\n\n")[0]
    stages = [line.split()[2] for line in path.splitlines()]
    assert stages[:3] == ["fetch_model", "fit_prompts", "probe"] and {
        "train_grpo",
        "evaluate_run",
        "summarize",
    } < set(stages)


def test_text_and_tables_have_the_same_numbers_from_program_and_workflow(world):
    bill = plan(world, "--study", "process_rewards")
    folder = world.folder / "results/plan"
    hours = f"{bill['totals']['gpu_hours']:.2f}"
    assert re.search(rf"^total +\d+ +{hours}", bill["text"], re.MULTILINE)
    with open(folder / "plan.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert sum(float(row["gpu_hours"]) for row in rows) == pytest.approx(
        bill["totals"]["gpu_hours"]
    )
    with open(folder / "jobs.csv") as stream:
        assert sum(float(row["gpu_hours"]) for row in csv.DictReader(stream)) == pytest.approx(
            bill["totals"]["gpu_hours"]
        )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    at_once = ["--slurm-init-seconds-before-status-checks", "1"]
    done = world.snakemake("plan", *at_once, "--config", "study=process_rewards", profile="slurm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert bill["text"].strip() in done.stdout
    assert world.snakemake("plan", "--config", "study=process_rewards").returncode == 0
    totals = read_plan(world)["totals"]
    assert totals["gpu_hours"] == pytest.approx(bill["totals"]["gpu_hours"])
    assert (totals["gpus"], totals["cluster"]) == (1, 0), (
        "the plan for the laptop profile must have one GPU"
    )


def test_the_remaining_costs_of_a_study_exclude_exactly_the_finished_runs(finished):
    """Seed 0 has been run, seed 1 has not. The configuration says that the model needs GPUs, so
    that the plan has costs."""

    def ask_for_gpus(config):
        config["studies"]["mini"]["seeds"] = [0, 1]
        config["models"]["tiny"]["shape"] = config["models"]["smollm2-135m"]["shape"]
        config["models"]["tiny"]["gpus"] = config["models"]["qwen2.5-0.5b-instruct"]["gpus"]

    finished.configure(ask_for_gpus)
    after = plan(finished)
    finished.clear()
    before = plan(finished)
    remaining_jobs, all_ = ({job["name"]: job for job in bill["jobs"]} for bill in (after, before))
    assert {name for name, job in remaining_jobs.items() if job["stage"] == "training"} == {
        f"train_grpo tiny swaps mini {policy} seed 1" for policy in ("hard", "random")
    }
    assert all(
        remaining_jobs[name]["gpu_hours"] == all_[name]["gpu_hours"] for name in remaining_jobs
    )
    finished_jobs = [job for name, job in all_.items() if name not in remaining_jobs]
    assert {job["stage"] for job in finished_jobs} == {
        "pretraining",
        "probing",
        "training",
        "evaluation",
        "light",
    }
    assert sum(job["gpu_hours"] for job in finished_jobs) > 0
    for key in ("gpu_hours", "job_hours", "tokens_generated", "tokens_trained", "completions"):
        finished_total = sum(
            job["seconds"] / 3600 if key == "job_hours" else job[key] for job in finished_jobs
        )
        assert before["totals"][key] - after["totals"][key] == pytest.approx(
            finished_total, rel=1e-3
        ), key
    assert before["totals"]["jobs"] - after["totals"]["jobs"] == len(finished_jobs)


def test_a_finished_study_leaves_nothing_to_pay(finished):
    bill = plan(finished, "--profile", "laptop")
    assert bill["totals"]["jobs"] == 0 and "Nothing is left to do for mini" in bill["text"]
    assert "Nothing is left to do" in (finished.folder / "results/plan/plan.txt").read_text()


def test_other_gpus_prices_seeds_and_completion_limits_change_the_plan(world, process_rewards):
    first_plan = process_rewards
    setting = {"gpu": "h100", "gpus": 8, "slots": 100, "cluster": 1, "price": 2.5}
    assert first_plan["totals"] | setting | {"calibrated_on_jobs": 0} == first_plan["totals"]
    change = lambda text: plan(world, "--study", "process_rewards", *what_if(world, text))
    seeds = change("studies: {process_rewards: {seeds: [0, 1, 2, 3, 4, 5]}}")
    trained = lambda bill: sum(
        row["gpu_hours"] for row in bill["table"] if row["stage"] == "training"
    )
    assert trained(seeds) == pytest.approx(2 * trained(first_plan))
    older = change("plan: {gpu: a100, price: 1, gpus: 16}")
    assert trained(older) > 2 * trained(first_plan) and older["totals"]["cost"] == pytest.approx(
        older["totals"]["gpu_hours"]
    )
    longer = change("tasks: {gsm8k: {completion_tokens: 1024}}")
    assert longer["totals"]["tokens_generated"] == pytest.approx(
        1024 / 250 * first_plan["totals"]["tokens_generated"], rel=1e-3
    )


@pytest.mark.nightly
def test_several_studies_are_planned_with_the_same_what_if_as_each_alone(world):
    """The studies have no common tasks."""
    studies = ["process_rewards", "mini"]
    change = what_if(world, "studies: {process_rewards: {seeds: [0]}, mini: {seeds: [0]}}")
    alone = [plan(world, "--study", study, *change) for study in studies]
    joint = plan(world, "--study", studies[0], "--study", studies[1], *change)
    assert {job["name"]: job["tokens_generated"] for job in joint["jobs"]} == {
        job["name"]: job["tokens_generated"] for bill in alone for job in bill["jobs"]
    }
    assert joint["totals"]["job_hours"] == pytest.approx(
        sum(bill["totals"]["job_hours"] for bill in alone), rel=0.05
    )


@pytest.mark.nightly
def test_pruned_checkpoints_leave_less_on_the_disk(world):
    unpruned = plan(world, "--study", "limits")
    world.configure(lambda config: config.update(keep_checkpoints="last"))
    pruned = plan(world, "--study", "limits")
    of_runs = sum(row["kept_gb"] for row in unpruned["table"] if row["stage"] == "training")
    assert pruned["totals"]["kept_gb"] == pytest.approx(
        unpruned["totals"]["kept_gb"] - 0.9 * of_runs
    ), "only the last of ten checkpoints may remain"
    assert pruned["totals"]["peak_disk_gb"] < unpruned["totals"]["peak_disk_gb"]
    assert pruned["totals"]["gpu_hours"] == pytest.approx(unpruned["totals"]["gpu_hours"])


def test_jobs_that_studies_share_count_once(world, process_rewards):
    first_study, second_study = "process_rewards", "budget"
    alone = {first_study: process_rewards, second_study: plan(world, "--study", second_study)}
    joint_bill = plan(world, "--study", first_study, "--study", second_study)
    rows = {
        study: sum(row["jobs"] for row in joint_bill["table"] if row["study"] == study)
        for study in alone
    }
    assert rows[first_study] == alone[first_study]["totals"]["jobs"]
    shared = {job["name"] for job in alone[first_study]["jobs"]} & {
        job["name"] for job in alone[second_study]["jobs"]
    }
    assert shared and rows[second_study] == alone[second_study]["totals"]["jobs"] - len(shared)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--study", "papre"], "unknown study 'papre'; did you mean 'paper'?"),
        (["--config", "plan={gpu: h1000}"], "plan.gpu"),
        (["nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_wrong_call_or_an_impossible_plan_gives_an_error(world, arguments, words):
    assert words in plan(world, *arguments, fails=True)["error"]


def test_a_study_for_more_gpus_than_there_are_is_refused(world):
    world.configure(
        lambda config: [
            arm.update(recipe="as_written_full") for arm in config["studies"]["paper"]["arms"]
        ]
    )
    change = what_if(world, "plan: {gpus: 4}")
    error = plan(world, "--study", "paper", *change, fails=True)["error"]
    assert "needs 8 GPUs at once, and the plan has 4; set plan.gpus" in error


def test_calibration_changes_the_planned_times_and_plans_no_finished_job(finished):
    # 1 model, 2 shards, 2 runs and 8 evaluations: 2 of the base model, 2 of its reach, 4 of runs
    assert "13 finished jobs" in run_well(finished.folder, "calibrate")
    assert finished.plan() == {}, "calibration must plan no finished job again"
    finished.configure(lambda config: config["studies"]["mini"].update(seeds=[0, 1]))
    calibrated, plain = (
        plan(finished, "--profile", "laptop"),
        plan(finished, "--profile", "laptop", "--uncalibrated"),
    )
    assert (
        "Calibrated on 13 finished jobs" in calibrated["text"] and "Not calibrated" in plain["text"]
    )
    assert calibrated["totals"]["calibrated_on_jobs"] == 13
    trainings = (finished.folder / "results/training").rglob("provenance.json")
    measured = statistics.median(json.loads(path.read_text())["seconds"] for path in trainings)
    (run,) = [
        job for job in calibrated["jobs"] if job["rule"] == "train_grpo" and job["policy"] == "hard"
    ]
    assert run["seconds"] == pytest.approx(measured, rel=0.05, abs=0.2)
    seconds = lambda bill: [
        job["seconds"] for job in bill["jobs"] if job["rule"] in ("train_grpo", "evaluate_run")
    ]
    assert seconds(plain) != seconds(calibrated), "calibration must change at least one estimate"


def test_calibration_without_finished_jobs_is_refused(world):
    done = run(world.folder, "calibrate")
    assert_refused(done, "error: results: none of 0 finished jobs")
