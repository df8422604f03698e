"""The models, tasks and policies that a rule accepts."""

import re

import project_config
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.names import Names, any_of

CONFIG = project_config.config()
NAMES = Names(Configuration.of(CONFIG), resolve_studies(CONFIG))


def test_a_constraint_matches_its_names_and_nothing_else():
    constraint = any_of(["qwen2.5-3b", "a|b"])
    assert [
        name
        for name in ("qwen2.5-3b", "qwen2x5-3b", "a|b", "a", "")
        if re.fullmatch(constraint, name)
    ] == [
        "qwen2.5-3b",
        "a|b",
    ]


def test_a_constraint_of_no_names_matches_nothing():
    assert not re.search(any_of([]), "") and not re.search(any_of([]), "hard")


def test_rules_accept_the_base_models_of_replicates_but_not_the_name_of_their_model():
    assert "tiny" not in NAMES.sampled and "tiny-seed0" in NAMES.pretrained


def test_rules_accept_the_base_model_that_probes_for_the_policy_of_the_subset():
    config = project_config.config()
    config["policies"]["own"] = {"rule": "nearest_half", "probed_by": "steady", "budget": 0.1}
    config["subset"] = {"model": "tiny", "task": "swaps", "policy": "own", "seed": 987}
    names = Names(Configuration.of(config), resolve_studies(config))
    assert {"tiny-seed987", "steady-seed987"} <= set(names.pretrained)
