"""`scripts/plan/plan.py` and `snakemake plan`: a study's costs, estimated before its first run."""

import collections
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

STAGES = ("probing", "training", "evaluation")


def plan(world: World, *arguments: str) -> dict:
    """The tables that `scripts/plan/plan.py` writes in a world: `jobs`, `table`, `totals`, and the
    printed `text`."""
    done = run_plan(world, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_plan(world) | {"text": done.stdout}


def run_plan(world: World, *arguments: str):
    # the program must import the package of the world, not that of this repository
    environment = os.environ | {"PYTHONPATH": str(world.folder / "src")}
    return fork_server.run("scripts/plan/plan.py", arguments, world.folder, environment)


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


def gpu_hours(bill: dict) -> float:
    return pytest.approx(bill["totals"]["gpu_hours"])


def total(bill: dict, key: str, stage: str) -> float:
    return sum(row[key] for row in bill["table"] if row["stage"] == stage)


def test_the_bill_of_the_paper_counts_every_job_of_the_dry_run(world, plan_of):
    bill = plan(world, "--study", "paper")
    jobs = collections.defaultdict(dict)
    for row in bill["table"]:
        jobs[row["model"]][row["stage"]] = row["jobs"]
    by_stage = {model: tuple(map(jobs[model].get, STAGES)) for model in jobs if model}
    assert by_stage == {
        "qwen3-4b": (5, 24, 39), "qwen3-14b": (5, 24, 26), "phi-4": (5, 24, 26), "llama-3.1-8b-instruct": (4, 12, 13),
    }  # fmt: skip
    totals, planned = bill["totals"], sum(plan_of("paper", profile="slurm").values())
    assert totals["jobs"] == planned - 1, "every job except the target itself must count"
    assert sum(job["gpu_hours"] for job in bill["jobs"]) == gpu_hours(bill)
    assert totals["cost"] == pytest.approx(2.5 * totals["gpu_hours"])
    assert totals["wall_hours"] >= totals["gpu_hours"] / 8
    path = bill["text"].partition("Critical path:\n")[2].partition("\n\n")[0]
    stages = [line.split()[2] for line in path.splitlines()]
    assert stages[:3] == ["fetch_model", "fit_prompts", "probe"]
    assert {"train_grpo", "evaluate_run", "summarize"} < set(stages)


def test_text_and_tables_have_the_same_numbers_from_program_and_workflow(world):
    bill = plan(world, "--study", "process_rewards")
    folder, hours = world.folder / "results/plan", f"{bill['totals']['gpu_hours']:.2f}"
    assert re.search(rf"^total +\d+ +{hours}", bill["text"], re.MULTILINE)
    for table in ("table", "jobs"):
        assert sum(row["gpu_hours"] for row in bill[table]) == gpu_hours(bill)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    at_once = ("--slurm-init-seconds-before-status-checks", "1")
    output = world.run("plan", *at_once, "--config", "study=process_rewards", profile="slurm")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert bill["text"].strip() in output
    world.run("plan", "--config", "study=process_rewards")
    totals = read_plan(world)["totals"]
    assert totals["gpu_hours"] == gpu_hours(bill)
    assert (totals["gpus"], totals["cluster"]) == (1, 0), "the laptop profile has one GPU"


def test_the_remaining_costs_of_a_study_exclude_exactly_the_finished_runs(finished):
    """Seed 0 has been run, seed 1 has not. The model needs GPUs, so that the plan has costs."""

    def ask_for_gpus(config):
        config["studies"]["mini"]["seeds"] = [0, 1]
        config["models"]["tiny"]["shape"] = config["models"]["smollm2-135m"]["shape"]
        config["models"]["tiny"]["gpus"] = config["models"]["qwen2.5-0.5b-instruct"]["gpus"]

    finished.configure(ask_for_gpus)
    after = plan(finished)
    finished.clear()
    before = plan(finished)
    remaining, all_ = ({job["name"]: job for job in bill["jobs"]} for bill in (after, before))
    assert {name for name, job in remaining.items() if job["stage"] == "training"} == {
        f"train_grpo tiny swaps mini {policy} seed 1" for policy in ("hard", "random")
    }
    assert all(remaining[name]["gpu_hours"] == all_[name]["gpu_hours"] for name in remaining)
    done = [job for name, job in all_.items() if name not in remaining]
    assert {job["stage"] for job in done} == {"pretraining", *STAGES, "light"}
    assert sum(job["gpu_hours"] for job in done) > 0
    for key in ("gpu_hours", "tokens_generated", "tokens_trained", "completions"):
        difference = before["totals"][key] - after["totals"][key]
        assert difference == pytest.approx(sum(job[key] for job in done), rel=1e-3), key
    assert before["totals"]["jobs"] - after["totals"]["jobs"] == len(done)


def test_a_finished_study_leaves_nothing_to_pay(finished):
    bill = plan(finished, "--profile", "laptop")
    assert bill["totals"]["jobs"] == 0 and "Nothing is left to do for mini" in bill["text"]
    assert "Nothing is left to do" in (finished.folder / "results/plan/plan.txt").read_text()


def test_other_gpus_prices_seeds_and_completion_limits_change_the_plan(world, process_rewards):
    totals, hours = process_rewards["totals"], total(process_rewards, "gpu_hours", "training")
    setting = {"gpu": "h100", "gpus": 8, "slots": 100, "cluster": 1, "price": 2.5}
    assert totals == totals | setting | {"calibrated_on_jobs": 0}

    def change(text: str) -> dict:
        """The plan with the configuration `text` (YAML) over that of the world."""
        (world.folder / "what_if.yaml").write_text(text)
        return plan(world, "--study", "process_rewards", "--configfile", "what_if.yaml")

    seeds = change("studies: {process_rewards: {seeds: [0, 1, 2, 3, 4, 5]}}")
    assert total(seeds, "gpu_hours", "training") == pytest.approx(2 * hours)
    older = change("plan: {gpu: a100, price: 1, gpus: 16}")
    assert total(older, "gpu_hours", "training") > 2 * hours
    assert older["totals"]["cost"] == gpu_hours(older)
    longer = change("tasks: {gsm8k: {completion_tokens: 1024}}")["totals"]["tokens_generated"]
    assert longer == pytest.approx(1024 / 250 * totals["tokens_generated"], rel=1e-3)


def test_jobs_that_studies_share_count_once(world, process_rewards):
    first, second = process_rewards, plan(world, "--study", "budget")
    joint = plan(world, "--study", "process_rewards", "--study", "budget")
    rows = collections.Counter()
    for row in joint["table"]:
        rows[row["study"]] += row["jobs"]
    shared = {job["name"] for job in first["jobs"]} & {job["name"] for job in second["jobs"]}
    jobs = [bill["totals"]["jobs"] for bill in (first, second)]
    assert shared and rows == {"process_rewards": jobs[0], "budget": jobs[1] - len(shared)}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--study", "papre"], "unknown study 'papre'; did you mean 'paper'?"),
        (["--config", "plan={gpu: h1000}"], "plan.gpu"),
        (["nowhere.csv"], "nowhere.csv"),
    ],
)
def test_a_wrong_call_or_an_impossible_plan_gives_an_error(world, arguments, words):
    done = run_plan(world, *arguments)
    assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr


