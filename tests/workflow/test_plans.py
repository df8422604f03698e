"""What a dry-run plans: for the miniature, on a fresh clone, and after each kind of edit of a finished study."""

import os
import random
import shutil

import pytest

DRAWING = {"plot_accuracy", "plot_learnable", "plot_parts", "plot_difficulty", "write_tables", "write_numbers", "compile_paper"}
TARGETS = {"all", "figures", "paper"}


def jobs(plan: dict) -> dict:
    """Without the targets themselves and without the PDF, which is only made where a TeX is installed."""
    return {rule: count for rule, count in plan.items() if rule not in TARGETS | {"compile_paper"}}


def test_the_miniature_is_planned_job_by_job(world):
    shutil.rmtree(world.folder / "results")
    assert jobs(world.plan()) == {
        "prepare_task": 6,  # train and test of two tasks, test of their harder twins
        "pretrain_settings": 1,
        "pretrain_model": 1,
        "probe": 2,
        "measure_difficulty": 2,
        "select_subset": 24,  # 2 tasks x 4 policies x 3 seeds
        "write_spec": 24,
        "train_grpo": 24,
        "evaluate_base": 4,
        "evaluate_run": 48,  # on the task itself and out of distribution
        "summarize": 1,
        "plot_accuracy": 1,
        "plot_learnable": 1,
        "plot_parts": 1,
        "plot_difficulty": 1,
        "write_tables": 1,
        "write_numbers": 1,
    }


@pytest.mark.parametrize("order", range(3))
def test_a_fresh_clone_draws_from_committed_summaries_whatever_the_times_of_its_files(world, order):
    """After a clone the files' times are those of the checkout, in any order."""
    shuffled = [path for path in world.folder.rglob("*") if path.is_file()]
    random.Random(order).shuffle(shuffled)
    for seconds, path in enumerate(shuffled):
        os.utime(path, (1_700_000_000 + seconds, 1_700_000_000 + seconds))
    for target in ("figures", "paper"):
        assert set(world.plan(target)) <= DRAWING | TARGETS
    assert world.plan("figures")["plot_accuracy"] == 1
    assert world.plan()["train_grpo"] == 24, "`all` asks for the runs as well"


def test_nothing_is_left_to_do_after_a_run(finished):
    assert finished.plan() == {}


def test_a_comment_in_a_training_program_plans_nothing(finished):
    for program in ("train_grpo.py", "probe.py", "evaluate.py", "pretrain_model.py", "hardgrpo/recipes.py", "hardgrpo/engines.py"):
        finished.edit(f"scripts/{program}", lambda text: text + "\n# a comment\n")
    assert finished.plan() == {}


def test_an_edit_of_one_plotting_program_plans_that_figure_and_the_paper(finished):
    finished.edit("scripts/plot_parts.py", lambda text: text + "\n# another look\n")
    assert jobs(finished.plan()) == {"plot_parts": 1}
    assert set(finished.plan()) <= {"plot_parts", "compile_paper", "all"}


def test_an_edit_of_the_statistics_plans_the_summary_and_what_is_drawn_from_it(finished):
    finished.edit("scripts/hardgrpo/statistics.py", lambda text: text + "\n# a remark\n")
    assert set(jobs(finished.plan())) == {"summarize"} | DRAWING - {"compile_paper"}


def test_another_policy_plans_its_own_runs_and_what_is_drawn_from_them(finished):
    finished.configure(lambda config: config["studies"]["mini"]["policies"].append("easy"))
    assert jobs(finished.plan()) == {
        "select_subset": 1,
        "write_spec": 1,
        "train_grpo": 1,
        "evaluate_run": 2,
        "summarize": 1,
    } | dict.fromkeys(DRAWING - {"compile_paper"}, 1)


def test_another_learning_rate_plans_every_run_of_the_recipe_and_no_probing(finished):
    finished.configure(lambda config: config["recipes"]["mini"].update(learning_rate=5e-4))
    plan = jobs(finished.plan())
    assert (plan["write_spec"], plan["train_grpo"], plan["evaluate_run"]) == (2, 2, 4)
    assert not {"probe", "pretrain_model", "measure_difficulty", "select_subset", "evaluate_base"} & set(plan)


def test_another_grader_regrades_and_retrains_but_does_not_probe(finished):
    finished.configure(lambda config: config["tasks"]["swaps"].update(grader="choice_letter_lenient"))
    plan = finished.plan()
    assert plan["measure_difficulty"] == 1 and plan["train_grpo"] == 2
    assert "probe" not in plan and "pretrain_model" not in plan


def test_a_model_for_another_study_plans_nothing(finished):
    def add(config):
        config["models"]["tiny2"] = {"source": config["models"]["tiny"]["source"] | {"seed": 5}}
        config["studies"]["other"] = config["studies"]["mini"] | {"models": ["tiny2"]}

    finished.configure(add)
    assert finished.plan() == {}


def test_the_order_of_keys_in_the_configuration_plans_nothing(finished):
    def reverse(config):
        for kind in ("recipes", "policies", "tasks"):
            for name, entry in config[kind].items():
                config[kind][name] = dict(reversed(entry.items()))

    finished.configure(reverse)
    assert finished.plan() == {}
