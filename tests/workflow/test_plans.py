"""The jobs of a dry-run: for the miniature, on a new clone, and after each kind of edit of a
finished study."""

import collections
import difflib
import os
import random
import re
import shutil
import subprocess

import pytest

import project_config
from conftest import NIGHTLY, ROOT, count_jobs
from hardgrpo.analysis import summary_tables
from hardgrpo.runtime import code
from hardgrpo.study.resolved import resolve_study

DRAWING = {"draw_figures", "write_supplement", "write_worth", "compile_supplement"}
JUDGING = {"judge_claims"}  # besides DRAWING, cheap rules that a new clone can run
COMPARING = {"compare_splits", "compare_pool", "summarize", "compare_with_reference"}
CHEAP = JUDGING | DRAWING | COMPARING | {"write_explorer"}
# cheap rules that run again after a change of their code: the others need TeX or a reference
FOLLOWING = CHEAP - {"compile_supplement", "compare_with_reference"}
TARGETS = {"all", "figures", "supplement"}
DRAWN = dict.fromkeys(FOLLOWING - {"compare_splits", "compare_pool"}, 1)


def jobs(plan: dict) -> dict:
    """{rule: number of jobs} without targets and the PDF, which is made only if TeX is installed."""
    left_out = TARGETS | {"compile_supplement"}
    return {rule: count for rule, count in plan.items() if rule not in left_out}


def test_the_miniature_is_planned_job_by_job(world):
    world.clear()
    assert jobs(world.plan()) == {
        # train and test split of the task, and the test split of its harder twin: another study
        # tests the same models on this split, so pretraining must exclude its questions
        "prepare_task": 3,
        "pretrain_model": 3,  # each of 3 seeds has its own base model
        "compare_splits": 1,
        "compare_pool": 1,
        "fit_prompts": 6,  # train and test split for each base model
        "probe": 3,
        "measure_difficulty": 3,
        "remove_answers": 3,
        "measure_signals": 3,  # for the policy that needs no answers
        "select_subset": 15,  # 5 policies x 3 seeds
        "write_spec": 15,
        "train_grpo": 15,
        "evaluate_base": 3,
        "sample_reach": 3,
        "evaluate_run": 15,
    } | DRAWN  # fmt: skip


CONFIG = project_config.config()
WITH_RUNS = [name for name in CONFIG["studies"] if resolve_study(CONFIG, name).recipes]
ON_EACH_CHANGE = {"paper", "budget", "limits", "mini_labels", "mini_online", "mini_truncation"}


@pytest.mark.parametrize(
    "study",
    [
        name if name in ON_EACH_CHANGE else pytest.param(name, marks=pytest.mark.nightly)
        for name in WITH_RUNS
    ],
)
def test_a_study_is_planned_with_one_job_for_each_part_of_its_design(plan_of, study):
    """There is a training for each run, an evaluation for each test of a base model or run, and a
    subset for each base model, pool, policy and seed. A training in two rounds has a second
    subset."""
    plan = plan_of(study, profile="laptop" if study == "limits" else "slurm")
    design = resolve_study(CONFIG, study)
    runs = design.runs
    tests = {(test, run) for run in runs for test in design.eval_tasks(run.task, run.model)}
    evaluations = len(tests) + len({(test, run.base) for test, run in tests})
    subsets = {(run.base, run.task, run.policy, run.seed) for run in runs}
    assert plan["train_grpo"] == plan["write_spec"] == len(runs) > 0
    cut = plan.get("cut_evaluation", 0)
    assert plan["evaluate_base"] + plan["evaluate_run"] + cut == evaluations
    again, first_rounds = plan.get("select_again", 0), plan.get("train_first_round", 0)
    assert plan["select_subset"] + again == len(subsets) + first_rounds
    assert jobs(plan).items() >= DRAWN.items()


def test_a_cluster_and_a_laptop_plan_the_same_jobs(plan_of):
    assert plan_of("paper") == plan_of("paper", profile="slurm")


INPUTS = ("fetch_dataset", "fetch_model", "prepare_task")


def test_target_inputs_makes_all_that_a_study_needs_from_the_internet(plan_of):
    """Inputs are made on the login node before any submission: downloads, and problems in the
    format that the programs read. Models that this project pretrains are not inputs."""
    full_plan, plan = plan_of("paper", profile="slurm"), plan_of("paper", "inputs", profile="slurm")
    assert plan == {rule: full_plan[rule] for rule in INPUTS} | {"inputs": 1}


COMMANDS = (ROOT / "tests/workflow/commands.txt").read_text(encoding="utf-8").split("\n# ")[1:]


