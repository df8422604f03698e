"""The runs, tests and subsets of a study, from its entry in the configuration."""

import copy
import json

import pytest

import project_config
from hardgrpo.analysis import arms
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import resolve_studies, resolve_study

CONFIG = project_config.config()


def study_of(name, **changes):
    return resolve_study(CONFIG | {"studies": {name: CONFIG["studies"][name] | changes}}, name)


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
