"""The runs, tests and subsets of a study, from its entry in the configuration."""

import copy
import json

import pytest

import project_config
from hardgrpo.analysis import arms
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import resolve_studies, resolve_study
from hardgrpo.study.study import Study

CONFIG = project_config.config()


def study_of(name, **changes):
    return resolve_study(CONFIG | {"studies": {name: CONFIG["studies"][name] | changes}}, name)


def test_a_model_without_an_arm_on_a_task_has_no_runs_no_subsets_and_no_tests_there():
    study = study_of("paper")
    missing = ("llama-3.1-8b-instruct", "shuffled_objects")
    assert missing not in {(run.model, run.task) for run in study.runs}
    assert len(study.runs) == 7 * 4 * 3
    files_of = paths.subsets(study) + paths.evaluations(study) + paths.difficulties(study)
    assert not [path for path in files_of if "/".join(missing) in path]


@pytest.mark.parametrize(
    ("arm", "expected"),
    [
        ({"policy": ["hard", "easy"], "recipe": ["one", "two"]}, "one/hard one/easy two/hard two/easy"),
        ({"policy": "hard", "recipe": "one", "models": "tiny", "tasks": ["swaps"]}, "one/hard"),
        ({"policy": "hard", "recipe": "one", "models": "steady"}, ""),
        ({"policy": "hard", "recipe": "one", "tasks": "arithmetic"}, ""),
    ],
)  # fmt: skip
def test_an_arm_trains_every_combination_of_its_names(arm, expected):
    names = {"models": ["tiny", "steady"], "tasks": ["swaps", "arithmetic"]}
    arms = [arm, {"policy": "random", "recipe": "one"}]  # all models and tasks have an arm
    study = study_of("mini", **names, arms=arms, seeds=[0], also_tested_on={}, weaker_signal=[])
    trained = {
        f"{run.recipe}/{run.policy}"
        for run in study.runs
        if (run.model, run.task) == ("tiny", "swaps")
    }
    assert trained - {"one/random"} == set(expected.split())


def test_an_arm_is_found_by_any_of_its_names():
    arms = [
        {"policy": "hard", "recipe": "x", "models": "a", "tasks": ["s", "t"]},
        {"policy": "easy", "recipe": ["x", "y"]},
    ]
    names = {"title": "", "models": ["a", "b"], "tasks": ["s", "t"], "seeds": [0]}
    study = Study.of(names | {"arms": arms})
    assert study.has_arm(model="a", task="t", policy="hard")
    assert study.has_arm(model="b", policy="easy", recipe="y")
    assert not study.has_arm(model="b", policy="hard")
    assert not study.has_arm(policy="hard", recipe="y")
    assert study.policies == ["hard", "easy"] and study.recipes == ["x", "y"]


def test_a_model_is_tested_on_its_task_and_on_further_tests_that_name_the_model():
    study = study_of("paper")
    assert study.eval_tasks("gsm8k", "qwen3-4b") == ["gsm8k", "aime2025"]
    for model in ("qwen3-14b", "phi-4", "llama-3.1-8b-instruct"):
        assert study.eval_tasks("gsm8k", model) == ["gsm8k"]
    assert study.eval_tasks("shuffled_objects", "qwen3-4b") == ["shuffled_objects"]
    tested = [path for path in paths.evaluations(study) if path.endswith("/aime2025.csv.gz")]
    assert len(tested) == 1 + 4 * 3
    assert all(path.startswith("results/evaluation/qwen3-4b/") for path in tested)
    tests = study_of("limits").eval_tasks("math", "qwen2.5-3b-instruct")
    assert tests == ["math", "gsm8k_1024", "math_numeric"]


def test_arms_are_named_after_policies_and_after_recipes_that_are_not_the_first():
    arm = {"policy": "hard", "recipe": ["as_written", "finish_only"]}
    first_recipe = study_of("paper", arms=[arm]).first_recipe
    labels = {
        recipe: arms.label("hard", recipe, first_recipe)
        for recipe in ("as_written", "finish_only", "recorded")
    }
    assert labels == {"as_written": "hard", "finish_only": "hard, finish_only", "recorded": "hard"}
    no_recipe = study_of("paper", arms=[{"policy": "hard"}])
    assert no_recipe.first_recipe == "recorded"


def test_no_run_of_a_study_occurs_twice():
    for name, study in resolve_studies(CONFIG).items():
        keys = [(run.model, run.task, run.policy, run.recipe, run.seed) for run in study.runs]
        assert len(set(keys)) == len(keys), name


def test_a_recorded_model_has_the_runs_that_were_recorded():
    recorded = {}
    for run in study_of("recordings").runs:
        assert (run.recipe, run.seed, run.base) == ("recorded", 0, run.model)
        recorded.setdefault(run.model, []).append(f"{run.task}/{run.policy}")
    both = ["shuffled_objects_seven/all", "shuffled_objects_seven/hard30"]
    strict = ["gsm8k_hard_test/unknown_subset", "gsm8k_hard_test_strict/unknown_subset"]
    assert recorded == {
        "qwen3-4b-recorded": [*both, "kegg/hard30"],
        "qwen3-8b-recorded": [*both, "dyck/unknown_subset"],
        "qwen3-14b-recorded": [*both, *strict, "kegg/all", "kegg/hard30"],
    }


def test_the_choices_of_both_rounds_are_summarised_together():
    study = study_of("mini_online")
    subset_paths = [path for path in paths.subsets(study) if "agreement_in_rounds" in path]
    assert len(subset_paths) == 20 and all(path.endswith("/second.json") for path in subset_paths)
    assert {paths.choice_of(path)[2] for path in subset_paths} == {"agreement_in_rounds"}
    assert paths.choice_of(subset_paths[0]) == ("tiny-seed0", "swaps", "agreement_in_rounds")


@pytest.mark.parametrize("name", CONFIG["studies"])
def test_the_part_of_the_configuration_that_programs_receive_gives_the_same_study(name):
    study = study_of(name)
    same_study = resolve_study(json.loads(json.dumps(paths.study_part(study))), name)
    assert same_study.runs == study.runs and same_study.probed_pools == study.probed_pools
    assert paths.results(same_study) == paths.results(study)


def test_an_analysis_of_published_numbers_is_a_study_without_runs():
    for name in CONFIG["analyses"]:
        study = resolve_study(CONFIG, name)
        assert study.is_analysis and study.first_recipe == "recorded"
        assert (
            study.runs == study.pairs == paths.results(study) == paths.inputs(study, [study]) == []
        )
    assert not study_of("mini").is_analysis


def test_inputs_include_a_model_that_is_probed_only_to_choose_prompts_for_another_model():
    config = copy.deepcopy(CONFIG)
    config["policies"]["half_by_small"]["probed_by"] = "qwen2.5-0.5b-instruct"
    config["studies"]["budget"]["arms"] += [{"policy": "half_by_small", "recipe": "as_written"}]
    studies = resolve_studies(config)
    inputs = paths.inputs(studies["budget"], studies.values())
    for name in ("qwen3-4b", "qwen2.5-0.5b-instruct"):
        assert f"results/models/{name}/manifest.json" in inputs


def test_each_recipe_is_billed_for_its_own_gpus():
    gpus = designs.prices(study_of("variants"), 2.5, "hard")["gpus"]["qwen3-4b"]
    assert list(gpus) == study_of("variants").recipes
    assert (gpus["as_written"], gpus["as_written_full"]) == (1, 2)
    recorded = designs.prices(study_of("recordings"), 2.5, "hard")["gpus"]
    assert recorded == {f"qwen3-{size}b-recorded": {} for size in (4, 8, 14)}