@pytest.mark.parametrize("section", COMMANDS, ids=lambda section: section.split()[0])
def test_jobs_run_the_listed_commands(dry_run, section):
    study, *listed = (" ".join(command.split()) for command in section.split("\n\n"))
    output, planned = dry_run(study, profile="slurm"), set()
    run = "tiny-seed0/swaps/mini_rounds/agreement_in_rounds/seed0"
    around = r"^(trap : TERM; )?python scripts/\w+/|\s(2>> \S+ \| .*|> \S+ 2>&1)$"
    for lines in re.findall(r"^Shell command: (.*?)$\n\n", output, re.MULTILINE | re.DOTALL):
        command = re.sub(around, "", " ".join(lines.split()))
        command = re.sub(r'"training": \{.*\}\}', '"training": ...}', command)
        planned.add(command.replace(run, "RUN"))
    missing = [command for command in listed if command not in planned]
    similar = difflib.get_close_matches(missing[0], planned, 1) if missing else []
    assert missing == [], f"the most similar command of the dry-run is {similar}"


def test_each_replicate_pretrains_its_own_base_model_with_its_own_seed(dry_run):
    """`"seed": N, "steps"` are keys of the base model; its demonstrations have seeds, too."""
    command = r"pretrain_model\.py --model tiny-seed(\d+) .*?\"seed\": (\d+), \"steps\""
    seeds = re.findall(command, dry_run("mini_online", profile="slurm"), re.DOTALL)
    assert len(set(seeds)) > 1 and all(replicate == seed for replicate, seed in seeds)


def test_a_dry_run_shows_what_every_expensive_job_asks_for(world):
    filled = "slurm_partition: main\n  gpu_partition: open\n  gpu_name: h100\n  longest_runtime: 1440\n  nodes: 1"
    world.edit("slurm/config.yaml", lambda text: text.replace("nodes: 1", filled, 1))
    moved = ["--set-resources", "train_grpo:slurm_partition=long"]
    output = world.run("-n", "--config", "study=paper", *moved, profile="slurm")
    assert len(re.findall(r"Train .* h100 in partition long,", output)) == 84
    pattern = r"(?m)^Job \d+: (Train|Probe|Evaluate) .*\(\d+ h100 in partition (?:open|long), \d+ MB, up to (\d+) min\)$"
    resources = re.findall(pattern, output)
    kinds = collections.Counter(kind for kind, _ in resources)
    assert kinds == {"Probe": 19, "Train": 84, "Evaluate": 104}
    longest = max(int(minutes) for _, minutes in resources)
    assert longest == 1440, "the longest job must request the partition's longest runtime"


def test_a_fresh_clone_draws_from_committed_summaries_whatever_the_times_of_its_files(world):
    """In a new clone, the files have the times of the checkout, in any order."""
    shuffled = [path for path in world.folder.rglob("*") if path.is_file()]
    random.Random(0).shuffle(shuffled)
    for seconds, path in enumerate(shuffled):
        os.utime(path, (1_700_000_000 + seconds, 1_700_000_000 + seconds))
    for target in ("figures", "supplement"):
        plan = world.plan(target, "--config", "draw=reference")
        assert set(plan) <= DRAWING | JUDGING | TARGETS
        assert target == "supplement" or plan["draw_figures"] == 1
    assert world.plan()["train_grpo"] == 15, "`all` must also request the runs"


def test_nothing_is_left_to_do_after_a_run(finished):
    assert finished.plan() == {}


def test_a_new_comment_in_a_program_that_samples_or_trains_reruns_nothing_expensive(finished):
    comment = lambda text: text + "\n# a comment\n"
    programs = (
        "training/train_grpo",
        "probe/probe",
        "evaluation/evaluate",
        "inputs/pretrain_model",
    )
    for name in programs:
        finished.edit(f"scripts/{name}.py", comment)
    finished.edit("src/hardgrpo/sampling/engines.py", comment)
    assert finished.plan() == {}
    finished.edit("src/hardgrpo/training/recipes.py", comment)
    assert set(jobs(finished.plan())) <= CHEAP, "the summary reads specifications with this module"


def test_a_new_policy_plans_its_own_runs_and_the_figures_and_tables_of_these_runs(finished):
    arm = {"policy": "easy", "recipe": "mini"}
    finished.configure(lambda config: config["studies"]["mini"]["arms"].append(arm))
    own = {"select_subset": 1, "write_spec": 1, "train_grpo": 1, "evaluate_run": 2}
    assert jobs(finished.plan()) == own | DRAWN


def test_an_edit_of_the_claims_plans_their_judgement_from_existing_summaries(finished):
    finished.edit("paper/claims.yaml", lambda text: text + "\n# a remark\n")
    assert set(jobs(finished.plan())) == JUDGING | {"write_supplement", "write_worth"}


