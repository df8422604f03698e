"""A study in the old form (`policies`, `recipes`, `exclude`) is refused. The error shows the study
in the new form, with the same runs and tests."""

import itertools

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import project_config
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, old_form
from hardgrpo.study.settings import as_list, eval_tasks, has_arm

MODELS, TASKS, POLICIES, RECIPES = ["m", "n"], ["t", "u", "v"], ["a", "b", "c"], ["x", "y"]
NAMES = {"model": MODELS, "task": TASKS, "policy": POLICIES, "recipe": RECIPES}
ENTRIES = st.dictionaries(st.sampled_from(list(NAMES)), st.none(), min_size=1).flatmap(
    lambda keys: st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(NAMES[key]), min_size=1, unique=True) for key in keys}
    )
)
TESTS = st.fixed_dictionaries(
    {
        "model": st.lists(st.sampled_from(MODELS), min_size=1, unique=True),
        "tested_on": st.sampled_from(TASKS),
    }
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(ENTRIES, TESTS), max_size=5))
def test_the_translation_has_the_same_runs_and_tests(exclude):
    also = {"t": ["u", "v"]}
    old = {
        "models": MODELS,
        "tasks": TASKS,
        "policies": POLICIES,
        "recipes": RECIPES,
        "exclude": exclude,
        "also_tested_on": also,
    }
    new = old_form.translate(old)
    for combination in itertools.product(MODELS, TASKS, POLICIES, RECIPES):
        names = dict(zip(NAMES, combination))
        excluded = any(
            "tested_on" not in entry
            and all(names[key] in as_list(value) for key, value in entry.items())
            for entry in exclude
        )
        arms = [
            arm
            for arm in new["arms"]
            for values in itertools.product(
                as_list(arm.get("models", MODELS)),
                as_list(arm.get("tasks", TASKS)),
                as_list(arm["policy"]),
                as_list(arm["recipe"]),
            )
            if values == combination
        ]
        assert len(arms) == (not excluded) and has_arm(new, **names) == (not excluded), (names, new)
    for model, test in itertools.product(MODELS, also["t"]):
        excluded = any(
            entry.get("tested_on") == test and model in entry["model"] for entry in exclude
        )
        assert (test in eval_tasks(new, "t", model)) == (not excluded)


def test_the_error_prints_the_lines_to_write():
    config = project_config.config()
    config["studies"]["own"] = {
        "title": "Own",
        "models": ["tiny"],
        "tasks": ["swaps", "arithmetic"],
        "policies": ["hard", "random"],
        "recipes": ["mini", "mini_beta"],
        "seeds": [0],
        "exclude": [{"recipe": "mini_beta", "policy": "hard"}],
        "also_compared": [["random, mini_beta", "hard"]],
    }
    with pytest.raises(UserError) as error:
        checks.check(config, "my.yaml")
    message, _, text = str(error.value).partition("write instead:\n")
    assert message.startswith("my.yaml: studies.own: ")
    config["studies"] |= yaml.safe_load(text)["studies"]
    assert config["studies"]["own"]["arms"] == [
        {"policy": ["hard", "random"], "recipe": "mini"},
        {"policy": "random", "recipe": "mini_beta"},
    ]
    checks.check(config, "my.yaml")


@pytest.mark.parametrize(
    "changes",
    [
        {"also_compared": 5},
        {"also_compared": [5]},
        {"also_compared": "random"},
        {"also_compared": [["hard", 5]]},
        {"also_compared": [[{"policy": "hard", "recipe": "mini"}, "random"], "random"]},
        {"policies": "hard"},
        {"policies": [["hard"]]},
        {"policies": ["hard"], "models": 5},
        {"policies": ["hard"], "tasks": None},
        {"policies": ["hard"], "exclude": "hard"},
        {"policies": ["hard"], "exclude": [{"policy": ["hard"]}, "hard"]},
        {"policies": ["hard"], "also_tested_on": ["swaps"]},
        {"policies": ["hard"], "recipes": {"mini": 1}},
    ],
)
def test_a_study_that_is_malformed_in_both_forms_is_refused_with_its_place(changes):
    config = project_config.config()
    config["studies"]["own"] = config["studies"]["mini"] | changes
    with pytest.raises(UserError, match="my.yaml: studies.own"):
        checks.check(config, "my.yaml")


def test_a_pair_of_an_old_and_a_new_arm_is_translated():
    study = {"models": ["m"], "also_compared": [[{"policy": "a", "recipe": "x"}, "b, y"]]}
    assert old_form.is_old(study)
    assert old_form.translate(study)["also_compared"] == [
        [{"policy": "a", "recipe": "x"}, {"policy": "b", "recipe": "y"}]
    ]