def test_calibration_changes_the_planned_times_and_plans_no_finished_job(finished):
    # 1 model, 2 shards, 2 runs and 8 evaluations: 2 of the base model, 2 of its reach, 4 of runs
    assert "13 finished jobs" in run_well(finished.folder, "calibrate")
    assert finished.plan() == {}, "calibration must plan no finished job again"
    finished.configure(lambda config: config["studies"]["mini"].update(seeds=[0, 1]))
    calibrated = plan(finished, "--profile", "laptop")
    plain = plan(finished, "--profile", "laptop", "--uncalibrated")
    assert "Calibrated on 13 finished jobs" in calibrated["text"]
    assert "Not calibrated" in plain["text"] and calibrated["totals"]["calibrated_on_jobs"] == 13
    trainings = (finished.folder / "results/training").rglob("provenance.json")
    measured = statistics.median(json.loads(path.read_text())["seconds"] for path in trainings)
    seconds, plain_seconds = (
        {job["name"]: job["seconds"] for job in bill["jobs"] if job["rule"] == "train_grpo"}
        for bill in (calibrated, plain)
    )
    planned = seconds["train_grpo tiny swaps mini hard seed 1"]
    assert planned == pytest.approx(measured, rel=0.05, abs=0.2) and seconds != plain_seconds


def test_calibration_without_finished_jobs_is_refused(world):
    done = run(world.folder, "calibrate")
    assert_refused(done, "error: results: none of 0 finished jobs")