def test_another_learning_rate_plans_every_run_of_the_recipe_and_no_probing(finished):
    finished.configure(lambda config: config["recipes"]["mini"].update(learning_rate=5e-4))
    plan = jobs(finished.plan())
    assert (plan["write_spec"], plan["train_grpo"], plan["evaluate_run"]) == (2, 2, 4)
    unchanged = {"probe", "pretrain_model", "measure_difficulty", "select_subset", "evaluate_base"}
    assert not unchanged & set(plan)


def test_another_grader_regrades_and_retrains_but_does_not_probe(finished):
    def change(config):
        for task in ("swaps", "swaps_once"):  # swaps_once truncates the completions of swaps
            config["tasks"][task]["grader"] = "choice_letter_lenient"

    finished.configure(change)
    plan = finished.plan()
    assert plan["measure_difficulty"] == 1 and plan["train_grpo"] == 2
    assert "probe" not in plan and "pretrain_model" not in plan


def test_a_model_for_another_study_plans_nothing(finished):
    def add(config):
        config["models"]["tiny2"] = {"source": config["models"]["tiny"]["source"] | {"seed": 5}}
        config["studies"]["other"] = config["studies"]["mini"] | {"models": ["tiny2"]}

    finished.configure(add)
    assert finished.plan() == {}


def test_committed_summaries_are_drawn_without_a_run(finished):
    """In this world, one evaluation is newer than the summaries, another evaluation and all subsets
    are missing, and the recipe has changed since the runs."""
    reference = ROOT / "results/reference"
    shutil.copytree(reference, finished.folder / "results/reference", dirs_exist_ok=True)
    newer = sorted((finished.folder / "results/evaluation").rglob("*.csv.gz"))
    newer[0].touch()
    newer[-1].unlink()
    shutil.rmtree(finished.folder / "results/subsets")
    settings = {"updates": 6, "checkpoint_every": 3}
    finished.configure(lambda config: config["recipes"]["mini"].update(settings))
    studies = {path.name for path in reference.iterdir()} - {"all"}
    for study in sorted(studies if NIGHTLY else {"mini", "mini_reference", "trajectories"}):
        settings = ("--config", f"study={study}", "draw=reference")
        plan = finished.plan("figures", "supplement", *settings)
        assert set(plan) <= CHEAP - {"summarize"} | TARGETS | {"write_answers"}, study
    assert "train_grpo" in finished.plan(), "target `all` must plan the study's runs"


def test_a_study_without_committed_summaries_cannot_be_drawn_from_them(world):
    output = world.fail("-n", "figures", "--config", "study=limits", "draw=reference")
    assert "results/reference/limits has no tables; run the study" in output
    output = world.fail("-n", "figures", "--config", "draw=latest")
    assert "draw: 'latest' should be" in output


def programs() -> dict[str, list]:
    """{rule: its program, and the modules that the program finds through names in the registry}."""
    program_files = {path.stem: [path] for path in (ROOT / "scripts").glob("*/*.py")}
    module = lambda name: ROOT / f"src/hardgrpo/{name}.py"
    program_files["summarize"] += [module(f"analysis/{name}") for name in summary_tables.MODULES]
    program_files["compare_pool"] = program_files["compare_splits"]
    return program_files


@pytest.mark.parametrize(
    "module",
    ["analysis/statistics.py", "analysis/completions.py", "report/tables.py", "report/figures.mplstyle"],
)  # fmt: skip
def test_an_edit_of_a_module_plans_every_cheap_rule_whose_program_uses_it(finished, module):
    """`code.files_of` itself is compared with Python's imports in tests/unit/test_code.py."""
    edited = (ROOT / "src/hardgrpo" / module).resolve()
    users = {rule for rule, files in programs().items() if edited in code.files_of(*files)}
    finished.edit(f"src/hardgrpo/{module}", lambda text: text + "\n# a remark\n")
    output = finished.run("-n")
    reasons = re.search(r"params have changed since last execution:\n +(.*)", output)
    # Snakemake gives one reason for each rule. For a rule whose inputs are planned too, the inputs
    # are the reason, even if the rule's code has also changed.
    plan, rerun_rules = count_jobs(output), set(reasons[1].split(", "))
    assert rerun_rules - {"compile_supplement"} <= users & FOLLOWING <= set(plan)
    assert "compile_supplement" not in rerun_rules or "compile_supplement" in users
    assert plan.keys() <= CHEAP | TARGETS, "nothing that samples or trains may be planned"


def test_make_clean_keeps_results_and_the_records_of_finished_jobs(tmp_path):
    kept = [tmp_path / ".snakemake/metadata/record", tmp_path / "results/tasks/record"]
    for file in (tmp_path / ".venv/training.ready", *kept):
        file.parent.mkdir(parents=True)
        file.touch()
    subprocess.run(["make", "-f", ROOT / "Makefile", "clean"], cwd=tmp_path, check=True)
    assert not (tmp_path / ".venv").exists() and all(file.exists() for file in kept)
